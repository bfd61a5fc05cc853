//! The simulated world: time, noise and faults. The device advances the time; the clock reads it.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use plimsoll_core::Fault;
use plimsoll_core::sample::{Clock, Evidence, Throttle};
use plimsoll_core::stats::Rng;

use crate::machine::CLOCK_HZ;
use crate::scenario::{Brake, Scenario};

/// Relative clock while throttled.
const THROTTLED: f64 = 0.8;
/// Duration of two reads of the timer, seconds.
pub(crate) const TIMER_OVERHEAD: f64 = 20e-9;
/// Duration of a preemption, seconds.
const PREEMPTION: f64 = 100e-6;
/// Share of the samples in the slow mode of `bimodal`.
const SLOW_MODE: f64 = 0.25;
/// Time constant of `drift`, samples.
const DRIFT_SAMPLES: f64 = 30.0;
/// Deadline of a wait for the device, seconds.
const DEADLINE: f64 = 5.0;
/// Longest single sleep in real time, so that signals are noticed soon, seconds.
const SLEEP_SLICE: f64 = 0.01;
/// Time that the clock takes to settle: three windows of 50 ms, seconds.
const SETTLING: f64 = 0.15;

/// The state shared by the device and its clock.
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

    /// Locks the world. Ignores poisoning, so that a probe's panic doesn't break the device.
    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Simulates `out.len()` samples of `seconds` each (at the full clock); the first is sample number `from` of its point.
    pub(crate) fn sample(&self, seconds: f64, from: u64, out: &mut [u64]) -> Result<(), Fault> {
        self.count_request()?;
        for (index, ticks) in (from..).zip(out) {
            let took = self.world().sample(&self.scenario, seconds, index);
            *ticks = (took / self.scenario.tick).round() as u64;
            self.sleep(took);
        }
        Ok(())
    }

    /// Counts a request to the device; fails where the scenario ends the device at it.
    fn count_request(&self) -> Result<(), Fault> {
        let mut world = self.world();
        world.requests += 1;
        let reached = |after: Option<u64>| after.is_some_and(|after| world.requests >= after);
        if reached(self.scenario.lost_after) {
            return Err(Fault::DeviceLost { call: "sample", why: "simulated by the scenario (lost-after)".into() });
        }
        if reached(self.scenario.hang_after) {
            world.now += DEADLINE;
            return Err(Fault::Hung { call: "sample", seconds: DEADLINE });
        }
        Ok(())
    }

    fn sleep(&self, seconds: f64) {
        if !self.scenario.real_time {
            return;
        }
        let mut left = seconds.min(DEADLINE);
        while left > 0.0 {
            std::thread::sleep(Duration::from_secs_f64(left.min(SLEEP_SLICE)));
            left -= SLEEP_SLICE;
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

    fn is_throttled(&self, scenario: &Scenario) -> bool {
        scenario.throttle_after.is_some_and(|after| self.now >= after)
    }

    /// The current clock relative to the calibrated one.
    fn speed(&self, scenario: &Scenario) -> f64 {
        scenario.clock_low * if self.is_throttled(scenario) { THROTTLED } else { 1.0 }
    }
}

/// The simulated clock: its time is the sum of the samples' durations.
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
        let throttled = world.is_throttled(scenario);
        Evidence {
            clock_hz: Some(CLOCK_HZ * world.speed(scenario)),
            wall,
            throttle: Throttle {
                power: scenario.power_limit < 1.0 || (throttled && scenario.brake == Brake::Power),
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
