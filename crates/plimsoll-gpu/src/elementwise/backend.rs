//! The trait that a GPU backend implements to run expressions, beyond [`Gpu`].

use std::fmt;
use std::sync::atomic::AtomicBool;

use plimsoll_core::Fault;
use plimsoll_gen::elementwise::{Device, KernelSpec, Table};

use crate::backend::only_cuda;
use crate::{Form, Geometry, Gpu, Span, Unavailable};

/// A GPU backend that runs expressions. The engine checks tensors, plans kernels and remembers plans; the backend compiles a planned
/// kernel and launches it. A kernel takes one block of 64-bit words ([`plimsoll_gen::elementwise`]).
#[allow(unsafe_code)]
pub trait Elementwise: Gpu {
    /// Compiles and loads kernels for one device.
    type Compiler: Send + Sync + 'static;
    /// Allocations, which it keeps alive. After it is dropped, they are freed only after all work that was admitted to use them.
    type Held: Clone + fmt::Debug + Send + Sync + 'static;
    /// Permission to submit work to a stream. While it lives, no recording of the stream starts or ends.
    type Entered<'s>;

    /// The compiler for an open device.
    fn compiler(device: &Self::Device) -> Self::Compiler;
    /// What the engine must know about the compiler's device.
    fn facts(compiler: &Self::Compiler) -> Result<Facts, Fault>;
    /// Compiles and loads a kernel, and checks that it takes `words` words.
    ///
    /// # Errors
    /// [`Fault::Unavailable`] where there is no compiler, or the backend has no kernels of this form.
    fn load(compiler: &Self::Compiler, spec: &KernelSpec, words: usize) -> Result<Self::Function, Fault>;
    /// Compiles kernels that will be loaded later, on all processors and in this order, until `stop` is set. The default does
    /// nothing.
    fn compile_ahead(_compiler: &Self::Compiler, _specs: &[KernelSpec], _stop: &AtomicBool) {}

    /// Holds the allocations that spans are part of.
    ///
    /// # Errors
    /// [`Fault::Invalid`] if one was freed, or a span isn't inside it.
    fn hold(spans: &[Span]) -> Result<Self::Held, Fault>;
    /// Checks that kernels of the compiler's device can use the memory. Called for each tensor of each call.
    fn check_memory(compiler: &Self::Compiler, held: &Self::Held) -> Result<(), OtherDevice>;
    /// Checks that a kernel can run in a stream. Called for each launch.
    fn check_stream(function: &Self::Function, entered: &Self::Entered<'_>) -> Result<(), OtherDevice>;

    /// Enters a stream to submit work.
    ///
    /// # Errors
    /// [`Fault::Unavailable`] while another library records the stream.
    fn enter(stream: &Self::Stream) -> Result<Self::Entered<'_>, Fault>;
    /// Enters a stream of another library by the driver's handle, to submit work. Neither allocates nor keeps anything. While it lives,
    /// calls of this thread may see other state of the driver, such as another current context; then the earlier one is back.
    ///
    /// # Safety
    /// It is a stream of the compiler's device, and lives until the work submitted to it has ended. That work isn't waited for: the
    /// memory that it uses lives until then, and as long as recordings of it.
    ///
    /// # Errors
    /// [`Fault::Unavailable`] where the backend has only streams of its own.
    unsafe fn enter_foreign(_compiler: &Self::Compiler, _stream: u64) -> Result<Self::Entered<'_>, Fault> {
        Err(only_cuda::<Self>("a stream of another library", "has only its own").into())
    }
    /// Runs a task that loads kernels, or allocates, so that other libraries of the process notice nothing: what is current on this
    /// thread stays so, and no recording breaks. The default just runs it.
    fn visit<R>(_compiler: &Self::Compiler, task: impl FnOnce() -> R) -> Result<R, Fault> {
        Ok(task())
    }
    /// Lets the work that is submitted next use this memory: it is not freed before that work has ended. If the stream is recording,
    /// the recording holds the memory.
    ///
    /// # Errors
    /// [`Fault::Invalid`] while the host accesses the memory.
    fn admit(entered: &mut Self::Entered<'_>, held: &Self::Held) -> Result<(), Fault>;
    /// Submits a kernel with these words. The kernel stays loaded until it has ended; if the stream is recording, as long as the
    /// recording. Allocates nothing, except for a recording.
    ///
    /// # Safety
    /// The kernel must take this number of words, be written for this form, and belong to the stream's device. What it does with the
    /// words must be sound until it has ended or, if the stream is recording, whenever the recording is launched.
    unsafe fn launch_words(
        entered: &mut Self::Entered<'_>,
        function: &Self::Function,
        shape: (Geometry, Form),
        words: &[u64],
    ) -> Result<(), Fault>;
    /// Prepares a launch with these words that can be repeated. It holds the memory.
    ///
    /// # Safety
    /// That of [`Elementwise::launch_words`], for every launch while the memory is held.
    unsafe fn prepare_words(
        function: &Self::Function,
        shape: (Geometry, Form),
        words: &[u64],
        held: &Self::Held,
    ) -> Result<Self::Launch, Fault>;
}

/// What the engine must know about a device.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The device's model, with the versions of its driver and of the compiler: plans tuned elsewhere are not used.
    pub name: String,
    /// The properties that plans depend on.
    pub device: Device,
    /// The plans that are shipped for it.
    pub table: Table,
    /// Whether launches may overlap the preceding one; if not, they run one after another.
    pub overlaps: bool,
    /// Whether kernels can be compiled.
    pub compiles: Result<(), Unavailable>,
}

/// The two devices where one was needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherDevice {
    /// The kernel's device.
    pub expected: String,
    /// The device of the memory or the stream.
    pub given: String,
}
