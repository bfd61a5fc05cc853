//! Opening devices: the one place that knows every backend. A backend without its feature is a device that is missing.

mod backends;

use plimsoll_core::Fault;
use plimsoll_core::probe::Instrument;

use self::backends::{cpu, cuda, sim, vulkan};
use crate::select::DeviceSelector;

/// Why a device can't be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The scenario of a simulated device can't be read: wrong usage.
    #[error("simulated device: {0}")]
    Scenario(String),
    /// The device isn't there or can't be used.
    #[error(transparent)]
    Device(#[from] Fault),
}

/// Devices, and what can't be one.
#[derive(Default)]
pub struct Opened {
    /// Those that can be measured.
    pub devices: Vec<Box<dyn Instrument>>,
    /// Those that can't, by name with the reason.
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

/// Opens the devices that `selector` means; at least one. Of all devices, those that can't be used are told in
/// [`Opened::missing`] and cost none of the others; a device that was asked for by name is never missing there.
///
/// # Errors
/// [`OpenError::Device`] with the reason and the way out where a device that was asked for by name isn't there or can't
/// be used, or none of all; [`OpenError::Scenario`] for a simulated device that can't be described so.
pub fn open(selector: &DeviceSelector) -> Result<Opened, OpenError> {
    open_selected(selector, &cuda::Options::default())
}

/// The same with a say in how kernels are compiled and kept.
///
/// # Errors
/// Those of [`open`].
#[cfg(feature = "cuda")]
pub fn open_with(selector: &DeviceSelector, options: &crate::CudaOptions) -> Result<Opened, OpenError> {
    open_selected(selector, options)
}

fn open_selected(selector: &DeviceSelector, options: &cuda::Options) -> Result<Opened, OpenError> {
    let cuda = |number| cuda::open(number, options);
    let devices: Vec<Box<dyn Instrument>> = match selector {
        // Where there is no CUDA device, that is no fault of a user who asked for none.
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
            let mut opened: Opened = gpus.chain(std::iter::once_with(|| ("cpu".to_owned(), cpu::open()))).collect();
            return match opened.missing.pop() {
                Some((_, fault)) if opened.devices.is_empty() => Err(fault.into()),
                last => {
                    opened.missing.extend(last);
                    Ok(opened)
                }
            };
        }
        DeviceSelector::Sim(scenario) => vec![sim::open(scenario)?],
    };
    Ok(Opened { devices, missing: vec![] })
}

/// The Vulkan devices of this machine, hardware first; none is opened. The loader runs the code of every driver that it finds: whoever
/// must survive one that crashes asks in a process of its own.
///
/// # Errors
/// [`Fault::Unavailable`]: no loader, no driver, no device.
#[cfg(feature = "vulkan")]
pub fn vulkan_devices() -> Result<Vec<plimsoll_vulkan::Adapter>, Fault> {
    plimsoll_vulkan::devices(&plimsoll_vulkan::Options::default())
}

/// Every real device of this machine that can be opened, and those that can't; where there is no CUDA at all, that too.
#[must_use]
pub fn survey() -> Opened {
    let options = cuda::Options::default();
    let gpus: Vec<_> = match cuda::count() {
        Ok(count) => (0..count).map(|number| (format!("cuda:{number}"), cuda::open(number, &options))).collect(),
        Err(fault) => vec![("CUDA".to_owned(), Err(fault))],
    };
    gpus.into_iter().chain([("cpu".to_owned(), cpu::open())]).collect()
}
