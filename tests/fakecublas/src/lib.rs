//! A fake `libcublas.so.13` with fault injection. It checks its callers' arguments and the order of calls. Small products of f64
//! and of bytes are computed, on host memory like that of `fakecuda`.
//!
//! Settings come from `fakecublas_configure`, separated by spaces or semicolons:
//!
//! | setting | effect |
//! | --- | --- |
//! | `fail=cublasGemmEx:13` | the call returns 13 |
//! | `version=12` | the major version |
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc, clippy::too_many_arguments)]

#[path = "../../fake.rs"]
mod fake;

use std::collections::BTreeMap;
use std::ffi::{c_char, c_int, c_void};

use fake::{Shared, read_settings};

const OK: c_int = 0;
const NOT_INITIALIZED: c_int = 1;
const INVALID_VALUE: c_int = 7;
/// Maximum rows of a product that is computed.
const MAX_ROWS: usize = 64;

#[derive(Default)]
struct State {
    fail: BTreeMap<String, c_int>,
    version: c_int,
    /// Live handles with their streams.
    handles: BTreeMap<usize, usize>,
    next: usize,
    products: u64,
}

static STATE: Shared<State> = Shared::new();

fn new_state() -> State {
    State { version: 13, ..State::default() }
}

/// Runs the body of a call, or returns the error injected for it.
fn run_call(call: &str, body: impl FnOnce(&mut State) -> c_int) -> c_int {
    let mut guard = STATE.lock();
    let state = guard.get_or_insert_with(new_state);
    match state.fail.get(call) {
        Some(code) => *code,
        None => body(state),
    }
}

/// Sets the settings and discards all other state.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fakecublas_configure(settings: *const c_char) {
    let mut state = new_state();
    let set = |key: &str, value: &str| match (key, value.split_once(':')) {
        ("fail", Some((call, code))) => drop(state.fail.insert(call.to_owned(), code.parse().unwrap_or(14))),
        ("version", _) => state.version = value.parse().unwrap_or(0),
        _ => {}
    };
    // SAFETY: the test passes a terminated string.
    unsafe { read_settings(settings, set) };
    *STATE.lock() = Some(state);
}

/// The number of handles that still exist.
#[unsafe(no_mangle)]
pub extern "C" fn fakecublas_alive() -> u64 {
    STATE.lock().as_ref().map_or(0, |state| state.handles.len() as u64)
}

/// The number of products requested.
#[unsafe(no_mangle)]
pub extern "C" fn fakecublas_products() -> u64 {
    STATE.lock().as_ref().map_or(0, |state| state.products)
}

/// As declared in cublas_api.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cublasGetProperty(part: c_int, value: *mut c_int) -> c_int {
    run_call("cublasGetProperty", |state| {
        // SAFETY: the caller passes a pointer to a live integer.
        unsafe { *value = if part == 0 { state.version } else { 0 } };
        OK
    })
}

/// As declared in cublas_api.h.
#[unsafe(no_mangle)]
pub extern "C" fn cublasGetStatusString(code: c_int) -> *const c_char {
    if code == 13 { c"the GPU program failed to execute".as_ptr() } else { std::ptr::null() }
}

/// As declared in cublas_api.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cublasCreate_v2(handle: *mut *mut c_void) -> c_int {
    run_call("cublasCreate_v2", |state| {
        state.next += 16;
        state.handles.insert(state.next, 0);
        // SAFETY: the caller passes a pointer to a live handle.
        unsafe { *handle = std::ptr::without_provenance_mut(state.next) };
        OK
    })
}

/// As declared in cublas_api.h.
#[unsafe(no_mangle)]
pub extern "C" fn cublasDestroy_v2(handle: *mut c_void) -> c_int {
    run_call(
        "cublasDestroy_v2",
        |state| if state.handles.remove(&handle.addr()).is_some() { OK } else { NOT_INITIALIZED },
    )
}

/// As declared in cublas_api.h.
#[unsafe(no_mangle)]
pub extern "C" fn cublasSetStream_v2(handle: *mut c_void, stream: *mut c_void) -> c_int {
    run_call("cublasSetStream_v2", |state| match state.handles.get_mut(&handle.addr()) {
        Some(known) => {
            *known = stream.addr();
            OK
        }
        None => NOT_INITIALIZED,
    })
}

/// A column-major matrix.
#[derive(Clone, Copy)]
struct Matrix {
    data: *const c_void,
    rows: usize,
}

impl Matrix {
    /// # Safety
    /// The matrix must have an element of type `T` there.
    unsafe fn get<T: Copy>(self, row: usize, column: usize) -> T {
        // SAFETY: this function's own obligation.
        unsafe { self.data.cast::<T>().add(row + column * self.rows).read_unaligned() }
    }
}

/// As declared in cublas_api.h, for C = Aᵀ · B.
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
    run_call("cublasGemmEx", |state| {
        match state.handles.get(&handle.addr()) {
            None => return NOT_INITIALIZED,
            Some(0) => return INVALID_VALUE,
            Some(_) => state.products += 1,
        }
        let square = m > 0 && [n, k, lda, ldb, ldc].iter().all(|size| *size == m);
        let types = a_type == b_type && KNOWN.contains(&[a_type, c_type, compute]);
        let non_null = ![alpha, a, b, beta, c.cast_const()].iter().any(|pointer| pointer.is_null());
        if !square || !types || !non_null || (op_a, op_b, algorithm) != (1, 0, -1) {
            return INVALID_VALUE;
        }
        let size = usize::try_from(m).unwrap_or(0);
        if size <= MAX_ROWS {
            let [a, b] = [a, b].map(|data| Matrix { data, rows: size });
            // SAFETY: the caller's matrices and scales have the types given in its arguments.
            unsafe { product(a_type, size, (a, b, c), (alpha, beta)) };
        }
        OK
    })
}

/// # Safety
/// The matrices must have `size` rows and columns; they and the scales must have the types that `a_type` implies.
unsafe fn product(
    a_type: c_int,
    size: usize,
    (a, b, c): (Matrix, Matrix, *mut c_void),
    (alpha, beta): (*const c_void, *const c_void),
) {
    for (row, column) in (0..size).flat_map(|row| (0..size).map(move |column| (row, column))) {
        let index = row + column * size;
        // SAFETY: this function's own obligation.
        unsafe {
            match a_type {
                1 if *beta.cast::<f64>() == 0.0 => {
                    let sum: f64 = (0..size).map(|k| a.get::<f64>(k, row) * b.get::<f64>(k, column)).sum();
                    c.cast::<f64>().add(index).write_unaligned(*alpha.cast::<f64>() * sum);
                }
                3 if *beta.cast::<i32>() == 0 => {
                    let term = |k| i32::from(a.get::<i8>(k, row)) * i32::from(b.get::<i8>(k, column));
                    c.cast::<i32>().add(index).write_unaligned(*alpha.cast::<i32>() * (0..size).map(term).sum::<i32>());
                }
                _ => {}
            }
        }
    }
}
