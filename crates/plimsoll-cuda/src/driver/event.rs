//! Events as owned objects.

use std::sync::Arc;

use super::error::{DriverError, done};
use super::types::Handle;
use super::{Context, Stream};
use plimsoll_gpu::Unavailable;

/// `CU_EVENT_DISABLE_TIMING`.
const NO_TIMING: u32 = 2;

/// A mark in a stream's work.
#[derive(Debug)]
pub struct Event {
    context: Arc<Context>,
    handle: Handle,
}

impl Event {
    /// An event that can be timed.
    ///
    /// # Errors
    /// The driver's.
    pub fn new(context: &Arc<Context>) -> Result<Self, DriverError> {
        Self::with(context, 0)
    }

    /// An event for order alone.
    ///
    /// # Errors
    /// The driver's.
    pub fn untimed(context: &Arc<Context>) -> Result<Self, DriverError> {
        Self::with(context, NO_TIMING)
    }

    fn with(context: &Arc<Context>, flags: u32) -> Result<Self, DriverError> {
        context.bind()?;
        let mut handle = Handle::NULL;
        // SAFETY: the handle is written to a live variable; the context is current.
        context.watch(unsafe { context.call().event_create(&raw mut handle, flags) })?;
        Ok(Self { context: Arc::clone(context), handle })
    }

    /// The context it belongs to.
    #[must_use]
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    pub(super) fn handle(&self) -> Handle {
        self.handle
    }

    /// Marks this point of the stream's work.
    ///
    /// # Errors
    /// [`DriverError::Unavailable`] while the stream is recorded, since another stream that waits for the mark would be recorded
    /// with it; the driver's.
    pub fn record(&self, stream: &Stream) -> Result<(), DriverError> {
        let entered = stream.enter()?;
        if entered.is_recording() {
            return Err(unordered());
        }
        // SAFETY: both handles live.
        self.context.watch(unsafe { self.context.call().event_record(self.handle, stream.handle()) })
    }

    /// True once the mark has been reached.
    ///
    /// # Errors
    /// The driver's, among them those of kernels that ran before.
    pub fn is_done(&self) -> Result<bool, DriverError> {
        // SAFETY: the handle lives.
        self.context.watch(done(unsafe { self.context.call().event_query(self.handle) }))
    }

    /// Nanoseconds from `earlier` to this mark, both of which must have been reached.
    ///
    /// # Errors
    /// The driver's: not ready, not recorded, or not made for timing.
    pub fn nanoseconds_since(&self, earlier: &Self) -> Result<u64, DriverError> {
        let mut milliseconds = 0_f32;
        let call = self.context.call();
        // SAFETY: both handles live; the result is written to a live number.
        let answer = unsafe { call.event_elapsed(&raw mut milliseconds, earlier.handle, self.handle) };
        self.context.watch(answer)?;
        Ok((f64::from(milliseconds) * 1e6).round().max(0.0) as u64)
    }
}

/// Events go round what is being recorded.
pub(super) fn unordered() -> DriverError {
    let why = "streams can't be ordered by events while one of them is recorded";
    Unavailable::new("event", why, "Order them before or after").into()
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once; the driver allows it before the event is reached.
        self.context.destroy(|call| unsafe { call.event_destroy(self.handle) });
    }
}
