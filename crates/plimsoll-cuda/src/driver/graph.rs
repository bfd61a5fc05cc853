//! A chain of kernels as one instantiated graph, which a throughput sample launches.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;

use plimsoll_core::Fault;

use super::stream::{Dependencies, Entered};
use super::types::{GraphEdge, Handle, KernelNodeParams};
use super::{Context, DriverError, Stream};
use crate::launch::Launch;
use plimsoll_gpu::Unavailable;

/// Why a graph can't be used with a stream.
const TWO_DEVICES: &str = "the graph and the stream belong to two devices";

/// A kernel node in a graph that is being built.
#[derive(Clone, Copy, Debug)]
struct Node(Handle);

/// An instantiated graph of kernels in sequence, with everything they need. Only one thread at a time may launch it: the driver
/// doesn't synchronise calls on one graph.
#[derive(Debug)]
pub struct Graph {
    context: Arc<Context>,
    executable: Handle,
    dependencies: Dependencies,
    one_thread_at_a_time: PhantomData<Cell<()>>,
}

/// A graph under construction, always destroyed on drop.
struct Plan<'c> {
    context: &'c Arc<Context>,
    handle: Handle,
}

impl Drop for Plan<'_> {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once; the instantiated graph doesn't need it.
        self.context.destroy(|call| unsafe { call.graph_destroy(self.handle) });
    }
}

impl Plan<'_> {
    fn add(&self, launch: &Launch, after: Option<Node>, dependent: bool) -> Result<Node, DriverError> {
        let call = self.context.call();
        let mut parameters = launch.parameters.pointers();
        let node = KernelNodeParams {
            function: launch.function.handle(),
            grid: launch.geometry.grid,
            block: launch.geometry.block,
            shared: launch.geometry.shared,
            parameters: parameters.as_mut().as_mut_ptr(),
            extra: std::ptr::null_mut(),
        };
        let mut handle = Handle::NULL;
        let before = after.map_or(Handle::NULL, |node| node.0);
        let plain = usize::from(after.is_some() && !dependent);
        // SAFETY: graph, function and earlier node are live; `before` holds as many handles as `plain` says; the parameters are as
        // for a launch (`Stream::launch`) and are copied before the call returns.
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
    /// A graph of `count` kernels in sequence; the i-th is `cycle[i % cycle.len()]`. With `dependent`, each may start before the
    /// preceding one has ended (programmatic dependent launch).
    ///
    /// # Errors
    /// [`DriverError::Unavailable`] for kernels of another device. Graphs need driver 11.4; dependent launch needs driver
    /// 12.3 and compute capability 9.0.
    pub fn chain(context: &Arc<Context>, cycle: &[Launch], count: u32, dependent: bool) -> Result<Self, DriverError> {
        if cycle.iter().any(|launch| launch.form.cooperative || launch.form.cluster > 1) {
            let why = "only plain and dependent launches are supported in graphs";
            return Err(
                Unavailable::new("kernel graph", why, "Launch cooperative kernels and clusters in a stream").into()
            );
        }
        if cycle.iter().any(|launch| !launch.function.context().shares_device_with(context)) {
            let why = "the graph and a kernel belong to two devices";
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
        Self::instantiate(plan, Dependencies::from_launches(cycle))
    }

    /// Takes ownership of a graph that a stream recorded; `handle` comes straight from the driver.
    pub(super) fn from_recording(
        context: &Arc<Context>,
        handle: Handle,
        dependencies: Dependencies,
    ) -> Result<Self, DriverError> {
        Self::instantiate(Plan { context, handle }, dependencies)
    }

    fn instantiate(plan: Plan<'_>, dependencies: Dependencies) -> Result<Self, DriverError> {
        let mut executable = Handle::NULL;
        let context = plan.context;
        // SAFETY: the graph is live; the handle is written to a live variable.
        context.watch(unsafe { context.call().graph_instantiate(&raw mut executable, plan.handle, 0) })?;
        Ok(Self { context: Arc::clone(context), executable, dependencies, one_thread_at_a_time: PhantomData })
    }

    /// Uploads it to the device ahead of the first launch.
    ///
    /// # Errors
    /// [`DriverError::Unavailable`] while the stream is recording, or if it belongs to another device.
    pub fn upload(&self, stream: &Stream) -> Result<(), DriverError> {
        if !self.context.shares_device_with(stream.context()) {
            return Err(Unavailable::new("graph", TWO_DEVICES, "Use a stream of the graph's device").into());
        }
        let _entered = enter(stream)?;
        // SAFETY: both handles live.
        self.context.watch(unsafe { self.context.call().graph_upload(self.executable, stream.handle()) })
    }

    /// Launches the graph.
    ///
    /// # Errors
    /// [`Fault::Invalid`] while the host accesses memory that it uses, or if the stream belongs to another device;
    /// [`Fault::Unavailable`] while the stream is recording.
    pub fn launch(&self, stream: &Stream) -> Result<(), Fault> {
        if !self.context.shares_device_with(stream.context()) {
            return Err(Fault::Invalid(TWO_DEVICES.to_owned()));
        }
        let entered = enter(stream)?;
        self.dependencies.regions.iter().try_for_each(|region| entered.admit(region))?;
        // SAFETY: both handles live; no other thread uses the graph, which isn't `Sync`. `dependencies` keeps its kernels' code and
        // memory alive.
        Ok(self.context.watch(unsafe { self.context.call().graph_launch(self.executable, stream.handle()) })?)
    }
}

/// Enters a stream that isn't recording: nothing would keep a graph within a graph alive.
fn enter(stream: &Stream) -> Result<Entered<'_>, DriverError> {
    let entered = stream.enter()?;
    let why = "a graph can't be launched on a stream that is recording";
    if entered.is_recording() {
        Err(Unavailable::new("graph", why, "Launch it before or after the recording").into())
    } else {
        Ok(entered)
    }
}

impl Dependencies {
    fn from_launches(launches: &[Launch]) -> Self {
        let objects = launches.iter().map(|launch| Arc::new(launch.clone()) as _).collect();
        let regions = launches.iter().flat_map(|launch| launch.regions.iter());
        Self { objects, regions: regions.filter(|region| region.needs_admission()).cloned().collect() }
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: instantiated once, destroyed once; the driver keeps what is still running.
        self.context.destroy(|call| unsafe { call.graph_free(self.executable) });
    }
}
