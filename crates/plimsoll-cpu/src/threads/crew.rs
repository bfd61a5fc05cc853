//! The shared side of a team: how an order reaches the workers, how all start together, and how the caller learns that
//! the last has finished. Who is hired and where they sit is the parent module's work.
//!
//! A launch is numbered. Workers watch the number of the last order; each then arrives at the start and waits for it to
//! be released under the same number, so no flag has to be reset between launches (a sense-reversing barrier whose
//! sense is the launch's number). Idle workers spin for 50 ms, so that back-to-back launches cost no system call, and
//! then park.

use std::any::Any;
use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

use super::Rank;
use super::Start;
use super::pulse::Pulse;
use crate::timer::Timer;

/// How long an idle worker spins before it parks.
const SPIN: Duration = Duration::from_millis(50);
/// Turns of a spin loop between two looks at the clock.
const LOOK: u32 = 1 << 10;

/// One launch: what to run, and how often.
#[derive(Clone, Copy)]
pub(super) struct Order {
    body: *const (dyn Fn(Rank<'_>) + Send + Sync),
    repeats: u64,
    start: Start,
    /// [`Start::lead_in`] in ticks.
    lead_in: u64,
}

impl Order {
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

fn nothing(_: Rank<'_>) {}

/// What one member writes, on cache lines of its own: 128 bytes, since x86 prefetches lines in pairs and some AArch64
/// lines are that long.
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

/// A value on cache lines of its own.
#[repr(align(128))]
struct Apart<T>(T);

/// What the members of a team share.
pub(super) struct Crew {
    order: UnsafeCell<Order>,
    ordered: Apart<AtomicU64>,
    arrived: Apart<AtomicUsize>,
    released: Apart<AtomicU64>,
    stop: Apart<AtomicBool>,
    panicked: AtomicBool,
    quit: AtomicBool,
    crowded: AtomicBool,
    slots: Box<[Slot]>,
    timer: Timer,
    pulse: Arc<Pulse>,
}

// SAFETY: everything but `order` is `Sync` by itself. `order` is written by the ordering thread alone, while no worker
// is at work (an obligation of `launch`), before the release-store of `ordered` that workers acquire before they read
// it. The task behind its pointer is `Send + Sync`, and stays alive (another obligation of `launch`).
unsafe impl Sync for Crew {}
// SAFETY: as above; nothing in it belongs to one thread.
unsafe impl Send for Crew {}

impl Crew {
    pub(super) fn new(size: usize, timer: Timer, crowded: bool) -> Self {
        Self {
            order: UnsafeCell::new(Order::new(&nothing, 0, Start::default(), timer)),
            ordered: Apart(AtomicU64::new(0)),
            arrived: Apart(AtomicUsize::new(0)),
            released: Apart(AtomicU64::new(0)),
            stop: Apart(AtomicBool::new(false)),
            panicked: AtomicBool::new(false),
            quit: AtomicBool::new(false),
            crowded: AtomicBool::new(crowded),
            slots: (0..size).map(|_| Slot::default()).collect(),
            timer,
            pulse: Arc::new(Pulse::new(timer)),
        }
    }

    /// The clock of rank 0's core at the end of each launch.
    pub(super) fn pulse(&self) -> &Arc<Pulse> {
        &self.pulse
    }

    /// Says that members may have to share a CPU: waits then yield it.
    pub(super) fn set_crowded(&self) {
        self.crowded.store(true, Ordering::Relaxed);
    }

    /// Runs `order` on all members, the caller as rank 0. False if a worker did not finish within `allowance`, or within
    /// twice the time that rank 0 took where that is longer. An allowance beyond time is none. Never unwinds.
    ///
    /// # Safety
    /// (1) The task stays alive until all members have finished: for ever, if this returns false. (2) The last launch
    /// returned true. (3) No other launch runs at the same time.
    pub(super) unsafe fn launch(&self, order: Order, allowance: Duration) -> bool {
        // SAFETY: the caller promises the same.
        or_abort(|| unsafe { self.order_and_wait(order, allowance) })
    }

    /// # Safety
    /// As [`Crew::launch`].
    unsafe fn order_and_wait(&self, order: Order, allowance: Duration) -> bool {
        let began = Instant::now();
        let deadline = began.checked_add(allowance);
        let number = self.ordered.0.load(Ordering::Relaxed) + 1;
        self.stop.0.store(false, Ordering::Relaxed);
        self.arrived.0.store(0, Ordering::Relaxed);
        // SAFETY: by obligations 2 and 3 no other thread reads or writes the order now.
        unsafe { *self.order.get() = order };
        // Sequentially consistent, as is `parked`: either this sees a worker parked, or that worker sees the order.
        self.ordered.0.store(number, Ordering::SeqCst);
        let workers = &self.slots[1..];
        for worker in workers {
            if worker.parked.load(Ordering::SeqCst)
                && let Some(thread) = worker.thread.get()
            {
                thread.unpark();
            }
        }
        if !self.wait(deadline, || self.arrived.0.load(Ordering::Acquire) == workers.len()) {
            // Workers that did arrive see `quit` when the team is dropped; the order itself stays valid.
            return false;
        }
        self.released.0.store(number, Ordering::Release);
        self.perform(0, order);
        self.stop.0.store(true, Ordering::Relaxed);
        self.pulse.beat(order.start.gauge);
        // Long work is no hang: a worker may take as long again as rank 0 did for its own share.
        let as_long_again = Instant::now() + began.elapsed();
        let deadline = deadline.map(|deadline| deadline.max(as_long_again));
        let all_finished = || workers.iter().all(|w| w.finished.load(Ordering::Acquire) == number);
        self.wait(deadline, all_finished)
    }

    /// A worker's life: take orders until dismissed. Never unwinds, as the caller of a launch would wait for ever.
    pub(super) fn serve(&self, index: usize) {
        or_abort(|| self.take_orders(index));
    }

    fn take_orders(&self, index: usize) {
        let slot = &self.slots[index];
        // Set once, by this thread, before the first order can find it parked.
        let _ = slot.thread.set(std::thread::current());
        let mut last = 0;
        while let Some(number) = self.next_order(slot, last) {
            last = number;
            // SAFETY: the order was written before the store of `ordered` that we have acquired, and is not written
            // again until we have stored `finished`.
            let order = unsafe { *self.order.get() };
            self.arrived.0.fetch_add(1, Ordering::AcqRel);
            let go = || self.released.0.load(Ordering::Acquire) >= number || self.quit.load(Ordering::Relaxed);
            self.spin_until(go);
            if self.released.0.load(Ordering::Acquire) < number {
                return;
            }
            self.perform(index, order);
            slot.finished.store(number, Ordering::Release);
        }
    }

    /// Waits for an order later than `last`; `None` when dismissed.
    fn next_order(&self, slot: &Slot, last: u64) -> Option<u64> {
        let mut idle_since: Option<Instant> = None;
        loop {
            for _ in 0..LOOK {
                if self.quit.load(Ordering::SeqCst) {
                    return None;
                }
                let number = self.ordered.0.load(Ordering::SeqCst);
                if number > last {
                    return Some(number);
                }
                std::hint::spin_loop();
            }
            if self.crowded.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            if idle_since.get_or_insert_with(Instant::now).elapsed() < SPIN {
                continue;
            }
            slot.parked.store(true, Ordering::SeqCst);
            if self.ordered.0.load(Ordering::SeqCst) == last && !self.quit.load(Ordering::SeqCst) {
                std::thread::park();
            }
            slot.parked.store(false, Ordering::SeqCst);
        }
    }

    /// Runs the repetitions of one member and notes when they began and ended. A panic ends them and stops the others.
    fn perform(&self, index: usize, order: Order) {
        let slot = &self.slots[index];
        let rank = Rank { index, of: self.slots.len(), stop: &self.stop.0 };
        // SAFETY: by obligation 1 of `launch` the task lives until all members have finished, or for ever.
        let body = unsafe { &*order.body };
        let mut begin = self.timer.now();
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            if order.lead_in > 0 {
                let warm = begin + order.lead_in;
                while begin < warm {
                    body(rank);
                    begin = self.timer.now();
                }
            }
            for _ in 0..order.repeats {
                body(rank);
            }
        }));
        let end = self.timer.now();
        slot.begin.store(begin, Ordering::Relaxed);
        slot.end.store(end, Ordering::Relaxed);
        if let Err(payload) = outcome {
            self.stop.0.store(true, Ordering::Relaxed);
            *slot.panic.lock().unwrap_or_else(PoisonError::into_inner) = Some(words_of(&*payload));
            self.panicked.store(true, Ordering::Release);
            discard(payload);
        }
    }

    /// The first panic's message of the last launch, in rank order, and no trace of it or the others afterwards.
    pub(super) fn take_panic(&self) -> Option<String> {
        if !self.panicked.swap(false, Ordering::Acquire) {
            return None;
        }
        let taken = |slot: &Slot| slot.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.slots.iter().fold(None, |first, slot| {
            let this = taken(slot);
            first.or(this)
        })
    }

    /// Ticks from the earliest beginning to the latest end of the last launch.
    pub(super) fn lap(&self) -> u64 {
        let times = |pick: fn(&Slot) -> &AtomicU64| self.slots.iter().map(move |s| pick(s).load(Ordering::Relaxed));
        let begin = times(|s| &s.begin).min().unwrap_or(0);
        let end = times(|s| &s.end).max().unwrap_or(0);
        end.saturating_sub(begin)
    }

    /// Ticks that one member took.
    pub(super) fn lap_of(&self, index: usize) -> u64 {
        let lap = |s: &Slot| s.end.load(Ordering::Relaxed).saturating_sub(s.begin.load(Ordering::Relaxed));
        self.slots.get(index).map_or(0, lap)
    }

    /// Sends all workers home.
    pub(super) fn dismiss(&self) {
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
            if self.crowded.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
        }
    }

    /// A worker's wait at the start. It needs no deadline of its own: the caller either releases the start or, at its
    /// deadline, gives up the team, whose end sets `quit`.
    fn spin_until(&self, done: impl Fn() -> bool) {
        let mut iterations = 0_u32;
        while !done() {
            std::hint::spin_loop();
            iterations = iterations.wrapping_add(1);
            if iterations.is_multiple_of(LOOK) && self.crowded.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
        }
    }
}

/// Runs `body`, and aborts the process where it unwinds: unwinding would free what other members still use, or leave them
/// waiting.
fn or_abort<R>(body: impl FnOnce() -> R) -> R {
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

/// Drops what a task threw. Its destructor is foreign code and may panic as well; what that throws is leaked, as its
/// destructor might do the same again.
fn discard(payload: Box<dyn Any + Send>) {
    if let Err(thrown) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(thrown);
    }
}

fn words_of(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|s| (*s).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without words".to_owned())
}
