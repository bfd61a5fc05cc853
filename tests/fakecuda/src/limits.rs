//! Limits of a context and access policy windows, with the names and types of cuda.h.

// Names and arguments are cuda.h's, looked at or not.
#![allow(non_snake_case, unused_variables)]

use std::ffi::{c_uint, c_void};

use crate::call::{Code, Handle, UNSUPPORTED_LIMIT, calls, known};
use crate::memory::give;
use crate::state::{State, lock};

/// A limit as it is until it is set: 64 bytes at once, nothing set aside.
fn limit(state: &mut State, number: c_uint) -> Result<usize, Code> {
    let usual = match number {
        5 => 64,
        6 if state.orders().persisting > 0 => 0,
        _ => return Err(UNSUPPORTED_LIMIT),
    };
    Ok(state.limits.get(&number).copied().unwrap_or(usual))
}

/// Sets a limit from outside, as somebody who forgot to put it back would.
#[unsafe(no_mangle)]
pub extern "C" fn fakecuda_set_limit(number: u32, value: u64) {
    lock().get().limits.insert(number, value as usize);
}

/// A limit in force.
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
        let most = if number == 5 { 128 } else { state.orders().persisting as usize };
        state.limits.insert(number, value.min(most));
        Ok(())
    }
    fn cuCtxResetPersistingL2Cache(state) {
        Ok(())
    }
    fn cuStreamSetAttribute(state, stream: Handle, attribute: c_uint, value: *const c_void) {
        known(state.streams.contains(&stream) && !value.is_null())
    }
    fn cuGraphKernelNodeSetAttribute(state, node: Handle, attribute: c_uint, value: *const c_void) {
        known(!value.is_null())
    }
}
