//! Opening devices: the one place that knows every backend.

use plimsoll_core::Fault;
use plimsoll_core::probe::Instrument;
use plimsoll_sim::Scenario;

use crate::cuda::cuda_unavailable;
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
/// [`OpenError::Device`] with the reason and the way out where a device that was asked for by name isn't there;
/// [`OpenError::Scenario`] for a simulated device that can't be described so.
pub fn open(selector: &DeviceSelector) -> Result<Vec<Box<dyn Instrument>>, OpenError> {
    match selector {
        // No CUDA backend yet: the first device of all that there are is the CPU.
        DeviceSelector::Default | DeviceSelector::Cpu | DeviceSelector::All => {
            let cpu = plimsoll_cpu::open()?;
            Ok(vec![Box::new(cpu)])
        }
        DeviceSelector::Cuda(_) => Err(cuda_unavailable().into()),
        DeviceSelector::Sim(scenario) => {
            let scenario: Scenario = scenario.parse().map_err(|error| OpenError::Scenario(format!("{error}")))?;
            Ok(vec![Box::new(plimsoll_sim::open(&scenario))])
        }
    }
}
