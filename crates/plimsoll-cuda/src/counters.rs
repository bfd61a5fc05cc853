//! Hardware counters around a launch: what memory and caches really moved, and how many instructions were executed. Which
//! metrics of CUPTI that takes on each chip is decided here; CUPTI's calls are `cupti`'s.
//!
//! ```no_run
//! # fn main() -> Result<(), plimsoll_core::Fault> {
//! use plimsoll_cuda::counters::{Counter, Counters};
//!
//! let counters = Counters::open(0)?;
//! let counts = counters.measure(|| {
//!     // Launch a kernel on this device by any library that uses its primary context, and wait until it is done.
//!     Ok(())
//! })?;
//! println!("{:?} B read from memory", counts.get(Counter::DramRead));
//! # Ok(())
//! # }
//! ```

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use plimsoll_core::sample::Workload;
use plimsoll_core::{Fault, counted};

use crate::cupti::{Cupti, Session, Set};
use crate::driver::{Context, DeviceHandle, Driver};
use crate::wait;
use plimsoll_gpu::Unavailable;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident: $($metric:literal)|+;)*) => {
        /// Something that hardware counts.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Counter { $($(#[$doc])* $name),* }

        impl Counter {
            /// What CUPTI calls it, on newer chips or older ones.
            fn metrics(self) -> &'static [&'static CStr] {
                match self { $(Self::$name => &[$($metric),+]),* }
            }
        }
    };
}

counters! {
    /// Bytes read from memory.
    DramRead: c"dram__bytes_read.sum" | c"dram__bytes_op_read.sum";
    /// Bytes written to memory.
    DramWritten: c"dram__bytes_write.sum" | c"dram__bytes_op_write.sum";
    /// Instructions that warps executed.
    Instructions: c"smsp__inst_executed.sum";
    /// Sectors of 32 bytes looked up in the first-level caches.
    L1Sectors: c"l1tex__t_sectors.sum";
    /// Those of them that were there.
    L1Hits: c"l1tex__t_sectors_lookup_hit.sum";
    /// Sectors that the multiprocessors read from the second-level cache.
    L2Read: c"lts__t_sectors_srcunit_tex_op_read.sum";
    /// Sectors that they wrote to it.
    L2Written: c"lts__t_sectors_srcunit_tex_op_write.sum";
    /// Requests of theirs to it, of up to four sectors of one line each, atomics included.
    L2Requests: c"lts__t_requests_srcunit_tex.sum";
    /// Those of them that it had.
    L2Hits: c"lts__t_requests_srcunit_tex_lookup_hit.sum";
    /// Sectors asked for by the other partition of the second-level cache, on chips that have two.
    L2Crossed: c"lts__t_sectors_srcunit_ltcfabric.sum";
}

/// What is counted, together: this takes one pass on every chip from Turing to Blackwell but the A100, where it takes two
/// (after libnvperf_host of CUDA 13.0). Hits are counted by requests, since sectors that hit would need a pass of their own.
const ALL: [Counter; 10] = [
    Counter::DramRead,
    Counter::DramWritten,
    Counter::Instructions,
    Counter::L1Sectors,
    Counter::L1Hits,
    Counter::L2Read,
    Counter::L2Written,
    Counter::L2Requests,
    Counter::L2Hits,
    Counter::L2Crossed,
];

/// What was counted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counts(BTreeMap<Counter, f64>);

impl Counts {
    /// One counter's number; `None` where the chip doesn't count it.
    #[must_use]
    pub fn get(&self, counter: Counter) -> Option<f64> {
        self.0.get(&counter).copied()
    }

    /// Share of the sectors looked up in the first-level caches that were there, 0…1.
    #[must_use]
    pub fn l1_hit_rate(&self) -> Option<f64> {
        self.share(Counter::L1Hits, Counter::L1Sectors)
    }

    /// Share of the multiprocessors' requests to the second-level cache that hit, 0…1. A write to a line that is not there
    /// misses, though it reads nothing from memory (so on an H200).
    #[must_use]
    pub fn l2_hit_rate(&self) -> Option<f64> {
        self.share(Counter::L2Hits, Counter::L2Requests)
    }

    fn share(&self, part: Counter, whole: Counter) -> Option<f64> {
        let share = self.get(part)? / self.get(whole)?;
        share.is_finite().then_some(share)
    }

    /// Per launch, by the names of [`counted`].
    fn per_launch(&self, launches: f64) -> BTreeMap<String, f64> {
        let plain = [
            (counted::DRAM_READ, Counter::DramRead),
            (counted::DRAM_WRITTEN, Counter::DramWritten),
            (counted::L1_SECTORS, Counter::L1Sectors),
            (counted::L2_READ, Counter::L2Read),
            (counted::L2_WRITTEN, Counter::L2Written),
            (counted::L2_CROSSED, Counter::L2Crossed),
            (counted::INSTRUCTIONS, Counter::Instructions),
        ];
        let sums = plain.into_iter().filter_map(|(name, counter)| Some((name, self.get(counter)? / launches)));
        let rates = [(counted::L1_HITS, self.l1_hit_rate()), (counted::L2_HITS, self.l2_hit_rate())];
        let rates = rates.into_iter().filter_map(|(name, rate)| Some((name, rate?)));
        sums.chain(rates).map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

/// The counters of one device.
pub struct Counters {
    set: Set,
    session: Session,
}

impl Counters {
    /// Opens the counters of `cuda:index`.
    ///
    /// # Errors
    /// [`Fault::Unavailable`]: no driver, no device, no CUPTI, no permission; each with the way out.
    pub fn open(index: u32) -> Result<Self, Fault> {
        let handle = DeviceHandle::new(&Driver::system()?, index)?;
        Ok(Self::new(&Context::new(handle, wait::DEADLINE)?)?)
    }

    /// The counters of a context's device.
    ///
    /// # Errors
    /// No CUPTI, no permission, a chip that it doesn't know: with the way out.
    pub fn new(context: &Arc<Context>) -> Result<Self, Unavailable> {
        Self::with(&find(None, context.driver())?, context)
    }

    /// The same by an opened CUPTI.
    ///
    /// # Errors
    /// As there.
    pub fn with(cupti: &Arc<Cupti>, context: &Arc<Context>) -> Result<Self, Unavailable> {
        let session = Session::new(cupti, context)?;
        let set = session.set(&ALL.map(Counter::metrics))?;
        Ok(Self { set, session })
    }

    /// The chip, as CUPTI calls it: `GH100`.
    #[must_use]
    pub fn chip(&self) -> String {
        self.session.chip()
    }

    /// How often a launch must be repeated to be counted: once on most chips.
    #[must_use]
    pub fn passes(&self) -> usize {
        self.set.passes()
    }

    /// Counts what `launch` does on the device. It launches whatever it likes in the device's primary context, and must
    /// wait until that is done. It is called once for each of [`Counters::passes`], and should find the same state each
    /// time: nothing is saved, restored or flushed in between. Takes some 0.2 s on an H200, which CUPTI needs to prepare.
    ///
    /// # Errors
    /// CUPTI's and those of `launch`.
    pub fn measure(&self, mut launch: impl FnMut() -> Result<(), Fault>) -> Result<Counts, Fault> {
        self.count(&mut launch, |_| Ok(()), |launch| launch())
    }

    /// Counts one launch of a workload, or the mean over a whole rotation, in the state that its samples find.
    ///
    /// # Errors
    /// CUPTI's and the workload's.
    pub(crate) fn of(&self, workload: &mut dyn Workload) -> Result<BTreeMap<String, f64>, Fault> {
        let launches = workload.ready()?;
        if launches == 0 {
            return Ok(BTreeMap::new());
        }
        let counts = self.count(workload, |workload| workload.ready().map(drop), |workload| workload.once())?;
        Ok(counts.per_launch(f64::from(launches)))
    }

    fn count<S: ?Sized>(
        &self,
        subject: &mut S,
        mut ready: impl FnMut(&mut S) -> Result<(), Fault>,
        mut launch: impl FnMut(&mut S) -> Result<(), Fault>,
    ) -> Result<Counts, Fault> {
        let found = self.session.count(&self.set, subject, &mut ready, &mut launch)?;
        Ok(Counts(found.into_iter().map(|(place, value)| (ALL[place], value)).collect()))
    }
}

impl std::fmt::Debug for Counters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Counters({})", self.chip())
    }
}

/// The CUPTI that goes with a driver.
///
/// # Errors
/// Those of [`Cupti::find`].
pub(crate) fn find(explicit: Option<&Path>, driver: &Driver) -> Result<Arc<Cupti>, Unavailable> {
    Cupti::find(explicit, u32::try_from(driver.version() / 1000).ok())
}

/// Whether counters are likely to be read, from what costs nothing to ask: the library, if it was found, and the driver's
/// settings.
///
/// # Errors
/// What is missing, and what brings it.
pub(crate) fn likely(cupti: &Result<Arc<Cupti>, Unavailable>) -> Result<&Cupti, Unavailable> {
    let cupti = cupti.as_deref().map_err(Clone::clone)?;
    let read = |path: &str| fs::read_to_string(Path::new(path)).unwrap_or_default();
    if is_restricted(&read("/proc/driver/nvidia/params"), &read("/proc/self/status")) {
        return Err(crate::cupti::forbidden());
    }
    Ok(cupti)
}

/// Whether the driver keeps its counters for administrators (`RmProfilingAdminOnly`) and this process is none: it has
/// neither CAP_SYS_ADMIN nor CAP_PERFMON (capabilities(7)). False where the files don't tell.
fn is_restricted(driver: &str, process: &str) -> bool {
    const CAP_SYS_ADMIN: u64 = 1 << 21;
    const CAP_PERFMON: u64 = 1 << 38;
    let field = |text: &str, name: &str| {
        text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(|value| value.trim().to_owned()))
    };
    let restricted = field(driver, "RmProfilingAdminOnly").is_some_and(|value| value == "1");
    let capabilities = field(process, "CapEff").and_then(|value| u64::from_str_radix(&value, 16).ok());
    restricted && capabilities.is_some_and(|bits| bits & (CAP_SYS_ADMIN | CAP_PERFMON) == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn administrators_read_counters_and_others_where_the_driver_lets_them() {
        let (open, closed) = ("Mobile: 1\nRmProfilingAdminOnly: 0\n", "RmProfilingAdminOnly: 1\n");
        let (root, user) = ("Name:\tx\nCapEff:\t000001ffffffffff\n", "CapEff:\t0000000000000000\n");
        assert!(is_restricted(closed, user));
        assert!(!is_restricted(closed, root));
        assert!(!is_restricted(open, user));
        assert!(!is_restricted("", user) && !is_restricted(closed, ""));
    }

    #[test]
    fn counts_are_told_per_launch_and_hits_as_shares() {
        let counts = Counts(BTreeMap::from([
            (Counter::DramRead, 4096.0),
            (Counter::L1Sectors, 100.0),
            (Counter::L1Hits, 25.0),
            (Counter::L2Hits, 7.0),
        ]));
        let told = counts.per_launch(4.0);
        assert_eq!((told[counted::DRAM_READ], told[counted::L1_SECTORS], told[counted::L1_HITS]), (1024.0, 25.0, 0.25));
        assert!(!told.contains_key(counted::L2_HITS) && !told.contains_key(counted::DRAM_WRITTEN));
    }
}
