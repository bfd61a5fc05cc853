//! Opening devices: the one place that knows every backend.

use plimsoll_core::Fault;
use plimsoll_core::probe::Instrument;
use plimsoll_cuda::Options as CudaOptions;
use plimsoll_sim::Scenario;

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

/// Opens the devices that `selector` means; at least one.
///
/// # Errors
/// [`OpenError::Device`] with the reason and the way out where a device that was asked for by name isn't there, or one
/// that is there can't be used; [`OpenError::Scenario`] for a simulated device that can't be described so.
pub fn open(selector: &DeviceSelector) -> Result<Vec<Box<dyn Instrument>>, OpenError> {
    open_with(selector, &CudaOptions::default())
}

/// The same with a say in how kernels are compiled and kept.
///
/// # Errors
/// Those of [`open`].
pub fn open_with(selector: &DeviceSelector, options: &CudaOptions) -> Result<Vec<Box<dyn Instrument>>, OpenError> {
    let cuda = |number| cuda(number, options);
    Ok(match selector {
        // Where there is no CUDA device, that is no fault of a user who asked for none.
        DeviceSelector::Default if cuda_devices().is_ok() => vec![cuda(0)?],
        DeviceSelector::Default | DeviceSelector::Cpu => vec![cpu()?],
        DeviceSelector::Cuda(number) => {
            cuda_devices()?;
            vec![cuda(*number)?]
        }
        DeviceSelector::All => {
            let gpus = (0..cuda_devices().unwrap_or(0)).map(cuda);
            gpus.chain(std::iter::once_with(cpu)).collect::<Result<_, Fault>>()?
        }
        DeviceSelector::Sim(scenario) => {
            let scenario: Scenario = scenario.parse().map_err(|error| OpenError::Scenario(format!("{error}")))?;
            vec![Box::new(plimsoll_sim::open(&scenario))]
        }
    })
}

fn cpu() -> Result<Box<dyn Instrument>, Fault> {
    Ok(Box::new(plimsoll_cpu::open()?))
}

fn cuda(number: u32, options: &CudaOptions) -> Result<Box<dyn Instrument>, Fault> {
    Ok(Box::new(plimsoll_cuda::open(number, options)?))
}

/// Every real device of this machine that can be opened, and those that can't, by name with the reason.
#[must_use]
pub fn survey() -> (Vec<Box<dyn Instrument>>, Vec<(String, Fault)>) {
    let gpus: Vec<_> = match cuda_devices() {
        Ok(count) => {
            (0..count).map(|number| (format!("cuda:{number}"), cuda(number, &CudaOptions::default()))).collect()
        }
        Err(fault) => vec![("CUDA".to_owned(), Err(fault))],
    };
    let (mut here, mut not_here) = (Vec::new(), Vec::new());
    for (name, opened) in gpus.into_iter().chain([("cpu".to_owned(), cpu())]) {
        match opened {
            Ok(device) => here.push(device),
            Err(fault) => not_here.push((name, fault)),
        }
    }
    (here, not_here)
}
