//! Probes: what a backend can measure, and the session that measures it.
//!
//! A [`ProbeSpec`] describes a probe on every backend; a [`Probe`] is one backend's implementation. Points are written by
//! [`Session::sweep`], which alone decides rounds, order, stopping and the budget. A probe knows nothing of files, tables
//! or pictures.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::atomic::AtomicBool;

use crate::Fault;
use crate::device::DeviceInfo;
use crate::headline::Headline;
use crate::record::Finding;
use crate::sample::{Check, Clock, Effort, Sampler, Workload};
use crate::series::Series;

pub use crate::instrument::{Bench, Instrument, Listing, Outcome, RunContext};
pub use crate::session::{Session, Sweep};

/// The description of a probe, the same on every backend.
#[derive(Debug)]
pub struct ProbeSpec {
    /// Its name on the command line and in records.
    pub name: &'static str,
    /// The group in which it is listed.
    pub group: &'static str,
    /// One sentence: what the user learns from it.
    pub sentence: &'static str,
    /// Time budgets for quick, standard and thorough, seconds.
    pub seconds: [f64; 3],
    /// Whether it uses [`Request::bytes`]. If not, a user who requests a size gets a warning.
    pub takes_bytes: bool,
    /// Those of its findings that summarize a device, in display order.
    pub headlines: &'static [Headline],
    /// Derives the findings from its series; a pure function.
    pub findings: fn(&DeviceInfo, &[Series]) -> Vec<Finding>,
}

impl ProbeSpec {
    /// A probe outside the registry, such as a test's: it has no group, sentence or headlines, and a budget of a second.
    #[must_use]
    pub const fn unlisted(name: &'static str, findings: fn(&DeviceInfo, &[Series]) -> Vec<Finding>) -> Self {
        Self { name, group: "", sentence: "", seconds: [1.0; 3], takes_bytes: false, headlines: &[], findings }
    }

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

/// The user's request for a run.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// How much effort to spend.
    pub effort: Effort,
    /// Size to use instead of a probe's default (array size of `stream`, largest footprint of sweeps), bytes.
    pub bytes: Option<u64>,
    /// Seed of all random data and orders.
    pub seed: u64,
    /// Record from the first call on, one launch per sample.
    pub trace: bool,
    /// Time budget of a probe instead of its own, seconds.
    pub seconds: Option<f64>,
    /// Read hardware counters as well, where possible: one more untimed launch or rotation per point.
    pub counters: bool,
}

/// A capability that some probes need and a device of a backend may lack.
pub trait Requirement<B: Backend>: Copy + 'static {
    /// Whether a device has what every probe needs.
    ///
    /// # Errors
    /// [`Fault::Unavailable`] with the reason and a hint.
    fn check_ready(_device: &B::Device) -> Result<(), Fault> {
        Ok(())
    }

    /// Whether a device has this capability.
    ///
    /// # Errors
    /// [`Fault::Unavailable`] with the reason and a hint.
    fn check(self, device: &B::Device) -> Result<(), Fault>;
}

/// For backends whose devices have everything.
impl<B: Backend> Requirement<B> for Infallible {
    fn check(self, _: &B::Device) -> Result<(), Fault> {
        match self {}
    }
}

/// A family of devices that probes are written for.
pub trait Backend: Sized + 'static {
    /// An opened device.
    type Device: Send;
    /// Its clock.
    type Clock: Clock;
    /// The capabilities that some probes need and a device may lack.
    type Need: Requirement<Self>;
    /// The backend's name in records.
    const NAME: &'static str;

    /// Whether hardware counters can be read on this device.
    ///
    /// # Errors
    /// [`Fault::Unavailable`] with the reason and a hint.
    fn counters(_device: &Self::Device) -> Result<(), Fault> {
        let why = format!("this version of plimsoll can't read them on {}", Self::NAME);
        Err(Fault::Unavailable { what: "hardware counters", why, hint: "Times are measured without them".to_owned() })
    }

    /// Counts one launch with the hardware counters: figures by the names of [`crate::counted`], in base units. Empty
    /// where the workload has nothing to count.
    ///
    /// # Errors
    /// Those of [`Backend::counters`] and of the workload.
    fn count(device: &mut Self::Device, _workload: &mut dyn Workload) -> Result<BTreeMap<String, f64>, Fault> {
        Self::counters(device).map(|()| BTreeMap::new())
    }

    /// Restores the device's state after a probe has ended, however it ended.
    ///
    /// # Errors
    /// [`Fault::Panicked`] with what the probe left changed.
    fn restore(_device: &mut Self::Device) -> Result<(), Fault> {
        Ok(())
    }

    /// Checks the backend's expressions against the oracle. Where `functions` are named, measures the accuracy of only
    /// these. Wrong results go to `report`.
    ///
    /// # Errors
    /// [`Fault::Unavailable`] where the backend doesn't run expressions.
    fn verify_expressions(
        _device: &mut Self::Device,
        _functions: &[&str],
        _depth: Depth,
        _report: &mut dyn FnMut(Case),
    ) -> Result<(), Fault> {
        let why = format!("{} doesn't run them", Self::NAME);
        Err(Fault::Unavailable { what: "expressions", why, hint: "Use another device".to_owned() })
    }
}

/// The name by which `verify` checks a backend's expressions; not a probe, so in no registry. Functions may follow a colon:
/// `elementwise:exp,log` checks the accuracy of these.
pub const EXPRESSIONS: &str = "elementwise";

/// Prefix of [`Case::kernel`] where the case reports a function's accuracy; [`Case::on`] then holds the figure.
pub const ACCURACY: &str = "accuracy of ";

/// One backend's implementation of a probe.
pub trait Probe<B: Backend>: Sync {
    /// The same static for every backend, so that names, axes and units can't diverge.
    fn spec(&self) -> &'static ProbeSpec;

    /// The capabilities it needs beyond what every probe needs.
    fn needs(&self) -> &'static [B::Need] {
        &[]
    }

    /// Checks requirements that [`Probe::needs`] can't express.
    ///
    /// # Errors
    /// [`Fault::Unavailable`] with the reason and a hint.
    fn check_device(&self, _device: &B::Device) -> Result<(), Fault> {
        Ok(())
    }

    /// Whether this device can run it.
    ///
    /// # Errors
    /// [`Fault::Unavailable`] with the reason and a hint.
    fn supports(&self, device: &B::Device) -> Result<(), Fault> {
        B::Need::check_ready(device)?;
        self.needs().iter().try_for_each(|need| need.check(device))?;
        self.check_device(device)
    }

    /// Approximate number of points (adaptive probes can't know it exactly).
    fn points(&self, device: &B::Device, request: &Request) -> usize;

    /// Measures. The session writes each point as soon as it is measured, so an error ends the probe but loses no point.
    fn run(&self, session: &mut Session<'_, B>) -> Result<(), Fault>;

    /// Runs every kernel of the probe at awkward sizes and checks it against a naive oracle. Wrong results go to `report`.
    fn verify(&self, device: &mut B::Device, depth: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault>;
}

/// How one backend runs a probe. A registry adds the spec: see [`Registered`].
pub trait Run<B: Backend>: Sync {
    /// The capabilities it needs beyond what every probe needs.
    const NEEDS: &'static [B::Need] = &[];

    /// See [`Probe::check_device`].
    ///
    /// # Errors
    /// [`Fault::Unavailable`] with the reason and a hint.
    fn check_device(&self, _device: &B::Device) -> Result<(), Fault> {
        Ok(())
    }

    /// See [`Probe::points`].
    fn points(&self, device: &B::Device, request: &Request) -> usize;

    /// See [`Probe::run`].
    fn run(&self, session: &mut Session<'_, B>) -> Result<(), Fault>;

    /// See [`Probe::verify`].
    fn verify(&self, device: &mut B::Device, depth: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault>;
}

/// A probe in a registry: the spec that all backends share, and one backend's runner.
#[derive(Debug)]
pub struct Registered<R> {
    /// The spec.
    pub spec: &'static ProbeSpec,
    /// The runner.
    pub runner: R,
}

impl<B: Backend, R: Run<B>> Probe<B> for Registered<R> {
    fn spec(&self) -> &'static ProbeSpec {
        self.spec
    }

    fn needs(&self) -> &'static [B::Need] {
        R::NEEDS
    }

    fn check_device(&self, device: &B::Device) -> Result<(), Fault> {
        self.runner.check_device(device)
    }

    fn points(&self, device: &B::Device, request: &Request) -> usize {
        self.runner.points(device, request)
    }

    fn run(&self, session: &mut Session<'_, B>) -> Result<(), Fault> {
        self.runner.run(session)
    }

    fn verify(&self, device: &mut B::Device, depth: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        self.runner.verify(device, depth, report)
    }
}

/// How many sizes `verify` tries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Depth {
    /// Small awkward sizes.
    Small,
    /// Also a large size.
    #[default]
    Usual,
    /// Also every size up to some thousand.
    Exhaustive,
}

/// One kernel at one size, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// The kernel and its variant: `triad avx512 non-temporal`.
    pub kernel: String,
    /// The input: `n = 1025`.
    pub on: String,
    /// The difference; empty where the result was right.
    pub wrong: String,
}

impl Case {
    /// A case whose result was checked.
    #[must_use]
    pub fn new(kernel: impl Into<String>, on: impl Into<String>, check: Check) -> Self {
        Self { kernel: kernel.into(), on: on.into(), wrong: check.into_wrong() }
    }

    /// Takes one sample of a workload and checks it.
    ///
    /// # Errors
    /// Those of the workload.
    pub fn from_sample(
        kernel: impl Into<String>,
        on: impl Into<String>,
        workload: &mut dyn Workload,
    ) -> Result<Self, Fault> {
        workload.prepare(1)?;
        workload.sample(1, &mut [0])?;
        Ok(Self::new(kernel, on, workload.check()?))
    }
}

/// What a session borrows besides the device.
pub(crate) struct SessionParts<'s, C: Clock> {
    pub sampler: &'s mut Sampler<C>,
    pub sink: &'s mut dyn crate::record::Sink,
    pub stop: &'s AtomicBool,
    pub next_series: &'s mut u32,
}
