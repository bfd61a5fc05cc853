//! CUPTI, NVIDIA's profiling interface: hardware counters around a launch, in this process. Found and opened at run time,
//! never required. Which counters are worth reading, and what they mean, is `counters`' business.
//!
//! The range profiler with user ranges and user replay: the caller launches again for every pass that a set of metrics
//! needs, from the state that it wants. Replay by CUPTI saves and restores memory around each pass, which empties the
//! caches of what is to be counted.

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

/// Names the library, or its folder, by absolute path.
pub const VARIABLE: &str = "PLIMSOLL_CUPTI";
/// How error reasons name it.
const WHAT: &str = "CUPTI";
/// What brings it.
const MEND: &str = "Install it into the active Python environment with 'pip install nvidia-cuda-cupti' (for a driver of \
                    CUDA 12: 'nvidia-cuda-cupti-cu12'), or install the CUDA toolkit, or set PLIMSOLL_CUPTI to the library's \
                    absolute path";
/// Most passes that one set of metrics is counted in: our metrics take two at most.
const MOST_PASSES: usize = 64;
/// More bytes than CUPTI needs for anything that it is asked here: an answer beyond is a broken library's.
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
    /// Every call that is made of it, but the one for its version.
    pub const CALLS: &[&str] = Table::CALLS;

    /// Finds and opens the library: `explicit` (a file or its folder), else what `PLIMSOLL_CUPTI` names, else that of the toolkits of `CUDA_HOME` and `CUDA_PATH`,
    /// the usual toolkit folders, the active Python environment, and at last the loader's own places. The first whose
    /// major version of CUDA is at most `major` is taken.
    ///
    /// # Errors
    /// What is missing or unusable, and what brings it. A path that was given and fails is an error: nothing else is tried
    /// in its place.
    pub fn find(explicit: Option<&Path>, major: Option<u32>) -> Result<Arc<Self>, Unavailable> {
        let given = search::WANTED.given(explicit, std::env::var_os(VARIABLE).as_deref())?;
        let candidates = given.unwrap_or_else(|| search::WANTED.usual(&Places::of_process()));
        let mut failed: Vec<String> = Vec::new();
        for path in &candidates {
            let name = shown(&path.display().to_string());
            match Table::open(path) {
                Ok(table) => {
                    let cupti = Self { version: table.version(), table, path: path.clone() };
                    if major.is_none_or(|major| cupti.major() <= major) {
                        return Ok(Arc::new(cupti));
                    }
                    let own = cupti.major();
                    failed
                        .push(format!("{name} is of CUDA {own}, newer than the driver's CUDA {}", major.unwrap_or(0)));
                }
                // Of a bare name that the loader doesn't know there is nothing to say.
                Err(why) if path.is_absolute() => failed.push(format!("{name}: {why}")),
                Err(_) => {}
            }
        }
        let none = "no libcupti.so in a toolkit folder, the active Python environment or the loader's places";
        Err(Unavailable::new(WHAT, failed.into_iter().next().unwrap_or_else(|| none.to_owned()), MEND))
    }

    /// Its major version of CUDA, by the table of interface versions in cupti_version.h.
    fn major(&self) -> u32 {
        match self.version {
            version @ 100_000.. => version / 10_000,
            19.. => 12,
            _ => 11,
        }
    }

    /// The version of its interface, as it counts: 24 is of CUDA 12.6, 130001 of CUDA 13.0.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.version
    }
}

/// CUPTI at work on one device.
pub(crate) struct Session {
    cupti: Arc<Cupti>,
    context: Arc<Context>,
    chip: CString,
    availability: Vec<u8>,
    _on: Profiling,
}

/// Metrics that are counted together.
pub(crate) struct Set {
    host: Host,
    /// Place in what was wanted of each metric that there is.
    places: Vec<usize>,
}

impl Set {
    /// Passes that the hardware needs to count it.
    pub(crate) fn passes(&self) -> usize {
        self.host.passes.max(1)
    }
}

impl Session {
    /// Begins: from now on CUPTI has hooks in the driver.
    ///
    /// # Errors
    /// What CUPTI refuses, for want of permission mostly.
    pub(crate) fn new(cupti: &Arc<Cupti>, context: &Arc<Context>) -> Result<Self, Unavailable> {
        table::open_companions(&cupti.path).map_err(|why| Unavailable::new(WHAT, why, MEND))?;
        let on = Profiling::new(cupti, context)?;
        let (cupti, context) = (Arc::clone(cupti), Arc::clone(context));
        let mut session = Self { cupti, context, chip: CString::default(), availability: Vec::new(), _on: on };
        let mut params = ChipName::new();
        params.device = usize::try_from(session.context.device().number()).unwrap_or(0);
        // SAFETY: the call reads the device's number and writes a pointer.
        unsafe { session.cupti.table.chip_name(&mut params) }?;
        if !params.name.is_null() {
            // SAFETY: not null, and by the headers a text that ends with a zero byte and is CUPTI's own.
            session.chip = unsafe { CStr::from_ptr(params.name) }.to_owned();
        }
        session.availability = session.ask_availability()?;
        Ok(session)
    }

    /// Which counters the device offers this process: here a missing permission shows.
    fn ask_availability(&self) -> Result<Vec<u8>, Unavailable> {
        let mut params = Availability::new();
        params.context = self.context.handle().0;
        // SAFETY: the context is live; a null image asks for its size.
        unsafe { self.cupti.table.availability(&mut params) }?;
        let mut image = buffer(params.size_of_image)?;
        params.image = image.as_mut_ptr();
        // SAFETY: the context is live, and the image as long as CUPTI asked and as said.
        unsafe { self.cupti.table.availability(&mut params) }?;
        Ok(image)
    }

    /// The chip, as CUPTI calls it: `GH100`.
    pub(crate) fn chip(&self) -> String {
        self.chip.to_string_lossy().into_owned()
    }

    /// A set of metrics: of each, the first name that the chip knows.
    ///
    /// # Errors
    /// CUPTI's.
    pub(crate) fn set(&self, wanted: &[&[&CStr]]) -> Result<Set, Unavailable> {
        let (host, places) = Host::new(&self.cupti, &self.chip, &self.availability, wanted)?;
        Ok(Set { host, places })
    }

    /// Counts a set's metrics around `launch`, which launches and waits, once for each pass; `ready` comes before each,
    /// uncounted. Pairs of a place in what was wanted and a value.
    ///
    /// # Errors
    /// CUPTI's and the caller's own.
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
            if !enabled.pass(|| launch(subject))? {
                break;
            }
        }
        let values = set.host.evaluate(enabled.data()?)?;
        Ok(set.places.iter().copied().zip(values).filter(|(_, value)| value.is_finite()).collect())
    }
}

/// The reason where the driver keeps counters for administrators.
pub(crate) fn forbidden() -> Unavailable {
    error::restricted()
}

/// Zeroed memory of a size that CUPTI asks for.
fn buffer(bytes: usize) -> Result<Vec<u8>, Unavailable> {
    if bytes > MOST_BYTES {
        return Err(broken(format!("it asks for {bytes} bytes of memory, more than anything that it does can need")));
    }
    Ok(vec![0; bytes])
}

/// Text of others, safe to show.
fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(300).collect()
}
