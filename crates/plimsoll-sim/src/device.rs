//! The simulated device: limited memory, and workloads whose duration comes from the model.

use std::collections::BTreeMap;

use plimsoll_core::Fault;
use plimsoll_core::device::DeviceInfo;
use plimsoll_core::sample::{Batch, Check, Work, Workload};

use crate::machine::{self, Machine};
use crate::scenario::Scenario;
use crate::world::{Shared, SimClock};

/// An opened simulated device.
#[derive(Debug)]
pub struct SimDevice {
    shared: Shared,
    /// The machine model.
    pub(crate) machine: Machine,
}

impl SimDevice {
    pub(crate) fn new(scenario: Scenario) -> (Self, SimClock) {
        let machine = Machine::new(&scenario);
        let shared = Shared::new(scenario);
        (Self { shared: shared.clone(), machine }, SimClock(shared))
    }

    /// The device's description.
    pub(crate) fn info(&self) -> DeviceInfo {
        machine::info(self.scenario(), self.free())
    }

    pub(crate) fn scenario(&self) -> &Scenario {
        &self.shared.scenario
    }

    /// Reported free memory, bytes.
    pub(crate) fn free(&self) -> u64 {
        self.scenario().memory / 16 * 15
    }

    /// Allocates the memory of a job and prepares it. `wrong` is what a check of its results finds wrong.
    pub(crate) fn load(&self, job: &Job, wrong: Option<String>) -> Result<SimLoad, Fault> {
        let free = self.scenario().oom_above.map_or(self.free(), |limit| limit.min(self.free()));
        if job.allocate > free {
            return Err(Fault::OutOfMemory { asked: job.allocate, free: Some(free) });
        }
        let seconds = job.seconds + if job.work.in_kernel { 0.0 } else { self.machine.launch };
        Ok(SimLoad { shared: self.shared.clone(), seconds, work: job.work, extra: job.extra, wrong, taken: 0 })
    }
}

/// The workload to simulate at one point.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Job {
    /// Memory needed, bytes.
    pub allocate: u64,
    /// Duration of one launch at the full clock, without launch overhead, seconds.
    pub seconds: f64,
    /// What one launch does.
    pub work: Work,
    /// Additional figures: metrics' names and their values.
    pub extra: [Option<(&'static str, f64)>; 2],
}

/// A job loaded on the device.
#[derive(Debug)]
pub(crate) struct SimLoad {
    shared: Shared,
    seconds: f64,
    work: Work,
    extra: [Option<(&'static str, f64)>; 2],
    wrong: Option<String>,
    taken: u64,
}

impl Workload for SimLoad {
    fn work(&self) -> Work {
        self.work
    }

    fn batch(&self) -> Batch {
        Batch::default()
    }

    fn sample(&mut self, k: u32, out: &mut [u64]) -> Result<(), Fault> {
        self.shared.sample(self.seconds * f64::from(k), self.taken, out)?;
        self.taken += out.len() as u64;
        Ok(())
    }

    fn check(&mut self) -> Result<Check, Fault> {
        Ok(self.wrong.clone().map_or(Check::Passed, Check::Failed))
    }

    fn extra(&self, out: &mut BTreeMap<String, f64>) {
        out.extend(self.extra.into_iter().flatten().map(|(name, value)| (name.to_owned(), value)));
    }
}
