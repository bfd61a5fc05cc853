//! One module per backend that opens its devices. Without the backend's feature, it returns an error that names the feature.

use plimsoll_core::Fault;
use plimsoll_core::probe::Instrument;

/// A device, or why it can't be opened.
type Device = Result<Box<dyn Instrument>, Fault>;

/// The error for a device whose backend is not in this build.
#[cfg(not(all(feature = "cpu", feature = "cuda", feature = "sim", feature = "vulkan")))]
fn missing_feature<T>(what: &'static str, feature: &str) -> Result<T, Fault> {
    Err(crate::missing::feature(what, feature))
}

#[cfg(feature = "cpu")]
pub(crate) mod cpu {
    pub(crate) fn open() -> super::Device {
        Ok(Box::new(plimsoll_cpu::open(plimsoll_probes::cpu_probes())?))
    }

    pub(crate) fn candidate() -> Option<crate::Candidate> {
        let topology = plimsoll_cpu::topology::Topology::read();
        let brand = topology.model.brand;
        Some(crate::Candidate {
            selector: crate::DeviceSelector::Cpu,
            name: if brand.is_empty() { "CPU".to_owned() } else { brand },
            id: topology.device_id,
            driver: String::new(),
            is_gpu: false,
        })
    }
}

#[cfg(not(feature = "cpu"))]
pub(crate) mod cpu {
    pub(crate) fn open() -> super::Device {
        super::missing_feature("the CPU", "cpu")
    }

    pub(crate) fn candidate() -> Option<crate::Candidate> {
        None
    }
}

#[cfg(feature = "cuda")]
pub(crate) mod cuda {
    pub(crate) use crate::cuda::cuda_devices as count;
    pub(crate) use plimsoll_cuda::Options;
    use plimsoll_cuda::driver::{DeviceHandle, Driver};

    pub(crate) fn open(number: u32, options: &Options) -> super::Device {
        Ok(Box::new(plimsoll_cuda::open(number, options, plimsoll_probes::cuda_probes())?))
    }

    /// The devices, without opening them. A name or UUID that the driver doesn't give is empty.
    pub(crate) fn candidates() -> Vec<crate::Candidate> {
        let Ok(driver) = Driver::system() else { return vec![] };
        let count = DeviceHandle::count(&driver).unwrap_or(0);
        let list = |number| {
            let handle = DeviceHandle::new(&driver, number).ok();
            let name = handle.as_ref().and_then(|handle| handle.name().ok()).unwrap_or_default();
            let prefix = if name.contains(" MIG ") { "MIG" } else { "GPU" };
            let id = handle.and_then(|handle| handle.uuid().ok()).map(|uuid| format!("{prefix}-{uuid}"));
            let selector = crate::DeviceSelector::Cuda(number);
            crate::Candidate { selector, name, id: id.unwrap_or_default(), driver: String::new(), is_gpu: true }
        };
        (0..count).map(list).collect()
    }
}

#[cfg(not(feature = "cuda"))]
pub(crate) mod cuda {
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

    pub(crate) fn candidates() -> Vec<crate::Candidate> {
        vec![]
    }
}

#[cfg(feature = "vulkan")]
pub(crate) mod vulkan {
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

    /// The devices, without opening them.
    pub(crate) fn candidates() -> Vec<crate::Candidate> {
        let found = plimsoll_vulkan::devices(&plimsoll_vulkan::Options::default()).unwrap_or_default();
        found.iter().map(crate::Candidate::from).collect()
    }

    impl From<&plimsoll_vulkan::Adapter> for crate::Candidate {
        fn from(adapter: &plimsoll_vulkan::Adapter) -> Self {
            use plimsoll_vulkan::Kind;
            Self {
                selector: crate::DeviceSelector::Vulkan(adapter.index),
                name: adapter.name.clone(),
                id: adapter.uuid.clone(),
                driver: adapter.driver.clone(),
                is_gpu: matches!(adapter.kind, Kind::Discrete | Kind::Integrated | Kind::Virtual),
            }
        }
    }
}

#[cfg(not(feature = "vulkan"))]
pub(crate) mod vulkan {
    pub(crate) fn open(_: Option<u32>, _: Option<std::time::Duration>) -> super::Device {
        super::missing_feature("Vulkan", "vulkan")
    }

    pub(crate) fn candidates() -> Vec<crate::Candidate> {
        vec![]
    }
}

#[cfg(feature = "sim")]
pub(crate) mod sim {
    use crate::OpenError;

    pub(crate) fn open(scenario: &str) -> Result<Box<dyn super::Instrument>, OpenError> {
        let scenario: plimsoll_sim::Scenario =
            scenario.parse().map_err(|error| OpenError::Scenario(format!("{error}")))?;
        Ok(Box::new(plimsoll_sim::open(&scenario)))
    }
}

#[cfg(not(feature = "sim"))]
pub(crate) mod sim {
    pub(crate) fn open(_: &str) -> super::Device {
        super::missing_feature("the simulated device", "sim")
    }
}
