//! A stand-in for `libcublas.so.13` with faults to order. It holds its callers to the calls that they make and to their
//! order; small products of f64 and of bytes it computes, on memory that is the host's as that of `fakecuda` is.
//!
//! Orders come from `fakecublas_configure`, as words between spaces or semicolons:
//!
//! | word | what it does |
//! | --- | --- |
//! | `fail=cublasGemmEx:13` | the call answers 13 |
//! | `version=12` | its major version |
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc, clippy::too_many_arguments)]

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

const OK: c_int = 0;
const NOT_INITIALIZED: c_int = 1;
const INVALID_VALUE: c_int = 7;
/// Largest product that is computed.
const MOST: usize = 64;

#[derive(Default)]
struct State {
    fail: BTreeMap<String, c_int>,
    version: c_int,
    /// Live states by number, with their streams.
    handles: BTreeMap<usize, usize>,
    next: usize,
    products: u64,
}

static STATE: Mutex<Option<State>> = Mutex::new(None);

fn lock() -> MutexGuard<'static, Option<State>> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn fresh() -> State {
    State { version: 13, ..State::default() }
}

/// The state, or what the call was ordered to answer.
fn with(call: &str, body: impl FnOnce(&mut State) -> c_int) -> c_int {
    let mut guard = lock();
    let state = guard.get_or_insert_with(fresh);
    match state.fail.get(call) {
        Some(code) => *code,
        None => body(state),
    }
}

/// Gives orders; everything before is forgotten.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fakecublas_configure(orders: *const c_char) {
    let mut state = fresh();
    // SAFETY: the test gives a terminated text.
    let orders = unsafe { CStr::from_ptr(orders) }.to_string_lossy().into_owned();
    for word in orders.split([' ', ';']) {
        let Some((key, value)) = word.split_once('=') else { continue };
        match (key, value.split_once(':')) {
            ("fail", Some((call, code))) => drop(state.fail.insert(call.to_owned(), code.parse().unwrap_or(14))),
            ("version", _) => state.version = value.parse().unwrap_or(0),
            _ => {}
        }
    }
    *lock() = Some(state);
}

/// How many states are left.
#[unsafe(no_mangle)]
pub extern "C" fn fakecublas_alive() -> u64 {
    lock().as_ref().map_or(0, |state| state.handles.len() as u64)
}

/// How many products were asked for.
#[unsafe(no_mangle)]
pub extern "C" fn fakecublas_products() -> u64 {
    lock().as_ref().map_or(0, |state| state.products)
}

/// As cublas_api.h has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cublasGetProperty(part: c_int, value: *mut c_int) -> c_int {
    with("cublasGetProperty", |state| {
        // SAFETY: the caller gives a live integer.
        unsafe { *value = if part == 0 { state.version } else { 0 } };
        OK
    })
}

/// As cublas_api.h has it.
#[unsafe(no_mangle)]
pub extern "C" fn cublasGetStatusString(code: c_int) -> *const c_char {
    if code == 13 { c"the GPU program failed to execute".as_ptr() } else { std::ptr::null() }
}

/// As cublas_api.h has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cublasCreate_v2(handle: *mut *mut c_void) -> c_int {
    with("cublasCreate_v2", |state| {
        state.next += 16;
        state.handles.insert(state.next, 0);
        // SAFETY: the caller gives a live pointer.
        unsafe { *handle = std::ptr::without_provenance_mut(state.next) };
        OK
    })
}

/// As cublas_api.h has it.
#[unsafe(no_mangle)]
pub extern "C" fn cublasDestroy_v2(handle: *mut c_void) -> c_int {
    with("cublasDestroy_v2", |state| if state.handles.remove(&handle.addr()).is_some() { OK } else { NOT_INITIALIZED })
}

/// As cublas_api.h has it.
#[unsafe(no_mangle)]
pub extern "C" fn cublasSetStream_v2(handle: *mut c_void, stream: *mut c_void) -> c_int {
    with("cublasSetStream_v2", |state| match state.handles.get_mut(&handle.addr()) {
        Some(known) => {
            *known = stream.addr();
            OK
        }
        None => NOT_INITIALIZED,
    })
}

/// A matrix by columns.
#[derive(Clone, Copy)]
struct Matrix {
    at: *const c_void,
    rows: usize,
}

impl Matrix {
    /// # Safety
    /// The matrix must hold numbers of this type there.
    unsafe fn get<T: Copy>(self, row: usize, column: usize) -> T {
        // SAFETY: this function's own obligation.
        unsafe { self.at.cast::<T>().add(row + column * self.rows).read_unaligned() }
    }
}

/// As cublas_api.h has it, for C = Aᵀ · B.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cublasGemmEx(
    handle: *mut c_void,
    op_a: c_int,
    op_b: c_int,
    m: c_int,
    n: c_int,
    k: c_int,
    alpha: *const c_void,
    a: *const c_void,
    a_type: c_int,
    lda: c_int,
    b: *const c_void,
    b_type: c_int,
    ldb: c_int,
    beta: *const c_void,
    c: *mut c_void,
    c_type: c_int,
    ldc: c_int,
    compute: c_int,
    algorithm: c_int,
) -> c_int {
    const KNOWN: [[c_int; 3]; 5] = [[1, 1, 70], [0, 0, 77], [2, 2, 68], [14, 14, 68], [3, 10, 72]];
    with("cublasGemmEx", |state| {
        match state.handles.get(&handle.addr()) {
            None => return NOT_INITIALIZED,
            Some(0) => return INVALID_VALUE,
            Some(_) => state.products += 1,
        }
        let square = m > 0 && [n, k, lda, ldb, ldc].iter().all(|size| *size == m);
        let types = a_type == b_type && KNOWN.contains(&[a_type, c_type, compute]);
        let there = ![alpha, a, b, beta, c.cast_const()].iter().any(|pointer| pointer.is_null());
        if !square || !types || !there || (op_a, op_b, algorithm) != (1, 0, -1) {
            return INVALID_VALUE;
        }
        let size = usize::try_from(m).unwrap_or(0);
        if size <= MOST {
            let [a, b] = [a, b].map(|at| Matrix { at, rows: size });
            // SAFETY: the caller's matrices and scales are of the types that it names.
            unsafe { product(a_type, size, (a, b, c), (alpha, beta)) };
        }
        OK
    })
}

/// # Safety
/// The matrices must be of `size` rows and columns and, as the scales, of the type that `a_type` stands for.
unsafe fn product(
    a_type: c_int,
    size: usize,
    (a, b, c): (Matrix, Matrix, *mut c_void),
    (alpha, beta): (*const c_void, *const c_void),
) {
    for (row, column) in (0..size).flat_map(|row| (0..size).map(move |column| (row, column))) {
        let place = row + column * size;
        // SAFETY: this function's own obligation.
        unsafe {
            match a_type {
                1 if *beta.cast::<f64>() == 0.0 => {
                    let sum: f64 = (0..size).map(|k| a.get::<f64>(k, row) * b.get::<f64>(k, column)).sum();
                    c.cast::<f64>().add(place).write_unaligned(*alpha.cast::<f64>() * sum);
                }
                3 if *beta.cast::<i32>() == 0 => {
                    let term = |k| i32::from(a.get::<i8>(k, row)) * i32::from(b.get::<i8>(k, column));
                    c.cast::<i32>().add(place).write_unaligned(*alpha.cast::<i32>() * (0..size).map(term).sum::<i32>());
                }
                _ => {}
            }
        }
    }
}
