//! Events as owned objects.

use std::sync::Arc;

use super::error::{DriverError, is_done};
use super::types::Handle;
use super::{Context, Stream};
use plimsoll_gpu::Unavailable;

/// `CU_EVENT_DISABLE_TIMING`.
const NO_TIMING: u32 = 2;

/// A marker in a stream's work.
#[derive(Debug)]
pub struct Event {
    context: Arc<Context>,
    handle: Handle,
}

impl Event {
    /// An event that records its time.
    pub fn new(context: &Arc<Context>) -> Result<Self, DriverError> {
        Self::with_flags(context, 0)
    }

    /// An event for ordering only, without a time.
    pub fn untimed(context: &Arc<Context>) -> Result<Self, DriverError> {
        Self::with_flags(context, NO_TIMING)
    }

    fn with_flags(context: &Arc<Context>, flags: u32) -> Result<Self, DriverError> {
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
    /// [`DriverError::Unavailable`] while the stream is recording: another stream that waits for the event would be recorded
    /// too.
    pub fn record(&self, stream: &Stream) -> Result<(), DriverError> {
        let entered = stream.enter()?;
        if entered.is_recording() {
            return Err(unordered());
        }
        // SAFETY: both handles live.
        self.context.watch(unsafe { self.context.call().event_record(self.handle, stream.handle()) })
    }

    /// Whether the event has been reached.
    ///
    /// # Errors
    /// Includes faults of kernels launched earlier.
    pub fn is_done(&self) -> Result<bool, DriverError> {
        // SAFETY: the handle lives.
        self.context.watch(is_done(unsafe { self.context.call().event_query(self.handle) }))
    }

    /// Nanoseconds from `earlier` to this event. Both must have been reached.
    ///
    /// # Errors
    /// The events are not ready, not recorded, or not made for timing.
    pub fn nanoseconds_since(&self, earlier: &Self) -> Result<u64, DriverError> {
        let mut milliseconds = 0_f32;
        let call = self.context.call();
        // SAFETY: both handles live; the result is written to a live number.
        let answer = unsafe { call.event_elapsed(&raw mut milliseconds, earlier.handle, self.handle) };
        self.context.watch(answer)?;
        Ok((f64::from(milliseconds) * 1e6).round().max(0.0) as u64)
    }
}

/// The error for using an event with a recording stream: a recorded graph can't be ordered with other work by events.
pub(super) fn unordered() -> DriverError {
    let why = "streams can't be ordered by events while one of them is recording";
    Unavailable::new("event", why, "Order them before or after the recording").into()
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once; the driver allows it before the event is reached.
        self.context.destroy(|call| unsafe { call.event_destroy(self.handle) });
    }
}
