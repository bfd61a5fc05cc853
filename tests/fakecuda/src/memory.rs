//! Memory helpers of the calls: results through pointers, the heap as device memory, copies with checked addresses.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ffi::{c_char, c_int};

use crate::call::{Answer, Code, ILLEGAL_ADDRESS, INVALID_VALUE, OUT_OF_MEMORY};
use crate::state::State;

/// Writes a result through the caller's pointer.
pub(crate) fn give<T>(to: *mut T, value: T) -> Answer {
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: not null, and valid for a write by the caller's contract.
    unsafe { to.write_unaligned(value) };
    Ok(())
}

/// Writes a terminated string, cut to `length` bytes.
pub(crate) fn text(to: *mut c_char, length: c_int, value: &str) -> Answer {
    let length = usize::try_from(length).unwrap_or(0);
    for (place, byte) in value.bytes().chain([0]).take(length).enumerate() {
        // SAFETY: `length` bytes are writable by the caller's contract.
        give(unsafe { to.add(place) }, byte as c_char)?;
    }
    Ok(())
}

fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes.max(1), 256).unwrap_or(Layout::new::<u64>())
}

/// Allocates zeroed heap memory; returns its address.
pub(crate) fn allocate(bytes: usize) -> Result<usize, Code> {
    // SAFETY: the layout has a size.
    let address = unsafe { alloc_zeroed(layout(bytes)) };
    if address.is_null() { Err(OUT_OF_MEMORY) } else { Ok(address.expose_provenance()) }
}

/// Allocates device memory; returns its address.
pub(crate) fn allocate_on_device(state: &mut State, bytes: usize) -> Result<u64, Code> {
    let free = state.settings().memory.saturating_sub(state.used());
    if bytes == 0 || bytes > free {
        return Err(if bytes == 0 { INVALID_VALUE } else { OUT_OF_MEMORY });
    }
    let address = allocate(bytes)?;
    state.memory.insert(address, bytes);
    Ok(address as u64)
}

pub(crate) fn free(address: usize, bytes: usize) {
    // SAFETY: allocated with the same layout, and forgotten by the caller.
    unsafe { dealloc(std::ptr::with_exposed_provenance_mut(address), layout(bytes)) };
}

/// Copies bytes. The addresses in `device` must lie in device memory, else the context is broken.
pub(crate) fn copy(state: &mut State, to: usize, from: usize, bytes: usize, device: &[usize]) -> Answer {
    if !device.iter().all(|&address| state.holds(address, bytes)) {
        state.sticky = Some(ILLEGAL_ADDRESS);
        return Err(ILLEGAL_ADDRESS);
    }
    // 1 TB/s in device memory, 50 GB/s from and to the host.
    state.now += 1_000 + bytes as u64 / if device.len() == 2 { 1_000 } else { 50 };
    let (to, from) = (std::ptr::with_exposed_provenance_mut::<u8>(to), std::ptr::with_exposed_provenance::<u8>(from));
    // SAFETY: device ends were checked, host ends are valid by the caller's contract; overlap is allowed.
    unsafe { std::ptr::copy(from, to, bytes) };
    Ok(())
}
