//! Threads that help with the parts of one call. Unlike a [`super::Team`], which measures, the caller never waits for threads to
//! arrive: it begins at once, and helpers join while parts are left. Only this crate's own loops run here.
//!
//! One word holds the state: the number of the call, whether it is open to helpers, and how many are at work on it. A helper
//! joins by raising the count of an open call. The caller closes the call when no part is left, and waits until the count is 0;
//! then nobody uses the call's data any more. Idle helpers spin for a while and then park. A helper that joins wakes two others,
//! so that the caller only ever wakes two.
//!
//! A forked process has none of these threads, and a lock may be held by one of them for ever. So each process has its own
//! [`Helpers`], made in its first call.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

use plimsoll_core::Fault;

use super::affinity::{self, PinGuard};
use super::worker_pool::{catch_panic, or_abort};

/// Iterations of a spin loop between two looks at the clock: some microseconds.
const LOOK: u32 = 64;
/// The bits of the state: helpers at work, whether the pool is shutting down, whether the call is open; above, its number.
const COUNT: u64 = (1 << 14) - 1;
const QUIT: u64 = 1 << 14;
const OPEN: u64 = 1 << 15;
const NUMBER: u32 = 16;

/// A call's parts: takes and runs one of them as the member with this number; false if none was left.
type Parts<'p> = dyn Fn(usize) -> bool + Sync + 'p;

/// Where the threads run, and how long they wait for a next call.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// One CPU for each member; the first is the caller's.
    pub(crate) cpus: Vec<usize>,
    /// Whether members are pinned to them, the caller during its calls.
    pub(crate) pinned: bool,
    /// How long an idle helper spins before it parks.
    pub(crate) spin: Duration,
}

/// Threads that any thread may use for its calls. They start in the first call.
pub(crate) struct CallPool {
    settings: Settings,
    /// Made by `Box::into_raw`; never null. Replaced only in a forked process.
    current: AtomicPtr<Helpers>,
}

/// The helpers of one process.
struct Helpers {
    process: u32,
    /// The started threads; locked by the caller whom they help.
    threads: Mutex<Option<Vec<JoinHandle<()>>>>,
    shared: Arc<Shared>,
}

/// The state that the helpers and their caller share.
struct Shared {
    state: AtomicU64,
    /// The parts of the open call.
    parts: UnsafeCell<Option<*const Parts<'static>>>,
    slots: Box<[Slot]>,
    panic: Mutex<Option<String>>,
    spin: Duration,
}

/// A helper's state, on separate cache lines.
#[repr(align(128))]
#[derive(Default)]
struct Slot {
    parked: AtomicBool,
    thread: OnceLock<Thread>,
}

// SAFETY: all fields except `parts` are `Send` and `Sync`. The caller, who holds the lock of `Helpers::threads`, writes `parts`
// while the call is closed and nobody is at work on it; helpers read it after they joined an open call. The parts are `Sync`,
// and live until the caller has closed the call and the last helper has left.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl std::fmt::Debug for CallPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallPool").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl CallPool {
    /// Starts no thread yet.
    pub(crate) fn new(settings: Settings) -> Self {
        let current = AtomicPtr::new(Helpers::allocate(&settings));
        Self { settings, current }
    }

    /// How many members there are, including the caller; at least 1.
    pub(crate) fn size(&self) -> usize {
        self.settings.cpus.len().max(1)
    }

    /// Runs all parts of a call: the caller as member 0, and helpers as the others unless they help another caller. Returns when
    /// no part is left and nobody is at work on one. Allocates nothing, except in a process's first call.
    ///
    /// # Errors
    /// [`Fault::Panicked`] if a part panicked.
    pub(crate) fn run(&self, parts: &Parts<'_>) -> Result<(), Fault> {
        let helpers = self.helpers();
        let ran = catch_panic(|| {
            let mut session = None;
            loop {
                session = session.or_else(|| helpers.open(&self.settings, parts));
                if !parts(0) {
                    return session.and_then(Session::close);
                }
            }
        })?;
        ran.map_or(Ok(()), |message| Err(Fault::Panicked(message)))
    }

    /// This process's helpers.
    fn helpers(&self) -> &Helpers {
        let known = self.current.load(Ordering::Acquire);
        // SAFETY: `current` always points to helpers that are freed only when the pool is dropped.
        let helpers = unsafe { &*known };
        if helpers.process == std::process::id() {
            return helpers;
        }
        // The parent's are never freed here: its threads don't exist, and its lock may be held for ever.
        let fresh = Helpers::allocate(&self.settings);
        match self.current.compare_exchange(known, fresh, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: as above.
            Ok(_) => unsafe { &*fresh },
            // SAFETY: `fresh` was made just now and nobody else knows it; `other` as above.
            Err(other) => unsafe {
                drop(Box::from_raw(fresh));
                &*other
            },
        }
    }
}

impl Drop for CallPool {
    fn drop(&mut self) {
        // SAFETY: made by `Box::into_raw`, and nobody uses it after this.
        let helpers = unsafe { Box::from_raw(*self.current.get_mut()) };
        if helpers.process != std::process::id() {
            Box::leak(helpers);
            return;
        }
        helpers.shared.shut_down();
        let threads = helpers.threads.into_inner().unwrap_or_else(PoisonError::into_inner);
        for thread in threads.into_iter().flatten() {
            // A helper catches panics, so the result says nothing.
            let _ = thread.join();
        }
    }
}

impl Helpers {
    fn allocate(settings: &Settings) -> *mut Self {
        let slots = settings.cpus.iter().map(|_| Slot::default()).collect();
        let (state, parts) = (AtomicU64::new(0), UnsafeCell::new(None));
        let shared = Shared { state, parts, slots, panic: Mutex::new(None), spin: settings.spin };
        let process = std::process::id();
        Box::into_raw(Box::new(Self { process, threads: Mutex::new(None), shared: Arc::new(shared) }))
    }

    /// Opens a call to helpers; `None` if they help another caller.
    fn open<'p>(&'p self, settings: &Settings, parts: &'p Parts<'p>) -> Option<Session<'p>> {
        let mut threads = match self.threads.try_lock() {
            Ok(threads) => threads,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        threads.get_or_insert_with(|| self.start(settings));
        let pin =
            if settings.pinned { settings.cpus.first().and_then(|&cpu| PinGuard::pin_to(cpu).ok()) } else { None };
        let shared = &*self.shared;
        // SAFETY: only the lifetime is changed. `Session` ends the call before `'p` ends.
        let parts = unsafe { std::mem::transmute::<*const Parts<'p>, *const Parts<'static>>(parts) };
        // SAFETY: the lock is held, and the previous session closed its call and waited until nobody was at work.
        unsafe { *shared.parts.get() = Some(parts) };
        let number = (shared.state.load(Ordering::Relaxed) >> NUMBER) + 1;
        // Sequentially consistent, as is `parked`: either this thread sees a helper parked, or that helper sees the call.
        shared.state.store(number << NUMBER | OPEN, Ordering::SeqCst);
        shared.wake_after(0);
        Some(Session { shared, _threads: threads, _pin: pin })
    }

    /// Starts the helpers. If one can't be started, there are fewer.
    fn start(&self, settings: &Settings) -> Vec<JoinHandle<()>> {
        let start = |(index, &cpu): (usize, &usize)| {
            let (shared, pinned) = (Arc::clone(&self.shared), settings.pinned);
            let body = move || {
                if pinned {
                    // Unpinned it is slower, but right.
                    let _ = affinity::pin(cpu);
                }
                or_abort(|| shared.help(index));
            };
            std::thread::Builder::new().name(format!("plimsoll-{index}")).spawn(body).ok()
        };
        settings.cpus.iter().enumerate().skip(1).map_while(start).collect()
    }
}

/// An open call. It ends, and helpers have left it, before it is dropped.
struct Session<'p> {
    shared: &'p Shared,
    _threads: MutexGuard<'p, Option<Vec<JoinHandle<()>>>>,
    _pin: Option<PinGuard>,
}

impl Session<'_> {
    /// Waits until nobody is at work. Returns the message of a helper's panic.
    fn close(self) -> Option<String> {
        self.shared.finish();
        self.shared.panic.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        self.shared.finish();
        // Of a helper, if the caller panicked too.
        self.shared.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

impl Shared {
    /// Closes the call and waits until nobody is at work on it. Does nothing if it is closed.
    fn finish(&self) {
        self.state.fetch_and(!OPEN, Ordering::AcqRel);
        loop {
            for _ in 0..LOOK {
                if self.state.load(Ordering::Acquire) & COUNT == 0 {
                    return;
                }
                std::hint::spin_loop();
            }
            // A helper may need this CPU to finish.
            std::thread::yield_now();
        }
    }

    /// Wakes the two helpers for which this member is responsible, if they are parked.
    fn wake_after(&self, index: usize) {
        for slot in self.slots.iter().skip(2 * index + 1).take(2) {
            if slot.parked.load(Ordering::SeqCst)
                && slot.parked.swap(false, Ordering::SeqCst)
                && let Some(thread) = slot.thread.get()
            {
                thread.unpark();
            }
        }
    }

    /// The main loop of a helper, until shut down.
    fn help(&self, index: usize) {
        let slot = &self.slots[index];
        let _ = slot.thread.set(std::thread::current());
        let mut last = 0;
        while let Some(number) = self.join(slot, last) {
            last = number;
            self.wake_after(index);
            // SAFETY: this helper joined an open call, so its parts were written before, and live until it has left.
            let parts = unsafe { (*self.parts.get()).map(|parts| &*parts) };
            let ran = catch_panic(|| while parts.is_some_and(|parts| parts(index)) {});
            if let Err(Fault::Panicked(message)) = ran {
                *self.panic.lock().unwrap_or_else(PoisonError::into_inner) = Some(message);
            }
            self.state.fetch_sub(1, Ordering::Release);
        }
    }

    /// Waits for an open call other than `last` and joins it. Returns its number; `None` when shut down.
    fn join(&self, slot: &Slot, last: u64) -> Option<u64> {
        let mut idle_since: Option<Instant> = None;
        loop {
            for _ in 0..LOOK {
                let state = self.state.load(Ordering::SeqCst);
                if state & QUIT != 0 {
                    return None;
                }
                if is_new(state, last) {
                    if self.state.compare_exchange(state, state + 1, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                        return Some(state >> NUMBER);
                    }
                } else {
                    std::hint::spin_loop();
                }
            }
            std::thread::yield_now();
            if idle_since.get_or_insert_with(Instant::now).elapsed() < self.spin {
                continue;
            }
            slot.parked.store(true, Ordering::SeqCst);
            let state = self.state.load(Ordering::SeqCst);
            if state & QUIT == 0 && !is_new(state, last) {
                std::thread::park();
            }
            slot.parked.store(false, Ordering::SeqCst);
            idle_since = None;
        }
    }

    /// Makes all helpers return.
    fn shut_down(&self) {
        self.state.fetch_or(QUIT, Ordering::SeqCst);
        for thread in self.slots.iter().filter_map(|slot| slot.thread.get()) {
            thread.unpark();
        }
    }
}

/// Whether a state has an open call with another number.
fn is_new(state: u64, last: u64) -> bool {
    state & OPEN != 0 && state >> NUMBER != last
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use crate::threads::affinity::allowed_cpus;

    fn pool(members: usize, pinned: bool) -> CallPool {
        let cpu = allowed_cpus().first().copied().unwrap_or(0);
        CallPool::new(Settings { cpus: vec![cpu; members], pinned, spin: Duration::from_micros(50) })
    }

    /// Runs `count` parts and counts how often each ran.
    fn run(pool: &CallPool, count: usize) -> Vec<usize> {
        let runs: Vec<AtomicUsize> = (0..count).map(|_| AtomicUsize::new(0)).collect();
        let next = AtomicUsize::new(0);
        pool.run(&|member| {
            assert!(member < pool.size());
            let part = next.fetch_add(1, Ordering::Relaxed);
            std::thread::yield_now();
            runs.get(part).is_some_and(|part| part.fetch_add(1, Ordering::Relaxed) < 9)
        })
        .unwrap();
        runs.into_iter().map(AtomicUsize::into_inner).collect()
    }

    #[test]
    fn each_part_runs_once_for_any_number_of_callers_and_affinity_is_restored() {
        for (members, pinned) in [(1, true), (2, false), (4, true)] {
            let pool = pool(members, pinned);
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| {
                        let before = allowed_cpus();
                        for count in [0, 1, 2, 50, 400].into_iter().cycle().take(30) {
                            assert_eq!(run(&pool, count), vec![1; count]);
                        }
                        assert_eq!(allowed_cpus(), before);
                    });
                }
            });
            std::thread::sleep(Duration::from_millis(2));
            assert_eq!(run(&pool, 30), [1; 30], "parked helpers must not keep a call from ending");
        }
    }

    #[test]
    fn a_panic_of_any_member_is_an_error_and_the_pool_stays_usable() {
        let pool = pool(3, false);
        for panicking in [0, 1] {
            let fault = pool.run(&|member| {
                assert!(member != panicking, "of a member");
                std::thread::yield_now();
                // The caller waits for the helper's panic.
                panicking != 0 && pool.helpers().shared.panic.lock().unwrap().is_none()
            });
            assert!(matches!(&fault, Err(Fault::Panicked(message)) if message == "of a member"), "{fault:?}");
            assert_eq!(run(&pool, 20), [1; 20]);
        }
    }
}
