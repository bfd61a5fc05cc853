//! Functions for tests: settings, counts of calls, and objects that still exist.

use std::ffi::{CStr, c_char};

use crate::state::{Settings, State, lock};

/// Sets the settings and discards all other state.
///
/// # Safety
/// `settings` must be a terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fakecuda_configure(settings: *const c_char) {
    // SAFETY: by this function's contract.
    let settings = unsafe { CStr::from_ptr(settings) }.to_string_lossy().into_owned();
    let mut guard = lock();
    *guard.get() = State { settings: Some(Settings::parse(&settings)), ..State::default() };
}

/// The number of calls.
#[unsafe(no_mangle)]
pub extern "C" fn fakecuda_total() -> u64 {
    lock().get().total
}

/// The number of calls of one name.
///
/// # Safety
/// `call` must be a terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fakecuda_count(call: *const c_char) -> u64 {
    // SAFETY: by this function's contract.
    let call = unsafe { CStr::from_ptr(call) }.to_string_lossy();
    lock().get().calls.get(&*call).copied().unwrap_or(0)
}

/// The number of unfinished copies that read or write pinned host memory.
#[unsafe(no_mangle)]
pub extern "C" fn fakecuda_pending() -> u64 {
    lock().get().pending.len() as u64
}

/// The number of objects of any kind that still exist.
#[unsafe(no_mangle)]
pub extern "C" fn fakecuda_alive() -> u64 {
    let mut guard = lock();
    let state = guard.get();
    let counts = [
        state.memory.len(),
        state.pinned.len(),
        state.streams.len(),
        state.events.len(),
        state.modules.len(),
        state.graphs.len(),
        state.physical.len(),
        state.reserved.len(),
        state.mapped.len(),
    ];
    counts.iter().sum::<usize>() as u64 + state.contexts
}

/// The stream of the last launch.
#[unsafe(no_mangle)]
pub extern "C" fn fakecuda_last_stream() -> u64 {
    lock().get().last_stream as u64
}

/// The number of kernels in the last recording that ended.
#[unsafe(no_mangle)]
pub extern "C" fn fakecuda_captured() -> u64 {
    lock().get().captured as u64
}

/// From now on, submitted work stays unfinished.
#[unsafe(no_mangle)]
pub extern "C" fn fakecuda_hold() {
    lock().get().flight.hold();
}

/// Finishes all submitted work; from now on, work is again finished at once.
#[unsafe(no_mangle)]
pub extern "C" fn fakecuda_finish() {
    lock().get().flight.finish();
}

/// The number of threads that have found unfinished work since `fakecuda_hold`.
#[unsafe(no_mangle)]
pub extern "C" fn fakecuda_waiting() -> u64 {
    lock().get().flight.waiting()
}

/// How often memory was freed while unfinished work used it.
#[unsafe(no_mangle)]
pub extern "C" fn fakecuda_early() -> u64 {
    lock().get().flight.early()
}
