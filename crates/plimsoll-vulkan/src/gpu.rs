//! Vulkan as a backend of `plimsoll-gpu`.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::Fault;
use plimsoll_gen::kernel::{KernelDesc, Machine, Source};
use plimsoll_gpu::{Capabilities, Gpu, Kernel, KernelClock, Limits, Setup, Span, Stamps, Unavailable};

use crate::core::Core;
use crate::device::{Vulkan, VulkanDevice};
use crate::event::Event;
use crate::function::{self, Function};
use crate::graph::Graph;
use crate::launch::{self, Launch};
use crate::memory::Buffer;
use crate::spin::Spinner;
use crate::stream::Stream;

/// Arrays began at multiples of this on every tested device; each array is a separate allocation.
const ALIGNMENT: u64 = 64;

/// Combines a description of this crate or of a probe with the function that was made from it.
pub(crate) fn trusted_kernel(function: Function, description: &KernelDesc) -> Kernel<Vulkan> {
    // SAFETY: the function was made from this description's code, which is written to keep to it.
    unsafe { Kernel::new(function, description) }
}

/// The capabilities of a device.
pub(crate) fn capabilities(core: &Core) -> Capabilities {
    let facts = &core.physical.facts;
    let limits = &facts.limits;
    let clock = facts.features.cycles.then_some(KernelClock { bits: 64, nanoseconds: facts.features.timer });
    let no_clock = || {
        let why = "the driver has no VK_KHR_shader_clock: kernels count 0 cycles";
        Unavailable::new("clock inside kernels", why, "Update the driver; whole launches are timed without it")
    };
    Capabilities {
        software: facts.kind == crate::Kind::Software,
        limits: Limits {
            threads: limits.max_compute_work_group_invocations.min(limits.max_compute_work_group_size[0]),
            // Blocks are spread over x and y.
            blocks: limits.max_compute_work_group_count[0].saturating_mul(limits.max_compute_work_group_count[1]),
            argument_bytes: limits.max_push_constants_size,
            allocation: facts.allocation,
            alignment: ALIGNMENT,
            shared_per_block: limits.max_compute_shared_memory_size,
            shared_per_multiprocessor: limits.max_compute_shared_memory_size,
        },
        kernels: Ok(()),
        stamps: Ok(Stamps { step: f64::from(limits.timestamp_period), bits: core.bits }),
        kernel_clock: clock.ok_or_else(no_clock),
        graphs: Ok(()),
        dependent: Err(launch::dependent()),
        dependent_graphs: Err(launch::dependent()),
        cooperative: Err(launch::cooperative()),
        clusters: Err(launch::clusters()),
        second_stream: Err(launch::second_stream()),
        host_memory: Err(launch::host_memory()),
    }
}

impl Gpu for Vulkan {
    type Stream = Stream;
    type Event = Event;
    type Buffer = Buffer;
    type Function = Function;
    type Launch = Launch;
    type Graph = Graph;
    type Blocker = Spinner;
    type Action = Infallible;

    fn capabilities(device: &VulkanDevice) -> &Capabilities {
        &device.capabilities
    }

    fn machine(device: &VulkanDevice) -> Result<Machine, Fault> {
        Ok(device.core().physical.facts.machine())
    }

    fn free_memory(device: &VulkanDevice) -> Result<u64, Fault> {
        Ok(device.core().free_memory())
    }

    fn cache_bytes(device: &VulkanDevice) -> Option<u64> {
        device.caches.iter().map(|cache| cache.bytes).max()
    }

    fn clock_hz(device: &VulkanDevice) -> Option<f64> {
        device.clock_hz
    }

    fn stream(device: &VulkanDevice) -> &Arc<Stream> {
        &device.stream
    }

    fn blocker(device: &VulkanDevice) -> Option<&Arc<Spinner>> {
        Some(&device.spinner)
    }

    fn runs(device: &VulkanDevice, kernel: &KernelDesc) -> Result<(), Unavailable> {
        function::find_code(device.core(), kernel).map(drop)
    }

    unsafe fn compile(
        device: &VulkanDevice,
        _: &'static Source,
        kernels: &[KernelDesc],
    ) -> Result<Vec<Kernel<Self>>, Fault> {
        let make = |kernel| Ok(trusted_kernel(Function::new(device.core(), kernel)?, kernel));
        kernels.iter().map(make).collect()
    }

    unsafe fn prepare(function: &Function, setup: Setup<'_>) -> Result<Launch, Fault> {
        Launch::new(function, setup)
    }

    fn allow_shared(_: &Function, _: u32) -> Result<(), Fault> {
        Err(launch::shared().into())
    }

    fn allocate(stream: &Arc<Stream>, bytes: u64) -> Result<Buffer, Fault> {
        Buffer::new(stream.core(), bytes)
    }

    fn upload(stream: &Arc<Stream>, to: Span, from: &[u8]) -> Result<(), Fault> {
        stream.upload(to, from)
    }

    fn download(stream: &Arc<Stream>, from: Span, to: &mut [u8]) -> Result<(), Fault> {
        stream.download(from, to)
    }

    fn fill(stream: &Arc<Stream>, span: Span, value: u8) -> Result<(), Fault> {
        stream.fill(span, value)
    }

    fn copy(stream: &Arc<Stream>, to: Span, from: Span) -> Result<(), Fault> {
        stream.copy(to, from)
    }

    fn launch(stream: &Stream, launch: &Launch) -> Result<(), Fault> {
        stream.launch(launch)
    }

    fn run_action(_: &Arc<Stream>, action: &Infallible) -> Result<(), Fault> {
        match *action {}
    }

    fn submit(stream: &Stream) -> Result<(), Fault> {
        stream.submit()
    }

    fn block(blocker: &Spinner, stream: &Stream, length: Duration) -> Result<(), Fault> {
        blocker.block(stream, length)
    }

    fn busy_clock_hz(blocker: &Spinner, stream: &Stream, length: Duration) -> Result<Option<f64>, Fault> {
        blocker.clock_hz(stream, length)
    }

    fn wait(stream: &Stream) -> Result<(), Fault> {
        stream.wait()
    }

    fn event(stream: &Arc<Stream>) -> Result<Event, Fault> {
        Ok(Event::new(stream.core(), true))
    }

    fn untimed_event(stream: &Arc<Stream>) -> Result<Event, Fault> {
        Ok(Event::new(stream.core(), false))
    }

    fn record(event: &Event, stream: &Stream) -> Result<(), Fault> {
        event.record(stream)
    }

    fn wait_for(_: &Stream, _: &Event) -> Result<(), Fault> {
        Err(launch::second_stream().into())
    }

    fn wait_event(event: &Event) -> Result<(), Fault> {
        event.wait()
    }

    fn nanoseconds(from: &Event, to: &Event) -> Result<u64, Fault> {
        to.nanoseconds_since(from)
    }

    fn graph(stream: &Arc<Stream>, launches: &[Launch], count: u32, dependent: bool) -> Result<Graph, Fault> {
        Graph::new(stream, launches, count, dependent)
    }

    fn launch_graph(stream: &Stream, graph: &Graph) -> Result<(), Fault> {
        graph.launch(stream)
    }
}
