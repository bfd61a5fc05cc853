//! A GPU as a device to be measured: opening it, with a typed reason for every way in which that fails.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::Fault;
use plimsoll_core::probe::{Backend, Bench, Case, Depth, Probe};
use plimsoll_core::sample::Workload;
use plimsoll_gen::Target;
use plimsoll_gpu::Capabilities;
use plimsoll_gpu::Need;
use plimsoll_gpu::calibrate::calibrate;
use plimsoll_gpu::clock::{self, GpuClock};

use crate::cache::Cache;
use crate::compile::{Compiler, Kernels};
use crate::counters::{self, Counters};
use crate::cublas::Cublas;
use crate::cupti::Cupti;
use crate::driver;
use crate::driver::nvml::Nvml;
use crate::driver::{
    Attribute, Context, DEVICE_UNAVAILABLE, DeviceHandle, Driver, DriverError, NO_DEVICE, STUB_LIBRARY, Stream, hint,
};
use crate::elementwise_verify;
use crate::info::{Found, info};
use crate::nvrtc::Nvrtc;
use crate::spin::Spinner;
use crate::telemetry::Telemetry;
use crate::wait;
use plimsoll_gpu::Unavailable;

/// The GPU's clock as the sampling engine sees it.
pub type CudaClock = GpuClock<Cuda>;

/// The probes that a device is opened with.
pub type Probes = &'static [&'static dyn Probe<Cuda>];

/// The CUDA backend.
#[derive(Debug)]
pub struct Cuda;

impl Backend for Cuda {
    type Device = CudaDevice;
    type Clock = CudaClock;
    type Need = Need;
    const NAME: &'static str = "cuda";

    fn ready(device: &CudaDevice) -> Result<(), Fault> {
        Ok(device.capabilities.kernels.clone()?)
    }

    fn has(device: &CudaDevice, need: Need) -> Result<(), Fault> {
        Ok(plimsoll_gpu::has::<Self>(device, need)?)
    }

    fn counters(device: &CudaDevice) -> Result<(), Fault> {
        Ok(device.counters().map(drop)?)
    }

    fn count(device: &mut CudaDevice, workload: &mut dyn Workload) -> Result<BTreeMap<String, f64>, Fault> {
        device.counters()?.of(workload)
    }

    fn settled(device: &mut CudaDevice) -> Result<(), Fault> {
        device.found.holds(&device.context)
    }

    fn verify_expressions(
        device: &mut CudaDevice,
        functions: &[&str],
        depth: Depth,
        report: &mut dyn FnMut(Case),
    ) -> Result<(), Fault> {
        elementwise_verify::run(device, functions, depth, report)
    }
}

/// An opened GPU.
pub struct CudaDevice {
    /// Its primary context.
    pub context: Arc<Context>,
    /// The stream that probes work on.
    pub stream: Arc<Stream>,
    /// Kernels compiled for it.
    pub kernels: Kernels,
    /// The kernel that keeps it busy, where kernels can be compiled.
    pub spinner: Result<Arc<Spinner>, Unavailable>,
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// Compute capability times ten.
    pub capability: u32,
    /// What it can do.
    pub(crate) capabilities: Capabilities,
    /// The multiprocessors' clock when it was opened, hertz, where its timer told.
    pub(crate) clock_hz: Option<f64>,
    /// What its limits were when it was opened.
    found: driver::Found,
    /// CUPTI's library, opened and not yet at work.
    pub(crate) cupti: Result<Arc<Cupti>, Unavailable>,
    /// cuBLAS' library, where the user named one.
    cublas: Option<PathBuf>,
    /// Opened when first asked for: from then on CUPTI has hooks in the driver.
    counters: OnceCell<Result<Counters, Unavailable>>,
}

impl CudaDevice {
    /// Free memory, bytes.
    ///
    /// # Errors
    /// The driver's.
    pub fn memory_free(&self) -> Result<u64, Fault> {
        Ok(crate::memory::free(&self.context)?.0)
    }

    /// Another device of this process, opened for exchanges with this one: without calibration, telemetry or counters.
    ///
    /// # Errors
    /// [`Fault::Unavailable`] where it runs other machine code than this one, or can't be opened.
    pub fn beside(&self, index: u32) -> Result<Self, Fault> {
        let handle = DeviceHandle::new(self.context.device().driver(), index)?;
        let attribute = |attribute| handle.attribute(attribute).map(|value| u32::try_from(value).unwrap_or(0));
        let multiprocessors = attribute(Attribute::Multiprocessors)?;
        let capability = 10 * attribute(Attribute::CapabilityMajor)? + attribute(Attribute::CapabilityMinor)?;
        if capability != self.capability {
            let why = format!("cuda:{index} has compute capability {}.{}", capability / 10, capability % 10);
            let hint = "Let CUDA_VISIBLE_DEVICES show devices of one compute capability".to_owned();
            return Err(Fault::Unavailable { what: "a second device of the same kind", why, hint });
        }
        let context = make_context(&handle, self.context.deadline())?;
        let stream = Arc::new(Stream::new(&context)?);
        let found = driver::Found::new(&context)?;
        let kernels = self.kernels.beside(&context);
        let capabilities = crate::gpu::capabilities(&context, &kernels, capability)?;
        let spinner =
            Err(Unavailable::new("calibration kernels", "the device was opened beside another", "Open it by itself"));
        Ok(Self {
            context,
            stream,
            kernels,
            spinner,
            multiprocessors,
            capability,
            capabilities,
            clock_hz: None,
            found,
            counters: OnceCell::new(),
            cupti: self.cupti.clone(),
            cublas: self.cublas.clone(),
        })
    }

    /// What all its active NVLinks signal one way together, bytes per second; `None` where there are none or NVML doesn't
    /// tell.
    #[must_use]
    pub fn links(&self) -> Option<f64> {
        let uuid = self.context.device().uuid().ok()?;
        Nvml::system().ok()?.device(&format!("GPU-{uuid}")).ok()?.links()
    }

    /// Whether a kernel may begin before the one before it has ended, in a graph (the stream form needs less).
    ///
    /// # Errors
    /// Why not, and what brings it.
    pub fn dependent_launch(&self) -> Result<(), Unavailable> {
        dependent_launch(self.context.driver(), self.capability)
    }

    /// Whether hardware counters can be read. The first call takes some tenths of a second.
    ///
    /// # Errors
    /// Why not, and what brings it.
    pub fn counters(&self) -> Result<&Counters, Unavailable> {
        let open = || Counters::with(self.cupti.as_ref().map_err(Clone::clone)?, &self.context);
        self.counters.get_or_init(open).as_ref().map_err(Clone::clone)
    }

    /// The library of matrix products that goes with the driver.
    ///
    /// # Errors
    /// What is missing or unusable, and what brings it.
    pub fn cublas(&self) -> Result<Arc<Cublas>, Unavailable> {
        let driver = self.context.driver();
        if self.cublas.is_none() && !driver.is_system() {
            let why = "the driver in use is not the one that cuBLAS would find";
            return Err(Unavailable::new("cuBLAS", why, "Open the device by the system's driver"));
        }
        Cublas::find(self.cublas.as_deref(), u32::try_from(driver.version() / 1000).ok())
    }
}

/// Whether chains of kernels can be launched as one graph.
pub(crate) fn graphs(driver: &Driver) -> Result<(), Unavailable> {
    ["cuGraphCreate", "cuGraphAddKernelNode", "cuGraphInstantiateWithFlags", "cuGraphUpload", "cuGraphLaunch"]
        .iter()
        .try_for_each(|call| driver.has(call))
}

/// How a device is opened.
#[derive(Clone, Default)]
pub struct Options {
    /// NVRTC's library, by absolute path; found by itself where `None`.
    pub nvrtc: Option<PathBuf>,
    /// CUPTI's library, by absolute path; found by itself where `None`.
    pub cupti: Option<PathBuf>,
    /// cuBLAS' library, by absolute path; found by itself where `None`.
    pub cublas: Option<PathBuf>,
    /// Folder of compiled kernels; the user's where `None`.
    pub cache: Option<PathBuf>,
    /// Compile anew and keep nothing.
    pub no_cache: bool,
    /// How long a wait may last; [`wait::DEADLINE`] where `None`.
    pub deadline: Option<Duration>,
    /// Another compiler than NVRTC.
    pub compiler: Option<Arc<dyn Compiler>>,
}

impl Options {
    /// The compiler, and the target that it compiles for on a device of this compute capability: the newest of the same
    /// major version where it is older than the device.
    fn compiler(&self, driver: &Driver, capability: u32) -> (Result<Arc<dyn Compiler>, Unavailable>, Target) {
        let own = Target::plain(capability);
        if let Some(compiler) = &self.compiler {
            return (Ok(Arc::clone(compiler)), own);
        }
        let major = u32::try_from(driver.version() / 1000).ok();
        match Nvrtc::find(self.nvrtc.as_deref(), major) {
            Ok(nvrtc) => match nvrtc.target(capability) {
                Some(target) => (Ok(Arc::new(nvrtc)), target),
                None => {
                    let (major, minor) = nvrtc.version();
                    let why = format!("CUDA {major}.{minor} compiles for no target that the device ({own}) runs");
                    let hint = "Install an NVRTC that knows the device: pip install nvidia-cuda-nvrtc";
                    (Err(Unavailable::new("NVRTC", why, hint)), own)
                }
            },
            Err(reason) => (Err(reason), own),
        }
    }

    fn cache(&self) -> Result<Cache, Unavailable> {
        match &self.cache {
            _ if self.no_cache => Err(Unavailable::new("kernel cache", "--no-cache was given", "Leave --no-cache out")),
            Some(folder) => Cache::open(folder),
            None => Cache::of_user(),
        }
    }
}

/// How many devices the driver lets this process see.
///
/// # Errors
/// [`Fault::Unavailable`]: no driver, a stub, a driver too old, no device.
pub fn devices() -> Result<u32, Fault> {
    let driver = Driver::system()?;
    count(&driver)
}

/// What expressions need of a device: nothing is calibrated.
///
/// # Errors
/// Those of [`open_with`].
pub(crate) fn light(driver: &Arc<Driver>, index: u32, options: &Options) -> Result<(Arc<Context>, Kernels), Fault> {
    let handle = handle(driver, index)?;
    let context = make_context(&handle, options.deadline.unwrap_or(wait::DEADLINE))?;
    let attribute = |attribute| handle.attribute(attribute).map(|value| u32::try_from(value).unwrap_or(0));
    let capability = 10 * attribute(Attribute::CapabilityMajor)? + attribute(Attribute::CapabilityMinor)?;
    let (compiler, target) = options.compiler(driver, capability);
    let kernels = Kernels::new(&context, target.to_string(), compiler, options.cache());
    Ok((context, kernels))
}

/// Whether launches may overlap on a device of this compute capability (times ten).
pub(crate) fn dependent_launch(driver: &Driver, capability: u32) -> Result<(), Unavailable> {
    if capability < 90 {
        let why = format!("the device has compute capability {}.{}", capability / 10, capability % 10);
        return Err(Unavailable::new("dependent launch", why, "Use a device of compute capability 9.0 or later"));
    }
    driver.has("cuLaunchKernelEx").and_then(|()| driver.has("cuGraphAddDependencies_v2"))
}

fn handle(driver: &Arc<Driver>, index: u32) -> Result<DeviceHandle, Fault> {
    let there = count(driver)?;
    if index >= there {
        let why = format!("there is no cuda:{index}: this process sees {there} device(s)");
        let hint = "See what nvidia-smi lists and what CUDA_VISIBLE_DEVICES allows; numbers count from 0";
        return Err(Fault::Unavailable { what: "CUDA device", why, hint: hint.to_owned() });
    }
    DeviceHandle::new(driver, index).map_err(refusal)
}

fn count(driver: &Driver) -> Result<u32, Fault> {
    match DeviceHandle::count(driver).map_err(refusal)? {
        0 => Err(refusal(DriverError::Call { call: "cuDeviceGetCount", code: NO_DEVICE })),
        count => Ok(count),
    }
}

/// Opens `cuda:index` of this machine. Takes some 0.3 s, more where kernels must be compiled first.
///
/// # Errors
/// Those of [`open_with`] and of loading the driver.
pub fn open(index: u32, options: &Options, probes: Probes) -> Result<Bench<Cuda>, Fault> {
    open_with(&Driver::system()?, index, options, probes)
}

/// Opens a device of a driver.
///
/// # Errors
/// [`Fault::Unavailable`] where there is no such device, it is held by another process or divided without an instance;
/// [`Fault::DeviceLost`] and [`Fault::Hung`] where it fails the first small tasks.
pub fn open_with(driver: &Arc<Driver>, index: u32, options: &Options, probes: Probes) -> Result<Bench<Cuda>, Fault> {
    let handle = handle(driver, index)?;
    let mut telemetry = Telemetry::new(&handle.uuid()?);
    let context = make_context(&handle, options.deadline.unwrap_or(wait::DEADLINE))?;
    if let Ok(telemetry) = &mut telemetry {
        telemetry.context_was_made();
    }
    let stream = Arc::new(Stream::new(&context)?);
    let limits = driver::Found::new(&context)?;
    let attribute = |attribute| handle.attribute(attribute).map(|value| u32::try_from(value).unwrap_or(0));
    let multiprocessors = attribute(Attribute::Multiprocessors)?;
    let capability = 10 * attribute(Attribute::CapabilityMajor)? + attribute(Attribute::CapabilityMinor)?;
    let (compiler, target) = options.compiler(driver, capability);
    let kernels = Kernels::new(&context, target.to_string(), compiler, options.cache());
    let capabilities = crate::gpu::capabilities(&context, &kernels, capability)?;
    let own = own_kernels(&context, &kernels, multiprocessors)?;
    let (spinner, empty) = match own {
        Ok((spinner, empty)) => (Ok(spinner), Some(empty)),
        Err(reason) => (Err(reason), None),
    };
    let (calibration, replay) = {
        let kernels = spinner.as_deref().ok().zip(empty.as_ref());
        calibrate::<Cuda>(&stream, kernels)?
    };
    let device = CudaDevice {
        context,
        stream,
        kernels,
        spinner,
        multiprocessors,
        capability,
        capabilities,
        clock_hz: calibration.clock_hz,
        found: limits,
        cupti: counters::find(options.cupti.as_deref(), driver),
        cublas: options.cublas.clone(),
        counters: OnceCell::new(),
    };
    let found = Found { index, handle: &handle, device: &device, telemetry: &telemetry, replay };
    let info = info(&found, calibration)?;
    let spinner = device.spinner.as_ref().ok().cloned();
    let telemetry = telemetry.ok().map(|telemetry| Box::new(telemetry) as Box<dyn clock::Telemetry>);
    let clock = CudaClock::new(&device.stream, info.calibration.resolution, telemetry, spinner);
    Ok(Bench::new(device, info, clock, probes))
}

/// Retains the context, or says why the device refuses.
fn make_context(handle: &DeviceHandle, deadline: Duration) -> Result<Arc<Context>, Fault> {
    const PROHIBITED: i32 = 2;
    const EXCLUSIVE: i32 = 3;
    let mode = handle.attribute(Attribute::ComputeMode)?;
    let unavailable =
        |why: &str, hint: &str| Fault::Unavailable { what: "CUDA device", why: why.to_owned(), hint: hint.to_owned() };
    if mode == PROHIBITED {
        return Err(unavailable(
            "its compute mode prohibits computing",
            "Have the administrator allow it: nvidia-smi -c DEFAULT",
        ));
    }
    Context::new(handle.clone(), deadline).map_err(|error| match error.code() {
        Some(DEVICE_UNAVAILABLE) if mode == EXCLUSIVE => unavailable(
            "its compute mode lets one process compute, and another one does",
            "Wait for that process (nvidia-smi lists it), or have the mode changed: nvidia-smi -c DEFAULT",
        ),
        _ => refusal(error),
    })
}

/// A refusal while a device is being opened: nothing was measured yet, so nothing is lost.
fn refusal(error: DriverError) -> Fault {
    let why = error.to_string();
    match error {
        DriverError::Call { code: code @ (STUB_LIBRARY | DEVICE_UNAVAILABLE | NO_DEVICE | 101 | 802), .. } => {
            Fault::Unavailable { what: "CUDA device", why, hint: hint(code).to_owned() }
        }
        error => error.into(),
    }
}

type Own = (Arc<Spinner>, crate::launch::Kernel);

/// The spin kernel and the empty one; the reason where kernels can't be compiled here. A device that fails is a fault.
fn own_kernels(
    context: &Arc<Context>,
    kernels: &Kernels,
    multiprocessors: u32,
) -> Result<Result<Own, Unavailable>, Fault> {
    let load = || -> Result<Own, Fault> {
        let (spinner, empty) = Spinner::with_empty(context, kernels, multiprocessors)?;
        Ok((Arc::new(spinner), empty))
    };
    match load() {
        Ok(own) => Ok(Ok(own)),
        Err(Fault::Unavailable { what, why, hint }) => Ok(Err(Unavailable { what, why, hint })),
        Err(fault) => Err(fault),
    }
}
