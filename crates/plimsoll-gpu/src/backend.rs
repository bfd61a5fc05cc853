//! The trait that a GPU backend implements.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::Fault;
use plimsoll_core::probe::Backend;
use plimsoll_gen::Target;
use plimsoll_gen::kernel::{KernelDesc, Machine, Source};

use crate::capability::{Capabilities, Need};
use crate::launch::{Arguments, Form, Geometry, Kernel};
use crate::{Memory, Span, Unavailable};

/// The compute capability of the kernels that need least.
const OLDEST: u32 = 80;

/// What a device says of its own energy and temperature. Its questions allocate nothing.
pub trait Meter: fmt::Debug + Send + Sync {
    /// Energy that it took since it was started, joules, in the steps in which it counts; `None` where it doesn't tell.
    fn joules(&self) -> Option<f64>;
    /// Temperature of the chip, degrees Celsius; `None` where it doesn't tell.
    fn temperature(&self) -> Option<f64>;
}

/// A family of GPUs, driven by one driver: CUDA, Vulkan. What a backend writes is this trait; probes, timing, checks and workloads
/// are written against it.
///
/// Objects know their device: a stream, event or function of another one is an error. Safe methods are sound for any arguments;
/// what a kernel does is promised once, where it is made ([`Kernel::new`]).
#[allow(unsafe_code)]
pub trait Gpu: Backend<Need = Need> + Sized + 'static {
    /// An ordered queue of work.
    type Stream: Send + Sync + 'static;
    /// A mark in a stream's work, with the device's time.
    type Event: 'static;
    /// Memory of the device.
    type Buffer: Memory + fmt::Debug + 'static;
    /// A kernel's code, ready on a device.
    type Function: Clone + fmt::Debug + 'static;
    /// A launch with all that it needs: it holds its function and its memory.
    type Launch: Clone + fmt::Debug + 'static;
    /// Many launches that are submitted at once.
    type Graph: 'static;
    /// The kernel that holds a stream for a given time, so that what is queued behind it begins without the host's part.
    type Blocker: Send + Sync + 'static;
    /// What only this backend's streams do: copies by engines of their own, calls of a vendor's library.
    type Action: Clone + fmt::Debug + 'static;

    /// What the device can do, each with the reason where it can't.
    fn capabilities(device: &Self::Device) -> &Capabilities;
    /// What grids depend on.
    ///
    /// # Errors
    /// The driver's.
    fn machine(device: &Self::Device) -> Result<Machine, Fault>;
    /// Of which of the sources' kernels a device may have code: those of a compute capability of NVIDIA's. Other backends keep the oldest,
    /// whose kernels ask for nothing that is one vendor's, and [`Gpu::runs`] tells which of them they have.
    fn target(_device: &Self::Device) -> Target {
        Target::plain(OLDEST)
    }
    /// The form of [`Gpu::target`] with instructions that no later device has, where this device runs it: `sm_90a`.
    fn specific_target(_device: &Self::Device) -> Option<Target> {
        None
    }
    /// Bytes of free memory, or the share of all that may be used where the driver doesn't tell.
    ///
    /// # Errors
    /// The driver's.
    fn free_memory(device: &Self::Device) -> Result<u64, Fault>;
    /// Bytes of the last cache that all kernels share, where it is known.
    fn cache_bytes(device: &Self::Device) -> Option<u64>;
    /// The clock that kernels count, when the device was opened, hertz.
    fn clock_hz(device: &Self::Device) -> Option<f64>;
    /// The stream that probes work on.
    fn stream(device: &Self::Device) -> &Arc<Self::Stream>;
    /// A further stream, where [`Capabilities::second_stream`] says so.
    ///
    /// # Errors
    /// [`Fault::Unavailable`] where there is one stream only; the driver's.
    fn new_stream(_device: &Self::Device) -> Result<Arc<Self::Stream>, Fault> {
        let why = format!("{} has one stream", Self::NAME);
        Err(Unavailable::new("a second stream", why, "Use the CUDA backend").into())
    }
    /// The device's own meter, where it has one.
    fn meter(_device: &Self::Device) -> Option<Arc<dyn Meter>> {
        None
    }
    /// The blocking kernel, where there is one.
    fn blocker(device: &Self::Device) -> Option<&Arc<Self::Blocker>>;

    /// Whether a kernel has code that this device takes.
    ///
    /// # Errors
    /// Why not.
    fn runs(device: &Self::Device, kernel: &KernelDesc) -> Result<(), Unavailable>;
    /// Makes kernels of one source ready, and checks that they take what they state.
    ///
    /// # Safety
    /// The kernels' code keeps to their descriptions.
    ///
    /// # Errors
    /// [`Fault::Unavailable`] where there is no compiler, or no code for this backend; the driver's.
    unsafe fn compile(
        device: &Self::Device,
        source: &'static Source,
        kernels: &[KernelDesc],
    ) -> Result<Vec<Kernel<Self>>, Fault>;
    /// The same for [`Gpu::specific_target`].
    ///
    /// # Safety
    /// That of [`Gpu::compile`].
    ///
    /// # Errors
    /// Those of [`Gpu::compile`]; [`Fault::Unavailable`] where the device has no such target.
    unsafe fn compile_specific(
        _device: &Self::Device,
        _source: &'static Source,
        _kernels: &[KernelDesc],
    ) -> Result<Vec<Kernel<Self>>, Fault> {
        let why = format!("{} has none", Self::NAME);
        Err(Unavailable::new("architecture-specific kernels", why, "Use the CUDA backend").into())
    }
    /// A launch as it will be made again and again.
    ///
    /// # Safety
    /// The arguments are of the number and kinds that the function takes, memory is aligned as it is accessed, and with them the function
    /// touches only memory of the spans among them, inside of their extents.
    ///
    /// # Errors
    /// [`Fault::Invalid`] where memory was freed or is another device's; [`Fault::Unavailable`] for a form that the device lacks.
    unsafe fn prepare(
        function: &Self::Function,
        geometry: Geometry,
        form: Form,
        arguments: &Arguments,
    ) -> Result<Self::Launch, Fault>;
    /// Lets blocks of a function have so many bytes of dynamic shared memory.
    ///
    /// # Errors
    /// [`Fault::Unavailable`] where the backend has none; the driver's.
    fn allow_shared(function: &Self::Function, bytes: u32) -> Result<(), Fault>;
    /// Asks for the largest L1 cache that the function can have, where cache and shared memory divide one memory: a preference. Others
    /// have nothing to do.
    ///
    /// # Errors
    /// The driver's.
    fn prefer_cache(_function: &Self::Function) -> Result<(), Fault> {
        Ok(())
    }

    /// How many blocks of so many threads and bytes of dynamic shared memory a multiprocessor holds at once.
    ///
    /// # Errors
    /// [`Fault::Unavailable`] where the driver doesn't tell.
    fn blocks_per_multiprocessor(_function: &Self::Function, _threads: u32, _shared: u32) -> Result<u32, Fault> {
        let why = format!("{} doesn't tell how many blocks a multiprocessor holds", Self::NAME);
        Err(Unavailable::new("occupancy", why, "Use the CUDA backend").into())
    }

    /// Memory with any content; none for 0 bytes.
    ///
    /// # Errors
    /// [`Fault::OutOfMemory`]; the driver's.
    fn allocate(stream: &Arc<Self::Stream>, bytes: u64) -> Result<Self::Buffer, Fault>;
    /// Memory of the host with this content, which kernels read where it is, where [`Capabilities::host_memory`] says so.
    ///
    /// # Errors
    /// [`Fault::Unavailable`] where kernels can't; [`Fault::OutOfMemory`]; the driver's.
    fn host_memory(_stream: &Arc<Self::Stream>, _content: &[u8]) -> Result<Box<dyn Memory>, Fault> {
        let why = format!("{} gives kernels none", Self::NAME);
        Err(Unavailable::new("memory of the host", why, "Use the CUDA backend").into())
    }
    /// Copies host bytes to the beginning of a span, after the stream's earlier work, and waits.
    ///
    /// # Errors
    /// [`Fault::Invalid`] where they don't fit or the memory was freed; [`Fault::Hung`]; the driver's.
    fn upload(stream: &Arc<Self::Stream>, to: Span, from: &[u8]) -> Result<(), Fault>;
    /// Copies the first bytes of a span to the host, after the stream's earlier work, and waits.
    ///
    /// # Errors
    /// Those of [`Gpu::upload`].
    fn download(stream: &Arc<Self::Stream>, from: Span, to: &mut [u8]) -> Result<(), Fault>;
    /// Sets every byte, in the stream's order. The span is whole words of 4 bytes.
    ///
    /// # Errors
    /// [`Fault::Invalid`] where the memory was freed; the driver's.
    fn fill(stream: &Arc<Self::Stream>, span: Span, value: u8) -> Result<(), Fault>;
    /// Copies one span to another of the same size, in the stream's order.
    ///
    /// # Errors
    /// [`Fault::Invalid`] where the sizes differ or memory was freed; the driver's.
    fn copy(stream: &Arc<Self::Stream>, to: Span, from: Span) -> Result<(), Fault>;

    /// Makes the calling thread ready to use the stream's device. Others have nothing to do.
    ///
    /// # Errors
    /// The driver's.
    fn bind(_stream: &Self::Stream) -> Result<(), Fault> {
        Ok(())
    }
    /// Enqueues a launch.
    ///
    /// # Errors
    /// The driver's.
    fn launch(stream: &Self::Stream, launch: &Self::Launch) -> Result<(), Fault>;
    /// Does what only this backend has.
    ///
    /// # Errors
    /// The driver's.
    fn act(stream: &Arc<Self::Stream>, action: &Self::Action) -> Result<(), Fault>;
    /// Gives what was enqueued to the device, where the backend gathers it first.
    ///
    /// # Errors
    /// The driver's.
    fn submit(_stream: &Self::Stream) -> Result<(), Fault> {
        Ok(())
    }
    /// Holds the stream for so long.
    ///
    /// # Errors
    /// The driver's.
    fn block(blocker: &Self::Blocker, stream: &Self::Stream, length: Duration) -> Result<(), Fault>;
    /// Keeps all multiprocessors busy for so long, and returns the clock that its kernel counted, hertz; `None` where the device
    /// doesn't tell.
    ///
    /// # Errors
    /// [`Fault::Hung`]; the driver's.
    fn busy_clock_hz(blocker: &Self::Blocker, stream: &Self::Stream, length: Duration) -> Result<Option<f64>, Fault>;
    /// Waits until all that the stream was asked is done.
    ///
    /// # Errors
    /// [`Fault::Hung`] after the device's deadline; the driver's, among them those of kernels that ran before.
    fn wait(stream: &Self::Stream) -> Result<(), Fault>;

    /// A mark with a time.
    ///
    /// # Errors
    /// The driver's.
    fn event(stream: &Arc<Self::Stream>) -> Result<Self::Event, Fault>;
    /// A mark for order alone.
    ///
    /// # Errors
    /// The driver's.
    fn untimed_event(stream: &Arc<Self::Stream>) -> Result<Self::Event, Fault>;
    /// Sets the mark here.
    ///
    /// # Errors
    /// The driver's.
    fn record(event: &Self::Event, stream: &Self::Stream) -> Result<(), Fault>;
    /// Lets the stream wait for a mark of another.
    ///
    /// # Errors
    /// [`Fault::Unavailable`] where there is one stream only; the driver's.
    fn wait_for(stream: &Self::Stream, event: &Self::Event) -> Result<(), Fault>;
    /// Waits until a mark is reached.
    ///
    /// # Errors
    /// Those of [`Gpu::wait`].
    fn wait_event(event: &Self::Event) -> Result<(), Fault>;
    /// Nanoseconds of the device from one mark to a later one, both of which were reached.
    ///
    /// # Errors
    /// The driver's.
    fn nanoseconds(from: &Self::Event, to: &Self::Event) -> Result<u64, Fault>;

    /// The launches in turn, `count` in all, each after the one before has ended, or `dependent` on it.
    ///
    /// # Errors
    /// [`Fault::Unavailable`] where the driver has none; the driver's.
    fn graph(
        stream: &Arc<Self::Stream>,
        launches: &[Self::Launch],
        count: u32,
        dependent: bool,
    ) -> Result<Self::Graph, Fault>;
    /// Enqueues a graph.
    ///
    /// # Errors
    /// The driver's.
    fn launch_graph(stream: &Self::Stream, graph: &Self::Graph) -> Result<(), Fault>;

    /// Allows clusters of more blocks than [`ClusterSizes::portable`](crate::ClusterSizes::portable).
    ///
    /// # Errors
    /// [`Fault::Unavailable`] where the backend has no clusters; the driver's.
    fn allow_large_clusters(_function: &Self::Function) -> Result<(), Fault> {
        Err(no_clusters(Self::NAME))
    }
    /// How many clusters of so many blocks run at once.
    ///
    /// # Errors
    /// Those of [`Gpu::allow_large_clusters`].
    fn clusters_at_once(_function: &Self::Function, _geometry: Geometry, _blocks: u32) -> Result<u32, Fault> {
        Err(no_clusters(Self::NAME))
    }
}

fn no_clusters(backend: &str) -> Fault {
    Unavailable::new("clusters of blocks", format!("{backend} has none"), "Use the CUDA backend").into()
}
