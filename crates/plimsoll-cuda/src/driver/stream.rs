//! Streams as owned objects. `wait` waits for them with a deadline.

mod entered;

use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plimsoll_core::Fault;

use super::error::is_done;
use super::event::unordered;
use super::gate::{Gate, Refused};
use super::types::{DevicePointer, Handle};
use super::{Context, DriverError, Event, Graph};
use crate::launch::Launch;
use crate::memory::Region;
use crate::wait;
use plimsoll_gpu::Unavailable;

pub use entered::Entered;

/// `CU_STREAM_NON_BLOCKING`: no implicit order with the legacy default stream.
const NON_BLOCKING: u32 = 1;

/// A stream, not ordered with any other work.
#[derive(Debug)]
pub struct Stream(Arc<Core>);

/// The shared part of a stream, which its context uses to wait for the stream's work.
#[derive(Debug)]
pub(super) struct Core {
    context: Arc<Context>,
    handle: Handle,
    /// The owner of a stream of another library; `None` for ours.
    owner: Option<Owner>,
    /// Whether device work was ever submitted to it.
    worked: AtomicBool,
    gate: Gate,
    recording: Mutex<Recording>,
}

/// Keeps a stream of another library alive.
#[derive(Clone)]
pub(super) struct Owner(#[allow(dead_code, reason = "held, not used")] Arc<dyn Any + Send + Sync>);

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("another library")
    }
}

/// The state of a recording.
#[derive(Default)]
struct Recording {
    /// Marks the last work submitted before it started.
    before: Option<Arc<Event>>,
    /// Memory to free once it has ended.
    freed: Vec<DevicePointer>,
    dependencies: Dependencies,
}

/// Objects that must live as long as a graph.
#[derive(Default)]
pub(super) struct Dependencies {
    pub(super) objects: Vec<Arc<dyn Any + Send + Sync>>,
    /// Memory that must be admitted before each launch ([`Region::needs_admission`]).
    pub(super) regions: Vec<Arc<Region>>,
}

impl fmt::Debug for Dependencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Dependencies({}, {})", self.objects.len(), self.regions.len())
    }
}

impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Recording({:?})", self.dependencies)
    }
}

/// Permission to submit work to a stream over several calls. While it lives, no recording starts.
#[cfg(feature = "cudarc")]
pub(crate) struct EnteredOwned(Arc<Core>);

#[cfg(feature = "cudarc")]
impl Drop for EnteredOwned {
    fn drop(&mut self) {
        self.0.gate.leave();
    }
}

impl Core {
    fn recording(&self) -> MutexGuard<'_, Recording> {
        self.recording.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_done(&self) -> Result<bool, DriverError> {
        // SAFETY: the handle lives as long as `self`.
        self.context.watch(is_done(unsafe { self.context.call().stream_query(self.handle) }))
    }

    /// Waits until all callers that are submitting work have left.
    pub(super) fn wait_for_callers(&self) -> bool {
        self.gate.wait_for_callers(self.context.deadline())
    }

    /// Waits until all work submitted so far is done; if the stream is recording, all work submitted before the recording.
    pub(super) fn wait_idle(&self) -> Result<(), Fault> {
        wait::until(&self.context, "cuStreamQuery", || {
            // No recording starts or ends during the query, which would invalidate a recording.
            let entered = Entered::counted(self, self.gate.enter());
            let before = if entered.is_recording() { self.recording().before.clone() } else { None };
            match before {
                Some(before) => before.is_done(),
                None => self.check_not_captured().and_then(|()| self.is_done()),
            }
        })
    }

    /// Checks that no other library is recording it.
    #[inline]
    fn check_not_captured(&self) -> Result<(), DriverError> {
        if self.owner.is_none() || self.gate.is_recording() {
            return Ok(());
        }
        check_not_captured(&self.context, self.handle)
    }
}

/// Refuses a stream that its own library is recording: nothing would keep alive what our work needs.
pub(super) fn check_not_captured(context: &Context, stream: Handle) -> Result<(), DriverError> {
    if !is_captured(context, stream)? {
        return Ok(());
    }
    let why = "the library that owns the stream is recording it, and nothing would keep our kernels and memory alive";
    Err(Unavailable::new("stream", why, "Record with Gpu::record, or use another stream").into())
}

/// Whether a stream is being recorded, by whichever library.
fn is_captured(context: &Context, stream: Handle) -> Result<bool, DriverError> {
    let mut status = 0;
    // SAFETY: the stream lives; the status is written to a live integer.
    match context.watch(unsafe { context.call().capture_status(stream, &raw mut status) }) {
        Ok(()) => Ok(status != 0),
        // A driver without this call is too old for recordings by other libraries.
        Err(DriverError::Unavailable(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

impl Stream {
    /// A new stream.
    pub fn new(context: &Arc<Context>) -> Result<Self, DriverError> {
        context.bind()?;
        let mut handle = Handle::NULL;
        // SAFETY: the handle is written to a live variable; the context is current.
        context.watch(unsafe { context.call().stream_create(&raw mut handle, NON_BLOCKING) })?;
        Ok(Self::from_handle(context, handle, None))
    }

    /// A stream of another library in `context`; `owner` keeps it alive.
    pub(crate) fn from_foreign(context: &Arc<Context>, handle: Handle, owner: Arc<dyn Any + Send + Sync>) -> Self {
        Self::from_handle(context, handle, Some(Owner(owner)))
    }

    fn from_handle(context: &Arc<Context>, handle: Handle, owner: Option<Owner>) -> Self {
        let (worked, gate, recording) = (AtomicBool::new(false), Gate::default(), Mutex::default());
        let core = Arc::new(Core { context: Arc::clone(context), handle, owner, worked, gate, recording });
        context.shared().register(&core);
        Self(core)
    }

    /// Whether this crate created it, not another library.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        self.0.owner.is_none()
    }

    /// The context it belongs to.
    #[must_use]
    pub fn context(&self) -> &Arc<Context> {
        &self.0.context
    }

    pub(crate) fn handle(&self) -> Handle {
        self.0.handle
    }

    /// The driver's handle, a `CUstream`, as a number for other libraries.
    #[must_use]
    pub fn raw(&self) -> u64 {
        self.handle().0.expose_provenance() as u64
    }

    /// Enters the stream to submit work that runs on the device or becomes part of a graph.
    ///
    /// # Errors
    /// [`DriverError::Unavailable`] if another library is recording its stream.
    #[inline]
    pub(crate) fn enter(&self) -> Result<Entered<'_>, DriverError> {
        let core = &*self.0;
        let entered = Entered::counted(core, core.gate.enter());
        core.check_not_captured()?;
        if !core.worked.load(Ordering::Relaxed) {
            core.worked.store(true, Ordering::Relaxed);
        }
        Ok(entered)
    }

    /// As [`Stream::enter`], for several calls; `None` while the stream is recording.
    #[cfg(feature = "cudarc")]
    pub(crate) fn enter_owned(&self) -> Result<Option<EnteredOwned>, DriverError> {
        let entered = self.enter()?;
        if entered.is_recording() {
            return Ok(None);
        }
        // Leaves when the `EnteredOwned` is dropped.
        std::mem::forget(entered);
        Ok(Some(EnteredOwned(Arc::clone(&self.0))))
    }

    /// Whether all submitted work is done.
    ///
    /// # Errors
    /// Includes faults of kernels launched earlier.
    pub fn is_done(&self) -> Result<bool, DriverError> {
        self.0.is_done()
    }

    /// Makes later work wait for an event of any stream.
    ///
    /// # Errors
    /// [`DriverError::Unavailable`] while the stream is recording.
    pub fn wait_for(&self, event: &Event) -> Result<(), DriverError> {
        if self.enter()?.is_recording() {
            return Err(unordered());
        }
        // SAFETY: both handles live; the driver keeps what it needs of the event after this call.
        self.context().watch(unsafe { self.context().call().stream_wait_event(self.handle(), event.handle(), 0) })
    }

    /// Starts a recording: until [`Stream::end_recording`], submitted work is recorded rather than executed.
    ///
    /// # Errors
    /// [`Fault::Invalid`] if it is recording already, or other threads never stop using it.
    pub fn begin_recording(&self) -> Result<(), Fault> {
        /// `CU_STREAM_CAPTURE_MODE_RELAXED`: kernels may be loaded during the recording.
        const RELAXED: u32 = 2;
        let (core, context) = (&*self.0, self.context());
        context.bind()?;
        core.check_not_captured()?;
        let mark = Event::untimed(context)?;
        let begin = || {
            // SAFETY: both handles live.
            context.watch(unsafe { context.call().event_record(mark.handle(), core.handle) })?;
            core.recording().before = Some(Arc::new(mark));
            // SAFETY: the handle lives.
            context.watch(unsafe { context.call().capture_begin(core.handle, RELAXED) })
        };
        Ok(core.gate.switch(true, context.deadline(), begin).map_err(refused)??)
    }

    /// Ends the recording and returns its graph, which keeps its kernels' modules and memory alive.
    ///
    /// # Errors
    /// [`Fault::Invalid`] if the stream isn't recording; a driver error if something in the recording can't be recorded.
    /// Either way the recording is over.
    pub fn end_recording(&self) -> Result<Graph, Fault> {
        let (core, context) = (&*self.0, self.context());
        context.bind()?;
        let mut graph = Handle::NULL;
        let end = || {
            // SAFETY: the handle lives; the graph's is written to a live variable.
            context.watch(unsafe { context.call().capture_end(core.handle, &raw mut graph) })
        };
        let answer = core.gate.switch(false, context.deadline(), end).map_err(refused)?;
        let Recording { freed, dependencies, .. } = std::mem::take(&mut *core.recording());
        let graph = answer.and_then(|()| Graph::from_recording(context, graph, dependencies));
        freed.into_iter().for_each(|pointer| self.free(pointer));
        Ok(graph?)
    }

    /// Whether submitted work is being recorded.
    #[must_use]
    pub fn is_recording(&self) -> bool {
        self.0.gate.is_recording()
    }

    /// As [`Stream::is_recording`], also where another library that owns the stream is recording it.
    pub(crate) fn is_captured(&self) -> Result<bool, DriverError> {
        match self.0.check_not_captured() {
            Ok(()) => Ok(self.is_recording()),
            Err(DriverError::Unavailable(_)) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Allocates memory in the stream's order.
    pub(crate) fn allocate(&self, bytes: usize) -> Result<DevicePointer, DriverError> {
        self.context().bind()?;
        let entered = self.enter()?;
        if entered.is_recording() {
            let why = "memory can't be allocated while a graph is being recorded";
            return Err(Unavailable::new("memory", why, "Allocate it before the recording").into());
        }
        let mut pointer = 0;
        // SAFETY: the pointer is written to a live integer; the handle lives.
        let answer = unsafe { self.context().call().memory_alloc_async(&raw mut pointer, bytes, self.handle()) };
        self.context().watch(answer).map(|()| pointer)
    }

    /// Frees memory from [`Stream::allocate`], in the stream's order; during a recording, after its end.
    pub(crate) fn free(&self, pointer: DevicePointer) {
        let Ok(entered) = self.enter() else {
            // Another library is recording: a recorded free would run on every launch of its graph.
            return;
        };
        if entered.is_recording() {
            self.0.recording().freed.push(pointer);
            return;
        }
        // SAFETY: allocated once and freed once.
        self.context().destroy(|call| unsafe { call.memory_free_async(pointer, self.handle()) });
    }

    /// Launches a kernel. The context must be current on this thread ([`Context::bind`]). While the stream is recording, the graph
    /// keeps the kernel and its memory alive.
    ///
    /// # Errors
    /// [`Fault::Invalid`] while the host accesses memory that the kernel uses, or if the stream belongs to another device.
    /// Drivers before 11.8 have no launch attributes.
    pub fn launch(&self, launch: &Launch) -> Result<(), Fault> {
        if !launch.function.context().shares_device_with(self.context()) {
            return Err(Fault::Invalid("the kernel and the stream belong to two devices".to_owned()));
        }
        let entered = self.enter()?;
        launch.regions.admit(&entered)?;
        if entered.is_recording() {
            entered.keep(Arc::new(launch.clone()));
        }
        let window = launch.window.as_ref();
        let parameters = launch.parameters.pointers();
        // SAFETY: a launch has as many arguments as its kernel takes, each of the right size, and holds the memory that they name;
        // its words live until the call returns.
        unsafe { Ok(entered.submit(&launch.function, launch.geometry, launch.form, window, parameters)?) }
    }
}

fn refused(why: Refused) -> Fault {
    Fault::Invalid(
        match why {
            Refused::WrongState => "the stream is already recording, or has no recording to end",
            Refused::Busy => "other threads keep using the stream: its recording can't start or end",
        }
        .to_owned(),
    )
}

impl Drop for Stream {
    /// Waits for our stream's work. A stream of another library is handed to the context, which keeps it until it was waited for:
    /// memory and modules wait for all streams of the context before they are freed.
    fn drop(&mut self) {
        let core = &self.0;
        if !core.worked.load(Ordering::Relaxed) {
            return;
        }
        match &core.owner {
            Some(owner) => core.context.shared().adopt(core.handle, owner),
            None if core.context.is_given_up() => {}
            None => {
                let _ = core.wait_idle();
            }
        }
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        if self.owner.is_none() {
            // SAFETY: created once, destroyed once; the driver finishes queued work first.
            self.context.destroy(|call| unsafe { call.stream_destroy(self.handle) });
        }
    }
}

#[cfg(test)]
mod tests;
