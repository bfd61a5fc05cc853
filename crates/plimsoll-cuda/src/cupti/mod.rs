//! CUPTI, NVIDIA's profiling interface: hardware counters around a launch in this process. It is found and opened at run time and
//! never required. `counters` chooses and interprets the counters.
//!
//! This uses the range profiler with user ranges and user replay: the caller launches again for every pass that a set of metrics
//! needs, and prepares the state before each. Replay by CUPTI would save and restore memory around each pass, which evicts from the
//! caches the data to be counted.

mod error;
mod host;
mod profiling;
mod range;
mod search;
mod table;
mod types;

use std::ffi::{CStr, CString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plimsoll_core::Fault;

use crate::driver::Context;
use crate::toolkit::Places;
use error::broken;
use host::Host;
use plimsoll_gpu::Unavailable;
use profiling::Profiling;
use range::Enabled;
use table::Table;
use types::{Availability, ChipName};

/// The environment variable that holds the absolute path of the library or its folder.
pub const VARIABLE: &str = "PLIMSOLL_CUPTI";
/// Its name in error messages.
const WHAT: &str = "CUPTI";
/// How to install it.
const HINT: &str = "Install it into the active Python environment with 'pip install nvidia-cuda-cupti' (for a driver of \
                    CUDA 12: 'nvidia-cuda-cupti-cu12'), or install the CUDA toolkit, or set PLIMSOLL_CUPTI to the library's \
                    absolute path";
/// Most accepted passes for one set of metrics: ours take at most two.
const MOST_PASSES: usize = 64;
/// Largest accepted buffer size: more than CUPTI needs for any call here, so a larger one comes from a broken library.
const MOST_BYTES: usize = 1 << 28;

/// An opened CUPTI.
pub struct Cupti {
    table: Table,
    version: u32,
    path: PathBuf,
}

impl std::fmt::Debug for Cupti {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cupti({})", self.version)
    }
}

impl Cupti {
    /// Every CUPTI call that is used, except the one for its version.
    pub const CALLS: &[&str] = Table::CALLS;

    /// Finds and opens the library: `explicit` (a file or its folder), else `PLIMSOLL_CUPTI`, else the toolkits of `CUDA_HOME` and
    /// `CUDA_PATH`, the usual toolkit folders, the active Python environment, and last the loader's search path. Takes the first
    /// whose CUDA major version is at most `major`.
    ///
    /// # Errors
    /// An explicit path that fails is an error: no other place is tried.
    pub fn find(explicit: Option<&Path>, major: Option<u32>) -> Result<Arc<Self>, Unavailable> {
        let named = search::LIBRARY.find_named(explicit, std::env::var_os(VARIABLE).as_deref())?;
        let candidates = named.unwrap_or_else(|| search::LIBRARY.find_usual(&Places::from_environment()));
        let mut failed: Vec<String> = Vec::new();
        for path in &candidates {
            let name = sanitize(&path.display().to_string());
            match Table::open(path) {
                Ok(table) => {
                    let cupti = Self { version: table.version(), table, path: path.clone() };
                    if major.is_none_or(|major| cupti.major() <= major) {
                        return Ok(Arc::new(cupti));
                    }
                    let own = cupti.major();
                    failed.push(format!(
                        "{name} belongs to CUDA {own}, newer than the driver's CUDA {}",
                        major.unwrap_or(0)
                    ));
                }
                // A bare name that the loader can't find isn't worth reporting.
                Err(why) if path.is_absolute() => failed.push(format!("{name}: {why}")),
                Err(_) => {}
            }
        }
        let none = "no libcupti.so in a toolkit folder, the active Python environment or the loader's search path";
        Err(Unavailable::new(WHAT, failed.into_iter().next().unwrap_or_else(|| none.to_owned()), HINT))
    }

    /// Its CUDA major version, from the table of interface versions in cupti_version.h.
    fn major(&self) -> u32 {
        match self.version {
            version @ 100_000.. => version / 10_000,
            19.. => 12,
            _ => 11,
        }
    }

    /// Its interface version: 24 belongs to CUDA 12.6, 130001 to CUDA 13.0.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.version
    }
}

/// CUPTI in use on one device.
pub(crate) struct Session {
    cupti: Arc<Cupti>,
    context: Arc<Context>,
    chip: CString,
    availability: Vec<u8>,
    _profiling: Profiling,
}

/// Metrics that are counted together.
pub(crate) struct Set {
    host: Host,
    /// For each available metric its index in the requested list.
    places: Vec<usize>,
}

impl Set {
    /// Passes that the hardware needs to count it.
    pub(crate) fn passes(&self) -> usize {
        self.host.passes.max(1)
    }
}

impl Session {
    /// Starts the session: from now on CUPTI has hooks in the driver.
    ///
    /// # Errors
    /// CUPTI refuses, mostly for lack of permission.
    pub(crate) fn new(cupti: &Arc<Cupti>, context: &Arc<Context>) -> Result<Self, Unavailable> {
        table::open_companions(&cupti.path).map_err(|why| Unavailable::new(WHAT, why, HINT))?;
        let profiling = Profiling::new(cupti, context)?;
        let (cupti, context) = (Arc::clone(cupti), Arc::clone(context));
        let mut session =
            Self { cupti, context, chip: CString::default(), availability: Vec::new(), _profiling: profiling };
        let mut params = ChipName::new();
        params.device = usize::try_from(session.context.device().number()).unwrap_or(0);
        // SAFETY: the call reads the device's number and writes a pointer.
        unsafe { session.cupti.table.chip_name(&mut params) }?;
        if !params.name.is_null() {
            // SAFETY: not null, and according to the headers a text of CUPTI's that ends with a zero byte.
            session.chip = unsafe { CStr::from_ptr(params.name) }.to_owned();
        }
        session.availability = session.read_availability()?;
        Ok(session)
    }

    /// Reads which counters the device offers this process. This fails if permission is missing.
    fn read_availability(&self) -> Result<Vec<u8>, Unavailable> {
        let mut params = Availability::new();
        params.context = self.context.handle().0;
        // SAFETY: the context is live; a null image requests its size.
        unsafe { self.cupti.table.availability(&mut params) }?;
        let mut image = buffer(params.size_of_image)?;
        params.image = image.as_mut_ptr();
        // SAFETY: the context is live, and the image has the length that CUPTI requested.
        unsafe { self.cupti.table.availability(&mut params) }?;
        Ok(image)
    }

    /// CUPTI's name of the chip: `GH100`.
    pub(crate) fn chip(&self) -> String {
        self.chip.to_string_lossy().into_owned()
    }

    /// A set of metrics, each by the first name that the chip knows.
    pub(crate) fn set(&self, wanted: &[&[&CStr]]) -> Result<Set, Unavailable> {
        let (host, places) = Host::new(&self.cupti, &self.chip, &self.availability, wanted)?;
        Ok(Set { host, places })
    }

    /// Counts a set's metrics around `launch`, which launches and waits, once per pass; `ready` runs before each, uncounted.
    /// Returns pairs of an index in the requested list and a value.
    ///
    /// # Errors
    /// Those of the closures.
    pub(crate) fn count<S: ?Sized>(
        &self,
        set: &Set,
        subject: &mut S,
        mut ready: impl FnMut(&mut S) -> Result<(), Fault>,
        mut launch: impl FnMut(&mut S) -> Result<(), Fault>,
    ) -> Result<Vec<(usize, f64)>, Fault> {
        if set.places.is_empty() {
            return Ok(Vec::new());
        }
        self.context.bind()?;
        let mut enabled = Enabled::new(&self.cupti, &self.context, &set.host)?;
        for _ in 0..set.passes() {
            ready(subject)?;
            if !enabled.run_pass(|| launch(subject))? {
                break;
            }
        }
        let values = set.host.evaluate(enabled.data()?)?;
        Ok(set.places.iter().copied().zip(values).filter(|(_, value)| value.is_finite()).collect())
    }
}

/// The reason if the driver restricts counters to administrators.
pub(crate) fn forbidden() -> Unavailable {
    error::restricted()
}

/// A zeroed buffer of a size that CUPTI requested.
fn buffer(bytes: usize) -> Result<Vec<u8>, Unavailable> {
    if bytes > MOST_BYTES {
        return Err(broken(format!("it asks for {bytes} bytes of memory, more than it can need")));
    }
    Ok(vec![0; bytes])
}

/// Removes control characters from foreign text, and limits its length.
fn sanitize(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(300).collect()
}
