//! The table of NCCL calls, and communicators as owned objects. The library is never closed: its threads may still run in it.

use std::ffi::{c_char, c_int, c_void};
use std::path::Path;
use std::sync::Arc;

use super::{Collective, Nccl};
use crate::library::{ResidentLibrary, calls, check};

/// `ncclResult_t`; 0 is success.
type Code = c_int;
/// `ncclComm_t`.
type Raw = *mut c_void;

/// `ncclFloat32` and `ncclSum` of nccl.h.
const FLOAT: c_int = 7;
const SUM: c_int = 0;
/// Bytes of an element.
const ELEMENT: usize = 4;

calls! {
    "nccl.h", "NCCL 2.4":
    version["ncclGetVersion"](*mut c_int) -> Code;
    text["ncclGetErrorString"](Code) -> *const c_char;
    initialize["ncclCommInitAll"](*mut Raw, c_int, *const c_int) -> Code;
    destroy["ncclCommDestroy"](Raw) -> Code;
    abort["ncclCommAbort"](Raw) -> Code;
    asynchronous["ncclCommGetAsyncError"](Raw, *mut Code) -> Code;
    begin["ncclGroupStart"]() -> Code;
    end["ncclGroupEnd"]() -> Code;
    reduce["ncclAllReduce"](*const c_void, *mut c_void, usize, c_int, c_int, Raw, *mut c_void) -> Code;
    gather["ncclAllGather"](*const c_void, *mut c_void, usize, c_int, Raw, *mut c_void) -> Code;
}

/// The opened library with its calls.
#[derive(Debug)]
pub(super) struct Library {
    calls: Calls,
    _library: ResidentLibrary,
}

impl Library {
    pub(super) fn open(path: &Path) -> Result<Self, String> {
        let library = ResidentLibrary::open(path)?;
        Ok(Self { calls: Calls::resolve(&library)?, _library: library })
    }

    /// Its version as one number: 22703 is 2.27.3.
    pub(super) fn version(&self) -> Result<u32, String> {
        let mut version = 0;
        // SAFETY: the pointer is valid for one write.
        self.check("ncclGetVersion", unsafe { (self.calls.version)(&raw mut version) })?;
        Ok(u32::try_from(version).unwrap_or(0))
    }

    fn check(&self, call: &str, code: Code) -> Result<(), String> {
        // SAFETY: according to nccl.h, it takes any code and returns a text that ends with a zero byte and is never freed.
        unsafe { check(call, code, self.calls.text) }
    }
}

/// One device's part of a collective: addresses of its arrays, and its stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) send: u64,
    pub(super) receive: u64,
    pub(super) stream: u64,
}

/// One communicator for each device. They are used by one thread at a time, and destroyed when dropped.
pub(super) struct Communicators {
    nccl: Arc<Nccl>,
    raw: Vec<Raw>,
}

impl std::fmt::Debug for Communicators {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Communicators({})", self.raw.len())
    }
}

// SAFETY: nccl.h ties communicators to no thread; `&mut` and ownership keep calls apart.
unsafe impl Send for Communicators {}

impl Communicators {
    /// Makes one for each of the CUDA runtime's devices. Takes seconds. May never return.
    pub(super) fn new(nccl: Arc<Nccl>, devices: &[c_int]) -> Result<Self, String> {
        let count = c_int::try_from(devices.len()).map_err(|_| "too many devices".to_owned())?;
        let mut raw = vec![std::ptr::null_mut(); devices.len()];
        // SAFETY: both arrays have `count` entries and live until the call has returned.
        let code = unsafe { (nccl.library.calls.initialize)(raw.as_mut_ptr(), count, devices.as_ptr()) };
        // After a failure the entries mean nothing.
        nccl.library.check("ncclCommInitAll", code)?;
        Ok(Self { nccl, raw })
    }

    /// Queues one collective with one part for each device; `count` are the elements that each sends.
    ///
    /// # Safety
    /// Every part's arrays must be live memory of its device until the work queued now has ended, and not overlap: `count` elements
    /// to send, and as many to receive, or for a gather as many from each device. Its stream must be a live stream of its device.
    pub(super) unsafe fn enqueue(
        &mut self,
        collective: Collective,
        count: usize,
        parts: &[Part],
    ) -> Result<(), String> {
        if parts.len() != self.raw.len() {
            return Err(format!("{} parts for {} devices", parts.len(), self.raw.len()));
        }
        let library = &self.nccl.library;
        // SAFETY: takes nothing.
        library.check("ncclGroupStart", unsafe { (library.calls.begin)() })?;
        let mut queued = Ok(());
        for (raw, part) in self.raw.iter().zip(parts) {
            queued = queued.and_then(|()| {
                // SAFETY: the communicator is live, the rest is this function's contract.
                let (call, code) = unsafe { call(&library.calls, collective, count, *raw, *part) };
                library.check(call, code)
            });
        }
        // A group must be ended, also after an error.
        // SAFETY: takes nothing; the group was started above.
        let ended = library.check("ncclGroupEnd", unsafe { (library.calls.end)() });
        queued.and(ended)
    }

    /// An error that a device met after its work was queued.
    pub(super) fn find_error(&self) -> Result<(), String> {
        for raw in &self.raw {
            let mut found = 0;
            let library = &self.nccl.library;
            // SAFETY: the communicator is live, and the pointer valid for one write.
            let code = unsafe { (library.calls.asynchronous)(*raw, &raw mut found) };
            library.check("ncclCommGetAsyncError", code)?;
            library.check("an operation of NCCL", found)?;
        }
        Ok(())
    }

    /// Stops operations that don't end, and frees the communicators.
    pub(super) fn abort(mut self) {
        for raw in self.raw.drain(..) {
            // SAFETY: the communicator is live and not used again. A failure can't be handled here.
            unsafe { (self.nccl.library.calls.abort)(raw) };
        }
    }
}

/// # Safety
/// As [`Communicators::enqueue`], for one part; the communicator is live.
unsafe fn call(calls: &Calls, collective: Collective, count: usize, raw: Raw, part: Part) -> (&'static str, Code) {
    let pointer = |address: u64| address as usize as *mut c_void;
    let (send, receive, stream) = (pointer(part.send).cast_const(), pointer(part.receive), pointer(part.stream));
    match collective {
        Collective::AllReduce => {
            // SAFETY: this function's own contract.
            let code = unsafe { (calls.reduce)(send, receive, count, FLOAT, SUM, raw, stream) };
            ("ncclAllReduce", code)
        }
        Collective::AllGather => {
            // SAFETY: this function's own contract.
            ("ncclAllGather", unsafe { (calls.gather)(send, receive, count, FLOAT, raw, stream) })
        }
    }
}

/// Elements in so many bytes; `None` if they aren't whole or there are none.
pub(super) fn elements(bytes: u64) -> Option<usize> {
    let bytes = usize::try_from(bytes).ok().filter(|bytes| *bytes > 0)?;
    bytes.is_multiple_of(ELEMENT).then_some(bytes / ELEMENT)
}

impl Drop for Communicators {
    fn drop(&mut self) {
        for raw in self.raw.drain(..) {
            // SAFETY: the communicator is live and not used again. A failure can't be handled here.
            unsafe { (self.nccl.library.calls.destroy)(raw) };
        }
    }
}
