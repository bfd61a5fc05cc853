//! Listing and opening Vulkan devices.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::Fault;
use plimsoll_core::device::CacheInfo;
use plimsoll_core::probe::{Backend, Bench, Probe};
use plimsoll_gen::kernel::clock;
use plimsoll_gpu::calibrate::calibrate;
use plimsoll_gpu::clock::GpuClock;
use plimsoll_gpu::{Capabilities, Need, Unavailable};

use crate::adapter::{self, Adapter};
use crate::caches::find_caches;
use crate::core::Core;
use crate::function::Function;
use crate::info::{Opened, compare_clocks, device_info};
use crate::instance::Instance;
use crate::spin::Spinner;
use crate::stream::{DEADLINE, Stream};

/// The GPU's clock as the sampling engine sees it.
pub type VulkanClock = GpuClock<Vulkan>;

/// The Vulkan backend.
#[derive(Debug)]
pub struct Vulkan;

impl Backend for Vulkan {
    type Device = VulkanDevice;
    type Clock = VulkanClock;
    type Need = Need;
    const NAME: &'static str = "vulkan";
}

/// The probes that a device is opened with.
pub type Probes = &'static [&'static dyn Probe<Vulkan>];

/// An opened Vulkan device.
#[derive(Debug)]
pub struct VulkanDevice {
    pub(crate) stream: Arc<Stream>,
    pub(crate) spinner: Arc<Spinner>,
    pub(crate) capabilities: Capabilities,
    /// Its caches, as far as they are known.
    pub(crate) caches: Vec<CacheInfo>,
    /// Rate of the clock that kernels read, measured when the device was opened, hertz.
    pub(crate) clock_hz: Option<f64>,
}

impl VulkanDevice {
    pub(crate) fn core(&self) -> &Arc<Core> {
        self.stream.core()
    }
}

/// How devices are found and opened.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Path of the loader's library; `None` means the system's.
    pub loader: Option<PathBuf>,
    /// How long a wait may last; `None` means 20 s.
    pub deadline: Option<Duration>,
}

/// Lists all devices: hardware first, then software. A device that can't be opened has the reason.
///
/// # Errors
/// [`Fault::Unavailable`] if there is no loader, driver or device.
pub fn devices(options: &Options) -> Result<Vec<Adapter>, Fault> {
    let found = adapter::list_devices(&Instance::new(options.loader.as_deref())?)?;
    Ok(found.iter().enumerate().map(|(index, physical)| physical.adapter(index)).collect())
}

/// The index of the first hardware device that can be opened. Software is never chosen automatically.
///
/// # Errors
/// Those of [`devices`]; [`Fault::Unavailable`] if there is only software, or no device can be opened.
pub fn first(options: &Options) -> Result<u32, Fault> {
    Ok(choose(&devices(options)?)?)
}

fn choose(found: &[Adapter]) -> Result<u32, Unavailable> {
    let mut hardware = found.iter().filter(|adapter| !adapter.is_software());
    let reason = hardware.clone().find_map(|adapter| adapter.usable.clone().err());
    if let Some(chosen) = hardware.find(|adapter| adapter.usable.is_ok()) {
        return Ok(chosen.index);
    }
    Err(reason.unwrap_or_else(|| {
        let software = found.iter().find(|adapter| adapter.usable.is_ok());
        let why = software.map_or_else(
            || "the drivers find no device that can be opened".to_owned(),
            |adapter| {
                format!("the only one is {}, {}, which is never chosen automatically", adapter.name, adapter.kind)
            },
        );
        let number = software.map_or(0, |adapter| adapter.index);
        let hint = format!("Install the GPU's driver, or ask for software by its number: vulkan:{number}");
        Unavailable::new("Vulkan device", why, hint)
    }))
}

/// Opens the device at this index of the list. This takes about 0.5 s.
///
/// # Errors
/// [`Fault::Unavailable`] if there is no such device or it lacks something; [`Fault::DeviceLost`] and [`Fault::Hung`] if it fails
/// the first small tasks.
pub fn open(index: u32, options: &Options, probes: Probes) -> Result<Bench<Vulkan>, Fault> {
    let mut found = adapter::list_devices(&Instance::new(options.loader.as_deref())?)?;
    let (place, count) = (index as usize, found.len());
    if place >= count {
        let why = format!("there is no vulkan:{index}: the drivers find {count} device(s)");
        let hint = "Run vulkaninfo --summary to list them; numbers start at 0, hardware first";
        return Err(Unavailable::new("Vulkan device", why, hint).into());
    }
    let core = Core::new(found.swap_remove(place), options.deadline.unwrap_or(DEADLINE))?;
    let stream = Stream::new(&core)?;
    let clocks = compare_clocks(&stream)?;
    let spinner = Arc::new(Spinner::new(&stream)?);
    let empty = crate::gpu::trusted_kernel(Function::new(&core, &clock::empty())?, &clock::empty());
    let (calibration, replay) = calibrate::<Vulkan>(&stream, Some((&spinner, &empty)))?;
    let capabilities = crate::gpu::capabilities(&core);
    let caches = find_caches(&core.physical.facts);
    let device = VulkanDevice { stream, spinner, capabilities, caches, clock_hz: calibration.clock_hz };
    let info = device_info(&Opened { index, device: &device, clocks, replay }, calibration);
    let resolution = info.calibration.resolution;
    let clock = VulkanClock::new(&device.stream, resolution, None, Some(Arc::clone(&device.spinner)));
    Ok(Bench::new(device, info, clock, probes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapter::Kind;

    fn adapter(index: u32, kind: Kind, usable: bool) -> Adapter {
        let lacks = || Unavailable::new("Vulkan device", format!("{index} is too old"), "Update it");
        let text = String::new;
        let usable = if usable { Ok(()) } else { Err(lacks()) };
        Adapter { index, name: format!("device {index}"), kind, uuid: text(), driver: text(), usable }
    }

    #[test]
    fn software_is_never_chosen_automatically() {
        let [old, good, software] =
            [(0, Kind::Integrated, false), (1, Kind::Discrete, true), (2, Kind::Software, true)]
                .map(|(index, kind, usable)| adapter(index, kind, usable));
        assert_eq!(choose(&[old.clone(), good, software.clone()]).unwrap(), 1);
        let why = |found: &[Adapter]| choose(found).unwrap_err().to_string();
        assert!(why(&[old, software.clone()]).contains("0 is too old"));
        let alone = why(&[software]);
        assert!(alone.contains("device 2, software on the CPU") && alone.contains("vulkan:2"), "{alone}");
        assert!(why(&[]).contains("no device"));
    }
}
