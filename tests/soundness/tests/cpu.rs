//! Unsound uses of the CPU backend that are typed errors.
#![forbid(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use plimsoll_core::Fault;
use plimsoll_cpu::threads::{Rank, Task, Team, affinity};
use plimsoll_cpu::timer::Timer;

/// A panic payload whose destructor panics with the next payload, as long as `rounds` are left.
struct Bomb {
    rounds: usize,
    dropped: Arc<AtomicUsize>,
}

impl Drop for Bomb {
    fn drop(&mut self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
        if self.rounds > 0 {
            std::panic::panic_any(Self { rounds: self.rounds - 1, dropped: Arc::clone(&self.dropped) });
        }
    }
}

fn team(size: usize) -> Team {
    let cpu = affinity::allowed_cpus().first().copied().unwrap_or(0);
    Team::new(&vec![cpu; size], Timer::best()).unwrap()
}

/// Fails a test whose body hangs, which would otherwise never end.
fn within_a_minute(body: impl FnOnce() + Send + 'static) {
    let (done, finished) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        body();
        let _ = done.send(());
    });
    match finished.recv_timeout(Duration::from_secs(60)) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("the test hangs"),
        _ => thread.join().unwrap(),
    }
}

/// Lends memory to a team in which worker `guilty` panics with a [`Bomb`] while the others use that memory, and checks that
/// all of them had finished when the launch returned.
fn lend_with_panic(guilty: usize, rounds: usize) {
    let mut team = team(3);
    let dropped = Arc::new(AtomicUsize::new(0));
    let at_work = AtomicUsize::new(0);
    let memory = vec![1_u64; 1 << 16];
    let fault = team.run_borrowed(1, &|rank: Rank<'_>| {
        if rank.index == guilty {
            std::panic::panic_any(Bomb { rounds, dropped: Arc::clone(&dropped) });
        }
        at_work.fetch_add(1, Ordering::SeqCst);
        for _ in 0..200 {
            assert_eq!(memory.iter().sum::<u64>(), 1 << 16);
        }
        at_work.fetch_sub(1, Ordering::SeqCst);
    });
    assert_eq!(at_work.load(Ordering::SeqCst), 0, "a worker still uses the lent memory");
    drop(memory);
    assert!(matches!(fault, Err(Fault::Panicked(_))), "{fault:?}");
    assert!(dropped.load(Ordering::Relaxed) > 0, "the payload was never dropped");
    // The team can be used again.
    let count = AtomicUsize::new(0);
    let add = |_: Rank<'_>| {
        count.fetch_add(1, Ordering::Relaxed);
    };
    team.run_borrowed(2, &add).unwrap();
    assert_eq!(count.into_inner(), 6);
}

#[test]
fn lend_survives_a_caller_s_payload_whose_destructor_panics() {
    within_a_minute(|| lend_with_panic(0, 1));
}

#[test]
fn lend_survives_a_worker_s_payload_whose_destructor_panics() {
    within_a_minute(|| lend_with_panic(1, 1));
}

#[test]
fn lend_survives_a_chain_of_panicking_payload_destructors() {
    within_a_minute(|| (0..3).for_each(|guilty| lend_with_panic(guilty, 5)));
}

#[test]
fn run_survives_a_payload_whose_destructor_panics() {
    for guilty in 0..3 {
        within_a_minute(move || {
            let mut team = team(3);
            let dropped = Arc::new(AtomicUsize::new(0));
            let task = Task::new(move |rank: Rank<'_>| {
                if rank.index == guilty {
                    std::panic::panic_any(Bomb { rounds: 1, dropped: Arc::clone(&dropped) });
                }
            });
            assert!(matches!(team.run(&task), Err(Fault::Panicked(_))));
            team.run(&Task::new(|_| ())).unwrap();
        });
    }
}

#[test]
fn a_deadline_beyond_the_clock_s_range_means_no_deadline() {
    let mut team = team(2);
    team.set_deadline(Duration::MAX);
    team.run(&Task::new(|_| ())).unwrap();
}
