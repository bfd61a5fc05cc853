//! Machine code of GPU kernels, on a machine with or without a GPU: what a program needs to choose kernels, to compile
//! and to read them. Compiling is `plimsoll-cuda`'s, reading `plimsoll-gen`'s; here they are joined and nothing is added
//! but the target of this machine.

use plimsoll_cuda::driver::{Attribute, DeviceHandle, Driver};

pub use plimsoll_cuda::Unavailable;
pub use plimsoll_cuda::disassembler::Disassembler;
pub use plimsoll_cuda::machine_code::{MachineCode, MachineCodeError, of_cubin, of_kernels};
pub use plimsoll_cuda::nvrtc::Nvrtc;
pub use plimsoll_gen::Target;
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
