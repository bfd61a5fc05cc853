//! Launches and counter readings allocate nothing: code between and inside timed regions must not use the heap. One test in a
//! separate process, since the allocator counts for the whole process.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

use plimsoll_cpu::steal::Counters;
use plimsoll_cpu::threads::{Task, Team, affinity};
use plimsoll_cpu::timer::Timer;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

struct Counting;

// SAFETY: every call is handed to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's obligations are the system allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the block came from `System` above.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn launches_and_counter_readings_allocate_nothing() {
    let allowed = affinity::allowed_cpus();
    let cpus = [0, 1].map(|i| allowed.get(i % allowed.len().max(1)).copied().unwrap_or(0));
    let mut team = Team::new(&cpus, Timer::best()).expect("a team of two");
    let ids: Vec<u32> = team.placements().iter().filter_map(|placement| placement.thread_id).collect();
    let mut counters = Counters::new(&cpus, &ids);
    let task = Task::new(|rank| {
        std::hint::black_box(rank.index);
    });
    let mut run_all = || {
        let before = counters.read();
        team.run(&task).expect("a launch");
        team.run_timed(10, &task).expect("a timed launch");
        counters.read() - before
    };
    // The first call may set up thread-local state of the standard library.
    run_all();
    std::thread::sleep(std::time::Duration::from_millis(120));
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    for _ in 0..100 {
        std::hint::black_box(run_all());
    }
    assert_eq!(ALLOCATIONS.load(Ordering::Relaxed), before);
}
