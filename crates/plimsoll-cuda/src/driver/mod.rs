//! The driver: `libcuda.so.1` opened at run time, a table of its calls, and safe owned objects on top of them. Callers decide what
//! to measure and how long to wait.
//!
//! `PLIMSOLL_LIBCUDA` names another library by absolute path. It exists only for the fake driver of the tests.

mod context;
#[cfg(feature = "cudarc")]
mod cudarc;
mod current;
mod error;
mod event;
mod gate;
mod graph;
mod info;
mod limits;
mod module;
pub(crate) mod nvml;
mod stream;
mod streams;
mod table;
mod types;
mod window;

use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use plimsoll_gpu::Unavailable;

pub use context::Context;
pub(crate) use error::{DEVICE_UNAVAILABLE, NO_DEVICE, OUT_OF_MEMORY, STUB_LIBRARY};
pub use error::{DriverError, hint, name};
pub use event::Event;
pub use graph::Graph;
pub use info::{Attribute, DeviceHandle};
pub use limits::{Limit, LimitGuard, SavedLimits};
pub use module::{Function, Module};
pub use stream::Entered;
#[cfg(feature = "cudarc")]
pub(crate) use stream::EnteredOwned;
pub use stream::Stream;
use streams::Shared;
pub(crate) use table::Calls;
use types::DeviceNumber;
pub(crate) use types::{AllocationProperties, MappedAccess};
pub use types::{DevicePointer, Handle};
pub use window::{Access, AccessWindow};

/// The driver's library.
const LIBRARY: &str = "libcuda.so.1";
/// The environment variable that names another library by absolute path, for tests.
pub const LIBRARY_OVERRIDE: &str = "PLIMSOLL_LIBCUDA";
/// The oldest supported driver, as `cuDriverGetVersion` reports it: CUDA 11.0.
const OLDEST: i32 = 11_000;

/// An opened and initialised driver.
pub struct Driver {
    table: table::Table,
    version: i32,
    /// Opened by the name that other libraries use too.
    system: bool,
    /// State shared by all users of a device, since a process has one primary context per device.
    devices: Mutex<Vec<(DeviceNumber, Arc<Shared>)>>,
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Driver({})", self.version_text())
    }
}

impl Driver {
    /// The symbol of every call that this backend makes; of several versions, the oldest.
    pub const CALLS: &[&str] = table::Table::CALLS;

    /// The driver of this machine, opened on the first call.
    ///
    /// # Errors
    /// No library, a stub in its place, a driver too old, or no device.
    pub fn system() -> Result<Arc<Self>, Unavailable> {
        static SYSTEM: OnceLock<Result<Arc<Driver>, Unavailable>> = OnceLock::new();
        let open = || match std::env::var_os(LIBRARY_OVERRIDE) {
            Some(path) if Path::new(&path).is_absolute() => Self::open(Path::new(&path)),
            Some(_) => Err(Unavailable::new(
                "CUDA driver",
                format!("{LIBRARY_OVERRIDE} is not an absolute path"),
                format!("Unset {LIBRARY_OVERRIDE} or set it to an absolute path"),
            )),
            None => Self::open(Path::new(LIBRARY)),
        };
        SYSTEM.get_or_init(open).clone()
    }

    /// Opens and initialises the driver in `library`.
    ///
    /// # Errors
    /// Those of [`Driver::system`].
    pub fn open(library: &Path) -> Result<Arc<Self>, Unavailable> {
        let system = library == Path::new(LIBRARY);
        let library = load(library).map_err(|why| {
            Unavailable::new(
                "CUDA driver",
                format!("can't load it: {why}"),
                format!(
                    "Install the NVIDIA driver, or add the folder of its {LIBRARY} to LD_LIBRARY_PATH; without a GPU \
                     use the CPU"
                ),
            )
        })?;
        let mut driver = Self { table: table::Table::new(library), version: 0, system, devices: Mutex::default() };
        driver.initialise().map_err(|error| match error {
            DriverError::Unavailable(reason) => reason,
            DriverError::Call { code, .. } => Unavailable::new("CUDA driver", error.to_string(), hint(code)),
        })?;
        if driver.version < OLDEST {
            let why =
                format!("the driver supports CUDA {}; 11.0 is the oldest supported version", driver.version_text());
            return Err(Unavailable::new("CUDA driver", why, "Update the NVIDIA driver to 450.80 or newer"));
        }
        Ok(Arc::new(driver))
    }

    fn initialise(&mut self) -> Result<(), DriverError> {
        let mut version = 0;
        // SAFETY: cuInit takes no pointer, and the version is written to a live integer.
        unsafe {
            self.call().init(0)?;
            self.call().driver_version(&raw mut version)?;
        }
        self.version = version;
        Ok(())
    }

    /// The table of calls.
    pub(crate) fn call(&self) -> Calls<'_> {
        Calls(&self.table)
    }

    /// State shared by all users of a device.
    fn shared(&self, device: DeviceNumber) -> Arc<Shared> {
        let mut devices = self.devices.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, shared)) = devices.iter().find(|(number, _)| *number == device) {
            return Arc::clone(shared);
        }
        let shared = Arc::<Shared>::default();
        devices.push((device, Arc::clone(&shared)));
        shared
    }

    /// Checks that the driver has a call, by its symbol.
    pub fn has(&self, symbol: &str) -> Result<(), Unavailable> {
        self.table.has(symbol)
    }

    /// Checks that the driver has all of these calls.
    pub fn has_all(&self, symbols: &[&str]) -> Result<(), Unavailable> {
        symbols.iter().try_for_each(|symbol| self.has(symbol))
    }

    /// Whether other libraries of this process load the same driver by its name.
    #[must_use]
    pub(crate) fn is_system(&self) -> bool {
        self.system
    }

    /// The newest CUDA version that the driver supports: 12040 is 12.4.
    #[must_use]
    pub fn version(&self) -> i32 {
        self.version
    }

    /// The version as text: `12.4`.
    #[must_use]
    pub fn version_text(&self) -> String {
        format!("{}.{}", self.version / 1000, self.version % 1000 / 10)
    }
}

/// Opens a library by a bare name that the loader resolves, or by absolute path.
fn load(library: &Path) -> Result<Library, String> {
    // SAFETY: loading runs the library's initialisers. The path is the driver's bare name, which the loader finds in the folders
    // that the system and the user chose, never in the current folder, or an absolute path that the user gave.
    unsafe { Library::open(Some(library), RTLD_NOW | RTLD_LOCAL) }.map_err(|error| {
        let mut text = error.to_string();
        if let Some(cause) = std::error::Error::source(&error) {
            text = format!("{text} ({cause})");
        }
        text.chars().filter(|c| !c.is_control()).take(300).collect()
    })
}
