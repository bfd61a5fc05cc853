//! The sampler allocates nothing while it measures.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::AtomicBool;

use plimsoll_core::Fault;
use plimsoll_core::sample::{Check, Clock, Ended, Evidence, Figure, Policy, Sampler, Work, Workload};
use plimsoll_core::stats::{MAX_SAMPLES, Rng};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

fn count() {
    // While a thread ends its cell may be gone; what it still allocates is not measured.
    let _ = ALLOCATIONS.try_with(|cell| cell.set(cell.get() + 1));
}

// SAFETY: every request goes to the system's allocator unchanged, with the same layout; counting neither allocates
// (the cell is const and has no destructor) nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract of `alloc`, which is passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`, and the pointer came from `System`.
        unsafe { System.dealloc(pointer, layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract of `realloc`, and the pointer came from `System`.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

struct Fixed {
    now: f64,
}

impl Clock for Fixed {
    fn now(&mut self) -> f64 {
        self.now += 1e-3;
        self.now
    }
    fn tick(&self) -> f64 {
        1e-9
    }
    fn resolution(&self) -> f64 {
        1e-9
    }
    fn observe(&mut self) -> Evidence {
        Evidence { wall: 1e-3, clock_hz: Some(3e9), ..Evidence::default() }
    }
}

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
fn measuring_a_point_allocates_nothing_whether_it_converges_or_fills_every_buffer() {
    let (stop, mut largest) = (AtomicBool::new(false), 0);
    for (noise, half_width) in [(0.001, 0.0025), (0.2, 0.0025), (2.0, 1e-9)] {
        let policy = Policy { min_samples: 30, half_width, rounds: 1, sample_seconds: 1e-3, trace: false };
        let mut sampler = Sampler::new(Fixed { now: 0.0 }, policy);
        let mut workload = Noisy { rng: Rng::new(1), noise };
        for figure in [Figure::Throughput, Figure::Latency] {
            let before = ALLOCATIONS.get();
            let measured = sampler.measure(&mut workload, figure, 1e9, &stop);
            let allocated = ALLOCATIONS.get() - before;
            let measured = measured.unwrap();
            assert!(matches!(measured.ended, Ended::Converged | Ended::Budget));
            largest = largest.max(measured.ticks.len());
            assert_eq!(allocated, 0, "noise {noise}, {} samples", measured.ticks.len());
        }
    }
    assert_eq!(largest, MAX_SAMPLES);
}
