//! A simulated GPU: the stand-in driver, and a compiler for it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use plimsoll::bench::Device;
use plimsoll_cuda::compile::{Compiler, Program};
use plimsoll_cuda::driver::Driver;
use plimsoll_cuda::{Options, Unavailable, open_with};
use plimsoll_gen::Target;
use plimsoll_gen::kernel::KernelDesc;

/// A compiler that accepts any source and makes kernels that do nothing.
struct AcceptAnything;

// SAFETY: kernels of the stand-in driver do nothing.
unsafe impl Compiler for AcceptAnything {
    fn identity(&self) -> String {
        "anything for the stand-in 1.0".to_owned()
    }

    fn compile(&self, program: &Program<'_>) -> Result<Vec<u8>, Unavailable> {
        let source =
            plimsoll_probes::sources().iter().copied().find(|source| format!("{}.cu", source.name()) == program.name);
        let Some(source) = source else { return Ok(fakecuda::image_from_text(program.source).unwrap()) };
        let sizes =
            |kernel: &KernelDesc| kernel.parameters.iter().map(|p| p.bytes(kernel).to_string()).collect::<Vec<_>>();
        let named = |kernel: &KernelDesc| format!("{}({})", kernel.name, sizes(kernel).join(","));
        let kernels: Vec<String> = source.kernels(Target::plain(90)).iter().map(named).collect();
        Ok(fakecuda::image(&kernels.join(";")))
    }
}

/// A device whose kernels do nothing, with its driver in `folder`.
pub fn device(folder: &Path) -> Device {
    let library = fakecuda::driver_without(folder, &[]).unwrap();
    let deadline = Some(Duration::from_millis(500));
    let options = Options { no_cache: true, compiler: Some(Arc::new(AcceptAnything)), deadline, ..Options::default() };
    Device::Cuda(open_with(&Driver::open(&library).unwrap(), 0, &options, plimsoll_probes::cuda_probes()).unwrap())
}
