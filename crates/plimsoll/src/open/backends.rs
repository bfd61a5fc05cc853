//! One module per backend that opens its devices. Without the backend's feature, it returns an error that names the feature.

use plimsoll_core::Fault;
use plimsoll_core::probe::Instrument;

/// A device, or why it can't be opened.
type Device = Result<Box<dyn Instrument>, Fault>;

/// The error for a device whose backend is not in this build.
#[cfg(not(all(feature = "cpu", feature = "cuda", feature = "sim", feature = "vulkan")))]
fn missing_feature<T>(what: &'static str, feature: &str) -> Result<T, Fault> {
    let why = format!("this build has no feature `{feature}`");
    Err(Fault::Unavailable { what, why, hint: format!("Build with the feature `{feature}`") })
}

#[cfg(feature = "cpu")]
pub(super) mod cpu {
    pub(crate) fn open() -> super::Device {
        Ok(Box::new(plimsoll_cpu::open(plimsoll_probes::cpu_probes())?))
    }
}

#[cfg(not(feature = "cpu"))]
pub(super) mod cpu {
    pub(crate) fn open() -> super::Device {
        super::missing_feature("the CPU", "cpu")
    }
}

#[cfg(feature = "cuda")]
pub(super) mod cuda {
    pub(crate) use crate::cuda::cuda_devices as count;
    pub(crate) use plimsoll_cuda::Options;

    pub(crate) fn open(number: u32, options: &Options) -> super::Device {
        Ok(Box::new(plimsoll_cuda::open(number, options, plimsoll_probes::cuda_probes())?))
    }
}

#[cfg(not(feature = "cuda"))]
pub(super) mod cuda {
    /// The options that other GPUs also use.
    #[derive(Default)]
    pub(crate) struct Options {
        pub(crate) deadline: Option<std::time::Duration>,
    }

    pub(crate) fn count() -> Result<u32, super::Fault> {
        super::missing_feature("CUDA", "cuda")
    }

    pub(crate) fn open(_: u32, _: &Options) -> super::Device {
        super::missing_feature("CUDA", "cuda")
    }
}

#[cfg(feature = "vulkan")]
pub(super) mod vulkan {
    use std::sync::LazyLock;

    use plimsoll_core::probe::Probe;
    use plimsoll_vulkan::Vulkan;

    static PROBES: LazyLock<Vec<&dyn Probe<Vulkan>>> = LazyLock::new(plimsoll_probes::gpu_probes);

    /// Opens the device with this number, or the first hardware device if there is none.
    pub(crate) fn open(number: Option<u32>, deadline: Option<std::time::Duration>) -> super::Device {
        let number = number.map_or_else(|| plimsoll_vulkan::first(&Default::default()), Ok)?;
        let options = plimsoll_vulkan::Options { deadline, ..plimsoll_vulkan::Options::default() };
        Ok(Box::new(plimsoll_vulkan::open(number, &options, &PROBES)?))
    }
}

#[cfg(not(feature = "vulkan"))]
pub(super) mod vulkan {
    pub(crate) fn open(_: Option<u32>, _: Option<std::time::Duration>) -> super::Device {
        super::missing_feature("Vulkan", "vulkan")
    }
}

#[cfg(feature = "sim")]
pub(super) mod sim {
    use crate::OpenError;

    pub(crate) fn open(scenario: &str) -> Result<Box<dyn super::Instrument>, OpenError> {
        let scenario: plimsoll_sim::Scenario =
            scenario.parse().map_err(|error| OpenError::Scenario(format!("{error}")))?;
        Ok(Box::new(plimsoll_sim::open(&scenario)))
    }
}

#[cfg(not(feature = "sim"))]
pub(super) mod sim {
    pub(crate) fn open(_: &str) -> super::Device {
        super::missing_feature("the simulated device", "sim")
    }
}
