//! The table of NVRTC calls. The library is never closed, because the compiler keeps internal state.

use std::ffi::{CString, c_char, c_int};

use super::Version;
use super::search::Candidate;
use crate::compile::Program;
use crate::library::{ResidentLibrary, calls, check};

/// `nvrtcResult`; 0 is success.
type Code = c_int;
/// `nvrtcProgram`.
type Handle = *mut std::ffi::c_void;

/// Largest accepted cubin or log, bytes: a larger size comes from a broken library.
const MAX_BYTES: usize = 1 << 30;

calls! {
    "nvrtc.h", "CUDA 11.2":
    version["nvrtcVersion"](*mut c_int, *mut c_int) -> Code;
    error_string["nvrtcGetErrorString"](Code) -> *const c_char;
    architecture_count["nvrtcGetNumSupportedArchs"](*mut c_int) -> Code;
    architectures["nvrtcGetSupportedArchs"](*mut c_int) -> Code;
    create["nvrtcCreateProgram"](
        *mut Handle, *const c_char, *const c_char, c_int, *const *const c_char, *const *const c_char) -> Code;
    destroy["nvrtcDestroyProgram"](*mut Handle) -> Code;
    compile["nvrtcCompileProgram"](Handle, c_int, *const *const c_char) -> Code;
    log_size["nvrtcGetProgramLogSize"](Handle, *mut usize) -> Code;
    log["nvrtcGetProgramLog"](Handle, *mut c_char) -> Code;
    cubin_size["nvrtcGetCUBINSize"](Handle, *mut usize) -> Code;
    cubin["nvrtcGetCUBIN"](Handle, *mut c_char) -> Code;
}

type SizeCall = unsafe extern "C" fn(Handle, *mut usize) -> Code;
type FillCall = unsafe extern "C" fn(Handle, *mut c_char) -> Code;

/// The opened library with its calls.
#[derive(Debug)]
pub(super) struct Library {
    calls: Calls,
    _library: ResidentLibrary,
}

impl Library {
    /// Opens the builtins, then the library.
    pub(super) fn open(candidate: &Candidate) -> Result<Self, String> {
        let open = |path| ResidentLibrary::open(path).map_err(|error| super::clean(&error));
        for builtins in &candidate.builtins {
            // The compiler finds it by name among the loaded libraries.
            open(builtins)?;
        }
        let library = open(&candidate.library)?;
        Ok(Self { calls: Calls::resolve(&library)?, _library: library })
    }

    pub(super) fn version(&self) -> Result<Version, String> {
        let (mut major, mut minor) = (0, 0);
        // SAFETY: both pointers are valid for one write.
        self.check("nvrtcVersion", unsafe { (self.calls.version)(&raw mut major, &raw mut minor) })?;
        Ok((u32::try_from(major).unwrap_or(0), u32::try_from(minor).unwrap_or(0)))
    }

    /// Compute capabilities times ten, ascending.
    pub(super) fn capabilities(&self) -> Result<Vec<u32>, String> {
        let mut count = 0;
        // SAFETY: the pointer is valid for one write.
        self.check("nvrtcGetNumSupportedArchs", unsafe { (self.calls.architecture_count)(&raw mut count) })?;
        let mut found: Vec<c_int> = vec![0; usize::try_from(count).unwrap_or(0).min(1024)];
        if found.len() == usize::try_from(count).unwrap_or(0) && !found.is_empty() {
            // SAFETY: the pointer is valid for as many writes as the library announced.
            self.check("nvrtcGetSupportedArchs", unsafe { (self.calls.architectures)(found.as_mut_ptr()) })?;
        }
        let mut found: Vec<u32> = found.into_iter().filter_map(|known| u32::try_from(known).ok()).collect();
        found.sort_unstable();
        Ok(found)
    }

    /// Compiles a program: the inner result is the cubin or the compiler's error, the text is the compiler's log. The outer error
    /// is a failed call or a bad argument.
    pub(super) fn compile(
        &self,
        program: &Program<'_>,
        options: &[&str],
    ) -> Result<(Result<Vec<u8>, String>, String), String> {
        let texts = |texts: &[&str]| texts.iter().map(|text| c_string(text)).collect::<Result<Vec<_>, _>>();
        let pointers = |texts: &[CString]| texts.iter().map(|text| text.as_ptr()).collect::<Vec<_>>();
        let (source, name) = (c_string(program.source)?, c_string(program.name)?);
        let bodies = texts(&program.headers.iter().map(|(_, text)| *text).collect::<Vec<_>>())?;
        let names = texts(&program.headers.iter().map(|(name, _)| *name).collect::<Vec<_>>())?;
        let options = texts(options)?;
        let (bodies_at, names_at, options_at) = (pointers(&bodies), pointers(&names), pointers(&options));
        let count =
            |list: &[CString]| c_int::try_from(list.len()).map_err(|_| "too many headers or options".to_owned());
        let mut compilation = Compilation { calls: &self.calls, handle: std::ptr::null_mut() };
        // SAFETY: the handle is valid for one write; every text ends with a zero byte and lives until after the call, which copies
        // them; both lists have the given length.
        let code = unsafe {
            let (source, name) = (source.as_ptr(), name.as_ptr());
            let handle = &raw mut compilation.handle;
            (self.calls.create)(handle, source, name, count(&bodies)?, bodies_at.as_ptr(), names_at.as_ptr())
        };
        self.check("nvrtcCreateProgram", code)?;
        // SAFETY: the handle is live; the list of options has the given length, and its texts live until after the call.
        let code = unsafe { (self.calls.compile)(compilation.handle, count(&options)?, options_at.as_ptr()) };
        let log = self.bytes(&compilation, self.calls.log_size, self.calls.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log).into_owned();
        let compiled = self.check("nvrtcCompileProgram", code);
        let cubin = compiled.and_then(|()| self.bytes(&compilation, self.calls.cubin_size, self.calls.cubin));
        Ok((cubin, log))
    }

    /// Reads an output through a pair of calls: its size, then its bytes.
    fn bytes(&self, compilation: &Compilation<'_>, size: SizeCall, fill: FillCall) -> Result<Vec<u8>, String> {
        let mut length = 0;
        // SAFETY: the handle is live, and the pointer valid for one write.
        self.check("querying a size", unsafe { size(compilation.handle, &raw mut length) })?;
        if length > MAX_BYTES {
            return Err(format!("it reports a size of {length} bytes"));
        }
        let mut bytes = vec![0u8; length];
        // SAFETY: the handle is live, and the buffer has the length that the library announced.
        self.check("reading a result", unsafe { fill(compilation.handle, bytes.as_mut_ptr().cast()) })?;
        Ok(bytes)
    }

    fn check(&self, call: &str, code: Code) -> Result<(), String> {
        // SAFETY: according to nvrtc.h, it takes any code and returns null, or a text that ends with a zero byte and is never freed.
        unsafe { check(call, code, self.calls.error_string) }
    }
}

/// A program of the compiler, destroyed when dropped.
struct Compilation<'l> {
    calls: &'l Calls,
    handle: Handle,
}

impl Drop for Compilation<'_> {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            // SAFETY: the handle is live and not used again. A failure can't be handled here.
            unsafe { (self.calls.destroy)(&raw mut self.handle) };
        }
    }
}

fn c_string(text: &str) -> Result<CString, String> {
    CString::new(text).map_err(|_| "a source or an option contains a zero byte".to_owned())
}
