//! A Vulkan device to be measured: listing and opening.

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
use crate::caches::caches;
use crate::core::Core;
use crate::function::Function;
use crate::info::{Found, compare_clocks, info};
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

    fn ready(device: &VulkanDevice) -> Result<(), Fault> {
        Ok(device.capabilities.kernels.clone()?)
    }

    fn has(device: &VulkanDevice, need: Need) -> Result<(), Fault> {
        Ok(device.capabilities.has(need)?)
    }
}

/// What this backend can measure: the probes that run on any GPU.
pub static PROBES: &[&dyn Probe<Vulkan>] = plimsoll_probes::gpu_probes();

/// An opened Vulkan device.
#[derive(Debug)]
pub struct VulkanDevice {
    pub(crate) stream: Arc<Stream>,
    pub(crate) spinner: Arc<Spinner>,
    pub(crate) capabilities: Capabilities,
    /// Its caches, where they are known.
    pub(crate) caches: Vec<CacheInfo>,
    /// The clock that kernels count when it was opened, hertz.
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
    /// The loader's library; the system's where `None`.
    pub loader: Option<PathBuf>,
    /// How long a wait may last; 20 s where `None`.
    pub deadline: Option<Duration>,
}

/// All devices: hardware first, then software, with the reason where one can't be opened.
///
/// # Errors
/// [`Fault::Unavailable`]: no loader, no driver, no device.
pub fn devices(options: &Options) -> Result<Vec<Adapter>, Fault> {
    let found = adapter::all(&Instance::new(options.loader.as_deref())?)?;
    Ok(found.iter().enumerate().map(|(index, physical)| physical.adapter(index)).collect())
}

/// Opens the device at a place of the list. Takes some 0.5 s.
///
/// # Errors
/// [`Fault::Unavailable`] where there is none or it lacks something; [`Fault::DeviceLost`] and [`Fault::Hung`] where it fails the first
/// small tasks.
pub fn open(index: u32, options: &Options) -> Result<Bench<Vulkan>, Fault> {
    let mut found = adapter::all(&Instance::new(options.loader.as_deref())?)?;
    let (place, there) = (index as usize, found.len());
    if place >= there {
        let why = format!("there is no vulkan:{index}: the drivers find {there} device(s)");
        let mend = "See what vulkaninfo --summary lists; numbers count from 0, hardware first";
        return Err(Unavailable::new("Vulkan device", why, mend).into());
    }
    let core = Core::new(found.swap_remove(place), options.deadline.unwrap_or(DEADLINE))?;
    let stream = Stream::new(&core)?;
    let clocks = compare_clocks(&stream)?;
    let spinner = Arc::new(Spinner::new(&stream)?);
    let empty = crate::gpu::trusted(Function::new(&core, &clock::empty())?, &clock::empty());
    let (calibration, replay) = calibrate::<Vulkan>(&stream, Some((&spinner, &empty)))?;
    let capabilities = crate::gpu::capabilities(&core);
    let caches = caches(&core.physical.facts);
    let device = VulkanDevice { stream, spinner, capabilities, caches, clock_hz: calibration.clock_hz };
    let info = info(&Found { index, device: &device, clocks, replay }, calibration);
    let resolution = info.calibration.resolution;
    let clock = VulkanClock::new(&device.stream, resolution, None, Some(Arc::clone(&device.spinner)));
    Ok(Bench::new(device, info, clock, PROBES))
}
