//! Opens devices. Only this module knows every backend. A backend whose feature is off counts as a missing device.

pub(crate) mod backends;

use plimsoll_core::Fault;
use plimsoll_core::probe::Instrument;

use self::backends::{cpu, cuda, sim, vulkan};
use crate::candidate::{SelectError, candidates};
use crate::select::DeviceSelector;

/// Why a device can't be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The scenario of a simulated device is invalid: a usage error.
    #[error("simulated device: {0}")]
    Scenario(String),
    /// A name means no device of this machine, or several: a usage error.
    #[error(transparent)]
    Select(#[from] SelectError),
    /// The device doesn't exist or can't be used.
    #[error(transparent)]
    Device(#[from] Fault),
}

/// Opened devices, and devices that can't be opened.
#[derive(Default)]
pub struct Opened {
    /// Devices that can be measured.
    pub devices: Vec<Box<dyn Instrument>>,
    /// Devices that can't be opened, by name with the reason.
    pub missing: Vec<(String, Fault)>,
}

impl FromIterator<(String, Result<Box<dyn Instrument>, Fault>)> for Opened {
    fn from_iter<I: IntoIterator<Item = (String, Result<Box<dyn Instrument>, Fault>)>>(tried: I) -> Self {
        let mut opened = Self::default();
        for (name, device) in tried {
            match device {
                Ok(device) => opened.devices.push(device),
                Err(fault) => opened.missing.push((name, fault)),
            }
        }
        opened
    }
}

/// Opens the devices that `selector` means, at least one. With [`DeviceSelector::All`], devices that can't be used are listed in
/// [`Opened::missing`] and don't affect the others; so with [`DeviceSelector::AllGpus`]. A number of a GPU, `gpu` or a name is
/// looked up among the devices of this machine. That lists Vulkan devices in this process: see [`vulkan_devices`].
///
/// # Errors
/// [`OpenError::Device`] with the reason and a hint if a device requested by name can't be used, or if no device can;
/// [`OpenError::Scenario`] for an invalid simulated device; [`OpenError::Select`] for a name that means no device or several.
pub fn open(selector: &DeviceSelector) -> Result<Opened, OpenError> {
    open_selected(selector, &cuda::Options::default())
}

/// Like [`open`], with options for compiling and caching kernels.
///
/// # Errors
/// As for [`open`].
#[cfg(feature = "cuda")]
pub fn open_with(selector: &DeviceSelector, options: &crate::CudaOptions) -> Result<Opened, OpenError> {
    open_selected(selector, options)
}

fn open_selected(selector: &DeviceSelector, options: &cuda::Options) -> Result<Opened, OpenError> {
    let cuda = |number| cuda::open(number, options);
    let devices: Vec<Box<dyn Instrument>> = match selector {
        // The user didn't ask for CUDA, so a missing CUDA device isn't an error.
        DeviceSelector::Default if cuda::count().is_ok() => vec![cuda(0)?],
        DeviceSelector::Default | DeviceSelector::Cpu => vec![cpu::open()?],
        DeviceSelector::Cuda(number) => {
            cuda::count()?;
            vec![cuda(*number)?]
        }
        DeviceSelector::Vulkan(number) => vec![vulkan::open(Some(*number), options.deadline)?],
        DeviceSelector::VulkanHardware => vec![vulkan::open(None, options.deadline)?],
        DeviceSelector::All => {
            let gpus = (0..cuda::count().unwrap_or(0)).map(|number| (format!("cuda:{number}"), cuda(number)));
            return require_one(gpus.chain(std::iter::once_with(|| ("cpu".to_owned(), cpu::open()))).collect());
        }
        DeviceSelector::Sim(scenario) => vec![sim::open(scenario)?],
        DeviceSelector::Gpu(_) | DeviceSelector::AllGpus | DeviceSelector::Named(_) => {
            return open_selected(&resolve_here(selector)?, options);
        }
        DeviceSelector::Several(selectors) => {
            let opened: Result<Vec<Opened>, OpenError> =
                selectors.iter().map(|selector| open_selected(selector, options)).collect();
            opened?.into_iter().flat_map(|opened| opened.devices).collect()
        }
        DeviceSelector::Available(selectors) => {
            let mut opened = Opened::default();
            for selector in selectors {
                match open_selected(selector, options) {
                    Ok(one) => opened.devices.extend(one.devices),
                    Err(OpenError::Device(fault)) => opened.missing.push((selector.to_string(), fault)),
                    Err(other) => return Err(other),
                }
            }
            return require_one(opened);
        }
    };
    Ok(Opened { devices, missing: vec![] })
}

/// The devices, or the last fault if none could be opened.
fn require_one(mut opened: Opened) -> Result<Opened, OpenError> {
    match opened.missing.pop() {
        Some((_, fault)) if opened.devices.is_empty() => Err(fault.into()),
        last => {
            opened.missing.extend(last);
            Ok(opened)
        }
    }
}

/// The devices of this machine that a selector means. Vulkan devices are listed in this process.
pub(crate) fn resolve_here(selector: &DeviceSelector) -> Result<DeviceSelector, OpenError> {
    if selector.needs_candidates() { selector.resolve(&candidates(vulkan::candidates())) } else { Ok(selector.clone()) }
}

/// Lists the Vulkan devices of this machine, hardware first, without opening them. The loader runs code from every installed
/// driver; call this in a separate process if a crash in a driver must not end the program.
///
/// # Errors
/// [`Fault::Unavailable`] without a loader, a driver or a device.
#[cfg(feature = "vulkan")]
pub fn vulkan_devices() -> Result<Vec<plimsoll_vulkan::Adapter>, Fault> {
    plimsoll_vulkan::devices(&plimsoll_vulkan::Options::default())
}

/// Opens every real device of this machine. [`Opened::missing`] lists those that can't be opened, and CUDA itself if it is
/// unavailable.
#[must_use]
pub fn survey() -> Opened {
    let options = cuda::Options::default();
    let gpus: Vec<_> = match cuda::count() {
        Ok(count) => (0..count).map(|number| (format!("cuda:{number}"), cuda::open(number, &options))).collect(),
        Err(fault) => vec![("CUDA".to_owned(), Err(fault))],
    };
    gpus.into_iter().chain([("cpu".to_owned(), cpu::open())]).collect()
}
