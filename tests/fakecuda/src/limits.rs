//! Calls for limits of a context and access policy windows, with the names and types of cuda.h.

// Names and arguments are those of cuda.h, used or not.
#![allow(non_snake_case, unused_variables)]

use std::ffi::{c_uint, c_void};

use crate::call::{Code, Handle, UNSUPPORTED_LIMIT, calls, check_handle};
use crate::memory::give;
use crate::state::{State, lock};

/// The value of a limit. Defaults: fetches of 64 bytes, no persisting L2.
fn limit(state: &mut State, number: c_uint) -> Result<usize, Code> {
    let default = match number {
        5 => 64,
        6 if state.settings().persisting > 0 => 0,
        _ => return Err(UNSUPPORTED_LIMIT),
    };
    Ok(state.limits.get(&number).copied().unwrap_or(default))
}

/// Sets a limit from outside, like other code that doesn't restore it.
#[unsafe(no_mangle)]
pub extern "C" fn fakecuda_set_limit(number: u32, value: u64) {
    lock().get().limits.insert(number, value as usize);
}

/// The current value of a limit.
#[unsafe(no_mangle)]
pub extern "C" fn fakecuda_limit(number: u32) -> u64 {
    limit(lock().get(), number).unwrap_or(0) as u64
}

calls! {
    fn cuCtxGetLimit(state, value: *mut usize, number: c_uint) {
        let found = limit(state, number)?;
        give(value, found)
    }
    fn cuCtxSetLimit(state, number: c_uint, value: usize) {
        limit(state, number)?;
        let most = if number == 5 { 128 } else { state.settings().persisting as usize };
        state.limits.insert(number, value.min(most));
        Ok(())
    }
    fn cuCtxResetPersistingL2Cache(state) {
        Ok(())
    }
    fn cuStreamSetAttribute(state, stream: Handle, attribute: c_uint, value: *const c_void) {
        check_handle(state.streams.contains(&stream) && !value.is_null())
    }
    fn cuGraphKernelNodeSetAttribute(state, node: Handle, attribute: c_uint, value: *const c_void) {
        check_handle(!value.is_null())
    }
}
