//! Machine code of GPU kernels, on a machine with or without a GPU: what a program needs to choose kernels, to compile
//! and to read them. Compiling is `plimsoll-cuda`'s, reading `plimsoll-gen`'s; here they are joined and nothing is added
//! but the target of this machine.

use plimsoll_cuda::compile::Program;
use plimsoll_cuda::driver::{Attribute, DeviceHandle, Driver};
use plimsoll_expr::{LayoutError, Problem, Space};
use plimsoll_gen::elementwise::{Device, PlanError, Table, Walk, generate, plan};
use plimsoll_gen::kernel::OPTIONS;

pub use plimsoll_cuda::Unavailable;
pub use plimsoll_cuda::disassembler::Disassembler;
pub use plimsoll_cuda::machine_code::{MachineCode, MachineCodeError, of_cubin, of_kernels};
pub use plimsoll_cuda::nvrtc::Nvrtc;
pub use plimsoll_gen::Target;
pub use plimsoll_gen::elementwise::{Choose, Plan, disagreement};
pub use plimsoll_gen::kernel::choice::{Choice, ChoiceError, choose};
pub use plimsoll_gen::kernel::{KernelDesc, Source};
pub use plimsoll_gen::sass::{KernelReport, Report, Row, SassError, elf};

/// What is taken where no device says otherwise: the target that the probes' committed facts are best known for.
pub const USUAL_TARGET: Target = Target::plain(90);

/// The target of the first CUDA device, by its compute capability; `None` where there is no driver or no device, or it
/// can't be asked. Nothing runs on the device.
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

/// What plans depend on where no device is asked: an H200's figures (132 multiprocessors of 2048 threads, 50 MiB of L2), as
/// expressions are most often looked at for it.
fn usual_device(target: Target) -> Device {
    Device { target, multiprocessors: 132, threads_per_multiprocessor: 2048, l2_bytes: 50 << 20 }
}

/// Why there is no machine code of an expression.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExpressionError {
    /// No kernel does what was chosen.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// Shapes that don't go together.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The tools'.
    #[error(transparent)]
    Code(#[from] MachineCodeError),
}

/// The kernel of an expression on aligned memory, planned as for an H200 and compiled for `target`, with the plan and its
/// reasons. The kernel in the report is called `elementwise`, whatever the expression.
///
/// # Errors
/// Where there is no plan, or the tools refuse.
pub fn of_expression(
    nvrtc: &Nvrtc,
    disassembler: &Disassembler,
    problem: &Problem,
    choose: &Choose,
    target: Target,
) -> Result<(MachineCode, Plan), ExpressionError> {
    let outputs = (0..problem.graph().outputs().len()).map(|place| problem.output(place));
    let outputs = outputs.collect::<Result<Vec<_>, _>>()?;
    let layouts: Vec<_> = problem.inputs().iter().cloned().chain(outputs).collect();
    let space = Space::of(problem.shape(), &layouts)?;
    let starts = layouts.iter().zip(element_bytes(problem)).map(|(layout, bytes)| layout.offset() * bytes);
    let walk = Walk::new(problem.graph(), &space, &starts.collect::<Vec<u64>>())?;
    let plan = plan(problem.graph(), &walk, &usual_device(target), &Table::default(), choose)?;
    let (text, target, options) = (generate(&plan.spec), target.to_string(), OPTIONS.map(str::to_owned));
    let headers = text.headers;
    let program = Program { name: "elementwise.cu", source: &text.text, headers, options: &options, target: &target };
    let compiled = nvrtc.compile(&program).map_err(MachineCodeError::from)?;
    let code = of_cubin(disassembler, compiled.cubin)?;
    Ok((MachineCode { warnings: compiled.log, ..code }, plan))
}

/// Bytes of an element of each input and of each output.
fn element_bytes(problem: &Problem) -> impl Iterator<Item = u64> + '_ {
    let graph = problem.graph();
    let inputs = graph.inputs().iter().map(|input| input.dtype.bytes());
    inputs.chain(graph.outputs().iter().map(|output| output.dtype.bytes()))
}
