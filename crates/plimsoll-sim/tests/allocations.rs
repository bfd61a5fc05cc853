//! The sampler allocates nothing while it measures.

#[path = "../../plimsoll-core/tests/support/mod.rs"]
mod support;

use std::sync::atomic::AtomicBool;

use plimsoll_core::Fault;
use plimsoll_core::sample::{Check, Ended, Evidence, Figure, Policy, Sampler, Work, Workload};
use plimsoll_core::stats::{MAX_SAMPLES, Rng};
use support::SteppingClock;

struct Noisy {
    rng: Rng,
    noise: f64,
}

impl Workload for Noisy {
    fn work(&self) -> Work {
        Work::default()
    }
    fn sample(&mut self, k: u32, out: &mut [u64]) -> Result<(), Fault> {
        for ticks in out {
            *ticks = (f64::from(k) * 1e5 * (1.0 + self.noise * self.rng.normal()).max(0.1)) as u64;
        }
        Ok(())
    }
    fn check(&mut self) -> Result<Check, Fault> {
        Ok(Check::Passed)
    }
}

#[test]
fn measuring_allocates_nothing_whether_it_converges_or_fills_the_buffers() {
    let (stop, mut largest) = (AtomicBool::new(false), 0);
    for (noise, half_width) in [(0.001, 0.0025), (0.2, 0.0025), (2.0, 1e-9)] {
        let policy = Policy { min_samples: 30, half_width, rounds: 1, sample_seconds: 1e-3, trace: false };
        let evidence = Evidence { wall: 1e-3, clock_hz: Some(3e9), ..Evidence::default() };
        let clock = SteppingClock { evidence, ..SteppingClock::default() };
        let mut sampler = Sampler::new(clock, policy);
        let mut workload = Noisy { rng: Rng::new(1), noise };
        for figure in [Figure::Throughput, Figure::Latency] {
            let mut outcome = None;
            let allocated = allocation_counter::measure(|| {
                outcome = Some(sampler.measure(&mut workload, figure, 1e9, &stop));
            });
            let measured = outcome.expect("the closure ran").unwrap();
            assert!(matches!(measured.ended, Ended::Converged | Ended::Budget));
            largest = largest.max(measured.ticks.len());
            assert_eq!(allocated.count_total, 0, "noise {noise}, {} samples", measured.ticks.len());
        }
    }
    assert_eq!(largest, MAX_SAMPLES);
    // Check that the counter works.
    assert_eq!(allocation_counter::measure(|| drop(std::hint::black_box(vec![0_u8; 64]))).count_total, 1);
}
