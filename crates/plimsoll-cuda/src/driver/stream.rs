//! Streams and events as owned objects. Waiting for them with a deadline is `wait`'s business.

use std::any::Any;
use std::ffi::c_void;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use plimsoll_core::Fault;

use super::error::NOT_READY;
use super::types::{
    ATTRIBUTE_CLUSTER, ATTRIBUTE_COOPERATIVE, ATTRIBUTE_DEPENDENT, DevicePointer, Handle, LaunchAttribute, LaunchConfig,
};
use super::{AccessWindow, Context, DriverError, Function, Graph};
use crate::launch::{Form, Geometry, Launch, MOST_PARAMETERS, WordKernel, only};

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
    /// Whose stream it is, where it isn't ours.
    owner: Option<Owner>,
    recording: Recording,
}

/// Keeps a stream of another library alive.
struct Owner(#[allow(dead_code, reason = "held, not used")] Arc<dyn Any + Send + Sync>);

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("another library")
    }
}

/// Whether what is asked of the stream is recorded instead of done, and what is to be freed once it no longer is.
#[derive(Debug, Default)]
struct Recording {
    now: AtomicBool,
    freed: Mutex<Vec<DevicePointer>>,
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
        Ok(Self { context: Arc::clone(context), handle, owner: None, recording: Recording::default() })
    }

    /// A stream of another library, which `owner` keeps alive, in `context`.
    #[cfg(feature = "cudarc")]
    pub(super) fn of(context: &Arc<Context>, handle: Handle, owner: Arc<dyn Any + Send + Sync>) -> Self {
        Self { context: Arc::clone(context), handle, owner: Some(Owner(owner)), recording: Recording::default() }
    }

    /// Whether it was made here, and not by another library.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        self.owner.is_none()
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

    /// From here on, what is asked of the stream is recorded and not done, until [`Stream::recorded`].
    ///
    /// # Errors
    /// The driver's: it is recorded already.
    pub fn record(&self) -> Result<(), DriverError> {
        /// `CU_STREAM_CAPTURE_MODE_RELAXED`: kernels may be loaded meanwhile.
        const RELAXED: u32 = 2;
        self.context.bind()?;
        // SAFETY: the handle lives.
        self.context.watch(unsafe { self.context.call().capture_begin(self.handle, RELAXED) })?;
        self.recording.now.store(true, Ordering::Release);
        Ok(())
    }

    /// What was recorded. The modules of its kernels and the memory that they use must be kept as long as it.
    ///
    /// # Errors
    /// The driver's: nothing is recorded, or something was asked that can't be. Then nothing is recorded any more.
    pub fn recorded(&self) -> Result<Graph, DriverError> {
        self.context.bind()?;
        let mut graph = Handle::NULL;
        // SAFETY: the handle lives; the graph's is written to a live variable.
        let answer = self.context.watch(unsafe { self.context.call().capture_end(self.handle, &raw mut graph) });
        self.recording.now.store(false, Ordering::Release);
        let freed = std::mem::take(&mut *self.recording.freed.lock().unwrap_or_else(PoisonError::into_inner));
        freed.into_iter().for_each(|pointer| self.free(pointer));
        answer?;
        Graph::recorded(&self.context, graph)
    }

    /// Whether what is asked of the stream is recorded.
    #[must_use]
    pub fn is_recording(&self) -> bool {
        self.recording.now.load(Ordering::Acquire)
    }

    /// Memory in the stream's order.
    pub(crate) fn allocate(&self, bytes: usize) -> Result<DevicePointer, DriverError> {
        self.context.bind()?;
        let mut pointer = 0;
        // SAFETY: the pointer is written to a live integer; the handle lives.
        let answer = unsafe { self.context.call().memory_alloc_async(&raw mut pointer, bytes, self.handle) };
        self.context.watch(answer).map(|()| pointer)
    }

    /// Frees what [`Stream::allocate`] gave, in the stream's order; what is being recorded doesn't hold it.
    pub(crate) fn free(&self, pointer: DevicePointer) {
        if self.is_recording() {
            self.recording.freed.lock().unwrap_or_else(PoisonError::into_inner).push(pointer);
            return;
        }
        // SAFETY: allocated once and freed once, by the contract above.
        self.context.destroy(|call| unsafe { call.memory_free_async(pointer, self.handle) });
    }

    /// Launches a kernel. The context must be current on this thread ([`Context::bind`]).
    ///
    /// # Errors
    /// The driver's; a driver before 11.8 has no launch attributes.
    pub fn launch(&self, launch: &Launch) -> Result<(), DriverError> {
        let window = launch.window.as_ref();
        self.submit(&launch.function, launch.geometry, launch.form, window, launch.given.pointers())
    }

    /// Launches a kernel with words that it takes ([`WordKernel::new`]), which the driver copies; else as
    /// [`Stream::launch`]. Allocates nothing.
    ///
    /// # Errors
    /// [`Fault::Invalid`] for another number of words; the driver's.
    pub fn launch_words(
        &self,
        kernel: &WordKernel,
        geometry: Geometry,
        form: Form,
        words: &[u64],
    ) -> Result<(), Fault> {
        kernel.takes(words)?;
        Ok(self.submit(&kernel.function, geometry, form, None, only(words))?)
    }

    fn submit(
        &self,
        function: &Function,
        geometry: Geometry,
        form: Form,
        window: Option<&AccessWindow>,
        mut parameters: [*mut c_void; MOST_PARAMETERS],
    ) -> Result<(), DriverError> {
        let Geometry { grid, block, shared } = geometry;
        let parameters = parameters.as_mut_ptr();
        let null = std::ptr::null_mut();
        let call = self.context.call();
        let function = function.handle();
        let mut attributes = [LaunchAttribute::new(0, &[]); 4];
        let mut count = 0;
        let mut add = |wanted: Option<LaunchAttribute>| {
            if let Some(attribute) = wanted {
                attributes[count] = attribute;
                count += 1;
            }
        };
        add(form.dependent.then(|| LaunchAttribute::new(ATTRIBUTE_DEPENDENT, &[1])));
        add(form.cooperative.then(|| LaunchAttribute::new(ATTRIBUTE_COOPERATIVE, &[1])));
        add((form.cluster > 1).then(|| LaunchAttribute::new(ATTRIBUTE_CLUSTER, &[form.cluster, 1, 1])));
        add(window.map(AccessWindow::attribute));
        // SAFETY: function and stream are live and of this context. `parameters` holds more pointers than a kernel of ours has
        // parameters, each to a slot of 16 bytes, and no parameter is larger (`Function::takes`); or one to as many words
        // as the only parameter has (`WordKernel::new`): both where the driver can tell, else promised by who made the
        // kernel. What they point to outlives the call, and the driver copies it before the call returns. The
        // configuration and its attributes live until then as well.
        let answer = unsafe {
            if count == 0 {
                let ([x, y, z], [a, b, c]) = (grid, block);
                call.launch(function, x, y, z, a, b, c, shared, self.handle, parameters, null)
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
        if self.owner.is_none() {
            // SAFETY: created once, destroyed once; the driver finishes what is queued first.
            self.context.destroy(|call| unsafe { call.stream_destroy(self.handle) });
        }
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
