//! Streams and events as owned objects. Waiting for them with a deadline is `wait`'s business.

use std::sync::Arc;

use super::error::NOT_READY;
use super::types::{
    ATTRIBUTE_CLUSTER, ATTRIBUTE_COOPERATIVE, ATTRIBUTE_DEPENDENT, Handle, LaunchAttribute, LaunchConfig,
};
use super::{Context, DriverError};
use crate::launch::{Launch, pointers};

/// `CU_STREAM_NON_BLOCKING`: no implicit order with the legacy default stream.
const NON_BLOCKING: u32 = 1;
/// `CU_EVENT_DISABLE_TIMING`.
const NO_TIMING: u32 = 2;

/// Whether what was asked has been done, from the answer to a query.
fn done(answer: Result<(), DriverError>) -> Result<bool, DriverError> {
    match answer {
        Ok(()) => Ok(true),
        Err(DriverError::Call { code: NOT_READY, .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// A stream of its own, in order with nothing else.
#[derive(Debug)]
pub struct Stream {
    context: Arc<Context>,
    handle: Handle,
}

impl Stream {
    /// A new stream.
    ///
    /// # Errors
    /// The driver's.
    pub fn new(context: &Arc<Context>) -> Result<Self, DriverError> {
        context.bind()?;
        let mut handle = Handle::NULL;
        // SAFETY: the handle is written to a live variable; the context is current.
        context.watch(unsafe { context.call().stream_create(&raw mut handle, NON_BLOCKING) })?;
        Ok(Self { context: Arc::clone(context), handle })
    }

    /// The context it belongs to.
    #[must_use]
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    pub(crate) fn handle(&self) -> Handle {
        self.handle
    }

    /// True once everything asked of the stream is done.
    ///
    /// # Errors
    /// The driver's, among them those of kernels that ran before.
    pub fn is_done(&self) -> Result<bool, DriverError> {
        // SAFETY: the handle lives as long as `self`.
        self.context.watch(done(unsafe { self.context.call().stream_query(self.handle) }))
    }

    /// Lets later work wait for an event of any stream.
    ///
    /// # Errors
    /// The driver's.
    pub fn wait_for(&self, event: &Event) -> Result<(), DriverError> {
        // SAFETY: both handles live; the driver keeps what it needs of the event beyond this call.
        self.context.watch(unsafe { self.context.call().stream_wait_event(self.handle, event.handle, 0) })
    }

    /// Launches a kernel. The context must be current on this thread ([`Context::bind`]).
    ///
    /// # Errors
    /// The driver's; a driver before 11.8 has no launch attributes.
    pub fn launch(&self, launch: &Launch) -> Result<(), DriverError> {
        let (grid, block, shared) = (launch.geometry.grid, launch.geometry.block, launch.geometry.shared);
        let mut parameters = pointers(&launch.arguments);
        let parameters = parameters.as_mut_ptr();
        let null = std::ptr::null_mut();
        let call = self.context.call();
        let function = launch.function.handle();
        let mut attributes = [LaunchAttribute::new(0, &[]); 3];
        let mut count = 0;
        let mut add = |wanted: bool, id: u32, words: &[u32]| {
            if wanted {
                attributes[count] = LaunchAttribute::new(id, words);
                count += 1;
            }
        };
        let form = launch.form;
        add(form.dependent, ATTRIBUTE_DEPENDENT, &[1]);
        add(form.cooperative, ATTRIBUTE_COOPERATIVE, &[1]);
        add(form.cluster > 1, ATTRIBUTE_CLUSTER, &[form.cluster, 1, 1]);
        // SAFETY: function and stream are live and of this context. `parameters` holds more pointers than a kernel of ours has
        // parameters, each to a slot of 16 bytes, and no parameter is larger (`Function::takes`, where the driver can
        // tell; else promised by the kernel's description); the driver copies them before the call returns.
        // The configuration and its attributes live until then as well.
        let answer = unsafe {
            if count == 0 {
                call.launch(
                    function,
                    grid[0],
                    grid[1],
                    grid[2],
                    block[0],
                    block[1],
                    block[2],
                    shared,
                    self.handle,
                    parameters,
                    null,
                )
            } else {
                let attributes = attributes.as_mut_ptr();
                let attribute_count = count as u32;
                let config = LaunchConfig { grid, block, shared, stream: self.handle, attributes, attribute_count };
                call.launch_with(&raw const config, function, parameters, null)
            }
        };
        self.context.watch(answer)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once; the driver finishes what is queued first.
        self.context.destroy(|call| unsafe { call.stream_destroy(self.handle) });
    }
}

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

    /// Marks this point of the stream's work.
    ///
    /// # Errors
    /// The driver's.
    pub fn record(&self, stream: &Stream) -> Result<(), DriverError> {
        // SAFETY: both handles live.
        self.context.watch(unsafe { self.context.call().event_record(self.handle, stream.handle) })
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

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once; the driver allows it before the event is reached.
        self.context.destroy(|call| unsafe { call.event_destroy(self.handle) });
    }
}
