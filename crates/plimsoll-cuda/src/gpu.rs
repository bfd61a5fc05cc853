//! Implements the backend traits of `plimsoll-gpu` for CUDA.

use std::cell::RefCell;
use std::ffi::CString;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::Fault;
use plimsoll_gen::Target;
use plimsoll_gen::kernel::{KernelDesc, Machine, Source};
use plimsoll_gpu::{
    Capabilities, ClusterSizes, Geometry, Gpu, KernelClock, Limits, Memory, Meter, Owner, Setup, Span, Stamps, Trust,
    Unavailable,
};

use crate::compile::Kernels;
use crate::cublas::{Numbers, Products};
use crate::driver::{Attribute, Context, Event, Function, Graph, Handle, Stream};
use crate::launch::{Kernel, Launch};
use crate::memory::{BorrowedBuffer, DeviceBuffer, HostBuffer, HostKind, Transfer as _};
use crate::nccl::{Collective, Exchange, Group};
use crate::spin::Spinner;
use crate::telemetry;
use crate::{Cuda, CudaDevice, wait};

/// Operations that only CUDA streams have.
#[derive(Clone, Debug)]
pub enum StreamAction {
    /// Host to device.
    Up(Rc<RefCell<HostBuffer>>, Span),
    /// Device to host.
    Down(Rc<RefCell<HostBuffer>>, Span),
    /// One device to another: to, from.
    Peer(Span, Span),
    /// A square matrix product by cuBLAS, on its own stream: number format, number of rows, and A, B and C.
    Product(Rc<Products>, Numbers, u32, [Span; 3]),
    /// A collective operation by NCCL, with the arrays of each device. It goes to the streams of all devices of the group.
    Collective(Rc<Group>, Collective, Rc<[Exchange]>),
}

/// Pinned host memory that kernels can access.
struct Mapped {
    span: Span,
    _host: HostBuffer,
}

impl Memory for Mapped {
    fn whole(&self) -> Span {
        self.span
    }
}

/// A device's capabilities.
pub(crate) fn capabilities(context: &Context, kernels: &Kernels, capability: u32) -> Result<Capabilities, Fault> {
    let (device, driver) = (context.device(), context.driver());
    let number = |attribute| device.attribute(attribute).map(|value| u32::try_from(value).unwrap_or(0));
    let memory = crate::memory::free(context)?.1;
    let attributes = || driver.has("cuLaunchKernelEx");
    let since = |what, least: u32| {
        let why = || format!("the device has compute capability {}.{}", capability / 10, capability % 10);
        let hint = format!("Use a device of compute capability {}.{} or later", least / 10, least % 10);
        if capability >= least { Ok(()) } else { Err(Unavailable::new(what, why(), hint)) }
    };
    let cooperative = match device.attribute(Attribute::Cooperative) {
        Ok(1) => attributes(),
        Ok(_) => {
            let why = "the device has no cooperative launches";
            Err(Unavailable::new("cooperative launch", why, "Use another device"))
        }
        Err(error) => Err(Unavailable::new("cooperative launch", error.to_string(), "Update the NVIDIA driver")),
    };
    let clusters = driver
        .has_all(&["cuLaunchKernelEx", "cuOccupancyMaxActiveClusters"])
        .and_then(|()| since("clusters of blocks", 90));
    let dependent_graphs =
        crate::device::check_graphs(driver).and_then(|()| crate::device::dependent_launch(driver, capability));
    Ok(Capabilities {
        software: false,
        limits: Limits {
            threads: 1024,
            blocks: number(Attribute::MaxGridX)?,
            argument_bytes: 4096,
            allocation: memory,
            alignment: 256,
            shared_per_block: number(Attribute::SharedPerBlock)?,
            shared_per_multiprocessor: number(Attribute::SharedPerMultiprocessor)?,
        },
        kernels: kernels.compiler().map(drop),
        stamps: Ok(Stamps { step: 1.0, bits: 64 }),
        kernel_clock: kernels.compiler().map(|_| KernelClock { bits: 64, nanoseconds: true }),
        graphs: crate::device::check_graphs(driver),
        dependent: attributes().and_then(|()| since("dependent launch", 90)),
        dependent_graphs,
        cooperative,
        clusters: clusters.map(|()| ClusterSizes { portable: 8 }),
        second_stream: Ok(()),
        host_memory: Ok(()),
    })
}

#[allow(unsafe_code)]
impl Gpu for Cuda {
    type Stream = Stream;
    type Event = Event;
    type Buffer = DeviceBuffer;
    type Function = Function;
    type Launch = Launch;
    type Graph = Graph;
    type Blocker = Spinner;
    type Action = StreamAction;

    fn capabilities(device: &CudaDevice) -> &Capabilities {
        &device.capabilities
    }

    fn machine(device: &CudaDevice) -> Result<Machine, Fault> {
        machine(&device.context)
    }

    fn meter(device: &CudaDevice) -> Option<Arc<dyn Meter>> {
        let meter = telemetry::find(&device.context.device().uuid().ok()?).ok()?;
        Some(Arc::new(meter))
    }

    fn target(device: &CudaDevice) -> Target {
        device.kernels.target().parse().unwrap_or(Target::plain(80))
    }

    fn specific_target(device: &CudaDevice) -> Option<Target> {
        let own = Self::target(device);
        (device.capability == 90 && own == Target::plain(90)).then_some(Target { specific: true, ..own })
    }

    fn free_memory(device: &CudaDevice) -> Result<u64, Fault> {
        device.memory_free()
    }

    fn cache_bytes(device: &CudaDevice) -> Option<u64> {
        let bytes = device.context.device().attribute(Attribute::L2Bytes).ok()?;
        u64::try_from(bytes).ok().filter(|bytes| *bytes > 0)
    }

    fn clock_hz(device: &CudaDevice) -> Option<f64> {
        device.clock_hz
    }

    fn stream(device: &CudaDevice) -> &Arc<Stream> {
        &device.stream
    }

    fn new_stream(device: &CudaDevice) -> Result<Arc<Stream>, Fault> {
        Ok(Arc::new(Stream::new(&device.context)?))
    }

    fn blocker(device: &CudaDevice) -> Option<&Arc<Spinner>> {
        device.spinner.as_ref().ok()
    }

    fn runs(device: &CudaDevice, _: &KernelDesc) -> Result<(), Unavailable> {
        device.kernels.compiler().map(drop)
    }

    unsafe fn compile(
        device: &CudaDevice,
        source: &'static Source,
        kernels: &[KernelDesc],
    ) -> Result<Vec<Kernel>, Fault> {
        // SAFETY: the caller promises it.
        let trust = unsafe { Trust::new() };
        device.kernels.load_described(device.kernels.target(), source, kernels, trust)
    }

    unsafe fn compile_specific(
        device: &CudaDevice,
        source: &'static Source,
        kernels: &[KernelDesc],
    ) -> Result<Vec<Kernel>, Fault> {
        let Some(target) = Self::specific_target(device) else {
            let why =
                format!("the device has compute capability {}.{}", device.capability / 10, device.capability % 10);
            let hint = "Use a device of compute capability 9.0";
            return Err(Unavailable::new("architecture-specific kernels", why, hint).into());
        };
        // SAFETY: the caller promises it.
        let trust = unsafe { Trust::new() };
        device.kernels.load_described(&target.to_string(), source, kernels, trust)
    }

    unsafe fn prepare(function: &Function, setup: Setup<'_>) -> Result<Launch, Fault> {
        Launch::from_setup(function, setup)
    }

    fn allow_shared(function: &Function, bytes: u32) -> Result<(), Fault> {
        Ok(function.allow_shared(bytes)?)
    }

    fn prefer_cache(function: &Function) -> Result<(), Fault> {
        Ok(function.prefer_cache()?)
    }

    fn blocks_per_multiprocessor(function: &Function, threads: u32, shared: u32) -> Result<u32, Fault> {
        Ok(function.blocks_per_multiprocessor(threads, shared)?)
    }

    fn allocate(stream: &Arc<Stream>, bytes: u64) -> Result<DeviceBuffer, Fault> {
        DeviceBuffer::new(stream.context(), bytes)
    }

    fn host_memory(stream: &Arc<Stream>, content: &[u8]) -> Result<Box<dyn Memory>, Fault> {
        let mut host = HostBuffer::new(stream.context(), HostKind::Pinned, content.len() as u64)?;
        host.content()?.copy_from_slice(content);
        Ok(Box::new(Mapped { span: host.mapped()?, _host: host }))
    }

    unsafe fn borrow_memory(
        device: &CudaDevice,
        pointer: u64,
        bytes: u64,
        owner: Owner,
    ) -> Result<Box<dyn Memory>, Fault> {
        // SAFETY: the caller promises it.
        Ok(Box::new(unsafe { BorrowedBuffer::new(&device.context, pointer, bytes, owner) }))
    }

    unsafe fn borrow_stream(device: &CudaDevice, handle: u64, owner: Owner) -> Result<Arc<Stream>, Fault> {
        let handle = usize::try_from(handle).map_err(|_| Fault::Invalid("this is no stream".to_owned()))?;
        let handle = Handle(std::ptr::with_exposed_provenance_mut(handle));
        Ok(Arc::new(Stream::from_foreign(&device.context, handle, owner)))
    }

    fn global(function: &Function, name: &str) -> Result<Box<dyn Memory>, Fault> {
        let no_name = |_| Fault::Invalid(format!("{name:?} is no name of a variable: it contains a zero byte"));
        let (pointer, bytes) = function.global(&CString::new(name).map_err(no_name)?)?;
        let owner = Arc::clone(function.module()) as Owner;
        // SAFETY: the driver reported where the variable is, and it lives as long as its module.
        Ok(Box::new(unsafe { BorrowedBuffer::new(function.context(), pointer, bytes, owner) }))
    }

    fn machine_code(function: &Function) -> Result<&[u8], Unavailable> {
        function.module().cubin().ok_or_else(|| {
            Unavailable::new("machine code", "the module wasn't loaded from a cubin", "Load a cubin instead of PTX")
        })
    }

    fn is_recording(stream: &Stream) -> Result<bool, Fault> {
        Ok(stream.is_captured()?)
    }

    fn upload(stream: &Arc<Stream>, to: Span, from: &[u8]) -> Result<(), Fault> {
        to.upload(stream, from)
    }

    fn download(stream: &Arc<Stream>, from: Span, to: &mut [u8]) -> Result<(), Fault> {
        from.download(stream, to)
    }

    fn fill(stream: &Arc<Stream>, span: Span, value: u8) -> Result<(), Fault> {
        span.fill(stream, value)
    }

    fn copy(stream: &Arc<Stream>, to: Span, from: Span) -> Result<(), Fault> {
        to.copy_from(stream, from)
    }

    fn bind(stream: &Stream) -> Result<(), Fault> {
        Ok(stream.context().bind()?)
    }

    fn launch(stream: &Stream, launch: &Launch) -> Result<(), Fault> {
        stream.launch(launch)
    }

    fn run_action(stream: &Arc<Stream>, action: &StreamAction) -> Result<(), Fault> {
        match action {
            StreamAction::Up(host, span) => host.borrow_mut().copy_to(stream, *span),
            StreamAction::Down(host, span) => host.borrow_mut().copy_from(stream, *span),
            StreamAction::Peer(to, from) => to.copy_from_peer(stream, *from),
            StreamAction::Collective(group, collective, exchanges) => group.enqueue(*collective, exchanges),
            StreamAction::Product(products, numbers, n, parts) => products.square(*numbers, *n, *parts),
        }
    }

    fn block(blocker: &Spinner, stream: &Stream, length: Duration) -> Result<(), Fault> {
        blocker.spin(stream, length)
    }

    fn busy_clock_hz(blocker: &Spinner, stream: &Stream, length: Duration) -> Result<Option<f64>, Fault> {
        blocker.clock_hz(stream, length)
    }

    fn wait(stream: &Stream) -> Result<(), Fault> {
        wait::stream(stream)
    }

    fn event(stream: &Arc<Stream>) -> Result<Event, Fault> {
        Ok(Event::new(stream.context())?)
    }

    fn untimed_event(stream: &Arc<Stream>) -> Result<Event, Fault> {
        Ok(Event::untimed(stream.context())?)
    }

    fn record(event: &Event, stream: &Stream) -> Result<(), Fault> {
        Ok(event.record(stream)?)
    }

    fn wait_for(stream: &Stream, event: &Event) -> Result<(), Fault> {
        Ok(stream.wait_for(event)?)
    }

    fn wait_event(event: &Event) -> Result<(), Fault> {
        wait::event(event)
    }

    fn nanoseconds(from: &Event, to: &Event) -> Result<u64, Fault> {
        Ok(to.nanoseconds_since(from)?)
    }

    fn graph(stream: &Arc<Stream>, launches: &[Launch], count: u32, dependent: bool) -> Result<Graph, Fault> {
        let graph = Graph::chain(stream.context(), launches, count, dependent)?;
        graph.upload(stream)?;
        Ok(graph)
    }

    fn launch_graph(stream: &Stream, graph: &Graph) -> Result<(), Fault> {
        graph.launch(stream)
    }

    fn allow_large_clusters(function: &Function) -> Result<(), Fault> {
        Ok(function.allow_large_clusters()?)
    }

    fn clusters_at_once(function: &Function, geometry: Geometry, blocks: u32) -> Result<u32, Fault> {
        Ok(function.clusters_at_once(geometry, blocks)?)
    }
}

/// The properties of a context's device that grids depend on.
pub(crate) fn machine(context: &Context) -> Result<Machine, Fault> {
    let threads = context.device().attribute(Attribute::ThreadsPerMultiprocessor)?;
    let multiprocessors = context.device().attribute(Attribute::Multiprocessors)?;
    let number = |value: i32| u32::try_from(value).unwrap_or(0).max(1);
    Ok(Machine { multiprocessors: number(multiprocessors), threads_per_multiprocessor: number(threads) })
}
