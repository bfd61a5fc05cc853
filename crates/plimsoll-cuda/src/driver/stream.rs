//! Streams as owned objects. Waiting for them with a deadline is `wait`'s business.

use std::any::Any;
use std::ffi::c_void;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plimsoll_core::Fault;

use super::error::done;
use super::event::unordered;
use super::gate::{Gate, Refused};
use super::types::{
    ATTRIBUTE_CLUSTER, ATTRIBUTE_COOPERATIVE, ATTRIBUTE_DEPENDENT, DevicePointer, Handle, LaunchAttribute, LaunchConfig,
};
use super::{AccessWindow, Context, DriverError, Event, Function, Graph};
use crate::launch::{Form, Geometry, Launch, MOST_PARAMETERS};
use crate::memory::Region;
use crate::wait;
use plimsoll_gpu::Unavailable;

/// `CU_STREAM_NON_BLOCKING`: no implicit order with the legacy default stream.
const NON_BLOCKING: u32 = 1;

/// A stream of its own, in order with nothing else.
#[derive(Debug)]
pub struct Stream(Arc<Core>);

/// What is left of a stream while its context waits for what was asked of it.
#[derive(Debug)]
pub(super) struct Core {
    context: Arc<Context>,
    handle: Handle,
    /// Whose stream it is, where it isn't ours.
    owner: Option<Owner>,
    /// Something was asked of it that takes the device time.
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

/// What a recording needs.
#[derive(Default)]
struct Recording {
    /// The last that was asked before it began.
    before: Option<Arc<Event>>,
    /// What is to be freed once it has ended.
    freed: Vec<DevicePointer>,
    kept: Kept,
}

/// What must live as long as a graph.
#[derive(Default)]
pub(super) struct Kept {
    pub(super) things: Vec<Arc<dyn Any + Send + Sync>>,
    /// Memory that launches look at before they begin.
    pub(super) regions: Vec<Arc<Region>>,
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kept({}, {})", self.things.len(), self.regions.len())
    }
}

impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Recording({:?})", self.kept)
    }
}

/// One who asks something of a stream: whether that is recorded doesn't change meanwhile.
#[derive(Debug)]
pub(crate) struct Entered<'s> {
    core: &'s Core,
    recording: bool,
}

impl Entered<'_> {
    /// Whether what is asked is recorded and not done.
    pub(crate) fn is_recording(&self) -> bool {
        self.recording
    }

    /// Keeps something for the graph that is being recorded.
    pub(crate) fn keep(&self, thing: Arc<dyn Any + Send + Sync>) {
        self.core.recording().kept.things.push(thing);
    }

    /// Lets the device use memory by what is asked: notes a use outside of the memory's own order, and keeps it for a recording.
    pub(crate) fn admit(&self, region: &Arc<Region>) -> Result<(), Fault> {
        region.admit(self.core.handle)?;
        if self.recording {
            self.core.recording().kept.regions.push(Arc::clone(region));
        }
        Ok(())
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.core.gate.leave();
    }
}

/// One who asks something of a stream over several calls: none of them is recorded.
#[cfg(feature = "cudarc")]
pub(crate) struct Staying(Arc<Core>);

#[cfg(feature = "cudarc")]
impl Drop for Staying {
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
        self.context.watch(done(unsafe { self.context.call().stream_query(self.handle) }))
    }

    /// Lets everybody go who is asking something.
    pub(super) fn pass(&self) -> bool {
        self.gate.pass(self.context.deadline())
    }

    /// Waits until all that was asked of it by now is done; of what is being recorded, what was asked before.
    pub(super) fn settle(&self) -> Result<(), Fault> {
        wait::until(&self.context, "cuStreamQuery", || {
            // No recording begins while the driver is asked, which would end it, and none ends.
            let entered = Entered { core: self, recording: self.gate.enter() };
            let before = if entered.recording { self.recording().before.clone() } else { None };
            match before {
                Some(before) => before.is_done(),
                None => self.is_free().and_then(|()| self.is_done()),
            }
        })
    }

    /// Whether nobody but us records what is asked of it.
    fn is_free(&self) -> Result<(), DriverError> {
        if self.owner.is_none() || self.gate.is_recording() { Ok(()) } else { is_captured(&self.context, self.handle) }
    }
}

/// Refuses a stream that its own library records: nothing would keep what we ask.
pub(super) fn is_captured(context: &Context, stream: Handle) -> Result<(), DriverError> {
    let mut status = 0;
    // SAFETY: the stream lives; the status is written to a live integer.
    match context.watch(unsafe { context.call().capture_status(stream, &raw mut status) }) {
        Ok(()) if status != 0 => {
            let why = "the stream's own library records what is asked of it, and nothing would keep what we ask";
            Err(Unavailable::new("stream", why, "Record by Gpu::record, or use another stream").into())
        }
        // A driver without the call is older than any that records for others.
        Ok(()) | Err(DriverError::Unavailable(_)) => Ok(()),
        Err(error) => Err(error),
    }
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
        Ok(Self::of_handle(context, handle, None))
    }

    /// A stream of another library, which `owner` keeps alive, in `context`.
    #[cfg(feature = "cudarc")]
    pub(super) fn of(context: &Arc<Context>, handle: Handle, owner: Arc<dyn Any + Send + Sync>) -> Self {
        Self::of_handle(context, handle, Some(Owner(owner)))
    }

    fn of_handle(context: &Arc<Context>, handle: Handle, owner: Option<Owner>) -> Self {
        let (worked, gate, recording) = (AtomicBool::new(false), Gate::default(), Mutex::default());
        let core = Arc::new(Core { context: Arc::clone(context), handle, owner, worked, gate, recording });
        context.shared().register(&core);
        Self(core)
    }

    /// Whether it was made here, and not by another library.
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

    /// To ask something that takes the device time, or that a graph would hold.
    ///
    /// # Errors
    /// [`DriverError::Unavailable`] where another library records its stream.
    pub(crate) fn enter(&self) -> Result<Entered<'_>, DriverError> {
        let core = &*self.0;
        let entered = Entered { core, recording: core.gate.enter() };
        core.is_free()?;
        if !core.worked.load(Ordering::Relaxed) {
            core.worked.store(true, Ordering::Relaxed);
        }
        Ok(entered)
    }

    /// As [`Stream::enter`], for several calls; nothing where the stream is recorded.
    #[cfg(feature = "cudarc")]
    pub(crate) fn stay(&self) -> Result<Option<Staying>, DriverError> {
        let entered = self.enter()?;
        if entered.recording {
            return Ok(None);
        }
        // Counted in for as long.
        std::mem::forget(entered);
        Ok(Some(Staying(Arc::clone(&self.0))))
    }

    /// True once everything asked of the stream is done.
    ///
    /// # Errors
    /// The driver's, among them those of kernels that ran before.
    pub fn is_done(&self) -> Result<bool, DriverError> {
        self.0.is_done()
    }

    /// Lets later work wait for an event of any stream.
    ///
    /// # Errors
    /// [`DriverError::Unavailable`] while the stream is recorded; the driver's.
    pub fn wait_for(&self, event: &Event) -> Result<(), DriverError> {
        if self.enter()?.is_recording() {
            return Err(unordered());
        }
        // SAFETY: both handles live; the driver keeps what it needs of the event beyond this call.
        self.context().watch(unsafe { self.context().call().stream_wait_event(self.handle(), event.handle(), 0) })
    }

    /// From here on, what is asked of the stream is recorded and not done, until [`Stream::recorded`].
    ///
    /// # Errors
    /// [`Fault::Invalid`] where it is recorded already, or other threads never cease to use it; the driver's.
    pub fn record(&self) -> Result<(), Fault> {
        /// `CU_STREAM_CAPTURE_MODE_RELAXED`: kernels may be loaded meanwhile.
        const RELAXED: u32 = 2;
        let (core, context) = (&*self.0, self.context());
        context.bind()?;
        core.is_free()?;
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

    /// What was recorded. It keeps the modules of its kernels and the memory that they use.
    ///
    /// # Errors
    /// [`Fault::Invalid`] where nothing is recorded; the driver's: something was asked that can't be. Then nothing is recorded any
    /// more.
    pub fn recorded(&self) -> Result<Graph, Fault> {
        let (core, context) = (&*self.0, self.context());
        context.bind()?;
        let mut graph = Handle::NULL;
        let end = || {
            // SAFETY: the handle lives; the graph's is written to a live variable.
            context.watch(unsafe { context.call().capture_end(core.handle, &raw mut graph) })
        };
        let answer = core.gate.switch(false, context.deadline(), end).map_err(refused)?;
        let Recording { freed, kept, .. } = std::mem::take(&mut *core.recording());
        let graph = answer.and_then(|()| Graph::recorded(context, graph, kept));
        freed.into_iter().for_each(|pointer| self.free(pointer));
        Ok(graph?)
    }

    /// Whether what is asked of the stream is recorded.
    #[must_use]
    pub fn is_recording(&self) -> bool {
        self.0.gate.is_recording()
    }

    /// Memory in the stream's order.
    pub(crate) fn allocate(&self, bytes: usize) -> Result<DevicePointer, DriverError> {
        self.context().bind()?;
        let entered = self.enter()?;
        if entered.is_recording() {
            let why = "memory can't be allocated while a graph is recorded";
            return Err(Unavailable::new("memory", why, "Allocate it before").into());
        }
        let mut pointer = 0;
        // SAFETY: the pointer is written to a live integer; the handle lives.
        let answer = unsafe { self.context().call().memory_alloc_async(&raw mut pointer, bytes, self.handle()) };
        self.context().watch(answer).map(|()| pointer)
    }

    /// Frees what [`Stream::allocate`] gave, in the stream's order; what is being recorded doesn't hold it.
    pub(crate) fn free(&self, pointer: DevicePointer) {
        let Ok(entered) = self.enter() else {
            // Another library records: what were freed now would be freed again and again.
            return;
        };
        if entered.is_recording() {
            self.0.recording().freed.push(pointer);
            return;
        }
        // SAFETY: allocated once and freed once, by the contract above.
        self.context().destroy(|call| unsafe { call.memory_free_async(pointer, self.handle()) });
    }

    /// Launches a kernel. The context must be current on this thread ([`Context::bind`]). While the stream is recorded, the graph
    /// keeps the kernel and its memory.
    ///
    /// # Errors
    /// [`Fault::Invalid`] while the host looks at memory that the kernel uses, or if the stream is of another device; the driver's; a
    /// driver before 11.8 has no launch attributes.
    pub fn launch(&self, launch: &Launch) -> Result<(), Fault> {
        if !launch.function.context().shares_device_with(self.context()) {
            return Err(Fault::Invalid("the kernel and the stream are of two devices".to_owned()));
        }
        let entered = self.enter()?;
        launch.kept.admit(&entered)?;
        if entered.recording {
            entered.keep(Arc::new(launch.clone()));
        }
        let window = launch.window.as_ref();
        // SAFETY: a launch holds as many arguments as its kernel takes, each as large, and memory that is there; its words live
        // until the call returns.
        unsafe { Ok(self.submit(&launch.function, launch.geometry, launch.form, window, launch.given.pointers())?) }
    }

    /// Launches a kernel.
    ///
    /// # Safety
    /// `parameters` must begin with as many pointers as the kernel has parameters, each to as many bytes, which live until the call
    /// returns. What the kernel does with them, at any time until it ends or, where the stream is recorded, whenever the graph is
    /// launched, must be sound.
    pub(crate) unsafe fn submit(
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
        let call = self.context().call();
        let (stream, function) = (self.handle(), function.handle());
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
        // SAFETY: function and stream are live. The parameters are as this function's contract says, and the driver copies what
        // they point to before the call returns. The configuration and its attributes live until then as well.
        let answer = unsafe {
            if count == 0 {
                let ([x, y, z], [a, b, c]) = (grid, block);
                call.launch(function, x, y, z, a, b, c, shared, stream, parameters, null)
            } else {
                let attributes = attributes.as_mut_ptr();
                let attribute_count = count as u32;
                let config = LaunchConfig { grid, block, shared, stream, attributes, attribute_count };
                call.launch_with(&raw const config, function, parameters, null)
            }
        };
        self.context().watch(answer)
    }
}

fn refused(why: Refused) -> Fault {
    Fault::Invalid(
        match why {
            Refused::Already => "a stream is recorded once at a time, and ends what it began",
            Refused::Busy => "other threads use the stream: it can't be recorded meanwhile",
        }
        .to_owned(),
    )
}

impl Drop for Stream {
    /// Waits while memory and modules still find the stream among those that they wait for; one of another library stays there.
    fn drop(&mut self) {
        let core = &self.0;
        if !core.worked.load(Ordering::Relaxed) {
            return;
        }
        match &core.owner {
            Some(owner) => core.context.shared().adopt(core.handle, owner),
            None if core.context.is_given_up() => {}
            None => {
                let _ = core.settle();
            }
        }
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        if self.owner.is_none() {
            // SAFETY: created once, destroyed once; the driver finishes what is queued first.
            self.context.destroy(|call| unsafe { call.stream_destroy(self.handle) });
        }
    }
}

#[cfg(test)]
mod tests;
