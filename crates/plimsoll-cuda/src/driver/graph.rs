//! A chain of kernels as one instantiated graph: what a throughput sample launches.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;

use plimsoll_core::Fault;

use super::stream::{Entered, Kept};
use super::types::{GraphEdge, Handle, KernelNodeParams};
use super::{Context, DriverError, Stream};
use crate::launch::Launch;
use plimsoll_gpu::Unavailable;

/// Why a graph isn't asked of a stream.
const TWO_DEVICES: &str = "the graph and the stream are of two devices";

/// A kernel's place in a graph that is being built.
#[derive(Clone, Copy, Debug)]
struct Node(Handle);

/// An instantiated graph: kernels one after another, and what they need. A graph is launched by one thread at a time: the driver
/// doesn't order calls on the same one.
#[derive(Debug)]
pub struct Graph {
    context: Arc<Context>,
    executable: Handle,
    kept: Kept,
    one_thread_at_a_time: PhantomData<Cell<()>>,
}

/// A graph under construction, destroyed whatever happens.
struct Plan<'c> {
    context: &'c Arc<Context>,
    handle: Handle,
}

impl Drop for Plan<'_> {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once; an instantiated graph doesn't need its plan.
        self.context.destroy(|call| unsafe { call.graph_destroy(self.handle) });
    }
}

impl Plan<'_> {
    fn add(&self, launch: &Launch, after: Option<Node>, dependent: bool) -> Result<Node, DriverError> {
        let call = self.context.call();
        let mut parameters = launch.given.pointers();
        let node = KernelNodeParams {
            function: launch.function.handle(),
            grid: launch.geometry.grid,
            block: launch.geometry.block,
            shared: launch.geometry.shared,
            parameters: parameters.as_mut_ptr(),
            extra: std::ptr::null_mut(),
        };
        let mut handle = Handle::NULL;
        let before = after.map_or(Handle::NULL, |node| node.0);
        let plain = usize::from(after.is_some() && !dependent);
        // SAFETY: graph, function and earlier node are live; `after` holds as many handles as are counted; parameters
        // are as for a launch (`Stream::launch`) and are copied before the call returns.
        unsafe { call.graph_kernel(&raw mut handle, self.handle, &raw const before, plain, &raw const node) }?;
        if let Some(window) = &launch.window {
            let attribute = window.attribute();
            let value = (&raw const attribute.value).cast();
            // SAFETY: the node is live; the value is a union of 64 bytes that the driver reads before the call returns.
            unsafe { call.graph_node_attribute(handle, attribute.id, value) }?;
        }
        if after.is_some() && dependent {
            let edge = GraphEdge::DEPENDENT;
            // SAFETY: one edge between two live nodes of this graph; all three arrays have one element.
            unsafe { call.graph_edges(self.handle, &raw const before, &raw const handle, &raw const edge, 1) }?;
        }
        Ok(Node(handle))
    }
}

impl Graph {
    /// A graph of `count` kernels in a row, the i-th of which is `cycle[i % cycle.len()]`. With `dependent`, each may
    /// begin before the one before has ended (programmatic dependent launch).
    ///
    /// # Errors
    /// [`DriverError::Unavailable`] for kernels of another device; the driver's; graphs need driver 11.4, dependent launch 12.3 and
    /// compute capability 9.0.
    pub fn chain(context: &Arc<Context>, cycle: &[Launch], count: u32, dependent: bool) -> Result<Self, DriverError> {
        if cycle.iter().any(|launch| launch.form.cooperative || launch.form.cluster > 1) {
            let why = "graphs hold plain and dependent launches here";
            return Err(
                Unavailable::new("kernel graph", why, "Launch cooperative kernels and clusters in a stream").into()
            );
        }
        if cycle.iter().any(|launch| !launch.function.context().shares_device_with(context)) {
            let why = "the graph and a kernel are of two devices";
            return Err(Unavailable::new("kernel graph", why, "Use kernels of the graph's device").into());
        }
        context.bind()?;
        let mut handle = Handle::NULL;
        // SAFETY: the handle is written to a live variable.
        context.watch(unsafe { context.call().graph_create(&raw mut handle, 0) })?;
        let plan = Plan { context, handle };
        let mut last = None;
        for launch in cycle.iter().cycle().take(count as usize) {
            last = Some(context.watch(plan.add(launch, last, dependent))?);
        }
        Self::of(plan, Kept::of(cycle))
    }

    /// What a stream recorded: `handle` is a graph that the driver just gave and that nobody else has.
    pub(super) fn recorded(context: &Arc<Context>, handle: Handle, kept: Kept) -> Result<Self, DriverError> {
        let plan = Plan { context, handle };
        Self::of(plan, kept)
    }

    fn of(plan: Plan<'_>, kept: Kept) -> Result<Self, DriverError> {
        let mut executable = Handle::NULL;
        let context = plan.context;
        // SAFETY: the graph is live; the handle is written to a live variable.
        context.watch(unsafe { context.call().graph_instantiate(&raw mut executable, plan.handle, 0) })?;
        Ok(Self { context: Arc::clone(context), executable, kept, one_thread_at_a_time: PhantomData })
    }

    /// Moves it to the device, so that the first launch doesn't.
    ///
    /// # Errors
    /// [`DriverError::Unavailable`] while the stream is recorded, or if it is of another device; the driver's.
    pub fn upload(&self, stream: &Stream) -> Result<(), DriverError> {
        if !self.context.shares_device_with(stream.context()) {
            return Err(Unavailable::new("graph", TWO_DEVICES, "Use a stream of the graph's device").into());
        }
        let _entered = enter(stream)?;
        // SAFETY: both handles live.
        self.context.watch(unsafe { self.context.call().graph_upload(self.executable, stream.handle()) })
    }

    /// Launches all of it.
    ///
    /// # Errors
    /// [`Fault::Invalid`] while the host looks at memory that it uses, or if the stream is of another device; [`Fault::Unavailable`]
    /// while the stream is recorded; the driver's.
    pub fn launch(&self, stream: &Stream) -> Result<(), Fault> {
        if !self.context.shares_device_with(stream.context()) {
            return Err(Fault::Invalid(TWO_DEVICES.to_owned()));
        }
        let entered = enter(stream)?;
        self.kept.regions.iter().try_for_each(|region| entered.admit(region))?;
        // SAFETY: both handles live; no other thread uses the graph, which isn't `Sync`. Its kernels' code and memory are kept.
        Ok(self.context.watch(unsafe { self.context.call().graph_launch(self.executable, stream.handle()) })?)
    }
}

/// To ask something of a stream that isn't recorded: nothing would keep a graph within a graph.
fn enter(stream: &Stream) -> Result<Entered<'_>, DriverError> {
    let entered = stream.enter()?;
    let why = "a graph can't be launched on a stream that is recorded";
    if entered.is_recording() {
        Err(Unavailable::new("graph", why, "Launch it before or after").into())
    } else {
        Ok(entered)
    }
}

impl Kept {
    /// What launches need.
    fn of(launches: &[Launch]) -> Self {
        let things = launches.iter().map(|launch| Arc::new(launch.clone()) as _).collect();
        let regions = launches.iter().flat_map(|launch| launch.kept.iter());
        Self { things, regions: regions.filter(|region| region.is_careful()).cloned().collect() }
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: instantiated once, destroyed once; the driver keeps what still runs.
        self.context.destroy(|call| unsafe { call.graph_free(self.executable) });
    }
}
