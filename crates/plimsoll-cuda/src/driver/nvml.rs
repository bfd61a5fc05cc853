//! NVIDIA's management library, `libnvidia-ml.so.1`, opened at run time: the dozen calls that telemetry needs. `telemetry`
//! interprets the numbers.
//!
//! These are our own bindings instead of a crate because the calls run between slices of a measurement and must not allocate, and
//! the driver's table already has the lookup code.

use std::ffi::{CString, c_char, c_uint, c_void};
use std::mem::ManuallyDrop;
use std::path::Path;
use std::sync::OnceLock;

use libloading::os::unix::Library;
use plimsoll_core::health::RemappedRows;

use super::table::resolve;
use super::types::Handle;
use plimsoll_gpu::Unavailable;

/// The library.
const LIBRARY: &str = "libnvidia-ml.so.1";
/// The environment variable that names another library by absolute path, for tests.
const LIBRARY_OVERRIDE: &str = "PLIMSOLL_LIBNVML";
/// Most processes that are listed.
pub(crate) const MOST_PROCESSES: usize = 64;

/// `nvmlProcessInfo_v2_t`, which version `_v3` of the call fills.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct ProcessInfo {
    pid: c_uint,
    memory: u64,
    gpu_instance: c_uint,
    compute_instance: c_uint,
}

/// `nvmlProcessUtilizationSample_t`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Utilization {
    /// The process.
    pub pid: c_uint,
    /// Microseconds since the epoch.
    pub time: u64,
    /// Share of the SMs' time, percent.
    pub multiprocessors: c_uint,
    memory: c_uint,
    encoder: c_uint,
    decoder: c_uint,
}

const _: () = assert!(size_of::<ProcessInfo>() == 24 && size_of::<Utilization>() == 32);

/// A number that NVML reports about a device; indexes `NUMBERS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Number {
    PcieGeneration,
    PcieGenerationMost,
    PcieWidth,
    PcieWidthMost,
    PowerLimit,
    PowerLimitDefault,
    Power,
}

const NUMBERS: [&str; 7] = [
    "nvmlDeviceGetCurrPcieLinkGeneration",
    "nvmlDeviceGetMaxPcieLinkGeneration",
    "nvmlDeviceGetCurrPcieLinkWidth",
    "nvmlDeviceGetMaxPcieLinkWidth",
    "nvmlDeviceGetEnforcedPowerLimit",
    "nvmlDeviceGetPowerManagementDefaultLimit",
    "nvmlDeviceGetPowerUsage",
];

type NumberFn = unsafe extern "C" fn(Handle, *mut c_uint) -> c_uint;
type WideFn = unsafe extern "C" fn(Handle, *mut u64) -> c_uint;
/// Of one part of a device: a clock, a sensor or a link.
type PartFn = unsafe extern "C" fn(Handle, c_uint, *mut c_uint) -> c_uint;
type PairFn = unsafe extern "C" fn(Handle, *mut c_uint, *mut c_uint) -> c_uint;
type EccFn = unsafe extern "C" fn(Handle, c_uint, c_uint, *mut u64) -> c_uint;
/// Rows replaced because of corrected errors and of others, whether more are pending, and whether a replacement failed.
type RemappedFn = unsafe extern "C" fn(Handle, *mut c_uint, *mut c_uint, *mut c_uint, *mut c_uint) -> c_uint;
type ProcessesFn = unsafe extern "C" fn(Handle, *mut c_uint, *mut ProcessInfo) -> c_uint;
type UtilizationFn = unsafe extern "C" fn(Handle, *mut Utilization, *mut c_uint, u64) -> c_uint;
type TextFn = unsafe extern "C" fn(*mut c_char, c_uint) -> c_uint;
type DeviceTextFn = unsafe extern "C" fn(Handle, *mut c_char, c_uint) -> c_uint;

/// The opened library; a call that it lacks is `None`.
pub(crate) struct Nvml {
    by_uuid: unsafe extern "C" fn(*const c_char, *mut Handle) -> c_uint,
    numbers: [Option<NumberFn>; NUMBERS.len()],
    clock: Option<PartFn>,
    temperature: Option<PartFn>,
    clock_most: Option<PartFn>,
    link_state: Option<PartFn>,
    link_version: Option<PartFn>,
    throttle: Option<WideFn>,
    energy: Option<WideFn>,
    ecc: Option<EccFn>,
    remapped: Option<RemappedFn>,
    mig: Option<PairFn>,
    processes: Option<ProcessesFn>,
    utilization: Option<UtilizationFn>,
    driver: Option<TextFn>,
    board: Option<DeviceTextFn>,
    vbios: Option<DeviceTextFn>,
    _library: ManuallyDrop<Library>,
}

impl std::fmt::Debug for Nvml {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Nvml")
    }
}

fn missing(why: String) -> Unavailable {
    Unavailable::new("NVML", why, format!("Install the driver's {LIBRARY}, or mount it into the container"))
}

impl Nvml {
    /// The library of this machine, opened and initialised on the first call.
    pub(crate) fn system() -> Result<&'static Self, Unavailable> {
        static SYSTEM: OnceLock<Result<Nvml, Unavailable>> = OnceLock::new();
        let open = || match std::env::var_os(LIBRARY_OVERRIDE) {
            Some(path) if Path::new(&path).is_absolute() => Self::open(Path::new(&path)),
            Some(_) => Err(missing(format!("{LIBRARY_OVERRIDE} is not an absolute path"))),
            None => Self::open(Path::new(LIBRARY)),
        };
        SYSTEM.get_or_init(open).as_ref().map_err(Clone::clone)
    }

    fn open(path: &Path) -> Result<Self, Unavailable> {
        let library = ManuallyDrop::new(super::load(path).map_err(|why| missing(format!("can't load it: {why}")))?);
        // SAFETY: the types are those of nvml.h for these symbols, and the library is never closed.
        let nvml = unsafe {
            let init: unsafe extern "C" fn() -> c_uint = resolve(&library, "NVML", &["nvmlInit_v2"])?;
            match init() {
                0 => {}
                code => return Err(missing(format!("nvmlInit_v2 returned {code}"))),
            }
            let numbers = NUMBERS.map(|symbol| resolve(&library, "NVML", &[symbol]).ok());
            Self {
                by_uuid: resolve(&library, "NVML", &["nvmlDeviceGetHandleByUUID"])?,
                numbers,
                clock: resolve(&library, "NVML", &["nvmlDeviceGetClockInfo"]).ok(),
                temperature: resolve(&library, "NVML", &["nvmlDeviceGetTemperature"]).ok(),
                clock_most: resolve(&library, "NVML", &["nvmlDeviceGetMaxClockInfo"]).ok(),
                link_state: resolve(&library, "NVML", &["nvmlDeviceGetNvLinkState"]).ok(),
                link_version: resolve(&library, "NVML", &["nvmlDeviceGetNvLinkVersion"]).ok(),
                throttle: resolve(&library, "NVML", &["nvmlDeviceGetCurrentClocksThrottleReasons"]).ok(),
                energy: resolve(&library, "NVML", &["nvmlDeviceGetTotalEnergyConsumption"]).ok(),
                ecc: resolve(&library, "NVML", &["nvmlDeviceGetTotalEccErrors"]).ok(),
                remapped: resolve(&library, "NVML", &["nvmlDeviceGetRemappedRows"]).ok(),
                mig: resolve(&library, "NVML", &["nvmlDeviceGetMigMode"]).ok(),
                processes: resolve(&library, "NVML", &["nvmlDeviceGetComputeRunningProcesses_v3"]).ok(),
                utilization: resolve(&library, "NVML", &["nvmlDeviceGetProcessUtilization"]).ok(),
                driver: resolve(&library, "NVML", &["nvmlSystemGetDriverVersion"]).ok(),
                board: resolve(&library, "NVML", &["nvmlDeviceGetBoardPartNumber"]).ok(),
                vbios: resolve(&library, "NVML", &["nvmlDeviceGetVbiosVersion"]).ok(),
                _library: library,
            }
        };
        Ok(nvml)
    }

    /// The device with this UUID, prefix included.
    pub(crate) fn device(&'static self, uuid: &str) -> Result<NvmlDevice, Unavailable> {
        let text = CString::new(uuid).map_err(|_| missing("the device's UUID contains a zero byte".to_owned()))?;
        let mut handle = Handle::NULL;
        // SAFETY: the text is terminated and outlives the call; the handle is written to a live variable.
        match unsafe { (self.by_uuid)(text.as_ptr(), &raw mut handle) } {
            0 => Ok(NvmlDevice { nvml: self, handle }),
            code => Err(missing(format!("it doesn't know the device {uuid} (code {code})"))),
        }
    }

    /// The driver's release: `580.65.06`.
    pub(crate) fn driver(&self) -> Option<String> {
        let ask = self.driver?;
        // SAFETY: the call writes at most `length` bytes, terminated.
        read_text(|text, length| unsafe { ask(text, length) })
    }
}

/// Text that a call writes into a buffer of so many bytes, without control characters; `None` if the call fails.
fn read_text(write: impl FnOnce(*mut c_char, c_uint) -> c_uint) -> Option<String> {
    let mut text = [0_u8; 96];
    let code = write(text.as_mut_ptr().cast(), text.len() as c_uint);
    let end = text.iter().position(|&byte| byte == 0)?;
    let text = String::from_utf8_lossy(&text[..end]);
    (code == 0).then(|| text.chars().filter(|c| !c.is_control()).collect())
}

/// A device in NVML. Its methods allocate nothing; a value that NVML doesn't report is `None`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NvmlDevice {
    nvml: &'static Nvml,
    handle: Handle,
}

/// The value if the call succeeded.
fn value_if_ok<T>(code: c_uint, value: T) -> Option<T> {
    (code == 0).then_some(value)
}

impl NvmlDevice {
    pub(crate) fn number(&self, number: Number) -> Option<u32> {
        let ask = self.nvml.numbers[number as usize]?;
        let mut value = 0;
        // SAFETY: the handle is NVML's own; the value is written to a live integer. The same holds for all calls below.
        value_if_ok(unsafe { ask(self.handle, &raw mut value) }, value)
    }

    /// Asks for a number of one part of the device, such as a clock, a sensor or a link.
    fn query(&self, ask: PartFn, part: c_uint) -> Option<u32> {
        let mut value = 0;
        // SAFETY: as above.
        value_if_ok(unsafe { ask(self.handle, part, &raw mut value) }, value)
    }

    /// Clock of the SMs, MHz.
    pub(crate) fn multiprocessor_mhz(&self) -> Option<u32> {
        const SM: c_uint = 1;
        self.query(self.nvml.clock?, SM)
    }

    /// Temperature of the chip, degrees Celsius.
    pub(crate) fn chip_temperature(&self) -> Option<u32> {
        const CHIP: c_uint = 0;
        self.query(self.nvml.temperature?, CHIP)
    }

    /// Highest clock of the SMs, MHz.
    pub(crate) fn multiprocessor_mhz_most(&self) -> Option<u32> {
        const SM: c_uint = 1;
        self.query(self.nvml.clock_most?, SM)
    }

    /// Signalling rate of all its active NVLinks together, one way, bytes per second; `None` if none is active.
    pub(crate) fn links(&self) -> Option<f64> {
        /// `NVML_NVLINK_MAX_LINKS`.
        const MOST: c_uint = 18;
        /// Bytes per second of a link by `nvmlNvlinkVersion_t` (1.0, 2.0, 2.2, 3.0, 3.1, 4.0, 5.0), as nvidia-smi reports them.
        const SPEEDS: [f64; 8] = [0.0, 20e9, 25.781e9, 25.781e9, 25e9, 25e9, 26.562e9, 53.125e9];
        let (state, version) = (self.nvml.link_state?, self.nvml.link_version?);
        let speed = |link: c_uint| {
            let active = self.query(state, link)? == 1;
            let version = usize::try_from(self.query(version, link)?).ok()?;
            active.then(|| SPEEDS.get(version).copied().unwrap_or(0.0))
        };
        Some((0..MOST).filter_map(speed).sum()).filter(|sum: &f64| *sum > 0.0)
    }

    /// The part number of its board: `692-2G520-0282-000`. Boards of one model can differ, for example in the maker of their memory.
    pub(crate) fn board_part_number(&self) -> Option<String> {
        let ask = self.nvml.board?;
        // SAFETY: the call writes at most `length` bytes, terminated.
        read_text(|text, length| unsafe { ask(self.handle, text, length) })
    }

    /// The version of its VBIOS: `96.00.A5.00.01`.
    pub(crate) fn vbios(&self) -> Option<String> {
        let ask = self.nvml.vbios?;
        // SAFETY: the call writes at most `length` bytes, terminated.
        read_text(|text, length| unsafe { ask(self.handle, text, length) })
    }

    /// `nvmlClocksEventReasons`, as bits.
    pub(crate) fn throttle(&self) -> Option<u64> {
        let (ask, mut value) = (self.nvml.throttle?, 0);
        // SAFETY: as above.
        value_if_ok(unsafe { ask(self.handle, &raw mut value) }, value)
    }

    /// Energy since the driver was loaded, mJ.
    pub(crate) fn energy(&self) -> Option<u64> {
        let (ask, mut value) = (self.nvml.energy?, 0);
        // SAFETY: as above.
        value_if_ok(unsafe { ask(self.handle, &raw mut value) }, value)
    }

    /// Memory errors since the driver was loaded: corrected ones, and others.
    pub(crate) fn ecc_errors(&self) -> Option<[u64; 2]> {
        const SINCE_LOAD: c_uint = 0;
        let ask = self.nvml.ecc?;
        let count = |kind: c_uint| {
            let mut value = 0;
            // SAFETY: as above.
            value_if_ok(unsafe { ask(self.handle, kind, SINCE_LOAD, &raw mut value) }, value)
        };
        Some([count(0)?, count(1)?])
    }

    /// The rows of memory that were replaced.
    pub(crate) fn remapped_rows(&self) -> Option<RemappedRows> {
        let ask = self.nvml.remapped?;
        let [mut corrected, mut uncorrected, mut pending, mut failed] = [0; 4];
        // SAFETY: as above.
        let code =
            unsafe { ask(self.handle, &raw mut corrected, &raw mut uncorrected, &raw mut pending, &raw mut failed) };
        value_if_ok(code, RemappedRows { corrected, uncorrected, pending: pending != 0, failed: failed != 0 })
    }

    /// Whether MIG mode is on.
    pub(crate) fn mig(&self) -> Option<bool> {
        let (ask, mut now, mut pending) = (self.nvml.mig?, 0, 0);
        // SAFETY: as above.
        value_if_ok(unsafe { ask(self.handle, &raw mut now, &raw mut pending) }, now == 1)
    }

    /// Host process IDs of the processes that compute on the device.
    pub(crate) fn processes(&self, out: &mut [u32; MOST_PROCESSES]) -> Option<usize> {
        let mut infos = [ProcessInfo::default(); MOST_PROCESSES];
        let (ask, mut count) = (self.nvml.processes?, MOST_PROCESSES as c_uint);
        // SAFETY: `count` is the room in `infos` on entry and the number of structures written on return.
        let count = value_if_ok(unsafe { ask(self.handle, &raw mut count, infos.as_mut_ptr()) }, count)? as usize;
        let count = count.min(MOST_PROCESSES);
        for (number, info) in out.iter_mut().zip(&infos[..count]) {
            *number = info.pid;
        }
        Some(count)
    }

    /// Utilization per process since `since` (microseconds since the epoch). Returns the number of samples written to `out`.
    pub(crate) fn utilization(&self, out: &mut [Utilization; MOST_PROCESSES], since: u64) -> Option<usize> {
        let (ask, mut count) = (self.nvml.utilization?, MOST_PROCESSES as c_uint);
        // SAFETY: as in `processes`.
        let count = value_if_ok(unsafe { ask(self.handle, out.as_mut_ptr(), &raw mut count, since) }, count)? as usize;
        Some(count.min(MOST_PROCESSES))
    }
}

/// NVML's handles are pointers too, so `Handle` fits them.
const _: () = assert!(size_of::<*mut c_void>() == size_of::<Handle>());
