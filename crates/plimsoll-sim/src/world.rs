//! The simulated world: time, noise and what goes wrong. The device makes time pass; the clock tells it.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use plimsoll_core::Fault;
use plimsoll_core::sample::{Clock, Evidence, Throttle};
use plimsoll_core::stats::Rng;

use crate::machine::CLOCK_HZ;
use crate::scenario::{Brake, Scenario};

/// Clock while throttled, relative.
const THROTTLED: f64 = 0.8;
/// Two reads of the timer, seconds.
pub(crate) const TIMER_OVERHEAD: f64 = 20e-9;
/// How long a preemption lasts, seconds.
const PREEMPTION: f64 = 100e-6;
/// One sample in so many belongs to the slow mode of `bimodal`.
const SLOW_MODE: f64 = 0.25;
/// Samples in which `drift` comes nearer its end by a factor e.
const DRIFT_SAMPLES: f64 = 30.0;
/// How long a wait for a device that hangs lasts, seconds.
const PATIENCE: f64 = 5.0;
/// Longest sleep in real time, so that signals are seen soon.
const NAP: f64 = 0.01;
/// How long the clock takes to settle: three windows of 50 ms.
const SETTLING: f64 = 0.15;

/// What the device and its clock share.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    pub(crate) scenario: Arc<Scenario>,
    world: Arc<Mutex<World>>,
}

#[derive(Debug)]
struct World {
    now: f64,
    observed: f64,
    requests: u64,
    preemptions: u64,
    rng: Rng,
    /// The noise of the last sample, in standard deviations.
    noise: f64,
}

impl Shared {
    pub(crate) fn new(scenario: Scenario) -> Self {
        let world =
            World { now: 0.0, observed: 0.0, requests: 0, preemptions: 0, rng: Rng::new(scenario.seed), noise: 0.0 };
        Self { scenario: Arc::new(scenario), world: Arc::new(Mutex::new(world)) }
    }

    /// A probe that panics must not take the device with it.
    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets `out.len()` samples of `seconds` each (at the full clock) pass, the first being number `from` of its point.
    pub(crate) fn sample(&self, seconds: f64, from: u64, out: &mut [u64]) -> Result<(), Fault> {
        self.request()?;
        for (index, ticks) in (from..).zip(out) {
            let took = self.world().sample(&self.scenario, seconds, index);
            *ticks = (took / self.scenario.tick).round() as u64;
            self.sleep(took);
        }
        Ok(())
    }

    /// Counts a request to the device, which may be its last.
    fn request(&self) -> Result<(), Fault> {
        let mut world = self.world();
        world.requests += 1;
        let reached = |after: Option<u64>| after.is_some_and(|after| world.requests >= after);
        if reached(self.scenario.lost_after) {
            return Err(Fault::DeviceLost { call: "sample", why: "the scenario says so (lost-after)".into() });
        }
        if reached(self.scenario.hang_after) {
            world.now += PATIENCE;
            return Err(Fault::Hung { call: "sample", seconds: PATIENCE });
        }
        Ok(())
    }

    fn sleep(&self, seconds: f64) {
        if !self.scenario.real_time {
            return;
        }
        let mut left = seconds.min(PATIENCE);
        while left > 0.0 {
            std::thread::sleep(Duration::from_secs_f64(left.min(NAP)));
            left -= NAP;
        }
    }
}

impl World {
    fn sample(&mut self, scenario: &Scenario, seconds: f64, index: u64) -> f64 {
        let r = scenario.correlated;
        self.noise = r * self.noise + (1.0 - r * r).sqrt() * self.rng.normal();
        let mut took = seconds / self.speed(scenario) * (1.0 + scenario.noise * self.noise).max(0.05);
        took *= 1.0 + scenario.drift * (1.0 - (-(index as f64) / DRIFT_SAMPLES).exp());
        took *= 1.0 + scenario.steal + scenario.cotenant + scenario.quota;
        if scenario.bimodal > 0.0 && self.rng.uniform() < SLOW_MODE {
            took *= 1.0 + scenario.bimodal;
        }
        if scenario.outliers > 0.0 && self.rng.uniform() < scenario.outliers {
            took *= 1.5 + 1.5 * self.rng.uniform();
        }
        if scenario.preempt > 0.0 && self.rng.uniform() < scenario.preempt {
            took += PREEMPTION;
            self.preemptions += 1;
        }
        self.now += took + TIMER_OVERHEAD;
        took
    }

    fn throttled(&self, scenario: &Scenario) -> bool {
        scenario.throttle_after.is_some_and(|after| self.now >= after)
    }

    /// The clock over the calibrated one.
    fn speed(&self, scenario: &Scenario) -> f64 {
        scenario.clock_low * if self.throttled(scenario) { THROTTLED } else { 1.0 }
    }
}

/// The simulated clock: its time is what the samples took.
#[derive(Debug)]
pub struct SimClock(pub(crate) Shared);

impl Clock for SimClock {
    fn now(&mut self) -> f64 {
        self.0.world().now
    }

    fn tick(&self) -> f64 {
        self.0.scenario.tick
    }

    fn resolution(&self) -> f64 {
        self.0.scenario.tick
    }

    fn observe(&mut self) -> Evidence {
        let scenario = &*self.0.scenario;
        let mut world = self.0.world();
        let wall = world.now - world.observed;
        world.observed = world.now;
        let throttled = world.throttled(scenario);
        Evidence {
            clock_hz: Some(CLOCK_HZ * world.speed(scenario)),
            wall,
            throttle: Throttle {
                power: throttled && scenario.brake == Brake::Power,
                thermal: throttled && scenario.brake == Brake::Thermal,
                hardware: throttled && scenario.brake == Brake::Hardware,
            },
            steal: scenario.steal * wall,
            quota: scenario.quota * wall,
            cotenant: scenario.cotenant * wall,
            preemptions: std::mem::take(&mut world.preemptions),
            ecc_errors: scenario.ecc,
            link_degraded: scenario.link_degraded,
            smt_shared: scenario.smt,
        }
    }

    fn settle(&mut self, _: &AtomicBool) -> Result<(), Fault> {
        self.0.world().now += SETTLING;
        self.0.sleep(SETTLING);
        Ok(())
    }
}
