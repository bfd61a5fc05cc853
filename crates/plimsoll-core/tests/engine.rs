//! The sampler's decisions, tested with a simulated clock and workload.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use plimsoll_core::Fault;
use plimsoll_core::sample::{
    Batch, Check, Clock, Effort, Ended, Evidence, Figure, Measured, Policy, Sampler, Work, Workload,
};
use plimsoll_core::stats::MAX_SAMPLES;
use proptest::prelude::*;

const TICK: f64 = 1e-9;

/// A clock that the workload advances. `Clock` requires `Send`, hence the mutex.
#[derive(Clone, Default)]
struct Time(Arc<Mutex<f64>>);

impl Time {
    fn advance(&self, seconds: f64) {
        *self.0.lock().unwrap() += seconds;
    }
}

impl Clock for Time {
    fn now(&mut self) -> f64 {
        *self.0.lock().unwrap()
    }
    fn tick(&self) -> f64 {
        TICK
    }
    fn resolution(&self) -> f64 {
        TICK
    }
    fn observe(&mut self) -> Evidence {
        Evidence::default()
    }
}

/// Launches of `ticks` each; every other sample is longer by the factor 1 + `jitter`.
struct Steady {
    time: Time,
    ticks: f64,
    jitter: f64,
    batch: Batch,
    /// Samples after which the device is lost.
    lost_after: Option<usize>,
    fails_check: bool,
    taken: usize,
    /// Maximum number of launches in one call, and the number of calls.
    calls: Rc<Cell<(u32, u32)>>,
}

impl Steady {
    fn new(time: &Time, ticks: f64) -> Self {
        Self {
            time: time.clone(),
            ticks,
            jitter: 0.0,
            batch: Batch::default(),
            lost_after: None,
            fails_check: false,
            taken: 0,
            calls: Rc::default(),
        }
    }
}

impl Workload for Steady {
    fn work(&self) -> Work {
        Work::default()
    }
    fn batch(&self) -> Batch {
        self.batch
    }
    fn sample(&mut self, k: u32, out: &mut [u64]) -> Result<(), Fault> {
        for ticks in out {
            if self.lost_after.is_some_and(|after| self.taken >= after) {
                return Err(Fault::DeviceLost { call: "sample", why: "simulated by the test".into() });
            }
            let length = f64::from(k) * self.ticks * if self.taken % 2 == 1 { 1.0 + self.jitter } else { 1.0 };
            self.taken += 1;
            self.time.advance(length * TICK);
            *ticks = length as u64;
        }
        let (most, calls) = self.calls.get();
        self.calls.set((most.max(k), calls + 1));
        Ok(())
    }
    fn check(&mut self) -> Result<Check, Fault> {
        if self.fails_check {
            return Err(Fault::Hung { call: "check", seconds: 1.0 });
        }
        Ok(Check::Passed)
    }
}

fn policy() -> Policy {
    Effort::Quick.policy()
}

fn running() -> AtomicBool {
    AtomicBool::new(false)
}

/// Measures `workload` for `budget` seconds and passes the result to `inspect`.
fn measure<T>(workload: &mut Steady, figure: Figure, budget: f64, inspect: impl FnOnce(Measured<'_>) -> T) -> T {
    let mut sampler = Sampler::new(workload.time.clone(), policy());
    inspect(sampler.measure(workload, figure, budget, &running()).unwrap())
}

#[test]
fn identical_samples_converge_at_the_second_check() {
    let mut workload = Steady::new(&Time::default(), 5e6);
    measure(&mut workload, Figure::Throughput, 1e9, |point| {
        assert!(matches!(point.ended, Ended::Converged));
        assert_eq!((point.ticks.len(), point.k, point.check), (33, 1, Some(Check::Passed)));
        assert!(point.seconds.iter().all(|seconds| (seconds / 5e-3 - 1.0).abs() < 1e-9));
    });
}

#[test]
fn short_launches_are_batched_until_a_sample_is_long_enough() {
    for ticks in [10.0, 100.0, 1e3, 1e4, 1e5] {
        let mut workload = Steady::new(&Time::default(), ticks);
        measure(&mut workload, Figure::Throughput, 1e9, |point| {
            let sample = f64::from(point.k) * ticks * TICK;
            assert!(sample >= policy().sample_seconds || point.k == Batch::default().max, "{ticks}: {sample} s");
            assert!(sample <= 2.0 * policy().sample_seconds || point.k == 1, "{ticks}: {sample} s");
        });
    }
}

#[test]
fn a_latency_sample_is_one_launch_however_short() {
    let mut workload = Steady::new(&Time::default(), 10.0);
    measure(&mut workload, Figure::Latency, 1e9, |point| assert_eq!(point.k, 1));
    assert_eq!(workload.calls.get().0, 1);
}

#[test]
fn launches_shorter_than_a_tick_get_the_largest_batch_and_do_not_hang() {
    let mut workload = Steady::new(&Time::default(), 1e-6);
    measure(&mut workload, Figure::Throughput, 1e-6, |point| {
        assert_eq!(point.k, Batch::default().max);
        assert!(point.seconds.iter().all(|seconds| *seconds == 0.0));
    });
}

#[test]
fn the_first_two_launches_are_discarded_except_in_a_trace() {
    let time = Time::default();
    let mut workload = Steady::new(&time, 5e6);
    measure(&mut workload, Figure::Latency, 1e9, |point| assert_eq!(point.ticks.len(), 33));
    assert_eq!(workload.taken, 35);
    let mut workload = Steady::new(&time, 5e6);
    let mut sampler = Sampler::new(time, Policy { trace: true, ..policy() });
    let traced = sampler.measure(&mut workload, Figure::Throughput, 1.0, &running()).unwrap().ticks.len();
    assert_eq!(traced, workload.taken);
}

#[test]
fn a_zero_budget_still_takes_three_samples_and_ends_with_budget() {
    let mut workload = Steady::new(&Time::default(), 1e9);
    measure(&mut workload, Figure::Throughput, 0.0, |point| {
        assert!(matches!(point.ended, Ended::Budget));
        assert!((3..=8).contains(&point.ticks.len()), "{}", point.ticks.len());
    });
}

#[test]
fn a_device_lost_in_the_warm_up_is_an_error_and_later_ends_the_point() {
    for after in 0..40 {
        let mut workload = Steady::new(&Time::default(), 5e6);
        workload.lost_after = Some(after);
        let mut sampler = Sampler::new(workload.time.clone(), policy());
        match sampler.measure(&mut workload, Figure::Throughput, 1e9, &running()) {
            Err(fault) => assert!(fault.ends_the_device() && after < 2 + 10, "lost after {after}"),
            Ok(point) => match point.ended {
                Ended::Fault(fault) => {
                    assert!(fault.ends_the_device() && point.check.is_none());
                    assert!(!point.ticks.is_empty() && point.ticks.len() <= after - 2, "lost after {after}");
                    assert_eq!(point.ticks.len(), point.seconds.len());
                }
                ended => assert!(after >= 35, "{ended:?} though lost after {after}"),
            },
        }
    }
}

#[test]
fn a_check_that_hangs_ends_the_point_and_keeps_its_samples() {
    let mut workload = Steady::new(&Time::default(), 5e6);
    workload.fails_check = true;
    measure(&mut workload, Figure::Throughput, 1e9, |point| {
        assert!(matches!(point.ended, Ended::Fault(Fault::Hung { .. })) && point.check.is_none());
        assert_eq!(point.ticks.len(), 33);
    });
}

#[test]
fn a_stop_before_the_first_sample_is_an_error() {
    let stop = running();
    stop.store(true, Ordering::Relaxed);
    let mut workload = Steady::new(&Time::default(), 5e6);
    let mut sampler = Sampler::new(workload.time.clone(), policy());
    let ended = sampler.measure(&mut workload, Figure::Throughput, 1e9, &stop);
    assert!(matches!(ended, Err(Fault::Stopped)));
}

#[test]
fn a_sampler_keeps_nothing_of_the_previous_point() {
    let time = Time::default();
    let mut sampler = Sampler::new(time.clone(), policy());
    for ticks in [5e6, 7e6, 5e6] {
        let mut workload = Steady::new(&time, ticks);
        let point = sampler.measure(&mut workload, Figure::Throughput, 1e9, &running()).unwrap();
        assert!(point.ticks.iter().all(|got| *got == ticks as u64));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn launches_per_sample_are_whole_cycles_and_within_the_limit(
        ticks in 1.0..1e8_f64,
        cycle in 0_u32..200,
        max in 0_u32..10_000,
        jitter in 0.0..2.0_f64,
        budget in 0.0..0.2_f64,
    ) {
        let mut workload = Steady::new(&Time::default(), ticks);
        workload.batch = Batch { cycle, max };
        workload.jitter = jitter;
        let (k, n) = measure(&mut workload, Figure::Throughput, budget, |point| {
            assert_eq!(point.ticks.len(), point.seconds.len());
            (point.k, point.ticks.len())
        });
        prop_assert!(k > 0 && k % cycle.max(1) == 0);
        prop_assert!(k <= max.max(cycle).max(1));
        prop_assert_eq!(workload.calls.get().0.max(k), workload.calls.get().0);
        prop_assert!((1..=MAX_SAMPLES).contains(&n));
    }
}
