//! Calls that create physical memory, reserve addresses and map one to the other, with the names and types of cuda.h.

// Names and arguments are those of cuda.h, used or not.
#![allow(non_snake_case, unused_variables)]

use std::ffi::{c_uint, c_void};

use crate::call::{INVALID_VALUE, OUT_OF_MEMORY, calls};
use crate::memory::{allocate, free, give};

calls! {
    fn cuMemGetAllocationGranularity(state, bytes: *mut usize, wanted: *const AllocationProperties, flags: c_uint) {
        give(bytes, 2 << 20)
    }
    fn cuMemCreate(state, to: *mut u64, bytes: usize, wanted: *const AllocationProperties, flags: u64) {
        let free = state.settings().memory.saturating_sub(state.used());
        if bytes == 0 || bytes > free || !bytes.is_multiple_of(2 << 20) {
            return Err(if bytes > free { OUT_OF_MEMORY } else { INVALID_VALUE });
        }
        // SAFETY: a live structure by the caller's contract.
        let asked = unsafe { (*wanted).compression };
        let granted = if state.settings().compression == 1 { asked } else { 0 };
        let handle = state.handle();
        state.physical.insert(handle, (bytes, granted));
        give(to, handle as u64)
    }
    fn cuMemRelease(state, handle: u64) {
        state.physical.remove(&(handle as usize)).map(drop).ok_or(INVALID_VALUE)
    }
    fn cuMemGetAllocationPropertiesFromHandle(state, found: *mut AllocationProperties, handle: u64) {
        let (_, compression) = *state.physical.get(&(handle as usize)).ok_or(INVALID_VALUE)?;
        give(found, AllocationProperties { words: [0; 6], compression, rest: [0; 7] })
    }
    fn cuMemAddressReserve(state, pointer: *mut u64, bytes: usize, alignment: usize, place: u64, flags: u64) {
        let address = allocate(bytes)?;
        state.reserved.insert(address, bytes);
        give(pointer, address as u64)
    }
    fn cuMemAddressFree(state, pointer: u64, bytes: usize) {
        let address = pointer as usize;
        if state.mapped.contains_key(&address) || state.reserved.get(&address) != Some(&bytes) {
            return Err(INVALID_VALUE);
        }
        state.reserved.remove(&address);
        free(address, bytes);
        Ok(())
    }
    fn cuMemMap(state, pointer: u64, bytes: usize, offset: usize, handle: u64, flags: u64) {
        let address = pointer as usize;
        let made = state.physical.get(&(handle as usize)).map(|(bytes, _)| *bytes);
        if made != Some(bytes) || state.reserved.get(&address) != Some(&bytes) {
            return Err(INVALID_VALUE);
        }
        state.mapped.insert(address, bytes);
        Ok(())
    }
    fn cuMemUnmap(state, pointer: u64, bytes: usize) {
        state.mapped.remove(&(pointer as usize)).ok_or(INVALID_VALUE)?;
        state.flight.free(pointer as usize, None);
        Ok(())
    }
    fn cuMemSetAccess(state, pointer: u64, bytes: usize, access: *const c_void, count: usize) {
        if state.mapped.get(&(pointer as usize)) == Some(&bytes) { Ok(()) } else { Err(INVALID_VALUE) }
    }
}

/// The part of `CUmemAllocationProp_v1` that is used.
#[derive(Debug)]
#[repr(C)]
pub struct AllocationProperties {
    words: [c_uint; 6],
    compression: u8,
    rest: [u8; 7],
}
