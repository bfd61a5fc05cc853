//! The state that a team's members share: how a launch reaches the workers, how all start together, and how the caller sees
//! that the last has finished. The parent module starts and pins the threads.
//!
//! Launches are numbered. Workers watch the latest number, arrive at the start barrier, and wait until it is released under
//! the same number. So no flag has to be reset between launches (a sense-reversing barrier whose sense is the launch's
//! number). Idle workers spin for 50 ms, so that back-to-back launches cost no system call, and then park.

use std::any::Any;
use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

use plimsoll_core::Fault;

use super::Rank;
use super::Start;
use super::core_clock::CoreClock;
use crate::timer::Timer;

/// How long an idle worker spins before it parks.
const SPIN: Duration = Duration::from_millis(50);
/// Iterations of a spin loop between two looks at the clock.
const LOOK: u32 = 1 << 10;

/// One launch: what to run, and how often.
#[derive(Clone, Copy)]
pub(super) struct Launch {
    body: *const (dyn Fn(Rank<'_>) + Send + Sync),
    repeats: u64,
    start: Start,
    /// [`Start::lead_in`] in ticks.
    lead_in: u64,
}

impl Launch {
    pub(super) fn new(
        body: &(dyn Fn(Rank<'_>) + Send + Sync + 'static),
        repeats: u64,
        start: Start,
        timer: Timer,
    ) -> Self {
        let lead_in = (start.lead_in / timer.tick_seconds()) as u64;
        Self { body, repeats, start, lead_in }
    }
}

fn empty_task(_: Rank<'_>) {}

/// The state that one member writes, on separate cache lines: aligned to 128 bytes, since x86 prefetches lines in pairs and
/// some AArch64 lines are that long.
#[repr(align(128))]
#[derive(Default)]
struct Slot {
    finished: AtomicU64,
    begin: AtomicU64,
    end: AtomicU64,
    parked: AtomicBool,
    thread: OnceLock<Thread>,
    panic: Mutex<Option<String>>,
}

/// A value on separate cache lines.
#[repr(align(128))]
struct CacheAligned<T>(T);

/// The shared state of a team.
pub(super) struct WorkerPool {
    current: UnsafeCell<Launch>,
    /// The number of the latest launch.
    latest: CacheAligned<AtomicU64>,
    arrived: CacheAligned<AtomicUsize>,
    released: CacheAligned<AtomicU64>,
    stop: CacheAligned<AtomicBool>,
    panicked: AtomicBool,
    quit: AtomicBool,
    oversubscribed: AtomicBool,
    slots: Box<[Slot]>,
    timer: Timer,
    core_clock: Arc<CoreClock>,
}

// SAFETY: everything except `current` is `Sync` by itself. Only the launching thread writes `current`, while no worker is at
// work (an obligation of `launch`), before the release-store of `latest` that workers acquire before they read it. The task
// behind its pointer is `Send + Sync`, and stays alive (another obligation of `launch`).
unsafe impl Sync for WorkerPool {}
// SAFETY: as above; no field belongs to one thread.
unsafe impl Send for WorkerPool {}

impl WorkerPool {
    pub(super) fn new(size: usize, timer: Timer, oversubscribed: bool) -> Self {
        Self {
            current: UnsafeCell::new(Launch::new(&empty_task, 0, Start::default(), timer)),
            latest: CacheAligned(AtomicU64::new(0)),
            arrived: CacheAligned(AtomicUsize::new(0)),
            released: CacheAligned(AtomicU64::new(0)),
            stop: CacheAligned(AtomicBool::new(false)),
            panicked: AtomicBool::new(false),
            quit: AtomicBool::new(false),
            oversubscribed: AtomicBool::new(oversubscribed),
            slots: (0..size).map(|_| Slot::default()).collect(),
            timer,
            core_clock: Arc::new(CoreClock::new(timer)),
        }
    }

    /// The clock of rank 0's core at the end of each launch.
    pub(super) fn core_clock(&self) -> &Arc<CoreClock> {
        &self.core_clock
    }

    /// Declares that members may have to share a CPU: waiting members then yield.
    pub(super) fn set_oversubscribed(&self) {
        self.oversubscribed.store(true, Ordering::Relaxed);
    }

    /// Runs `launch` on all members, the caller as rank 0. False if a worker did not finish within `allowance`, or within
    /// twice the time that rank 0 took if that is longer. An allowance too long for an [`Instant`] means no limit. Never
    /// unwinds.
    ///
    /// # Safety
    /// (1) The task stays alive until all members have finished: for ever, if this returns false. (2) The last launch
    /// returned true. (3) No other launch runs at the same time.
    pub(super) unsafe fn launch(&self, launch: Launch, allowance: Duration) -> bool {
        // SAFETY: the caller promises the same.
        or_abort(|| unsafe { self.launch_and_wait(launch, allowance) })
    }

    /// # Safety
    /// As [`WorkerPool::launch`].
    unsafe fn launch_and_wait(&self, launch: Launch, allowance: Duration) -> bool {
        let began = Instant::now();
        let deadline = began.checked_add(allowance);
        let number = self.latest.0.load(Ordering::Relaxed) + 1;
        self.stop.0.store(false, Ordering::Relaxed);
        self.arrived.0.store(0, Ordering::Relaxed);
        // SAFETY: by obligations 2 and 3 no other thread reads or writes `current` now.
        unsafe { *self.current.get() = launch };
        // Sequentially consistent, as is `parked`: either this thread sees a worker parked, or that worker sees the launch.
        self.latest.0.store(number, Ordering::SeqCst);
        let workers = &self.slots[1..];
        for worker in workers {
            if worker.parked.load(Ordering::SeqCst)
                && let Some(thread) = worker.thread.get()
            {
                thread.unpark();
            }
        }
        if !self.wait(deadline, || self.arrived.0.load(Ordering::Acquire) == workers.len()) {
            // Workers that did arrive see `quit` when the team is dropped; the launch itself stays valid.
            return false;
        }
        self.released.0.store(number, Ordering::Release);
        self.run_repetitions(0, launch);
        self.stop.0.store(true, Ordering::Relaxed);
        self.core_clock.measure(launch.start.clock_kind);
        // Long work is not a hang: a worker may take as much more time as rank 0 took for its own share.
        let as_long_again = Instant::now() + began.elapsed();
        let deadline = deadline.map(|deadline| deadline.max(as_long_again));
        let all_finished = || workers.iter().all(|w| w.finished.load(Ordering::Acquire) == number);
        self.wait(deadline, all_finished)
    }

    /// The main loop of a worker: runs launches until shut down. Never unwinds, as the caller of a launch would wait forever.
    pub(super) fn run_worker(&self, index: usize) {
        or_abort(|| self.run_launches(index));
    }

    fn run_launches(&self, index: usize) {
        let slot = &self.slots[index];
        // Set once, by this thread, before the first launch can find it parked.
        let _ = slot.thread.set(std::thread::current());
        let mut last = 0;
        while let Some(number) = self.next_launch(slot, last) {
            last = number;
            // SAFETY: `current` was written before the store of `latest` that we have acquired, and is not written
            // again until we have stored `finished`.
            let launch = unsafe { *self.current.get() };
            self.arrived.0.fetch_add(1, Ordering::AcqRel);
            let go = || self.released.0.load(Ordering::Acquire) >= number || self.quit.load(Ordering::Relaxed);
            self.spin_until(go);
            if self.released.0.load(Ordering::Acquire) < number {
                return;
            }
            self.run_repetitions(index, launch);
            slot.finished.store(number, Ordering::Release);
        }
    }

    /// Waits for a launch later than `last`; `None` when shut down.
    fn next_launch(&self, slot: &Slot, last: u64) -> Option<u64> {
        let mut idle_since: Option<Instant> = None;
        loop {
            for _ in 0..LOOK {
                if self.quit.load(Ordering::SeqCst) {
                    return None;
                }
                let number = self.latest.0.load(Ordering::SeqCst);
                if number > last {
                    return Some(number);
                }
                std::hint::spin_loop();
            }
            if self.oversubscribed.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            if idle_since.get_or_insert_with(Instant::now).elapsed() < SPIN {
                continue;
            }
            slot.parked.store(true, Ordering::SeqCst);
            if self.latest.0.load(Ordering::SeqCst) == last && !self.quit.load(Ordering::SeqCst) {
                std::thread::park();
            }
            slot.parked.store(false, Ordering::SeqCst);
        }
    }

    /// Runs one member's repetitions and stores their begin and end times. A panic ends them and stops the others.
    fn run_repetitions(&self, index: usize, launch: Launch) {
        let slot = &self.slots[index];
        let rank = Rank { index, members: self.slots.len(), stop: &self.stop.0 };
        // SAFETY: by obligation 1 of `launch` the task lives until all members have finished, or for ever.
        let body = unsafe { &*launch.body };
        let mut begin = self.timer.now();
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            if launch.lead_in > 0 {
                let warm = begin + launch.lead_in;
                while begin < warm {
                    body(rank);
                    begin = self.timer.now();
                }
            }
            for _ in 0..launch.repeats {
                body(rank);
            }
        }));
        let end = self.timer.now();
        slot.begin.store(begin, Ordering::Relaxed);
        slot.end.store(end, Ordering::Relaxed);
        if let Err(payload) = outcome {
            self.stop.0.store(true, Ordering::Relaxed);
            *slot.panic.lock().unwrap_or_else(PoisonError::into_inner) = Some(panic_message(&*payload));
            self.panicked.store(true, Ordering::Release);
            drop_payload(payload);
        }
    }

    /// The message of the last launch's first panic in rank order. Clears all panics.
    pub(super) fn take_panic(&self) -> Option<String> {
        if !self.panicked.swap(false, Ordering::Acquire) {
            return None;
        }
        let take = |slot: &Slot| slot.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.slots.iter().fold(None, |first, slot| {
            let this = take(slot);
            first.or(this)
        })
    }

    /// Ticks from the earliest begin to the latest end of the last launch.
    pub(super) fn lap(&self) -> u64 {
        let times = |pick: fn(&Slot) -> &AtomicU64| self.slots.iter().map(move |s| pick(s).load(Ordering::Relaxed));
        let begin = times(|s| &s.begin).min().unwrap_or(0);
        let end = times(|s| &s.end).max().unwrap_or(0);
        end.saturating_sub(begin)
    }

    /// Ticks that one member took in the last launch.
    pub(super) fn lap_of(&self, index: usize) -> u64 {
        let lap = |s: &Slot| s.end.load(Ordering::Relaxed).saturating_sub(s.begin.load(Ordering::Relaxed));
        self.slots.get(index).map_or(0, lap)
    }

    /// Makes all workers return.
    pub(super) fn shut_down(&self) {
        self.stop.0.store(true, Ordering::Relaxed);
        self.quit.store(true, Ordering::SeqCst);
        for thread in self.slots.iter().filter_map(|slot| slot.thread.get()) {
            thread.unpark();
        }
    }

    fn wait(&self, deadline: Option<Instant>, done: impl Fn() -> bool) -> bool {
        loop {
            for _ in 0..LOOK {
                if done() {
                    return true;
                }
                std::hint::spin_loop();
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                self.stop.0.store(true, Ordering::Relaxed);
                return done();
            }
            if self.oversubscribed.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
        }
    }

    /// A worker's wait at the start barrier. It needs no deadline: the caller either releases the barrier or, at its own
    /// deadline, gives up the team, and dropping the team sets `quit`.
    fn spin_until(&self, done: impl Fn() -> bool) {
        let mut iterations = 0_u32;
        while !done() {
            std::hint::spin_loop();
            iterations = iterations.wrapping_add(1);
            if iterations.is_multiple_of(LOOK) && self.oversubscribed.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
        }
    }
}

/// Runs `body`, and aborts the process if it unwinds: unwinding would free what other members still use, or leave them
/// waiting.
pub(super) fn or_abort<R>(body: impl FnOnce() -> R) -> R {
    struct Abort;
    impl Drop for Abort {
        fn drop(&mut self) {
            std::process::abort();
        }
    }
    let abort = Abort;
    let result = body();
    std::mem::forget(abort);
    result
}

/// Runs `body`; a panic is [`Fault::Panicked`] with its message.
pub(crate) fn catch_panic<R>(body: impl FnOnce() -> R) -> Result<R, Fault> {
    catch_unwind(AssertUnwindSafe(body)).map_err(|payload| {
        let message = panic_message(&*payload);
        drop_payload(payload);
        Fault::Panicked(message)
    })
}

/// Drops a panic's payload. Its destructor is foreign code and may panic as well; that second payload is leaked, as its
/// destructor might panic too.
fn drop_payload(payload: Box<dyn Any + Send>) {
    if let Err(thrown) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(thrown);
    }
}

fn panic_message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|s| (*s).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without a message".to_owned())
}
