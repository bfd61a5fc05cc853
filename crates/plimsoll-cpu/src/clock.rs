//! The CPU's clock for the sampling engine: ticks of the timer, and the disturbances that the system counted meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use plimsoll_core::Fault;
use plimsoll_core::sample::{Clock, Evidence};

use crate::arch::cycle;
use crate::steal::{Counters, OsSample};
use crate::threads::core_clock::CoreClock;
use crate::timer::{Timer, core_hz};

/// The core clock is steady when this many windows agree within [`STEADY`].
const WINDOWS: usize = 3;
/// Length of one window.
const WINDOW: Duration = Duration::from_millis(50);
/// Largest relative spread of a steady clock.
const STEADY: f64 = 0.01;
/// Longest wait for a steady clock. After it, flags mark an unsteady one.
const SETTLE_AT_MOST: Duration = Duration::from_secs(3);

/// The timer, the core's actual frequency, and the operating system's counters of disturbances.
#[derive(Debug)]
pub struct CpuClock {
    timer: Timer,
    resolution: f64,
    start: Instant,
    cpus: Vec<usize>,
    counters: Counters,
    last: OsSample,
    smt_shared: bool,
    core_clock: Option<Arc<CoreClock>>,
}

impl CpuClock {
    /// A clock for measurements on `cpus`, some of which share a core if `smt_shared`.
    #[must_use]
    pub fn new(timer: Timer, cpus: &[usize], smt_shared: bool) -> Self {
        let resolution = timer.resolution() as f64 * timer.tick_seconds();
        let mut counters = Counters::new(cpus, &[]);
        let last = counters.read();
        let cpus = cpus.to_vec();
        Self { timer, resolution, start: Instant::now(), cpus, counters, last, smt_shared, core_clock: None }
    }

    /// Counts the interruptions of these threads from now on, by their system numbers
    /// ([`crate::threads::Placement::thread_id`]), and reads their core's clock from `core_clock`.
    pub(crate) fn watch(&mut self, thread_ids: &[u32], core_clock: Arc<CoreClock>) {
        self.core_clock = Some(core_clock);
        self.counters = Counters::new(&self.cpus, thread_ids);
        self.last = self.counters.read();
    }
}

impl Clock for CpuClock {
    fn now(&mut self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }

    fn tick(&self) -> f64 {
        self.timer.tick_seconds()
    }

    fn resolution(&self) -> f64 {
        self.resolution
    }

    fn observe(&mut self) -> Evidence {
        let after_launches = self.core_clock.as_ref().and_then(|core_clock| core_clock.take_median());
        // Read the clock first: reading the counters takes so long that it may change.
        let clock_hz = after_launches.or_else(|| core_hz(&self.timer).ok());
        let now = self.counters.read();
        let seen = now - self.last;
        self.last = now;
        let per_cpu = |seconds: Option<f64>| seconds.unwrap_or(0.0) / self.cpus.len().max(1) as f64;
        Evidence {
            clock_hz,
            wall: seen.wall_s,
            steal: per_cpu(seen.steal_s),
            quota: seen.throttled_s.unwrap_or(0.0),
            cotenant: per_cpu(seen.other_busy_s),
            preemptions: seen.involuntary_switches.unwrap_or(0),
            smt_shared: self.smt_shared,
            ..Evidence::default()
        }
    }

    fn settle(&mut self, stop: &AtomicBool) -> Result<(), Fault> {
        let begin = Instant::now();
        let mut last = [0.0_f64; WINDOWS];
        for window in 0.. {
            let until = Instant::now() + WINDOW;
            while Instant::now() < until {
                std::hint::black_box(cycle::chain(1_000));
            }
            let Ok(hz) = core_hz(&self.timer) else { return Ok(()) };
            last[window % WINDOWS] = hz;
            let low = last.iter().copied().fold(f64::INFINITY, f64::min);
            let high = last.iter().copied().fold(0.0, f64::max);
            if window + 1 >= WINDOWS && high - low <= STEADY * high
                || begin.elapsed() > SETTLE_AT_MOST
                || stop.load(Ordering::Relaxed)
            {
                break;
            }
        }
        Ok(())
    }

    /// Does nothing: preparing a point keeps the cores busy.
    fn resume(&mut self, _idle: f64, _: &AtomicBool) -> Result<(), Fault> {
        Ok(())
    }
}
