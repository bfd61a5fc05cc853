//! The trait that a GPU backend implements.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::Fault;
use plimsoll_core::probe::Backend;
use plimsoll_gen::Target;
use plimsoll_gen::kernel::{KernelDesc, Machine, Source};

use crate::capability::{Capabilities, Need};
use crate::launch::{Geometry, Kernel, Setup};
use crate::{Memory, Span, Unavailable};

/// The lowest compute capability that kernels are written for.
const OLDEST: u32 = 80;

/// An object of another library. It is held as long as anything borrowed from it may be in use.
pub type Owner = Arc<dyn Any + Send + Sync>;

/// A device's own readings of energy and temperature. Reading them allocates nothing.
pub trait Meter: fmt::Debug + Send + Sync {
    /// Energy used since the device was started, joules, in the device's own steps; `None` where it isn't reported.
    fn joules(&self) -> Option<f64>;
    /// Temperature of the chip, degrees Celsius; `None` where it isn't reported.
    fn temperature(&self) -> Option<f64>;
}

/// A driver API for GPUs: CUDA, Vulkan. A backend implements this trait; probes, timing, checks and workloads are written against
/// it.
///
/// Objects know their device: using a stream, event or function of another device is an error. Safe methods are sound for any
/// arguments. The promise that a kernel keeps to its description is made once, where the kernel is created ([`Kernel::new`]).
#[allow(unsafe_code)]
pub trait Gpu: Backend<Need = Need> + Sized + 'static {
    /// An ordered queue of work.
    type Stream: Send + Sync + 'static;
    /// An event in a stream, with the device's time.
    type Event: 'static;
    /// Memory of the device.
    type Buffer: Memory + fmt::Debug + 'static;
    /// A kernel's code, ready on a device.
    type Function: Clone + fmt::Debug + 'static;
    /// A prepared launch. It keeps its function and its memory alive.
    type Launch: Clone + fmt::Debug + 'static;
    /// Many launches that are submitted together.
    type Graph: 'static;
    /// The blocking kernel. It occupies a stream for a given time, so that work queued behind it doesn't wait for the host.
    type Blocker: Send + Sync + 'static;
    /// Stream work that only this backend has: copies by copy engines, calls of a vendor's library.
    type Action: Clone + fmt::Debug + 'static;

    /// The device's capabilities, with the reason for each that is missing.
    fn capabilities(device: &Self::Device) -> &Capabilities;
    /// The properties that grid sizes depend on.
    fn machine(device: &Self::Device) -> Result<Machine, Fault>;
    /// The target whose kernels the device may run, as an NVIDIA compute capability. Other backends keep the lowest one, whose
    /// kernels use no vendor-specific features; [`Gpu::runs`] says which of them they have code for.
    fn target(_device: &Self::Device) -> Target {
        Target::plain(OLDEST)
    }
    /// The architecture-specific form of [`Gpu::target`], such as `sm_90a`, if this device runs one.
    fn specific_target(_device: &Self::Device) -> Option<Target> {
        None
    }
    /// Bytes of free memory; where the driver doesn't report it, an assumed share of all memory.
    fn free_memory(device: &Self::Device) -> Result<u64, Fault>;
    /// Bytes of the last-level cache that all kernels share, if known.
    fn cache_bytes(device: &Self::Device) -> Option<u64>;
    /// Rate of the clock that kernels read, measured when the device was opened, hertz.
    fn clock_hz(device: &Self::Device) -> Option<f64>;
    /// The stream that probes work on.
    fn stream(device: &Self::Device) -> &Arc<Self::Stream>;
    /// Creates another stream, if [`Capabilities::second_stream`] allows it.
    ///
    /// # Errors
    /// [`Fault::Unavailable`] where there is only one stream.
    fn new_stream(_device: &Self::Device) -> Result<Arc<Self::Stream>, Fault> {
        Err(only_cuda::<Self>("a second stream", "has one stream").into())
    }
    /// The device's energy and temperature readings, if it has any.
    fn meter(_device: &Self::Device) -> Option<Arc<dyn Meter>> {
        None
    }
    /// The blocking kernel, if there is one.
    fn blocker(device: &Self::Device) -> Option<&Arc<Self::Blocker>>;

    /// Checks that a kernel has code for this device.
    ///
    /// # Errors
    /// The reason if it has none.
    fn runs(device: &Self::Device, kernel: &KernelDesc) -> Result<(), Unavailable>;
    /// Compiles kernels of one source, and checks that they take the parameters that they state.
    ///
    /// # Safety
    /// The kernels' code must keep to their descriptions.
    ///
    /// # Errors
    /// [`Fault::Unavailable`] where there is no compiler or no code for this backend.
    unsafe fn compile(
        device: &Self::Device,
        source: &'static Source,
        kernels: &[KernelDesc],
    ) -> Result<Vec<Kernel<Self>>, Fault>;
    /// As [`Gpu::compile`], for [`Gpu::specific_target`].
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
        Err(only_cuda::<Self>("architecture-specific kernels", "has none").into())
    }
    /// Prepares a launch that can be repeated.
    ///
    /// # Safety
    /// The arguments must be of the number and kinds that the function takes, and memory must be aligned for its accesses. With
    /// these arguments the function must touch only memory inside the spans among them.
    ///
    /// # Errors
    /// [`Fault::Invalid`] where memory was freed or belongs to another device; [`Fault::Unavailable`] for a form that the device
    /// lacks.
    unsafe fn prepare(function: &Self::Function, setup: Setup<'_>) -> Result<Self::Launch, Fault>;
    /// Allows blocks of a function to use `bytes` bytes of dynamic shared memory.
    ///
    /// # Errors
    /// [`Fault::Unavailable`] where the backend has none.
    fn allow_shared(function: &Self::Function, bytes: u32) -> Result<(), Fault>;
    /// Asks for the largest L1 cache that the function can have, where L1 and shared memory are carved from one memory. This is a
    /// hint; other devices do nothing.
    fn prefer_cache(_function: &Self::Function) -> Result<(), Fault> {
        Ok(())
    }

    /// How many blocks with `threads` threads and `shared` bytes of dynamic shared memory fit on a multiprocessor at once.
    ///
    /// # Errors
    /// [`Fault::Unavailable`] where the driver doesn't report it.
    fn blocks_per_multiprocessor(_function: &Self::Function, _threads: u32, _shared: u32) -> Result<u32, Fault> {
        Err(only_cuda::<Self>("occupancy", "doesn't report how many blocks fit on a multiprocessor").into())
    }

    /// Allocates memory with undefined content; 0 bytes allocate nothing.
    ///
    /// # Errors
    /// [`Fault::OutOfMemory`].
    fn allocate(stream: &Arc<Self::Stream>, bytes: u64) -> Result<Self::Buffer, Fault>;
    /// Allocates host memory with this content, which kernels read in place, if [`Capabilities::host_memory`] allows it.
    ///
    /// # Errors
    /// [`Fault::Unavailable`] where kernels can't read host memory; [`Fault::OutOfMemory`].
    fn host_memory(_stream: &Arc<Self::Stream>, _content: &[u8]) -> Result<Box<dyn Memory>, Fault> {
        Err(only_cuda::<Self>("memory of the host", "kernels can't read it").into())
    }
    /// Wraps memory of another library, such as a tensor's, for launches and copies. `owner` is dropped only after all work that
    /// uses the memory is done.
    ///
    /// # Safety
    /// The device must be able to access `bytes` bytes from `pointer` as long as `owner` lives, and the other library must order
    /// its own use of them with this device's streams.
    ///
    /// # Errors
    /// [`Fault::Unavailable`] where the backend can't use memory by its address.
    unsafe fn borrow_memory(
        _device: &Self::Device,
        _pointer: u64,
        _bytes: u64,
        _owner: Owner,
    ) -> Result<Box<dyn Memory>, Fault> {
        Err(only_cuda::<Self>("memory of another library", "can't use it by its address").into())
    }
    /// Wraps a stream of another library, given by the driver's handle. `owner` is dropped only after the result and the work that
    /// was enqueued through it.
    ///
    /// # Safety
    /// `handle` must be a stream of the device's context, which lives as long as `owner`.
    ///
    /// # Errors
    /// [`Fault::Unavailable`] where the backend has only streams of its own.
    unsafe fn borrow_stream(_device: &Self::Device, _handle: u64, _owner: Owner) -> Result<Arc<Self::Stream>, Fault> {
        Err(only_cuda::<Self>("a stream of another library", "has only its own").into())
    }
    /// A variable of the module that a function belongs to: `__device__` or `__constant__` in CUDA. The result keeps the module.
    ///
    /// # Errors
    /// [`Fault::Unavailable`] where modules have no variables; the driver's where the module has none of this name.
    fn global(_function: &Self::Function, _name: &str) -> Result<Box<dyn Memory>, Fault> {
        Err(only_cuda::<Self>("variables of modules", "modules have none").into())
    }
    /// The machine code of the module that a function belongs to, as an ELF file.
    ///
    /// # Errors
    /// The reason where the driver keeps it to itself.
    fn machine_code(_function: &Self::Function) -> Result<&[u8], Unavailable> {
        let why = format!("the driver keeps it to itself under {}", Self::NAME);
        Err(Unavailable::new("machine code", why, "Use the CUDA backend"))
    }

    /// Copies host bytes to the beginning of a span, after the stream's earlier work, and waits.
    ///
    /// # Errors
    /// [`Fault::Invalid`] where they don't fit or the memory was freed; [`Fault::Hung`].
    fn upload(stream: &Arc<Self::Stream>, to: Span, from: &[u8]) -> Result<(), Fault>;
    /// Copies the first bytes of a span to the host, after the stream's earlier work, and waits.
    ///
    /// # Errors
    /// Those of [`Gpu::upload`].
    fn download(stream: &Arc<Self::Stream>, from: Span, to: &mut [u8]) -> Result<(), Fault>;
    /// Sets every byte, in stream order. The span must consist of whole 4-byte words.
    ///
    /// # Errors
    /// [`Fault::Invalid`] where the memory was freed.
    fn fill(stream: &Arc<Self::Stream>, span: Span, value: u8) -> Result<(), Fault>;
    /// Copies one span to another of the same size, in stream order.
    ///
    /// # Errors
    /// [`Fault::Invalid`] where the sizes differ or memory was freed.
    fn copy(stream: &Arc<Self::Stream>, to: Span, from: Span) -> Result<(), Fault>;

    /// Prepares the calling thread to use the stream's device. The default does nothing.
    fn bind(_stream: &Self::Stream) -> Result<(), Fault> {
        Ok(())
    }
    /// Whether work is recorded rather than executed now, by this library or by the one that owns a borrowed stream.
    fn is_recording(_stream: &Self::Stream) -> Result<bool, Fault> {
        Ok(false)
    }
    /// Enqueues a launch.
    fn launch(stream: &Self::Stream, launch: &Self::Launch) -> Result<(), Fault>;
    /// Enqueues an action that only this backend has.
    fn run_action(stream: &Arc<Self::Stream>, action: &Self::Action) -> Result<(), Fault>;
    /// Submits enqueued work to the device, if the backend collects it first.
    fn submit(_stream: &Self::Stream) -> Result<(), Fault> {
        Ok(())
    }
    /// Enqueues the blocking kernel, which occupies the stream for `length`.
    fn block(blocker: &Self::Blocker, stream: &Self::Stream, length: Duration) -> Result<(), Fault>;
    /// Keeps all multiprocessors busy for `length` and returns the clock rate that the kernel counted, hertz; `None` where the
    /// device has no clock that kernels can read.
    ///
    /// # Errors
    /// [`Fault::Hung`].
    fn busy_clock_hz(blocker: &Self::Blocker, stream: &Self::Stream, length: Duration) -> Result<Option<f64>, Fault>;
    /// Waits until all work of the stream is done.
    ///
    /// # Errors
    /// [`Fault::Hung`] after the device's deadline; the faults of kernels that ran before.
    fn wait(stream: &Self::Stream) -> Result<(), Fault>;

    /// Creates an event with a time: when all work that was enqueued in the stream before it has ended.
    fn event(stream: &Arc<Self::Stream>) -> Result<Self::Event, Fault>;
    /// Creates an event for ordering only.
    fn untimed_event(stream: &Arc<Self::Stream>) -> Result<Self::Event, Fault>;
    /// Records the event at this place in the stream.
    fn record(event: &Self::Event, stream: &Self::Stream) -> Result<(), Fault>;
    /// Makes the stream wait for an event of another stream.
    ///
    /// # Errors
    /// [`Fault::Unavailable`] where there is only one stream.
    fn wait_for(stream: &Self::Stream, event: &Self::Event) -> Result<(), Fault>;
    /// Waits on the host until an event is reached.
    ///
    /// # Errors
    /// Those of [`Gpu::wait`].
    fn wait_event(event: &Self::Event) -> Result<(), Fault>;
    /// Nanoseconds of device time from one event to a later one. Both must have been reached.
    fn nanoseconds(from: &Self::Event, to: &Self::Event) -> Result<u64, Fault>;

    /// Builds a graph of `count` launches, which cycles through `launches`. Each begins after the one before has ended or, if
    /// `dependent`, by programmatic dependent launch.
    ///
    /// # Errors
    /// [`Fault::Unavailable`] where the driver has no graphs.
    fn graph(
        stream: &Arc<Self::Stream>,
        launches: &[Self::Launch],
        count: u32,
        dependent: bool,
    ) -> Result<Self::Graph, Fault>;
    /// Enqueues a graph.
    fn launch_graph(stream: &Self::Stream, graph: &Self::Graph) -> Result<(), Fault>;

    /// Allows clusters of more blocks than [`ClusterSizes::portable`](crate::ClusterSizes::portable).
    ///
    /// # Errors
    /// [`Fault::Unavailable`] where the backend has no clusters.
    fn allow_large_clusters(_function: &Self::Function) -> Result<(), Fault> {
        Err(only_cuda::<Self>("clusters of blocks", "has none").into())
    }
    /// How many clusters of `blocks` blocks run at once.
    ///
    /// # Errors
    /// Those of [`Gpu::allow_large_clusters`].
    fn clusters_at_once(_function: &Self::Function, _geometry: Geometry, _blocks: u32) -> Result<u32, Fault> {
        Err(only_cuda::<Self>("clusters of blocks", "has none").into())
    }
}

/// The reason of the defaults: of the backends only CUDA has `what`.
pub(crate) fn only_cuda<G: Gpu>(what: &'static str, why: &str) -> Unavailable {
    Unavailable::new(what, format!("{} {why}", G::NAME), "Use the CUDA backend")
}
