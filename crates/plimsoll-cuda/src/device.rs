//! Opens a GPU for measuring, with a typed reason for every way in which that can fail.

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
use crate::info::{Opened, info};
use crate::nccl::Nccl;
use crate::nodes::{self, MemoryNode};
use crate::nvrtc::Nvrtc;
use crate::spin::Spinner;
use crate::telemetry::Telemetry;
use crate::wait;
use plimsoll_gpu::Unavailable;

/// The GPU's clock as the sampling engine sees it.
pub type CudaClock = GpuClock<Cuda>;

/// Where Linux mounts sysfs.
const SYS: &str = "/sys";

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

    fn counters(device: &CudaDevice) -> Result<(), Fault> {
        Ok(device.counters().map(drop)?)
    }

    fn count(device: &mut CudaDevice, workload: &mut dyn Workload) -> Result<BTreeMap<String, f64>, Fault> {
        device.counters()?.count_workload(workload)
    }

    fn restore(device: &mut CudaDevice) -> Result<(), Fault> {
        device.limits.restore(&device.context)
    }

    fn verify_expressions(
        device: &mut CudaDevice,
        functions: &[&str],
        depth: Depth,
        report: &mut dyn FnMut(Case),
    ) -> Result<(), Fault> {
        plimsoll_gpu::elementwise::verify::run::<Self>(device, functions, depth, report)
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
    /// The kernel that keeps it busy, if kernels can be compiled.
    pub spinner: Result<Arc<Spinner>, Unavailable>,
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Compute capability times ten.
    pub capability: u32,
    /// What it can do.
    pub(crate) capabilities: Capabilities,
    /// The SM clock when it was opened, hertz, if its timer advanced.
    pub(crate) clock_hz: Option<f64>,
    /// Its limits when it was opened.
    limits: driver::SavedLimits,
    /// CUPTI's library, opened but not yet in use.
    pub(crate) cupti: Result<Arc<Cupti>, Unavailable>,
    /// The path of cuBLAS, if the user named one.
    cublas: Option<PathBuf>,
    /// The path of NCCL, if the user named one.
    nccl: Option<PathBuf>,
    /// Where sysfs is mounted.
    sys: PathBuf,
    /// Opened on first use: from then on CUPTI has hooks in the driver.
    counters: OnceCell<Result<Counters, Unavailable>>,
}

impl CudaDevice {
    /// Free memory, bytes.
    pub fn memory_free(&self) -> Result<u64, Fault> {
        Ok(crate::memory::free(&self.context)?.0)
    }

    /// Opens another device of this process for transfers to and from this one: without calibration, telemetry or counters.
    ///
    /// # Errors
    /// [`Fault::Unavailable`] if its compute capability differs from this one's, or it can't be opened.
    pub fn open_peer(&self, index: u32) -> Result<Self, Fault> {
        let handle = DeviceHandle::new(self.context.device().driver(), index)?;
        let multiprocessors = count_multiprocessors(&handle)?;
        let capability = capability(&handle)?;
        if capability != self.capability {
            let why = format!("cuda:{index} has compute capability {}.{}", capability / 10, capability % 10);
            let hint = "Let CUDA_VISIBLE_DEVICES show devices of one compute capability".to_owned();
            return Err(Fault::Unavailable { what: "a second device of the same kind", why, hint });
        }
        let context = make_context(&handle, self.context.deadline())?;
        let kernels = self.kernels.for_context(&context);
        let libraries = (self.cupti.clone(), self.cublas.clone());
        Self::without_calibration(context, kernels, (multiprocessors, capability), libraries)
    }

    /// A device that was just opened, before its calibration.
    fn without_calibration(
        context: Arc<Context>,
        kernels: Kernels,
        (multiprocessors, capability): (u32, u32),
        (cupti, cublas): (Result<Arc<Cupti>, Unavailable>, Option<PathBuf>),
    ) -> Result<Self, Fault> {
        let stream = Arc::new(Stream::new(&context)?);
        let limits = driver::SavedLimits::new(&context)?;
        let capabilities = crate::gpu::capabilities(&context, &kernels, capability)?;
        let why = "the device was opened as a peer";
        Ok(Self {
            context,
            stream,
            kernels,
            spinner: Err(Unavailable::new("calibration kernels", why, "Open the device separately")),
            multiprocessors,
            capability,
            capabilities,
            clock_hz: None,
            limits,
            cupti,
            cublas,
            nccl: None,
            sys: PathBuf::from(SYS),
            counters: OnceCell::new(),
        })
    }

    /// Signalling rate of all its active NVLinks together, one way, bytes per second; `None` if there are none or NVML doesn't
    /// report them.
    #[must_use]
    pub fn links(&self) -> Option<f64> {
        let uuid = self.context.device().uuid().ok()?;
        Nvml::system().ok()?.device(&format!("GPU-{uuid}")).ok()?.links()
    }

    /// Whether a kernel in a graph may start before the preceding one has ended (in a stream this needs less).
    pub fn dependent_launch(&self) -> Result<(), Unavailable> {
        dependent_launch(self.context.driver(), self.capability)
    }

    /// The hardware counters, or why they can't be read. The first call takes some tenths of a second.
    pub fn counters(&self) -> Result<&Counters, Unavailable> {
        let open = || Counters::open_with(self.cupti.as_ref().map_err(Clone::clone)?, &self.context);
        self.counters.get_or_init(open).as_ref().map_err(Clone::clone)
    }

    /// The cuBLAS library that matches the driver.
    pub fn cublas(&self) -> Result<Arc<Cublas>, Unavailable> {
        let driver = self.context.driver();
        if self.cublas.is_none() && !driver.is_system() {
            let why = "the driver in use is not the one that cuBLAS would load";
            return Err(Unavailable::new("cuBLAS", why, "Open the device with the system's driver"));
        }
        Cublas::find(self.cublas.as_deref(), u32::try_from(driver.version() / 1000).ok())
    }

    /// The machine's memory nodes.
    pub fn memory_nodes(&self) -> Result<Vec<MemoryNode>, Unavailable> {
        nodes::read(&self.sys)
    }

    /// The memory node next to it, where the system knows it.
    #[must_use]
    pub fn near_node(&self) -> Option<u32> {
        nodes::near(&self.sys, &self.context.device().pci().ok()?)
    }

    /// The NCCL library.
    pub fn nccl(&self) -> Result<Arc<Nccl>, Unavailable> {
        if self.nccl.is_none() && !self.context.driver().is_system() {
            let why = "the driver in use is not the one that NCCL would load";
            return Err(Unavailable::new("NCCL", why, "Open the device with the system's driver"));
        }
        Nccl::find(self.nccl.as_deref())
    }
}

/// Whether chains of kernels can be launched as one graph.
pub(crate) fn check_graphs(driver: &Driver) -> Result<(), Unavailable> {
    driver.has_all(&[
        "cuGraphCreate",
        "cuGraphAddKernelNode",
        "cuGraphInstantiateWithFlags",
        "cuGraphUpload",
        "cuGraphLaunch",
    ])
}

/// Options for opening a device.
#[derive(Clone, Default)]
pub struct Options {
    /// Absolute path of the NVRTC library; searched for if `None`.
    pub nvrtc: Option<PathBuf>,
    /// Absolute path of the CUPTI library; searched for if `None`.
    pub cupti: Option<PathBuf>,
    /// Absolute path of the cuBLAS library; searched for if `None`.
    pub cublas: Option<PathBuf>,
    /// Absolute path of the NCCL library; searched for if `None`.
    pub nccl: Option<PathBuf>,
    /// Where sysfs is mounted; `/sys` if `None`.
    pub sys: Option<PathBuf>,
    /// Folder of compiled kernels; the user's if `None`.
    pub cache: Option<PathBuf>,
    /// Compile everything again and store nothing.
    pub no_cache: bool,
    /// Longest wait; [`wait::DEADLINE`] if `None`.
    pub deadline: Option<Duration>,
    /// A compiler to use instead of NVRTC.
    pub compiler: Option<Arc<dyn Compiler>>,
}

impl Options {
    /// The compiler, and its target for a device of this compute capability: if the compiler is older than the device, the newest
    /// target of the same major version.
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
                    let why = format!("CUDA {major}.{minor} has no target that the device ({own}) can run");
                    let hint = "Install an NVRTC that supports the device: pip install nvidia-cuda-nvrtc";
                    (Err(Unavailable::new("NVRTC", why, hint)), own)
                }
            },
            Err(reason) => (Err(reason), own),
        }
    }

    fn cache(&self) -> Result<Cache, Unavailable> {
        match &self.cache {
            _ if self.no_cache => {
                Err(Unavailable::new("kernel cache", "switched off", "Open the device with its kernel cache"))
            }
            Some(folder) => Cache::open(folder),
            None => Cache::open_default(),
        }
    }
}

/// Number of devices visible to this process.
///
/// # Errors
/// [`Fault::Unavailable`]: no driver, a stub, a driver too old, no device.
pub fn devices() -> Result<u32, Fault> {
    let driver = Driver::system()?;
    count(&driver)
}

/// Opens only what expressions need, without calibration.
///
/// # Errors
/// Those of [`open_with`].
pub(crate) fn open_uncalibrated(
    driver: &Arc<Driver>,
    index: u32,
    options: &Options,
) -> Result<(Arc<Context>, Kernels), Fault> {
    let handle = find_device(driver, index)?;
    let context = make_context(&handle, options.deadline.unwrap_or(wait::DEADLINE))?;
    let capability = capability(&handle)?;
    let (compiler, target) = options.compiler(driver, capability);
    let kernels = Kernels::new(&context, target.to_string(), compiler, options.cache());
    Ok((context, kernels))
}

/// Whether dependent launches may overlap in a graph on a device of this compute capability (times ten).
pub(crate) fn dependent_launch(driver: &Driver, capability: u32) -> Result<(), Unavailable> {
    if capability < 90 {
        let why = format!("the device has compute capability {}.{}", capability / 10, capability % 10);
        return Err(Unavailable::new("dependent launch", why, "Use a device of compute capability 9.0 or later"));
    }
    driver.has_all(&["cuLaunchKernelEx", "cuGraphAddDependencies_v2"])
}

fn find_device(driver: &Arc<Driver>, index: u32) -> Result<DeviceHandle, Fault> {
    let devices = count(driver)?;
    if index >= devices {
        let why = format!("there is no cuda:{index}: this process sees {devices} device(s)");
        let hint = "See what nvidia-smi lists and what CUDA_VISIBLE_DEVICES allows; numbers start at 0";
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

/// Opens `cuda:index` of this machine. Takes some 0.3 s, more if kernels must be compiled first.
///
/// # Errors
/// Those of [`open_with`] and [`Driver::system`].
pub fn open(index: u32, options: &Options, probes: Probes) -> Result<Bench<Cuda>, Fault> {
    open_with(&Driver::system()?, index, options, probes)
}

/// Opens a device of a driver.
///
/// # Errors
/// [`Fault::Unavailable`] if there is no such device, another process holds it, or it is in MIG mode without an instance;
/// [`Fault::DeviceLost`] and [`Fault::Hung`] if it fails the first small tasks.
pub fn open_with(driver: &Arc<Driver>, index: u32, options: &Options, probes: Probes) -> Result<Bench<Cuda>, Fault> {
    let handle = find_device(driver, index)?;
    let mut telemetry = Telemetry::new(&handle.uuid()?);
    let context = make_context(&handle, options.deadline.unwrap_or(wait::DEADLINE))?;
    if let Ok(telemetry) = &mut telemetry {
        telemetry.context_was_made();
    }
    let (multiprocessors, capability) = (count_multiprocessors(&handle)?, capability(&handle)?);
    let (compiler, target) = options.compiler(driver, capability);
    let kernels = Kernels::new(&context, target.to_string(), compiler, options.cache());
    let libraries = (counters::find(options.cupti.as_deref(), driver), options.cublas.clone());
    let mut device = CudaDevice::without_calibration(context, kernels, (multiprocessors, capability), libraries)?;
    device.nccl = options.nccl.clone();
    device.sys = options.sys.clone().unwrap_or(device.sys);
    let empty = match calibration_kernels(&device.context, &device.kernels, multiprocessors)? {
        Ok((spinner, empty)) => {
            device.spinner = Ok(spinner);
            Some(empty)
        }
        Err(reason) => {
            device.spinner = Err(reason);
            None
        }
    };
    let (calibration, replay) = {
        let kernels = device.spinner.as_deref().ok().zip(empty.as_ref());
        calibrate::<Cuda>(&device.stream, kernels)?
    };
    device.clock_hz = calibration.clock_hz;
    let opened = Opened { index, handle: &handle, device: &device, telemetry: &telemetry, replay };
    let info = info(&opened, calibration)?;
    let spinner = device.spinner.as_ref().ok().cloned();
    let telemetry = telemetry.ok().map(|telemetry| Box::new(telemetry) as Box<dyn clock::Telemetry>);
    let clock = CudaClock::new(&device.stream, info.calibration.resolution, telemetry, spinner);
    Ok(Bench::new(device, info, clock, probes))
}

/// The value of an attribute that can't be negative.
fn attribute(handle: &DeviceHandle, attribute: Attribute) -> Result<u32, DriverError> {
    Ok(u32::try_from(handle.attribute(attribute)?).unwrap_or(0))
}

fn count_multiprocessors(handle: &DeviceHandle) -> Result<u32, DriverError> {
    attribute(handle, Attribute::Multiprocessors)
}

/// Compute capability times ten.
fn capability(handle: &DeviceHandle) -> Result<u32, DriverError> {
    Ok(10 * attribute(handle, Attribute::CapabilityMajor)? + attribute(handle, Attribute::CapabilityMinor)?)
}

/// Retains the primary context, or returns why the device refuses.
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
            "its compute mode allows one process, and another process is using it",
            "Wait for that process (nvidia-smi lists it), or have the mode changed: nvidia-smi -c DEFAULT",
        ),
        _ => refusal(error),
    })
}

/// The fault for a driver error while a device is being opened. Nothing was measured yet, so it isn't a lost device.
fn refusal(error: DriverError) -> Fault {
    let why = error.to_string();
    match error {
        DriverError::Call { code: code @ (STUB_LIBRARY | DEVICE_UNAVAILABLE | NO_DEVICE | 101 | 802), .. } => {
            Fault::Unavailable { what: "CUDA device", why, hint: hint(code).to_owned() }
        }
        error => error.into(),
    }
}

type CalibrationKernels = (Arc<Spinner>, crate::launch::Kernel);

/// The spin kernel and the empty kernel, or the reason if kernels can't be compiled on this machine. A failing device is a fault.
fn calibration_kernels(
    context: &Arc<Context>,
    kernels: &Kernels,
    multiprocessors: u32,
) -> Result<Result<CalibrationKernels, Unavailable>, Fault> {
    let load = || -> Result<CalibrationKernels, Fault> {
        let (spinner, empty) = Spinner::with_empty(context, kernels, multiprocessors)?;
        Ok((Arc::new(spinner), empty))
    };
    match load() {
        Ok(kernels) => Ok(Ok(kernels)),
        Err(Fault::Unavailable { what, why, hint }) => Ok(Err(Unavailable { what, why, hint })),
        Err(fault) => Err(fault),
    }
}
