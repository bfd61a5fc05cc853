//! A fake `libnccl.so.2` with fault injection. It checks its callers' arguments and the order of calls. Collectives are computed at
//! the end of their group, on host memory like that of `fakecuda`, unless they are large.
//!
//! Settings come from `fakenccl_configure`, separated by spaces or semicolons:
//!
//! | setting | effect |
//! | --- | --- |
//! | `fail=ncclAllReduce:3` | the call returns 3 |
//! | `hang=ncclCommInitAll:500` | the call takes 500 ms |
//! | `asynchronous=6` | the error that communicators report after work was queued |
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]

#[path = "../../fake.rs"]
mod fake;

use std::collections::BTreeMap;
use std::ffi::{c_char, c_int, c_void};
use std::time::Duration;

use fake::{Shared, read_settings};

const OK: c_int = 0;
const INVALID_ARGUMENT: c_int = 4;
const INVALID_USAGE: c_int = 5;
const FLOAT: c_int = 7;
/// Most elements of a collective that is computed.
const MOST: usize = 4096;

#[derive(Default)]
struct State {
    fail: BTreeMap<String, c_int>,
    hang: BTreeMap<String, u64>,
    asynchronous: c_int,
    /// Live communicators with their ranks.
    alive: BTreeMap<usize, usize>,
    next: usize,
    /// Number of devices of the last initialisation.
    devices: usize,
    aborted: u64,
    /// Started groups that weren't ended.
    depth: u64,
    queued: Vec<Part>,
    collectives: u64,
}

/// One device's part of a collective.
#[derive(Clone, Copy)]
struct Part {
    rank: usize,
    send: usize,
    receive: usize,
    count: usize,
    reduce: bool,
}

static STATE: Shared<State> = Shared::new();

fn new_state() -> State {
    State::default()
}

/// Runs the body of a call, or returns the error injected for it.
fn run_call(call: &str, body: impl FnOnce(&mut State) -> c_int) -> c_int {
    let hang = STATE.lock().get_or_insert_with(new_state).hang.get(call).copied();
    if let Some(milliseconds) = hang {
        std::thread::sleep(Duration::from_millis(milliseconds));
    }
    let mut guard = STATE.lock();
    let state = guard.get_or_insert_with(new_state);
    match state.fail.get(call) {
        Some(code) => *code,
        None => body(state),
    }
}

/// Sets the settings and discards all other state.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fakenccl_configure(settings: *const c_char) {
    let mut state = new_state();
    let set = |key: &str, value: &str| match (key, value.split_once(':')) {
        ("fail", Some((call, code))) => drop(state.fail.insert(call.to_owned(), code.parse().unwrap_or(3))),
        ("hang", Some((call, length))) => drop(state.hang.insert(call.to_owned(), length.parse().unwrap_or(100))),
        ("asynchronous", _) => state.asynchronous = value.parse().unwrap_or(0),
        _ => {}
    };
    // SAFETY: the test passes a terminated string.
    unsafe { read_settings(settings, set) };
    *STATE.lock() = Some(state);
}

/// The number of communicators that still exist.
#[unsafe(no_mangle)]
pub extern "C" fn fakenccl_alive() -> u64 {
    STATE.lock().as_ref().map_or(0, |state| state.alive.len() as u64)
}

/// The number of communicators that were aborted.
#[unsafe(no_mangle)]
pub extern "C" fn fakenccl_aborted() -> u64 {
    STATE.lock().as_ref().map_or(0, |state| state.aborted)
}

/// The number of complete collectives.
#[unsafe(no_mangle)]
pub extern "C" fn fakenccl_collectives() -> u64 {
    STATE.lock().as_ref().map_or(0, |state| state.collectives)
}

/// The number of groups that were started and not ended.
#[unsafe(no_mangle)]
pub extern "C" fn fakenccl_open_groups() -> u64 {
    STATE.lock().as_ref().map_or(0, |state| state.depth)
}

/// As declared in nccl.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclGetVersion(version: *mut c_int) -> c_int {
    run_call("ncclGetVersion", |_| {
        // SAFETY: the caller passes a pointer to a live integer.
        unsafe { *version = 22_703 };
        OK
    })
}

/// As declared in nccl.h.
#[unsafe(no_mangle)]
pub extern "C" fn ncclGetErrorString(code: c_int) -> *const c_char {
    match code {
        OK => c"no error".as_ptr(),
        INVALID_USAGE => c"invalid usage".as_ptr(),
        _ => c"unhandled system error".as_ptr(),
    }
}

/// As declared in nccl.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommInitAll(
    communicators: *mut *mut c_void,
    count: c_int,
    devices: *const c_int,
) -> c_int {
    run_call("ncclCommInitAll", |state| {
        let count = usize::try_from(count).unwrap_or(0);
        // SAFETY: the caller passes as many devices.
        let devices: Vec<c_int> = (0..count).map(|place| unsafe { *devices.add(place) }).collect();
        let twice = devices.iter().enumerate().any(|(place, device)| devices[..place].contains(device));
        if count == 0 || twice {
            return INVALID_USAGE;
        }
        state.devices = count;
        for rank in 0..count {
            state.next += 16;
            state.alive.insert(state.next, rank);
            // SAFETY: the caller passes as many places.
            unsafe { *communicators.add(rank) = std::ptr::without_provenance_mut(state.next) };
        }
        OK
    })
}

fn remove(state: &mut State, communicator: *mut c_void) -> c_int {
    if state.alive.remove(&communicator.addr()).is_some() { OK } else { INVALID_ARGUMENT }
}

/// As declared in nccl.h.
#[unsafe(no_mangle)]
pub extern "C" fn ncclCommDestroy(communicator: *mut c_void) -> c_int {
    run_call("ncclCommDestroy", |state| remove(state, communicator))
}

/// As declared in nccl.h.
#[unsafe(no_mangle)]
pub extern "C" fn ncclCommAbort(communicator: *mut c_void) -> c_int {
    run_call("ncclCommAbort", |state| {
        state.aborted += 1;
        remove(state, communicator)
    })
}

/// As declared in nccl.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommGetAsyncError(communicator: *mut c_void, error: *mut c_int) -> c_int {
    run_call("ncclCommGetAsyncError", |state| {
        // SAFETY: the caller passes a pointer to a live integer.
        unsafe { *error = state.asynchronous };
        if state.alive.contains_key(&communicator.addr()) { OK } else { INVALID_ARGUMENT }
    })
}

/// As declared in nccl.h.
#[unsafe(no_mangle)]
pub extern "C" fn ncclGroupStart() -> c_int {
    run_call("ncclGroupStart", |state| {
        state.depth += 1;
        OK
    })
}

/// As declared in nccl.h.
#[unsafe(no_mangle)]
pub extern "C" fn ncclGroupEnd() -> c_int {
    run_call("ncclGroupEnd", |state| {
        let Some(depth) = state.depth.checked_sub(1) else { return INVALID_USAGE };
        state.depth = depth;
        let mut parts = std::mem::take(&mut state.queued);
        parts.sort_by_key(|part| part.rank);
        let complete = parts.iter().map(|part| part.rank).eq(0..state.devices);
        let alike = parts.windows(2).all(|two| (two[0].count, two[0].reduce) == (two[1].count, two[1].reduce));
        if !complete || !alike {
            return INVALID_USAGE;
        }
        state.collectives += 1;
        if parts.iter().all(|part| part.count <= MOST) {
            // SAFETY: the callers of the collectives passed arrays of this size, in host memory.
            unsafe { run(&parts) };
        }
        OK
    })
}

/// # Safety
/// Each part's arrays must be floats in host memory that don't overlap.
unsafe fn run(parts: &[Part]) {
    let sent = |part: &Part| std::ptr::with_exposed_provenance::<f32>(part.send);
    for to in parts {
        let receive = std::ptr::with_exposed_provenance_mut::<f32>(to.receive);
        for (rank, from) in parts.iter().enumerate() {
            for place in 0..to.count {
                // SAFETY: this function's own obligation.
                unsafe {
                    let number = sent(from).add(place).read_unaligned();
                    let (place, before) = match to.reduce {
                        true if rank == 0 => (place, 0.0),
                        true => (place, receive.add(place).read_unaligned()),
                        false => (rank * to.count + place, 0.0),
                    };
                    receive.add(place).write_unaligned(before + number);
                }
            }
        }
    }
}

fn queue(state: &mut State, communicator: *mut c_void, part: Part, stream: *mut c_void) -> c_int {
    let Some(rank) = state.alive.get(&communicator.addr()).copied() else { return INVALID_ARGUMENT };
    if state.depth == 0 || part.send == 0 || part.receive == 0 || stream.is_null() {
        return INVALID_USAGE;
    }
    state.queued.push(Part { rank, ..part });
    OK
}

/// As declared in nccl.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclAllReduce(
    send: *const c_void,
    receive: *mut c_void,
    count: usize,
    kind: c_int,
    operation: c_int,
    communicator: *mut c_void,
    stream: *mut c_void,
) -> c_int {
    run_call("ncclAllReduce", |state| {
        if (kind, operation) != (FLOAT, 0) {
            return INVALID_ARGUMENT;
        }
        let part = Part { rank: 0, send: send.addr(), receive: receive.addr(), count, reduce: true };
        queue(state, communicator, part, stream)
    })
}

/// As declared in nccl.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclAllGather(
    send: *const c_void,
    receive: *mut c_void,
    count: usize,
    kind: c_int,
    communicator: *mut c_void,
    stream: *mut c_void,
) -> c_int {
    run_call("ncclAllGather", |state| {
        if kind != FLOAT {
            return INVALID_ARGUMENT;
        }
        let part = Part { rank: 0, send: send.addr(), receive: receive.addr(), count, reduce: false };
        queue(state, communicator, part, stream)
    })
}
