//! Permission to submit work to a stream, and launches with it.

use std::any::Any;
use std::ffi::c_void;
use std::marker::PhantomData;
use std::sync::Arc;

use plimsoll_core::Fault;

use super::Core;
use crate::driver::current::Current;
use crate::driver::types::{
    ATTRIBUTE_CLUSTER, ATTRIBUTE_COOPERATIVE, ATTRIBUTE_DEPENDENT, Handle, LaunchAttribute, LaunchConfig,
};
use crate::driver::{AccessWindow, Context, DriverError, Function};
use crate::launch::{Form, Geometry};
use crate::memory::Region;

/// Permission to submit work to a stream. While it lives, no recording of a [`super::Stream`] starts or ends.
#[derive(Debug)]
pub struct Entered<'s> {
    context: &'s Arc<Context>,
    handle: Handle,
    access: Access<'s>,
    /// It belongs to the thread that entered, which counts how often it is inside.
    own_thread: PhantomData<*const ()>,
}

/// How a stream was entered.
#[derive(Debug)]
enum Access<'s> {
    /// Through a [`super::Stream`], which may be recording.
    Counted { core: &'s Core, recording: bool },
    /// By the handle of another library's stream, whose recordings we neither see nor serve.
    Foreign(#[allow(dead_code, reason = "held, not used")] Current<'s>),
}

impl<'s> Entered<'s> {
    /// A stream whose gate was entered.
    pub(super) fn counted(core: &'s Core, recording: bool) -> Self {
        let access = Access::Counted { core, recording };
        Self { context: &core.context, handle: core.handle, access, own_thread: PhantomData }
    }

    /// A stream of another library in the context, by the driver's handle; 0, 1 and 2 are the driver's special streams. Neither
    /// allocates nor keeps anything. While it lives, the context is current on this thread; then the earlier one is again.
    ///
    /// # Safety
    /// It is a stream of this context, and lives until the work submitted to it has ended. What the work uses, except kernels, lives
    /// as long as that work and as long as recordings of it.
    pub(crate) unsafe fn foreign(context: &'s Arc<Context>, stream: u64) -> Result<Self, DriverError> {
        let access = Access::Foreign(context.make_current()?);
        let handle = Handle(std::ptr::with_exposed_provenance_mut(stream as usize));
        Ok(Self { context, handle, access, own_thread: PhantomData })
    }

    /// The context of the stream.
    pub(crate) fn context(&self) -> &'s Arc<Context> {
        self.context
    }

    pub(crate) fn handle(&self) -> Handle {
        self.handle
    }

    /// Whether submitted work is recorded rather than executed. A recording by another library isn't noticed.
    pub(crate) fn is_recording(&self) -> bool {
        matches!(self.access, Access::Counted { recording: true, .. })
    }

    /// Whether it was entered by the handle of another library's stream.
    pub(crate) fn is_foreign(&self) -> bool {
        matches!(self.access, Access::Foreign(_))
    }

    /// Whether the stream is being recorded, by whichever library.
    pub(crate) fn is_captured(&self) -> Result<bool, DriverError> {
        super::is_captured(self.context, self.handle)
    }

    /// Keeps an object alive for the graph that is being recorded.
    pub(crate) fn keep(&self, object: Arc<dyn Any + Send + Sync>) {
        if let Access::Counted { core, recording: true } = self.access {
            core.recording().dependencies.objects.push(object);
        }
    }

    /// Lets the submitted work use this memory: notes a use on a stream other than the memory's, and keeps it for a recording.
    #[inline]
    pub(crate) fn admit(&self, region: &Arc<Region>) -> Result<(), Fault> {
        region.admit(self.handle)?;
        if let Access::Counted { core, recording: true } = self.access {
            core.recording().dependencies.regions.push(Arc::clone(region));
        }
        Ok(())
    }

    /// Makes the context current on this thread.
    #[inline]
    pub(crate) fn bind(&self) -> Result<(), DriverError> {
        if self.is_foreign() { Ok(()) } else { self.context.bind() }
    }

    /// Launches a kernel with raw parameters.
    ///
    /// # Safety
    /// `parameters` must begin with as many pointers as the kernel has parameters, each to as many bytes as that parameter, which
    /// live until the call returns. What the kernel does with them must be sound until it ends or, if the stream is recording,
    /// whenever the graph is launched.
    pub(crate) unsafe fn submit(
        &self,
        function: &Function,
        geometry: Geometry,
        form: Form,
        window: Option<&AccessWindow>,
        mut parameters: impl AsMut<[*mut c_void]>,
    ) -> Result<(), DriverError> {
        let Geometry { grid, block, shared } = geometry;
        let parameters = parameters.as_mut().as_mut_ptr();
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
        // SAFETY: function and stream are live. The caller guarantees the parameters, and the driver copies what they point to
        // before the call returns. The configuration and its attributes live until then too.
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

impl Drop for Entered<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Access::Counted { core, .. } = self.access {
            core.gate.leave();
        }
    }
}
