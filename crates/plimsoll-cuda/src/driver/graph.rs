//! A chain of kernels as one instantiated graph: what a throughput sample launches.

use std::sync::Arc;

use super::types::{GraphEdge, Handle, KernelNodeParams};
use super::{Context, DriverError, Stream};
use crate::launch::Launch;
use crate::unavailable::Unavailable;

/// A kernel's place in a graph that is being built.
#[derive(Clone, Copy, Debug)]
pub struct Node(Handle);

/// An instantiated graph: kernels one after another.
#[derive(Debug)]
pub struct Graph {
    context: Arc<Context>,
    executable: Handle,
    /// The kernels' modules must outlive it; those of a recorded graph are kept by who recorded it.
    _functions: Vec<super::Function>,
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
    /// The driver's; graphs need driver 11.4, dependent launch 12.3 and compute capability 9.0.
    pub fn chain(context: &Arc<Context>, cycle: &[Launch], count: u32, dependent: bool) -> Result<Self, DriverError> {
        if cycle.iter().any(|launch| launch.form.cooperative || launch.form.cluster > 1) {
            let why = "graphs hold plain and dependent launches here";
            return Err(
                Unavailable::new("kernel graph", why, "Launch cooperative kernels and clusters in a stream").into()
            );
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
        Self::of(plan, cycle.iter().map(|launch| launch.function.clone()).collect())
    }

    /// What a stream recorded: `handle` is a graph that the driver just gave and that nobody else has.
    pub(super) fn recorded(context: &Arc<Context>, handle: Handle) -> Result<Self, DriverError> {
        let plan = Plan { context, handle };
        Self::of(plan, Vec::new())
    }

    fn of(plan: Plan<'_>, functions: Vec<super::Function>) -> Result<Self, DriverError> {
        let mut executable = Handle::NULL;
        let context = plan.context;
        // SAFETY: the graph is live; the handle is written to a live variable.
        context.watch(unsafe { context.call().graph_instantiate(&raw mut executable, plan.handle, 0) })?;
        Ok(Self { context: Arc::clone(context), executable, _functions: functions })
    }

    /// Moves it to the device, so that the first launch doesn't.
    ///
    /// # Errors
    /// The driver's.
    pub fn upload(&self, stream: &Stream) -> Result<(), DriverError> {
        // SAFETY: both handles live.
        self.context.watch(unsafe { self.context.call().graph_upload(self.executable, stream.handle()) })
    }

    /// Launches all of it.
    ///
    /// # Errors
    /// The driver's.
    pub fn launch(&self, stream: &Stream) -> Result<(), DriverError> {
        // SAFETY: both handles live.
        self.context.watch(unsafe { self.context.call().graph_launch(self.executable, stream.handle()) })
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: instantiated once, destroyed once; the driver keeps what still runs.
        self.context.destroy(|call| unsafe { call.graph_free(self.executable) });
    }
}
