//! Machine code of GPU kernels, on a machine with or without a GPU: everything a program needs to choose, compile and read
//! kernels. `plimsoll-cuda` compiles and `plimsoll-gen` reads them; this module combines both and adds the target of this machine.

use plimsoll_cuda::compile::Program;
use plimsoll_cuda::driver::{Attribute, DeviceHandle, Driver};
use plimsoll_expr::{LayoutError, Problem, Space};
use plimsoll_gen::elementwise::{Device, Indexing, PlanError, Table, generate, plan};
use plimsoll_gen::kernel::OPTIONS;

pub use plimsoll_cuda::Unavailable;
pub use plimsoll_cuda::disassembler::Disassembler;
pub use plimsoll_cuda::machine_code::{MachineCode, MachineCodeError, from_cubin, from_kernels};
pub use plimsoll_cuda::nvrtc::Nvrtc;
pub use plimsoll_gen::Target;
pub use plimsoll_gen::elementwise::{Choose, Plan, disagreement};
pub use plimsoll_gen::kernel::choice::{Choice, ChoiceError, choose};
pub use plimsoll_gen::kernel::{KernelDesc, Source};
pub use plimsoll_gen::sass::{KernelReport, Report, Row, SassError, elf};

/// The default target without a device: the one for which the probes' recorded facts are most complete.
pub const USUAL_TARGET: Target = Target::plain(90);

/// The target of the first CUDA device, from its compute capability; `None` without a driver or a device, or if a query fails.
/// Nothing runs on the device.
#[must_use]
pub fn device_target() -> Option<Target> {
    let driver = Driver::system().ok()?;
    if DeviceHandle::count(&driver).ok()? == 0 {
        return None;
    }
    let device = DeviceHandle::new(&driver, 0).ok()?;
    let part = |attribute| device.attribute(attribute).ok().and_then(|value| u32::try_from(value).ok());
    let capability = 10 * part(Attribute::CapabilityMajor)? + part(Attribute::CapabilityMinor)?;
    (10..1000).contains(&capability).then(|| Target::plain(capability))
}

/// The device properties that plans assume without a device: an H200's (132 SMs of 2048 threads, 50 MiB of L2), the most common
/// target.
fn usual_device(target: Target) -> Device {
    Device { target, multiprocessors: 132, threads_per_multiprocessor: 2048, l2_bytes: 50 << 20 }
}

/// Why there is no machine code for an expression.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExpressionError {
    /// No kernel can do what was chosen.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// Shapes that can't be broadcast together.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The compiler or the disassembler failed.
    #[error(transparent)]
    Code(#[from] MachineCodeError),
}

/// Plans the kernel of an expression on aligned memory as for an H200, compiles it for `target`, and returns the machine code and
/// the plan with its reasons. In the report the kernel is always called `elementwise`.
///
/// # Errors
/// If there is no plan, or the compiler or the disassembler fails.
pub fn compile_expression(
    nvrtc: &Nvrtc,
    disassembler: &Disassembler,
    problem: &Problem,
    choose: &Choose,
    target: Target,
) -> Result<(MachineCode, Plan), ExpressionError> {
    let outputs = (0..problem.graph().outputs().len()).map(|place| problem.output(place));
    let outputs = outputs.collect::<Result<Vec<_>, _>>()?;
    let layouts: Vec<_> = problem.inputs().iter().cloned().chain(outputs).collect();
    let space = Space::with_shape(problem.shape(), &layouts)?;
    let starts = layouts.iter().zip(element_bytes(problem)).map(|(layout, bytes)| layout.offset() * bytes);
    let indexing = Indexing::new(problem.graph(), &space, &starts.collect::<Vec<u64>>())?;
    let plan = plan(problem.graph(), &indexing, &usual_device(target), &Table::default(), choose)?;
    let (text, target, options) = (generate(&plan.spec), target.to_string(), OPTIONS.map(str::to_owned));
    let headers = text.headers;
    let program = Program { name: "elementwise.cu", source: &text.text, headers, options: &options, target: &target };
    let compiled = nvrtc.compile(&program).map_err(MachineCodeError::from)?;
    let code = from_cubin(disassembler, compiled.cubin)?;
    Ok((MachineCode { warnings: compiled.log, ..code }, plan))
}

/// The element size in bytes of each input, then of each output.
fn element_bytes(problem: &Problem) -> impl Iterator<Item = u64> + '_ {
    let graph = problem.graph();
    let inputs = graph.inputs().iter().map(|input| input.dtype.bytes());
    inputs.chain(graph.outputs().iter().map(|output| output.dtype.bytes()))
}
