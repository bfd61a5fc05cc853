//! The sampling engine: one loop that times every probe, kernel and CPU loop.
//!
//! A [`Workload`] knows how to run k launches and to say how long they took; a [`Clock`] knows the time and what else
//! happened meanwhile; the [`Sampler`] owns every decision between them: how many launches make a sample, how many
//! samples make a point, when to stop. It allocates nothing while it measures. What the samples are worth is decided
//! afterwards, by [`judge()`], from the samples and the evidence alone. Which points to measure is `probe`'s business.

mod engine;
mod judge;
mod policy;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Fault, Traffic};

pub use engine::{Ended, Measured, Sampler};
pub use judge::{Context, judge, narrow_enough};
pub use policy::{CachePolicy, Effort, Figure, Policy};

/// A device's clock and what it knows about disturbances.
pub trait Clock: Send {
    /// Wall time in seconds from an arbitrary start. Budgets use it, so a simulated clock makes the engine
    /// deterministic.
    fn now(&mut self) -> f64;

    /// Seconds per tick of the raw samples.
    fn tick(&self) -> f64;

    /// Smallest difference that two samples can show, in seconds.
    fn resolution(&self) -> f64;

    /// What happened since the last call. Called between slices of at most some 50 ms. Must not allocate.
    fn observe(&mut self) -> Evidence;

    /// Keeps the device busy until its clock is steady: within 1 % over three 50 ms windows, at most 3 s, and no longer than
    /// to the next look at `stop`.
    ///
    /// # Errors
    /// Those of the device.
    fn settle(&mut self, _stop: &AtomicBool) -> Result<(), Fault> {
        Ok(())
    }

    /// Called before a point, `idle` seconds after the last one's end: a device that idled for more than 100 ms has
    /// lowered its clock and must settle again. A device that prepares points by its own work overrides this.
    ///
    /// # Errors
    /// Those of the device.
    fn resume(&mut self, idle: f64, stop: &AtomicBool) -> Result<(), Fault> {
        if idle > 0.1 { self.settle(stop) } else { Ok(()) }
    }
}

/// Something that can be launched and timed.
pub trait Workload {
    /// What one launch does: the denominators of every derived figure.
    fn work(&self) -> Work;

    /// Limits on how launches may be batched.
    fn batch(&self) -> Batch {
        Batch::default()
    }

    /// Untimed, before every slice of samples: rotate buffers, poison outputs.
    ///
    /// # Errors
    /// Those of the device.
    fn prepare(&mut self, _k: u32) -> Result<(), Fault> {
        Ok(())
    }

    /// Takes `out.len()` samples, each of `k` launches back to back, and writes each sample's length in ticks (of all k
    /// launches together). A policy that must act between samples (a flush) acts here, outside the timed windows.
    ///
    /// # Errors
    /// Those of the device. Every wait in here has a deadline.
    fn sample(&mut self, k: u32, out: &mut [u64]) -> Result<(), Fault>;

    /// After the last sample: did the kernel do what it claims?
    ///
    /// # Errors
    /// Those of the device; a wrong result is not an error but [`Check::Failed`].
    fn check(&mut self) -> Result<Check, Fault>;

    /// Of the elements that the last check looked at, how many couldn't be judged, as they depend on errors that are allowed; and how
    /// many there were.
    fn unjudged(&self) -> [u64; 2] {
        [0, 0]
    }

    /// Figures that the workload measured beside its time, by metric name in base units.
    fn extra(&self, _out: &mut BTreeMap<String, f64>) {}

    /// The clock by which a workload that counts cycles inside its kernels turned them into ticks, hertz. It stands in the
    /// point's evidence instead of the telemetry's, so that figures in cycles are those counted, whatever the clock did.
    fn clock_hz(&self) -> Option<f64> {
        None
    }

    /// Brings about, untimed, what a sample finds in the caches, and waits until it is done: for what is counted around
    /// [`Workload::once`]. How many launches that makes; 0 where there is nothing that counters could tell of.
    ///
    /// # Errors
    /// Those of the device.
    fn ready(&mut self) -> Result<u32, Fault> {
        Ok(0)
    }

    /// Launches once, or a whole rotation where there is one, untimed, and waits until it is done.
    ///
    /// # Errors
    /// Those of the device.
    fn once(&mut self) -> Result<(), Fault> {
        Ok(())
    }
}

impl<W: Workload + ?Sized> Workload for Box<W> {
    fn work(&self) -> Work {
        (**self).work()
    }
    fn batch(&self) -> Batch {
        (**self).batch()
    }
    fn prepare(&mut self, k: u32) -> Result<(), Fault> {
        (**self).prepare(k)
    }
    fn sample(&mut self, k: u32, out: &mut [u64]) -> Result<(), Fault> {
        (**self).sample(k, out)
    }
    fn check(&mut self) -> Result<Check, Fault> {
        (**self).check()
    }
    fn unjudged(&self) -> [u64; 2] {
        (**self).unjudged()
    }
    fn extra(&self, out: &mut BTreeMap<String, f64>) {
        (**self).extra(out);
    }
    fn clock_hz(&self) -> Option<f64> {
        (**self).clock_hz()
    }
    fn ready(&mut self) -> Result<u32, Fault> {
        (**self).ready()
    }
    fn once(&mut self) -> Result<(), Fault> {
        (**self).once()
    }
}

/// What one launch does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Work {
    /// Bytes that the algorithm must move.
    #[serde(flatten)]
    pub traffic: Traffic,
    /// Bytes that ordinary stores read as well, because a cache fills a line before it writes to it.
    #[serde(default)]
    pub write_allocate: u64,
    /// Operations of the kind the series counts (hops, instructions, FLOP, barriers).
    #[serde(default)]
    pub operations: f64,
    /// Bytes per operand that one whole rotation touches; 0 where the same data are used each time.
    #[serde(default)]
    pub window: u64,
    /// True where the kernel's own clock was read inside it, so that launching is no part of the figure.
    #[serde(default)]
    pub in_kernel: bool,
}

/// How launches may be batched into one sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Launches per sample are a whole multiple of this (launches of one window cycle).
    pub cycle: u32,
    /// Most launches per sample; 1 where they can't be batched (first touch).
    pub max: u32,
}

impl Default for Batch {
    fn default() -> Self {
        Self { cycle: 1, max: 8192 }
    }
}

/// The verdict on a kernel's result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// As the oracle has it.
    Passed,
    /// Wrong: what differed, for a person.
    Failed(String),
}

impl Check {
    /// What differed; empty where it passed.
    #[must_use]
    pub fn into_wrong(self) -> String {
        match self {
            Self::Passed => String::new(),
            Self::Failed(wrong) => wrong,
        }
    }
}

/// What happened while samples were taken. Sums add up over a point; the clock is a mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Evidence {
    /// Clock of the device while it worked, hertz: the mean over the slices of a point. On a CPU it is read on the first
    /// core at the end of every sample, before a clock lowered by wide vector code comes back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_hz: Option<f64>,
    /// Wall time observed, seconds.
    pub wall: f64,
    /// Reasons for which the device lowered its clock.
    pub throttle: Throttle,
    /// Processor time that the hypervisor gave to others, seconds per processor.
    pub steal: f64,
    /// Time stopped by a container's quota, seconds.
    pub quota: f64,
    /// Processor time of other processes on the processors measured, seconds per processor. Counted in ticks, so that a
    /// short point may show slightly less than nothing.
    pub cotenant: f64,
    /// Involuntary context switches of the measuring threads.
    pub preemptions: u64,
    /// Memory errors corrected.
    pub ecc_errors: u64,
    /// The link runs below its capability.
    pub link_degraded: bool,
    /// Two measuring threads share a core.
    pub smt_shared: bool,
}

/// Throttle reasons, as bits of the device's own report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Throttle {
    /// Power limit.
    pub power: bool,
    /// Temperature.
    pub thermal: bool,
    /// Hardware brake.
    pub hardware: bool,
}

/// Evidence of one point, gathered over its slices: sums, and the mean of the clock.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Gathered {
    evidence: Evidence,
    clocks: u32,
}

impl Gathered {
    /// Adds a later observation.
    pub(crate) fn add(&mut self, later: &Evidence) {
        let all = &mut self.evidence;
        if let Some(hz) = later.clock_hz {
            let seen = f64::from(self.clocks);
            all.clock_hz = Some(all.clock_hz.map_or(hz, |mean| (mean * seen + hz) / (seen + 1.0)));
            self.clocks += 1;
        }
        all.wall += later.wall;
        all.steal += later.steal;
        all.quota += later.quota;
        all.cotenant += later.cotenant;
        all.preemptions += later.preemptions;
        all.ecc_errors += later.ecc_errors;
        all.throttle.power |= later.throttle.power;
        all.throttle.thermal |= later.throttle.thermal;
        all.throttle.hardware |= later.throttle.hardware;
        all.link_degraded |= later.link_degraded;
        all.smt_shared |= later.smt_shared;
    }

    /// All of it.
    pub(crate) fn evidence(&self) -> Evidence {
        self.evidence
    }
}
