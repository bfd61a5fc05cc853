//! What a test asks of the stand-in: orders, and what was called and still exists.

use std::ffi::{CStr, c_char};

use crate::state::{Orders, State, lock};

/// Takes orders and forgets everything that exists.
///
/// # Safety
/// `orders` must be a terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fakecuda_configure(orders: *const c_char) {
    // SAFETY: by this function's contract.
    let orders = unsafe { CStr::from_ptr(orders) }.to_string_lossy().into_owned();
    let mut guard = lock();
    *guard.get() = State { orders: Some(Orders::read(&orders)), ..State::default() };
}

/// How many calls were made.
#[unsafe(no_mangle)]
pub extern "C" fn fakecuda_total() -> u64 {
    lock().get().total
}

/// How often one call was made.
///
/// # Safety
/// `call` must be a terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fakecuda_count(call: *const c_char) -> u64 {
    // SAFETY: by this function's contract.
    let call = unsafe { CStr::from_ptr(call) }.to_string_lossy();
    lock().get().calls.get(&*call).copied().unwrap_or(0)
}

/// How many copies are still to come that read or write pinned memory of the host.
#[unsafe(no_mangle)]
pub extern "C" fn fakecuda_pending() -> u64 {
    lock().get().pending.len() as u64
}

/// How many objects of any kind still exist.
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

/// From now on nothing gets done that streams are asked.
#[unsafe(no_mangle)]
pub extern "C" fn fakecuda_hold() {
    lock().get().flight.hold();
}

/// All is done that streams were asked, and what they are asked is done at once again.
#[unsafe(no_mangle)]
pub extern "C" fn fakecuda_finish() {
    lock().get().flight.finish();
}

/// How many threads were told since `fakecuda_hold` that something isn't done.
#[unsafe(no_mangle)]
pub extern "C" fn fakecuda_waiting() -> u64 {
    lock().get().flight.waiting()
}

/// How often memory was freed that unfinished work uses.
#[unsafe(no_mangle)]
pub extern "C" fn fakecuda_early() -> u64 {
    lock().get().flight.early()
}
