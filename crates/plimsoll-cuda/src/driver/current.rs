//! What other libraries of the process notice of our calls: which context is current on the calling thread, and whether a call breaks a
//! recording of one of their streams. Guards put both back.

use std::marker::PhantomData;

use super::types::Handle;
use super::{Context, Driver, DriverError};

/// While it lives, a context is current on this thread; then the earlier one is again.
#[derive(Debug)]
pub(crate) struct Current<'d> {
    driver: &'d Driver,
    /// `None` if it was current already.
    previous: Option<Handle>,
    own_thread: PhantomData<*const ()>,
}

impl Drop for Current<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(previous) = self.previous {
            // SAFETY: it was current on this thread before, or there was none.
            let _ = unsafe { self.driver.call().context_set(previous) };
        }
    }
}

/// While it lives, this thread may make calls such as allocations although some thread records a stream; they aren't recorded.
#[derive(Debug)]
pub(crate) struct Relaxed<'d> {
    driver: &'d Driver,
    /// The thread's earlier mode; `None` with a driver that lacks the call.
    previous: Option<u32>,
    own_thread: PhantomData<*const ()>,
}

impl Drop for Relaxed<'_> {
    fn drop(&mut self) {
        if let Some(previous) = self.previous {
            let _ = self.driver.exchange_capture_mode(previous);
        }
    }
}

impl Driver {
    /// Runs a task and then makes the context current on this thread that was current before, or none. For programs in which other
    /// libraries use the current context, such as CUDA's runtime: opening a device, for example, makes its context current.
    ///
    /// # Errors
    /// The driver can't tell which context is current; then the task isn't run.
    pub fn keep_current<R>(&self, task: impl FnOnce() -> R) -> Result<R, DriverError> {
        let _current = Current { driver: self, previous: Some(self.current_context()?), own_thread: PhantomData };
        Ok(task())
    }

    #[inline]
    fn current_context(&self) -> Result<Handle, DriverError> {
        let mut current = Handle::NULL;
        // SAFETY: the handle is written to a live variable.
        unsafe { self.call().context_get(&raw mut current) }?;
        Ok(current)
    }

    /// Sets how calls of this thread treat recordings; the earlier mode.
    fn exchange_capture_mode(&self, mode: u32) -> Result<u32, DriverError> {
        let mut mode = mode;
        // SAFETY: the mode is read from and written to a live integer.
        unsafe { self.call().capture_mode(&raw mut mode) }?;
        Ok(mode)
    }

    /// Allows this thread's calls during recordings.
    pub(crate) fn relax_recordings(&self) -> Relaxed<'_> {
        /// `CU_STREAM_CAPTURE_MODE_RELAXED`.
        const RELAXED: u32 = 2;
        let previous = self.exchange_capture_mode(RELAXED).ok();
        Relaxed { driver: self, previous, own_thread: PhantomData }
    }
}

impl Context {
    /// Makes it current on this thread until the guard is dropped. In the usual case that it is already, this is one quick call.
    #[inline]
    pub(crate) fn make_current(&self) -> Result<Current<'_>, DriverError> {
        let driver = self.driver();
        let current = self.watch(driver.current_context())?;
        let is_current = current == self.handle();
        if !is_current {
            self.bind()?;
        }
        Ok(Current { driver, previous: (!is_current).then_some(current), own_thread: PhantomData })
    }
}
