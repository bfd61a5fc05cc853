//! Images of probes' kernels for the fake driver, for tests of this crate and of others.

use plimsoll_cuda::compile::Program;
use plimsoll_gen::Target;
use plimsoll_gen::kernel::KernelDesc;

/// The kernels of a probe's source with the parameters of their descriptions; `None` for any other program.
pub fn probe_image(program: &Program<'_>) -> Option<Vec<u8>> {
    let mut sources = plimsoll_probes::sources().iter();
    let source = sources.find(|source| format!("{}.cu", source.name()) == program.name)?;
    let sizes = |kernel: &KernelDesc| kernel.parameters.iter().map(|p| p.bytes(kernel).to_string()).collect::<Vec<_>>();
    let named = |kernel: &KernelDesc| format!("{}({})", kernel.name, sizes(kernel).join(","));
    let target = program.target.parse().unwrap_or(Target::plain(90));
    let kernels: Vec<String> = source.kernels(target).iter().map(named).collect();
    Some(fakecuda::image(&kernels.join(";")))
}
