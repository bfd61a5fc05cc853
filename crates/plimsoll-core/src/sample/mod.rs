//! The sampling engine: one loop that times every probe, kernel and CPU loop.
//!
//! A [`Workload`] runs k launches and reports how long they took; a [`Clock`] knows the time and observes disturbances; the
//! [`Sampler`] makes every decision between them: launches per sample, samples per point, when to stop. It allocates nothing
//! while it measures. Afterwards [`judge()`] decides the flags from the samples and the evidence alone. Probes decide which
//! points to measure.

mod engine;
mod judge;
mod policy;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Fault, Traffic};

pub use engine::{Ended, Measured, Sampler};
pub use judge::{Context, is_narrow_enough, judge};
pub use policy::{CachePolicy, Effort, Figure, Policy};

/// A device's clock and its observations of disturbances.
pub trait Clock: Send {
    /// Wall time in seconds from an arbitrary start. Budgets use it, so that a simulated clock makes the engine deterministic.
    fn now(&mut self) -> f64;

    /// Seconds per tick of the raw samples.
    fn tick(&self) -> f64;

    /// Smallest difference that two samples can show, in seconds.
    fn resolution(&self) -> f64;

    /// What happened since the last call. Called between slices of at most about 50 ms. Must not allocate.
    fn observe(&mut self) -> Evidence;

    /// Keeps the device busy until its clock is steady (within 1 % over three 50 ms windows), for at most 3 s or until `stop`
    /// is set.
    fn settle(&mut self, _stop: &AtomicBool) -> Result<(), Fault> {
        Ok(())
    }

    /// Called before a point, `idle` seconds after the end of the previous one: a device that was idle for longer than
    /// [`LONGEST_IDLE`] may have lowered its clock and must settle again. A device that is busy while it prepares points overrides this.
    fn resume(&mut self, idle: f64, stop: &AtomicBool) -> Result<(), Fault> {
        if idle > LONGEST_IDLE { self.settle(stop) } else { Ok(()) }
    }
}

/// A device that was idle for longer, in seconds, may have lowered its clock.
pub const LONGEST_IDLE: f64 = 0.1;

/// Something that can be launched and timed.
pub trait Workload {
    /// What one launch does; every derived figure is computed from it.
    fn work(&self) -> Work;

    /// Limits on how launches may be batched.
    fn batch(&self) -> Batch {
        Batch::default()
    }

    /// Untimed preparation before every slice of samples: rotate buffers, poison outputs.
    fn prepare(&mut self, _k: u32) -> Result<(), Fault> {
        Ok(())
    }

    /// Takes `out.len()` samples, each of `k` launches back to back, and writes each sample's length in ticks (of all k
    /// launches together). Cache flushes between samples happen here, outside the timed windows. Every wait in here must have
    /// a deadline.
    fn sample(&mut self, k: u32, out: &mut [u64]) -> Result<(), Fault>;

    /// Checks the kernel's result after the last sample. A wrong result is not an error but [`Check::Failed`].
    fn check(&mut self) -> Result<Check, Fault>;

    /// How many elements the last check could not judge, because they depend on permitted rounding errors, and how many it
    /// looked at in all.
    fn unjudged(&self) -> [u64; 2] {
        [0, 0]
    }

    /// Adds further figures that the workload measured, by metric name, in base units.
    fn extra(&self, _out: &mut BTreeMap<String, f64>) {}

    /// For a workload that counts cycles inside its kernels: the clock with which it converted cycles to ticks, hertz. It
    /// replaces the telemetry's clock in the point's evidence, so that figures in cycles equal the counted ones.
    fn clock_hz(&self) -> Option<f64> {
        None
    }

    /// Prepares counting around [`Workload::launch_once`]: puts the caches, untimed, into the state that a sample finds, and
    /// waits. Returns how many launches `launch_once` makes; 0 where there is nothing to count.
    fn prepare_count(&mut self) -> Result<u32, Fault> {
        Ok(0)
    }

    /// Launches once, or a whole rotation where there is one, untimed, and waits for completion.
    fn launch_once(&mut self) -> Result<(), Fault> {
        Ok(())
    }
}

/// Writes these methods of a [`Workload`] that wraps another one: each calls the same method of the workload in a field.
#[macro_export]
macro_rules! forward_workload {
    ($field:ident: $($method:ident),+) => { $($crate::forward_workload!(@$method $field);)+ };
    (@work $field:ident) => {
        fn work(&self) -> $crate::sample::Work { self.$field.work() }
    };
    (@batch $field:ident) => {
        fn batch(&self) -> $crate::sample::Batch { self.$field.batch() }
    };
    (@prepare $field:ident) => {
        fn prepare(&mut self, k: u32) -> ::std::result::Result<(), $crate::Fault> { self.$field.prepare(k) }
    };
    (@sample $field:ident) => {
        fn sample(&mut self, k: u32, out: &mut [u64]) -> ::std::result::Result<(), $crate::Fault> { self.$field.sample(k, out) }
    };
    (@check $field:ident) => {
        fn check(&mut self) -> ::std::result::Result<$crate::sample::Check, $crate::Fault> { self.$field.check() }
    };
    (@unjudged $field:ident) => {
        fn unjudged(&self) -> [u64; 2] { self.$field.unjudged() }
    };
    (@extra $field:ident) => {
        fn extra(&self, out: &mut ::std::collections::BTreeMap<::std::string::String, f64>) { self.$field.extra(out); }
    };
    (@prepare_count $field:ident) => {
        fn prepare_count(&mut self) -> ::std::result::Result<u32, $crate::Fault> { self.$field.prepare_count() }
    };
    (@launch_once $field:ident) => {
        fn launch_once(&mut self) -> ::std::result::Result<(), $crate::Fault> { self.$field.launch_once() }
    };
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
    fn prepare_count(&mut self) -> Result<u32, Fault> {
        (**self).prepare_count()
    }
    fn launch_once(&mut self) -> Result<(), Fault> {
        (**self).launch_once()
    }
}

/// What one launch does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Work {
    /// Bytes that the algorithm must move.
    #[serde(flatten)]
    pub traffic: Traffic,
    /// Bytes that ordinary stores read in addition, because a cache reads a line before writing to it.
    #[serde(default)]
    pub write_allocate: u64,
    /// Operations of the kind the series counts (hops, instructions, FLOP, barriers).
    #[serde(default)]
    pub operations: f64,
    /// Bytes per operand that one whole rotation touches; 0 where every launch uses the same data.
    #[serde(default)]
    pub window: u64,
    /// True for in-kernel timing, where the figure doesn't include the launch.
    #[serde(default)]
    pub in_kernel: bool,
}

/// How launches may be batched into one sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Launches per sample are a multiple of this (the launches of one rotation through the window).
    pub cycle: u32,
    /// Most launches per sample; 1 where they can't be batched (first touch).
    pub max: u32,
}

impl Default for Batch {
    fn default() -> Self {
        Self { cycle: 1, max: 8192 }
    }
}

/// The outcome of a check of a kernel's result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// The result agrees with the oracle.
    Passed,
    /// The result is wrong; a message says what differed.
    Failed(String),
}

impl Check {
    /// The message of a failed check; empty where it passed.
    #[must_use]
    pub fn into_wrong(self) -> String {
        match self {
            Self::Passed => String::new(),
            Self::Failed(wrong) => wrong,
        }
    }
}

/// What happened while samples were taken: sums over a point, except that the clock is a mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Evidence {
    /// Clock of the device while it worked, hertz: the mean over the slices of a point. On a CPU it is read on the first
    /// core at the end of every sample, before a clock lowered by wide vector code recovers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_hz: Option<f64>,
    /// Wall time observed, seconds.
    pub wall: f64,
    /// Reasons for which the device lowered its clock.
    pub throttle: Throttle,
    /// Processor time that the hypervisor gave to others, seconds per processor.
    pub steal: f64,
    /// Time for which a container's quota stopped the process, seconds.
    pub quota: f64,
    /// Processor time of other processes on the measured processors, seconds per processor. Counted in ticks, so it may be
    /// slightly negative for a short point.
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

/// The reasons that the device reports for throttling.
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

/// Accumulates the evidence of one point over its slices: sums, and the mean clock.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EvidenceSum {
    evidence: Evidence,
    clocks: u32,
}

impl EvidenceSum {
    /// Adds an observation.
    pub(crate) fn add(&mut self, later: &Evidence) {
        let sum = &mut self.evidence;
        if let Some(hz) = later.clock_hz {
            let seen = f64::from(self.clocks);
            sum.clock_hz = Some(sum.clock_hz.map_or(hz, |mean| (mean * seen + hz) / (seen + 1.0)));
            self.clocks += 1;
        }
        sum.wall += later.wall;
        sum.steal += later.steal;
        sum.quota += later.quota;
        sum.cotenant += later.cotenant;
        sum.preemptions += later.preemptions;
        sum.ecc_errors += later.ecc_errors;
        sum.throttle.power |= later.throttle.power;
        sum.throttle.thermal |= later.throttle.thermal;
        sum.throttle.hardware |= later.throttle.hardware;
        sum.link_degraded |= later.link_degraded;
        sum.smt_shared |= later.smt_shared;
    }

    /// The accumulated evidence.
    pub(crate) fn evidence(&self) -> Evidence {
        self.evidence
    }
}
