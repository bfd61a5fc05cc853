//! NVRTC's calls for generated sources, so that tests without `unsafe` can compile for this driver.

// Names and arguments are those of nvrtc.h, used or not.
#![allow(non_snake_case, unused_variables)]

use std::ffi::{CStr, c_char, c_int, c_void};

use crate::elf::image_from_text;

/// A program: its source, and its image or the reason why there is none.
struct Program {
    text: String,
    image: Result<Vec<u8>, String>,
}

/// `NVRTC_ERROR_COMPILATION`.
const REFUSED: c_int = 6;

/// # Safety
/// Both must be valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcVersion(major: *mut c_int, minor: *mut c_int) -> c_int {
    // SAFETY: by this function's contract.
    unsafe { (*major, *minor) = (13, 0) };
    0
}

/// A static text.
#[unsafe(no_mangle)]
pub extern "C" fn nvrtcGetErrorString(code: c_int) -> *const c_char {
    if code == REFUSED { c"NVRTC_ERROR_COMPILATION".as_ptr() } else { c"NVRTC_SUCCESS".as_ptr() }
}

/// # Safety
/// `count` must be valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcGetNumSupportedArchs(count: *mut c_int) -> c_int {
    // SAFETY: by this function's contract.
    unsafe { *count = 1 };
    0
}

/// # Safety
/// `found` must be valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcGetSupportedArchs(found: *mut c_int) -> c_int {
    // SAFETY: by this function's contract.
    unsafe { *found = 90 };
    0
}

/// # Safety
/// `program` must be valid for a write, and `source` a terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcCreateProgram(
    program: *mut *mut c_void,
    source: *const c_char,
    name: *const c_char,
    headers: c_int,
    bodies: *const *const c_char,
    names: *const *const c_char,
) -> c_int {
    // SAFETY: by this function's contract.
    let text = unsafe { CStr::from_ptr(source) }.to_string_lossy().into_owned();
    let created = Box::new(Program { text, image: Err(String::new()) });
    // SAFETY: by this function's contract.
    unsafe { *program = Box::into_raw(created).cast() };
    0
}

/// # Safety
/// `program` must point to a program that `nvrtcCreateProgram` returned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcDestroyProgram(program: *mut *mut c_void) -> c_int {
    // SAFETY: by this function's contract.
    drop(unsafe { Box::from_raw((*program).cast::<Program>()) });
    0
}

/// # Safety
/// As `nvrtcDestroyProgram`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcCompileProgram(
    program: *mut c_void,
    count: c_int,
    options: *const *const c_char,
) -> c_int {
    // SAFETY: by this function's contract.
    let program = unsafe { &mut *program.cast::<Program>() };
    program.image = image_from_text(&program.text);
    if program.image.is_ok() { 0 } else { REFUSED }
}

/// # Safety
/// As `nvrtcDestroyProgram`; `length` must be valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcGetProgramLogSize(program: *mut c_void, length: *mut usize) -> c_int {
    // SAFETY: by this function's contract.
    unsafe { *length = log(program).len() };
    0
}

/// # Safety
/// As `nvrtcGetProgramLogSize`; `to` must have room for the bytes that it returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcGetProgramLog(program: *mut c_void, to: *mut c_char) -> c_int {
    // SAFETY: by this function's contract.
    unsafe {
        let log = log(program);
        to.copy_from_nonoverlapping(log.as_ptr().cast(), log.len());
    }
    0
}

/// # Safety
/// As `nvrtcGetProgramLogSize`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcGetCUBINSize(program: *mut c_void, length: *mut usize) -> c_int {
    // SAFETY: by this function's contract.
    unsafe { *length = (*program.cast::<Program>()).image.as_ref().map_or(0, Vec::len) };
    0
}

/// # Safety
/// As `nvrtcGetProgramLog`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcGetCUBIN(program: *mut c_void, to: *mut c_char) -> c_int {
    // SAFETY: by this function's contract.
    unsafe {
        let program = &*program.cast::<Program>();
        if let Ok(image) = &program.image {
            to.copy_from_nonoverlapping(image.as_ptr().cast(), image.len());
        }
    }
    0
}

/// The compiler's log, zero-terminated.
///
/// # Safety
/// As `nvrtcDestroyProgram`.
unsafe fn log(program: *mut c_void) -> Vec<u8> {
    // SAFETY: by this function's contract.
    let program = unsafe { &*program.cast::<Program>() };
    let mut log = program.image.as_ref().err().cloned().unwrap_or_default().into_bytes();
    log.push(0);
    log
}
