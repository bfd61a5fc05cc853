//! Calls for the driver, devices, contexts, memory, streams, events and modules, with the names and types of cuda.h.

// Names and arguments are those of cuda.h, used or not.
#![allow(non_snake_case, unused_variables)]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use crate::MAGIC;
use crate::call::*;
use crate::memory::{allocate, allocate_on_device, copy, free, give, text};
use crate::state::{Kernel, Settings};
use crate::thread::{self, CONTEXT, OTHER_CONTEXT};

fn find_kernel(image: &str, name: &str) -> Option<Kernel> {
    image.split(';').find_map(|kernel| {
        let (known, sizes) = kernel.strip_suffix(')')?.split_once('(')?;
        let sizes = sizes.split(',').filter_map(|size| size.parse().ok()).collect();
        (known == name).then(|| Kernel { name: name.to_owned(), sizes: Some(sizes) })
    })
}

fn attribute(settings: &Settings, number: c_int) -> c_int {
    match number {
        5 => i32::MAX,
        13 => 1_980_000,
        16 => 132,
        20 => settings.mode,
        32 | 95 => 1,
        36 => 3_201_000,
        37 => 6_144,
        38 => settings.cache,
        39 => 2_048,
        40 => 3,
        75 => settings.capability / 10,
        76 => settings.capability % 10,
        81 => 228 << 10,
        83 | 89 => 1,
        82 => 65_536,
        97 => 227 << 10,
        102 => 1,
        106 => 32,
        107 => settings.compression,
        108 => settings.persisting,
        109 => 128 << 20,
        115 => 1,
        _ => 0,
    }
}

calls! {
    fn cuInit(state, flags: c_uint) {
        Ok(())
    }
    fn cuDriverGetVersion(state, version: *mut c_int) {
        give(version, state.settings().version)
    }
    fn cuDeviceGetCount(state, count: *mut c_int) {
        let devices = state.settings().devices;
        if devices == 0 { Err(NO_DEVICE) } else { give(count, devices) }
    }
    fn cuDeviceGet(state, device: *mut c_int, ordinal: c_int) {
        if ordinal < state.settings().devices { give(device, ordinal) } else { Err(INVALID_DEVICE) }
    }
    fn cuDeviceGetName(state, name: *mut c_char, length: c_int, device: c_int) {
        text(name, length, "Imaginary GPU")
    }
    fn cuDeviceGetUuid_v2(state, uuid: *mut [u8; 16], device: c_int) {
        give(uuid, [device as u8; 16])
    }
    fn cuDeviceGetUuid(state, uuid: *mut [u8; 16], device: c_int) {
        give(uuid, [device as u8; 16])
    }
    fn cuDeviceTotalMem_v2(state, bytes: *mut usize, device: c_int) {
        give(bytes, state.settings().memory)
    }
    fn cuDeviceGetAttribute(state, value: *mut c_int, number: c_int, device: c_int) {
        give(value, attribute(state.settings(), number))
    }
    fn cuDeviceGetPCIBusId(state, to: *mut c_char, length: c_int, device: c_int) {
        text(to, length, "0000:01:00.0")
    }
    fn cuDevicePrimaryCtxRetain(state, context: *mut Handle, device: c_int) {
        state.contexts += 1;
        give(context, CONTEXT)
    }
    fn cuDevicePrimaryCtxRelease(state, device: c_int) {
        state.contexts = state.contexts.checked_sub(1).ok_or(INVALID_CONTEXT)?;
        Ok(())
    }
    fn cuCtxSetCurrent(state, context: Handle) {
        if !(context == CONTEXT && state.contexts > 0 || context == OTHER_CONTEXT || context == 0) {
            return Err(INVALID_CONTEXT);
        }
        thread::CURRENT.set(context);
        Ok(())
    }
    fn cuCtxGetCurrent(state, context: *mut Handle) {
        give(context, thread::CURRENT.get())
    }
    fn cuThreadExchangeStreamCaptureMode(state, mode: *mut c_uint) {
        // SAFETY: a live integer by the caller's contract.
        let wanted = unsafe { *mode };
        if wanted > thread::RELAXED { Err(INVALID_VALUE) } else { give(mode, thread::CAPTURE_MODE.replace(wanted)) }
    }
    fn cuDeviceCanAccessPeer(state, can: *mut c_int, device: c_int, peer: c_int) {
        give(can, 1)
    }
    fn cuCtxEnablePeerAccess(state, peer: Handle, flags: c_uint) {
        if peer == CONTEXT && state.contexts > 0 { Ok(()) } else { Err(INVALID_CONTEXT) }
    }
    fn cuMemcpyPeerAsync(
        state, to: u64, to_context: Handle, from: u64, from_context: Handle, bytes: usize, stream: Handle
    ) {
        check_handle(state.streams.contains(&stream))?;
        state.add_work(stream, [to as usize, from as usize]);
        copy(state, to as usize, from as usize, bytes, &[to as usize, from as usize])
    }
    fn cuMemAllocManaged(state, pointer: *mut u64, bytes: usize, flags: c_uint) {
        give(pointer, allocate_on_device(state, bytes)?)
    }
    fn cuMemPrefetchAsync(state, pointer: u64, bytes: usize, device: c_int, stream: Handle) {
        check_handle(state.streams.contains(&stream))?;
        state.now += 1_000 + bytes as u64 / 50;
        if state.holds(pointer as usize, bytes) { Ok(()) } else { Err(INVALID_VALUE) }
    }
    fn cuMemAdvise(state, pointer: u64, bytes: usize, advice: c_uint, device: c_int) {
        if state.holds(pointer as usize, bytes) { Ok(()) } else { Err(INVALID_VALUE) }
    }
    fn cuMemGetInfo_v2(state, free: *mut usize, total: *mut usize) {
        let memory = state.settings().memory;
        give(free, memory.saturating_sub(state.used()))?;
        give(total, memory)
    }
    fn cuPointerGetAttributes(
        state, count: c_uint, attributes: *const c_uint, values: *mut *mut c_void, pointer: u64
    ) {
        // SAFETY: by the caller's contract, both arrays have `count` entries.
        let (attribute, to) = unsafe { (*attributes, *values) };
        let kind = if state.is_pinned(pointer as usize, 1) { 1 } else { u32::from(state.holds(pointer as usize, 1)) * 2 };
        if count == 1 && attribute == 2 { give(to.cast(), kind) } else { Err(INVALID_VALUE) }
    }
    fn cuMemAlloc_v2(state, pointer: *mut u64, bytes: usize) {
        state.break_captures()?;
        give(pointer, allocate_on_device(state, bytes)?)
    }
    fn cuMemFree_v2(state, pointer: u64) {
        state.break_captures()?;
        let bytes = state.memory.remove(&(pointer as usize)).ok_or(INVALID_VALUE)?;
        free(pointer as usize, bytes);
        Ok(())
    }
    fn cuMemAllocAsync(state, pointer: *mut u64, bytes: usize, stream: Handle) {
        check_handle(state.streams.contains(&stream))?;
        give(pointer, allocate_on_device(state, bytes)?)
    }
    fn cuMemFreeAsync(state, pointer: u64, stream: Handle) {
        check_handle(state.streams.contains(&stream))?;
        let bytes = state.memory.remove(&(pointer as usize)).ok_or(INVALID_VALUE)?;
        state.flight.free(pointer as usize, Some(stream));
        free(pointer as usize, bytes);
        Ok(())
    }
    fn cuMemHostAlloc(state, pointer: *mut *mut c_void, bytes: usize, flags: c_uint) {
        let address = allocate(bytes)?;
        state.pinned.insert(address, bytes);
        give(pointer, std::ptr::with_exposed_provenance_mut(address))
    }
    fn cuMemFreeHost(state, pointer: *mut c_void) {
        let address = pointer.expose_provenance();
        if state.registered.contains(&address) {
            return Err(INVALID_VALUE);
        }
        let bytes = state.pinned.remove(&address).ok_or(INVALID_VALUE)?;
        state.flight.free(address, None);
        free(address, bytes);
        Ok(())
    }
    fn cuMemHostRegister_v2(state, pointer: *mut c_void, bytes: usize, flags: c_uint) {
        let address = pointer.expose_provenance();
        if bytes == 0 || state.is_pinned(address, 1) {
            return Err(INVALID_VALUE);
        }
        state.registered.insert(address);
        state.pinned.insert(address, bytes);
        Ok(())
    }
    fn cuMemHostUnregister(state, pointer: *mut c_void) {
        let address = pointer.expose_provenance();
        if !state.registered.remove(&address) {
            return Err(INVALID_VALUE);
        }
        state.pinned.remove(&address);
        state.flight.free(address, None);
        Ok(())
    }
    fn cuMemcpyHtoDAsync_v2(state, to: u64, from: *const c_void, bytes: usize, stream: Handle) {
        check_handle(state.streams.contains(&stream))?;
        let from = from.expose_provenance();
        // A copy from pinned memory is only done when the device reaches it.
        if state.is_pinned(from, bytes) && state.hangs() {
            state.pending.push((from, bytes));
            return Ok(());
        }
        state.add_work(stream, [to as usize, from]);
        copy(state, to as usize, from, bytes, &[to as usize])
    }
    fn cuMemcpyDtoHAsync_v2(state, to: *mut c_void, from: u64, bytes: usize, stream: Handle) {
        check_handle(state.streams.contains(&stream))?;
        let to = to.expose_provenance();
        if state.is_pinned(to, bytes) && state.hangs() {
            state.pending.push((to, bytes));
            return Ok(());
        }
        state.add_work(stream, [to, from as usize]);
        copy(state, to, from as usize, bytes, &[from as usize])
    }
    fn cuMemcpyDtoDAsync_v2(state, to: u64, from: u64, bytes: usize, stream: Handle) {
        check_handle(state.streams.contains(&stream))?;
        state.add_work(stream, [to as usize, from as usize]);
        copy(state, to as usize, from as usize, bytes, &[to as usize, from as usize])
    }
    fn cuMemsetD8Async(state, to: u64, value: u8, count: usize, stream: Handle) {
        check_handle(state.streams.contains(&stream))?;
        if !state.holds(to as usize, count) {
            state.sticky = Some(ILLEGAL_ADDRESS);
            return Err(ILLEGAL_ADDRESS);
        }
        state.now += 1_000 + count as u64 / 1_000;
        state.add_work(stream, [to as usize]);
        // SAFETY: inside an allocation of ours.
        unsafe { std::ptr::with_exposed_provenance_mut::<u8>(to as usize).write_bytes(value, count) };
        Ok(())
    }
    fn cuStreamCreate(state, stream: *mut Handle, flags: c_uint) {
        let handle = state.handle();
        state.streams.insert(handle);
        give(stream, handle)
    }
    fn cuStreamDestroy_v2(state, stream: Handle) {
        check_handle(state.streams.remove(&stream))
    }
    fn cuStreamBeginCapture_v2(state, stream: Handle, mode: c_uint) {
        check_handle(state.streams.contains(&stream))?;
        if mode == thread::GLOBAL {
            state.strict.insert(stream);
        }
        if state.recorded.insert(stream, Vec::new()).is_some() { Err(ILLEGAL_STATE) } else { Ok(()) }
    }
    fn cuStreamEndCapture(state, stream: Handle, graph: *mut Handle) {
        let nodes = state.recorded.remove(&stream).ok_or(ILLEGAL_STATE)?;
        state.strict.remove(&stream);
        if state.invalid.remove(&stream) {
            return Err(CAPTURE_INVALIDATED);
        }
        state.captured = nodes.len();
        let handle = state.handle();
        state.graphs.insert(handle, nodes);
        give(graph, handle)
    }
    fn cuStreamIsCapturing(state, stream: Handle, status: *mut c_uint) {
        check_handle(state.is_stream(stream))?;
        give(status, c_uint::from(state.recorded.contains_key(&stream)))
    }
    fn cuStreamQuery(state, stream: Handle) {
        check_handle(state.streams.contains(&stream))?;
        if state.recorded.contains_key(&stream) {
            state.invalid.insert(stream);
            return Err(CAPTURED);
        }
        if state.hangs() || !state.flight.is_done(stream) { Err(NOT_READY) } else { Ok(()) }
    }
    fn cuStreamWaitEvent(state, stream: Handle, event: Handle, flags: c_uint) {
        check_handle(state.streams.contains(&stream) && state.events.contains_key(&event))?;
        state.flight.wait(stream, event);
        Ok(())
    }
    fn cuEventCreate(state, event: *mut Handle, flags: c_uint) {
        let handle = state.handle();
        state.events.insert(handle, None);
        give(event, handle)
    }
    fn cuEventDestroy_v2(state, event: Handle) {
        check_handle(state.events.remove(&event).is_some())
    }
    fn cuEventRecord(state, event: Handle, stream: Handle) {
        check_handle(state.streams.contains(&stream))?;
        // Every seventh time a longer step, so that a resolution can be measured.
        state.now += if state.now % 7 == 0 { 1_056 } else { 1_024 };
        let now = state.now;
        let time = state.events.get_mut(&event).ok_or(INVALID_HANDLE)?;
        *time = Some(now);
        state.flight.mark(event, stream);
        Ok(())
    }
    fn cuEventQuery(state, event: Handle) {
        check_handle(state.events.contains_key(&event))?;
        if state.hangs() || !state.flight.is_reached(event) { Err(NOT_READY) } else { Ok(()) }
    }
    fn cuEventElapsedTime(state, milliseconds: *mut f32, from: Handle, to: Handle) {
        let time = |event| state.events.get(event).copied().ok_or(INVALID_HANDLE)?.ok_or(INVALID_HANDLE);
        let (from, to) = (time(&from)?, time(&to)?);
        give(milliseconds, (to as f64 - from as f64) as f32 / 1e6)
    }
    fn cuModuleLoadData(state, module: *mut Handle, image: *const c_void) {
        state.break_captures()?;
        // SAFETY: an image has at least an ELF header of 64 bytes.
        let header = unsafe { image.cast::<[u8; 64]>().read_unaligned() };
        if !header.starts_with(b"\x7fELF") {
            return Err(INVALID_IMAGE);
        }
        // SAFETY: a whole cubin is longer than a header and the magic; ours ends with a zero byte.
        let ours = unsafe {
            let tail = image.cast::<u8>().add(64);
            let magic = std::slice::from_raw_parts(tail, MAGIC.len());
            (magic == MAGIC.as_bytes()).then(|| CStr::from_ptr(tail.add(MAGIC.len()).cast()).to_string_lossy().into_owned())
        };
        let handle = state.handle();
        state.modules.insert(handle, ours);
        give(module, handle)
    }
    fn cuModuleUnload(state, module: Handle) {
        check_handle(state.modules.remove(&module).is_some())
    }
    fn cuModuleGetFunction(state, function: *mut Handle, module: Handle, name: *const c_char) {
        // SAFETY: a terminated string by the caller's contract.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
        let kernel = match state.modules.get(&module).ok_or(INVALID_HANDLE)? {
            Some(image) => find_kernel(image, &name).ok_or(NOT_FOUND)?,
            None => Kernel { name, sizes: None },
        };
        let handle = state.handle();
        state.functions.insert(handle, kernel);
        give(function, handle)
    }
    // Every module of ours has one variable.
    fn cuModuleGetGlobal_v2(state, pointer: *mut u64, bytes: *mut usize, module: Handle, name: *const c_char) {
        check_handle(state.modules.contains_key(&module))?;
        // SAFETY: a terminated string by the caller's contract.
        if unsafe { CStr::from_ptr(name) } != c"variable" {
            return Err(NOT_FOUND);
        }
        give(pointer, 0x7000)?;
        give(bytes, 64)
    }
    fn cuFuncGetAttribute(state, value: *mut c_int, number: c_int, function: Handle) {
        check_handle(state.functions.contains_key(&function))?;
        give(value, match number { 0 => 1024, 4 => 32, _ => 0 })
    }
    fn cuFuncSetAttribute(state, function: Handle, number: c_int, value: c_int) {
        check_handle(state.functions.contains_key(&function))?;
        if value > 227 << 10 { Err(INVALID_VALUE) } else { Ok(()) }
    }
    fn cuFuncGetParamInfo(state, function: Handle, index: usize, offset: *mut usize, size: *mut usize) {
        let kernel = state.functions.get(&function).ok_or(INVALID_HANDLE)?;
        let sizes = kernel.sizes.as_ref().ok_or(NOT_SUPPORTED)?;
        let bytes = *sizes.get(index).ok_or(INVALID_VALUE)?;
        give(offset, sizes[..index].iter().sum())?;
        give(size, bytes)
    }
}
