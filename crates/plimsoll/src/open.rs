//! Opening devices: the one place that knows every backend.

use std::sync::LazyLock;

use plimsoll_core::Fault;
use plimsoll_core::probe::{Instrument, Probe};
use plimsoll_cuda::Options as CudaOptions;
use plimsoll_sim::Scenario;
use plimsoll_vulkan::Vulkan;

use crate::cuda::cuda_devices;
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
    open_with(selector, &CudaOptions::default())
}

/// The same with a say in how kernels are compiled and kept.
///
/// # Errors
/// Those of [`open`].
pub fn open_with(selector: &DeviceSelector, options: &CudaOptions) -> Result<Opened, OpenError> {
    let cuda = |number| cuda(number, options);
    let devices: Vec<Box<dyn Instrument>> = match selector {
        // Where there is no CUDA device, that is no fault of a user who asked for none.
        DeviceSelector::Default if cuda_devices().is_ok() => vec![cuda(0)?],
        DeviceSelector::Default | DeviceSelector::Cpu => vec![cpu()?],
        DeviceSelector::Cuda(number) => {
            cuda_devices()?;
            vec![cuda(*number)?]
        }
        DeviceSelector::Vulkan(number) => vec![vulkan(*number, options)?],
        DeviceSelector::VulkanHardware => vec![vulkan(plimsoll_vulkan::first(&Default::default())?, options)?],
        DeviceSelector::All => {
            let gpus = (0..cuda_devices().unwrap_or(0)).map(|number| (format!("cuda:{number}"), cuda(number)));
            let mut opened: Opened = gpus.chain(std::iter::once_with(|| ("cpu".to_owned(), cpu()))).collect();
            return match opened.missing.pop() {
                Some((_, fault)) if opened.devices.is_empty() => Err(fault.into()),
                last => {
                    opened.missing.extend(last);
                    Ok(opened)
                }
            };
        }
        DeviceSelector::Sim(scenario) => {
            let scenario: Scenario = scenario.parse().map_err(|error| OpenError::Scenario(format!("{error}")))?;
            vec![Box::new(plimsoll_sim::open(&scenario))]
        }
    };
    Ok(Opened { devices, missing: vec![] })
}

fn cpu() -> Result<Box<dyn Instrument>, Fault> {
    Ok(Box::new(plimsoll_cpu::open(plimsoll_probes::cpu_probes())?))
}

/// The Vulkan devices of this machine, hardware first; none is opened. The loader runs the code of every driver that it finds: whoever
/// must survive one that crashes asks in a process of its own.
///
/// # Errors
/// [`Fault::Unavailable`]: no loader, no driver, no device.
pub fn vulkan_devices() -> Result<Vec<plimsoll_vulkan::Adapter>, Fault> {
    plimsoll_vulkan::devices(&plimsoll_vulkan::Options::default())
}

fn vulkan(number: u32, options: &CudaOptions) -> Result<Box<dyn Instrument>, Fault> {
    let options = plimsoll_vulkan::Options { deadline: options.deadline, ..plimsoll_vulkan::Options::default() };
    static PROBES: LazyLock<Vec<&dyn Probe<Vulkan>>> = LazyLock::new(plimsoll_probes::gpu_probes);
    Ok(Box::new(plimsoll_vulkan::open(number, &options, &PROBES)?))
}

fn cuda(number: u32, options: &CudaOptions) -> Result<Box<dyn Instrument>, Fault> {
    Ok(Box::new(plimsoll_cuda::open(number, options, plimsoll_probes::cuda_probes())?))
}

/// Every real device of this machine that can be opened, and those that can't; where there is no CUDA at all, that too.
#[must_use]
pub fn survey() -> Opened {
    let gpus: Vec<_> = match cuda_devices() {
        Ok(count) => {
            (0..count).map(|number| (format!("cuda:{number}"), cuda(number, &CudaOptions::default()))).collect()
        }
        Err(fault) => vec![("CUDA".to_owned(), Err(fault))],
    };
    gpus.into_iter().chain([("cpu".to_owned(), cpu())]).collect()
}
