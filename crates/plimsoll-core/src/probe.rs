//! Probes: what a backend can measure, and the session that measures it.
//!
//! A [`ProbeSpec`] says what a probe is on every backend; a [`Probe`] is one backend's way to run it. Points leave
//! through [`Session::sweep`], which alone owns rounds, order, the stop signal and the budget. A probe knows nothing of
//! files, tables or pictures.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use crate::Fault;
use crate::device::DeviceInfo;
use crate::record::Finding;
use crate::sample::{Clock, Effort, Sampler, Workload};
use crate::series::Series;

pub use crate::instrument::{Bench, Instrument, Listing, Outcome, RunContext};
pub use crate::session::{Session, Sweep};

/// What a probe is, whatever runs it.
#[derive(Debug)]
pub struct ProbeSpec {
    /// Its name on the command line and in records.
    pub name: &'static str,
    /// The group it is listed in.
    pub group: &'static str,
    /// One sentence: what a person learns from it.
    pub sentence: &'static str,
    /// Time budgets in seconds for quick, standard and thorough.
    pub seconds: [f64; 3],
    /// What its series show: a pure function.
    pub findings: fn(&DeviceInfo, &[Series]) -> Vec<Finding>,
}

impl ProbeSpec {
    /// The time budget for an effort, seconds.
    #[must_use]
    pub fn budget(&self, effort: Effort) -> f64 {
        let [quick, standard, thorough] = self.seconds;
        match effort {
            Effort::Quick | Effort::Unknown => quick,
            Effort::Standard => standard,
            Effort::Thorough => thorough,
        }
    }
}

/// What the user asked of a run.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// How hard to try.
    pub effort: Effort,
    /// Size to use instead of a probe's own (array size of `stream`, largest footprint of sweeps), bytes.
    pub bytes: Option<u64>,
    /// Seed of all random data and orders.
    pub seed: u64,
    /// Record from call 0, one launch per sample.
    pub trace: bool,
    /// Hardware counters beside the times, where they can be read: a launch or a rotation more for each point, untimed.
    pub counters: bool,
}

/// A family of devices: what a probe is written against.
pub trait Backend: 'static {
    /// An opened device.
    type Device: Send;
    /// Its clock.
    type Clock: Clock;
    /// What a device may lack that some probes need.
    type Need: Copy + 'static;
    /// How records name the backend.
    const NAME: &'static str;

    /// Whether a device has what every probe needs.
    ///
    /// # Errors
    /// [`Fault::Unavailable`] with the reason and the way out.
    fn ready(_device: &Self::Device) -> Result<(), Fault> {
        Ok(())
    }

    /// Whether a device has this.
    ///
    /// # Errors
    /// Those of [`Backend::ready`].
    fn has(device: &Self::Device, need: Self::Need) -> Result<(), Fault>;

    /// Whether hardware counters can be read on this device.
    ///
    /// # Errors
    /// [`Fault::Unavailable`] with the reason and the way out.
    fn counters(_device: &Self::Device) -> Result<(), Fault> {
        let why = format!("this version of plimsoll reads none on {}", Self::NAME);
        Err(Fault::Unavailable {
            what: "hardware counters",
            why,
            hint: "The times are measured without them".to_owned(),
        })
    }

    /// What one launch does as hardware counts it: figures by the names of [`crate::counted`], in base units. Empty where
    /// the workload has nothing to count.
    ///
    /// # Errors
    /// Those of [`Backend::counters`] and of the workload.
    fn count(device: &mut Self::Device, _workload: &mut dyn Workload) -> Result<BTreeMap<String, f64>, Fault> {
        Self::counters(device).map(|()| BTreeMap::new())
    }

    /// Whether the device is as it was found, once a probe has ended, however it did; what isn't is put back.
    ///
    /// # Errors
    /// [`Fault::Panicked`] with what a probe left changed; the device's.
    fn settled(_device: &mut Self::Device) -> Result<(), Fault> {
        Ok(())
    }

    /// Holds the expressions that this backend runs to the oracle; of `functions` alone, where any are named, how exact they
    /// are.
    ///
    /// # Errors
    /// [`Fault::Unavailable`] where it runs none; the device's. Wrong results are reported through `report`.
    fn verify_expressions(
        _device: &mut Self::Device,
        _functions: &[&str],
        _depth: Depth,
        _report: &mut dyn FnMut(Case),
    ) -> Result<(), Fault> {
        let why = format!("{} runs none", Self::NAME);
        Err(Fault::Unavailable { what: "expressions", why, hint: "Use another device".to_owned() })
    }
}

/// What `verify` calls the expressions that a backend runs: no probe, so it is in no registry. Behind a colon, functions may be
/// named: `elementwise:exp,log` is how exact these are.
pub const EXPRESSIONS: &str = "elementwise";

/// How [`Case::kernel`] begins where the case says how exact a function is; [`Case::on`] then has the figure.
pub const ACCURACY: &str = "accuracy of ";

/// One backend's way to run a probe.
pub trait Probe<B: Backend>: Sync {
    /// The same static for every backend, so that names, axes and units can't drift.
    fn spec(&self) -> &'static ProbeSpec;

    /// What it needs of a device beyond what every probe does.
    fn needs(&self) -> &'static [B::Need] {
        &[]
    }

    /// What it needs besides, of which nothing else speaks.
    ///
    /// # Errors
    /// Those of [`Probe::supports`].
    fn allowed(&self, _device: &B::Device) -> Result<(), Fault> {
        Ok(())
    }

    /// Whether this device can run it: it has all that is needed.
    ///
    /// # Errors
    /// [`Fault::Unavailable`] with the reason and the way out.
    fn supports(&self, device: &B::Device) -> Result<(), Fault> {
        B::ready(device)?;
        self.needs().iter().try_for_each(|need| B::has(device, *need))?;
        self.allowed(device)
    }

    /// Whether [`Request::bytes`] means anything to it. Where not, the user who asks for a size must be told.
    fn sized(&self) -> bool {
        true
    }

    /// About how many points it measures (adaptive probes can't say exactly).
    fn points(&self, device: &B::Device, request: &Request) -> usize;

    /// Measures. Points leave through the session as they are known; an error ends the probe and loses none.
    ///
    /// # Errors
    /// What ended it early.
    fn run(&self, session: &mut Session<'_, B>) -> Result<(), Fault>;

    /// Runs every kernel of the probe once at awkward sizes against a naive oracle.
    ///
    /// # Errors
    /// The device's; wrong results are reported through `report`.
    fn verify(&self, device: &mut B::Device, depth: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault>;
}

/// How many sizes `verify` tries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Depth {
    /// The awkward small ones.
    Small,
    /// And a large one.
    #[default]
    Usual,
    /// And every size up to some thousand.
    Exhaustive,
}

/// One kernel at one size, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// The kernel and its variant: `triad avx512 non-temporal`.
    pub kernel: String,
    /// What it ran on: `n = 1025`.
    pub on: String,
    /// Empty where the result was right; else what differed.
    pub wrong: String,
}

/// What a session needs beside the device.
pub(crate) struct Parts<'s, C: Clock> {
    pub sampler: &'s mut Sampler<C>,
    pub sink: &'s mut dyn crate::record::Sink,
    pub stop: &'s AtomicBool,
    pub next_series: &'s mut u32,
}
