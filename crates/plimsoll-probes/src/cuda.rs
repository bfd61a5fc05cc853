//! The types of plimsoll-gpu specialised for CUDA, for the probes that only CUDA runs.

use plimsoll_core::Fault;
use plimsoll_cuda::driver::DeviceHandle;

pub(crate) mod checker {
    pub(crate) use plimsoll_gpu::checker::POISON;
    pub(crate) type Checker = plimsoll_gpu::checker::Checker<plimsoll_cuda::Cuda>;
}
pub(crate) mod in_kernel {
    pub(crate) use plimsoll_gpu::in_kernel::LaunchCycles;
    pub(crate) type InKernel = plimsoll_gpu::in_kernel::InKernel<plimsoll_cuda::Cuda>;
}
pub(crate) mod kit {
    pub(crate) use plimsoll_gpu::kit::{GRAPH, combine_checks, requested_bytes};
    pub(crate) type Kit = plimsoll_gpu::kit::Kit<plimsoll_cuda::Cuda>;
}
pub(crate) mod steady {
    pub(crate) type Steady = plimsoll_gpu::steady::Steady<plimsoll_cuda::Cuda>;
}
pub(crate) mod unit {
    pub(crate) type Unit = plimsoll_gpu::unit::Unit<plimsoll_cuda::Cuda>;
}
pub(crate) mod window {
    use plimsoll_core::Fault;
    use plimsoll_core::flag::Flags;

    /// See [`plimsoll_gpu::window::fit_arrays`].
    pub(crate) fn fit_arrays(
        device: &plimsoll_cuda::CudaDevice,
        arrays: u64,
        wanted: u64,
    ) -> Result<(u64, Flags), Fault> {
        plimsoll_gpu::window::fit_arrays::<plimsoll_cuda::Cuda>(device, arrays, wanted)
    }
}

/// Refuses a probe of all devices of the process where there is only one, and on any but the first, which measures for all.
///
/// # Errors
/// [`Fault::Unavailable`].
pub(crate) fn check_all_devices(what: &'static str, device: &plimsoll_cuda::CudaDevice) -> Result<(), Fault> {
    let unavailable = |why: String, hint: &str| Err(Fault::Unavailable { what, why, hint: hint.to_owned() });
    let count = DeviceHandle::count(device.context.driver())?;
    if count < 2 {
        let why = format!("this process sees {count} device");
        return unavailable(why, "Run it where there are two or more, and let CUDA_VISIBLE_DEVICES show them");
    }
    if device.context.device().number() != 0 {
        return unavailable("cuda:0 measures for all devices".to_owned(), "Use the device cuda:0");
    }
    Ok(())
}
