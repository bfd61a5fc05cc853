//! Hardware counters around a launch: actual traffic of memory and caches, and executed instructions. This module chooses CUPTI's
//! metrics for each chip; `cupti` makes the calls.
//!
//! ```no_run
//! # fn main() -> Result<(), plimsoll_core::Fault> {
//! use plimsoll_cuda::counters::{Counter, Counters};
//!
//! let counters = Counters::open(0)?;
//! let counts = counters.measure(|| {
//!     // Launch a kernel on this device with any library that uses its primary context, and wait until it is done.
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
        /// A hardware counter.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Counter { $($(#[$doc])* $name),* }

        impl Counter {
            /// CUPTI's names for it, which depend on the chip's generation.
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
    /// Sectors of 32 bytes looked up in the L1s.
    L1Sectors: c"l1tex__t_sectors.sum";
    /// Sectors among [`Counter::L1Sectors`] that hit.
    L1Hits: c"l1tex__t_sectors_lookup_hit.sum";
    /// Sectors that the SMs read from the L2.
    L2Read: c"lts__t_sectors_srcunit_tex_op_read.sum";
    /// Sectors that the SMs wrote to the L2.
    L2Written: c"lts__t_sectors_srcunit_tex_op_write.sum";
    /// Requests of the SMs to the L2, each for up to four sectors of one line, including atomics.
    L2Requests: c"lts__t_requests_srcunit_tex.sum";
    /// Requests among [`Counter::L2Requests`] that hit.
    L2Hits: c"lts__t_requests_srcunit_tex_lookup_hit.sum";
    /// Sectors requested by the other partition of the L2, on chips that have two.
    L2Crossed: c"lts__t_sectors_srcunit_ltcfabric.sum";
}

/// All counters, counted together. This takes one pass on every chip from Turing to Blackwell except the A100, where it takes two
/// (according to libnvperf_host of CUDA 13.0). L2 hits are counted by requests, since counting sectors would need another pass.
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

/// The counted values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counts(BTreeMap<Counter, f64>);

impl Counts {
    /// The value of a counter; `None` if the chip doesn't have it.
    #[must_use]
    pub fn get(&self, counter: Counter) -> Option<f64> {
        self.0.get(&counter).copied()
    }

    /// L1 hit rate by sectors, 0…1.
    #[must_use]
    pub fn l1_hit_rate(&self) -> Option<f64> {
        self.share(Counter::L1Hits, Counter::L1Sectors)
    }

    /// L2 hit rate by requests of the SMs, 0…1. A write to a line that is not in the L2 counts as a miss, although it reads nothing
    /// from memory (observed on an H200).
    #[must_use]
    pub fn l2_hit_rate(&self) -> Option<f64> {
        self.share(Counter::L2Hits, Counter::L2Requests)
    }

    fn share(&self, part: Counter, whole: Counter) -> Option<f64> {
        let share = self.get(part)? / self.get(whole)?;
        share.is_finite().then_some(share)
    }

    /// The values per launch, by the names in [`counted`].
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
    /// [`Fault::Unavailable`]: no driver, no device, no CUPTI, no permission.
    pub fn open(index: u32) -> Result<Self, Fault> {
        let handle = DeviceHandle::new(&Driver::system()?, index)?;
        Ok(Self::new(&Context::new(handle, wait::DEADLINE)?)?)
    }

    /// The counters of a context's device.
    ///
    /// # Errors
    /// No CUPTI, no permission, or a chip that CUPTI doesn't know.
    pub fn new(context: &Arc<Context>) -> Result<Self, Unavailable> {
        Self::open_with(&find(None, context.driver())?, context)
    }

    /// As [`Counters::new`], with an opened CUPTI.
    pub fn open_with(cupti: &Arc<Cupti>, context: &Arc<Context>) -> Result<Self, Unavailable> {
        let session = Session::new(cupti, context)?;
        let set = session.set(&ALL.map(Counter::metrics))?;
        Ok(Self { set, session })
    }

    /// CUPTI's name of the chip: `GH100`.
    #[must_use]
    pub fn chip(&self) -> String {
        self.session.chip()
    }

    /// How many launches counting takes: one on most chips.
    #[must_use]
    pub fn passes(&self) -> usize {
        self.set.passes()
    }

    /// Counts the work of `launch`, which may launch anything in the device's primary context and must wait until it is done. It is
    /// called once for each of [`Counters::passes`] and should start from the same state each time: nothing is saved, restored or
    /// flushed in between. Takes some 0.2 s on an H200, which CUPTI needs for its preparation.
    ///
    /// # Errors
    /// Those of `launch`.
    pub fn measure(&self, mut launch: impl FnMut() -> Result<(), Fault>) -> Result<Counts, Fault> {
        self.count(&mut launch, |_| Ok(()), |launch| launch())
    }

    /// Counts one launch of a workload, or the mean over a whole rotation, in the state in which its samples run.
    ///
    /// # Errors
    /// The workload's.
    pub(crate) fn count_workload(&self, workload: &mut dyn Workload) -> Result<BTreeMap<String, f64>, Fault> {
        let launches = workload.prepare_count()?;
        if launches == 0 {
            return Ok(BTreeMap::new());
        }
        let counts =
            self.count(workload, |workload| workload.prepare_count().map(drop), |workload| workload.launch_once())?;
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

/// Finds the CUPTI that matches a driver.
///
/// # Errors
/// Those of [`Cupti::find`].
pub(crate) fn find(explicit: Option<&Path>, driver: &Driver) -> Result<Arc<Cupti>, Unavailable> {
    Cupti::find(explicit, u32::try_from(driver.version() / 1000).ok())
}

/// Whether counters are likely to be readable, from cheap checks: whether the library was found, and the driver's settings.
pub(crate) fn check_access(cupti: &Result<Arc<Cupti>, Unavailable>) -> Result<&Cupti, Unavailable> {
    let cupti = cupti.as_deref().map_err(Clone::clone)?;
    let read = |path: &str| fs::read_to_string(Path::new(path)).unwrap_or_default();
    if is_restricted(&read("/proc/driver/nvidia/params"), &read("/proc/self/status")) {
        return Err(crate::cupti::forbidden());
    }
    Ok(cupti)
}

/// Whether the driver restricts its counters to administrators (`RmProfilingAdminOnly`) and this process has neither CAP_SYS_ADMIN
/// nor CAP_PERFMON (capabilities(7)). False if the files don't say.
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
    fn counters_are_restricted_only_if_the_driver_says_so_and_privileges_are_missing() {
        let (open, closed) = ("Mobile: 1\nRmProfilingAdminOnly: 0\n", "RmProfilingAdminOnly: 1\n");
        let (root, user) = ("Name:\tx\nCapEff:\t000001ffffffffff\n", "CapEff:\t0000000000000000\n");
        assert!(is_restricted(closed, user));
        assert!(!is_restricted(closed, root));
        assert!(!is_restricted(open, user));
        assert!(!is_restricted("", user) && !is_restricted(closed, ""));
    }

    #[test]
    fn counts_are_reported_per_launch_and_hits_as_shares() {
        let counts = Counts(BTreeMap::from([
            (Counter::DramRead, 4096.0),
            (Counter::L1Sectors, 100.0),
            (Counter::L1Hits, 25.0),
            (Counter::L2Hits, 7.0),
        ]));
        let values = counts.per_launch(4.0);
        let read = [counted::DRAM_READ, counted::L1_SECTORS, counted::L1_HITS].map(|name| values[name]);
        assert_eq!(read, [1024.0, 25.0, 0.25]);
        assert!(!values.contains_key(counted::L2_HITS) && !values.contains_key(counted::DRAM_WRITTEN));
    }
}
