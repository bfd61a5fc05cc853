//! Teams of pinned threads that start a measured region together and report when the last of them finished. The probes
//! decide what the teams run; [`crate::topology`] chooses the CPUs.
//!
//! The caller takes part as rank 0. A caller that only waited would have to spin to see the end at once. With as many
//! workers as CPUs, it would then take time from the worker that it waits for.
//!
//! Tasks own what they use (`'static`): a hung worker may go on using it after [`Team::run`] has given up, so a task can't
//! borrow. Share buffers through [`std::sync::Arc`], and give each rank its part with [`crate::memory::Split`].

pub mod affinity;
mod borrowed;
mod call_pool;
pub(crate) mod core_clock;
#[cfg(test)]
mod tests;
mod worker_pool;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use plimsoll_core::Fault;

use crate::timer::Timer;
use affinity::{PinGuard, PinRefused};
use core_clock::{ClockKind, CoreClock};
use worker_pool::{Launch, WorkerPool};

pub(crate) use call_pool::{CallPool, Settings};
pub(crate) use worker_pool::catch_panic;

/// How long a launch may take before the team counts as hung, unless [`Team::set_deadline`] changes it.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// A member's view of the launch that it takes part in.
#[derive(Clone, Copy, Debug)]
pub struct Rank<'a> {
    /// This member's number: 0 is the thread that called.
    pub index: usize,
    /// How many members take part.
    pub members: usize,
    stop: &'a AtomicBool,
}

impl Rank<'_> {
    /// True once rank 0 has finished all its repetitions, a member has panicked, or the deadline has passed. A member
    /// that only generates load for rank 0 works until then.
    #[inline]
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// The function that every member of a team runs. It can do different work for each [`Rank::index`].
#[derive(Clone)]
pub struct Task(Arc<dyn Fn(Rank<'_>) + Send + Sync>);

impl Task {
    /// A task from a closure that owns what it uses. Allocates; launching it doesn't.
    pub fn new(body: impl Fn(Rank<'_>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(body))
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Task")
    }
}

/// How a launch begins, and which clock is read at its end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Start {
    /// Seconds for which every member first repeats the task untimed, for code that needs a while to reach its steady speed.
    pub(crate) lead_in: f64,
    /// The kind of code whose clock is read.
    pub(crate) clock_kind: ClockKind,
}

/// Where a member of a team runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The CPU it was meant for.
    pub cpu: usize,
    /// Whether it is pinned to that CPU, or why not.
    pub pinned: Result<(), PinRefused>,
    /// The system's number for its thread, for [`crate::steal::Counters`]; `None` off Linux.
    pub thread_id: Option<u32>,
}

/// Pinned threads, one per CPU, including the calling thread. The team belongs to that thread (it isn't `Send`), whose old
/// affinity is restored when the team is dropped.
pub struct Team {
    worker_pool: Arc<WorkerPool>,
    workers: Vec<JoinHandle<()>>,
    placements: Vec<Placement>,
    pin_guard: Option<PinGuard>,
    timer: Timer,
    deadline: Duration,
    lost: bool,
    only_here: std::marker::PhantomData<*const ()>,
}

impl Team {
    /// A team with one member on each of `cpus`, in rank order; the calling thread moves to the first. A member that
    /// can't be pinned to its CPU still works: see [`Team::placements`].
    ///
    /// # Errors
    /// [`Fault::Invalid`] if `cpus` is empty; [`Fault::Unavailable`] if threads can't be started.
    pub fn new(cpus: &[usize], timer: Timer) -> Result<Self, Fault> {
        let here = affinity::allowed_cpus();
        // Workers start before the caller is pinned, so that a worker that can't be pinned doesn't inherit the caller's CPU.
        let mut team = Self::start_workers(cpus, timer)?;
        match PinGuard::pin_to(cpus[0]) {
            Ok(pin_guard) => team.pin_guard = Some(pin_guard),
            Err(refused) => team.placements[0].pinned = Err(refused),
        }
        // Threads that share a CPU, or may share one, must yield while they wait.
        let scattered = team.placements.iter().any(|p| p.pinned.is_err());
        if scattered && here.len() < cpus.len() {
            team.worker_pool.set_oversubscribed();
        }
        Ok(team)
    }

    /// Starts the workers and reserves rank 0 for the caller.
    fn start_workers(cpus: &[usize], timer: Timer) -> Result<Self, Fault> {
        let Some(&first) = cpus.first() else {
            return Err(Fault::Invalid("a team needs at least one CPU".to_owned()));
        };
        let mut sorted = cpus.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        let worker_pool = Arc::new(WorkerPool::new(cpus.len(), timer, sorted.len() < cpus.len()));
        let mut team = Self {
            worker_pool,
            workers: Vec::with_capacity(cpus.len() - 1),
            placements: Vec::with_capacity(cpus.len()),
            pin_guard: None,
            timer,
            deadline: DEADLINE,
            lost: false,
            only_here: std::marker::PhantomData,
        };
        team.placements.push(Placement { cpu: first, pinned: Ok(()), thread_id: affinity::thread_id() });
        for (index, &cpu) in cpus.iter().enumerate().skip(1) {
            team.start_worker(index, cpu)?;
        }
        Ok(team)
    }

    fn start_worker(&mut self, index: usize, cpu: usize) -> Result<(), Fault> {
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        let worker_pool = Arc::clone(&self.worker_pool);
        let worker = std::thread::Builder::new()
            .name(format!("plimsoll-{index}"))
            .spawn(move || {
                let placement = Placement { cpu, pinned: affinity::pin(cpu), thread_id: affinity::thread_id() };
                // The team may have failed to start another worker and been dropped: then `quit` is set.
                let _ = sender.send(placement);
                worker_pool.run_worker(index);
            })
            .map_err(|error| no_thread(index, &error.to_string()))?;
        self.workers.push(worker);
        match receiver.recv_timeout(self.deadline) {
            Ok(placement) => {
                self.placements.push(placement);
                Ok(())
            }
            Err(_) => {
                self.lost = true;
                Err(no_thread(index, "it did not report in time"))
            }
        }
    }

    /// How many members there are, at least 1.
    #[must_use]
    pub fn size(&self) -> usize {
        self.placements.len()
    }

    /// Where the members run, in rank order.
    #[must_use]
    pub fn placements(&self) -> &[Placement] {
        &self.placements
    }

    /// Sets how long a launch may take before the team counts as hung.
    pub fn set_deadline(&mut self, deadline: Duration) {
        self.deadline = deadline;
    }

    /// Runs `task` once on every member and waits for all. Allocates nothing.
    ///
    /// # Errors
    /// [`Fault::Panicked`] if a member panicked (the team can be used again); [`Fault::Hung`] if a worker did not finish
    /// by the deadline (every later launch then fails in the same way). Rank 0 is the caller, so its own hang can't be
    /// detected.
    pub fn run(&mut self, task: &Task) -> Result<(), Fault> {
        self.run_timed(1, task).map(drop)
    }

    /// Runs `task` `repeats` times on every member without waiting in between, and returns the ticks of the team's timer
    /// from the common start to the last finish. Allocates nothing.
    ///
    /// # Errors
    /// As [`Team::run`].
    pub fn run_timed(&mut self, repeats: u64, task: &Task) -> Result<u64, Fault> {
        self.run_timed_after(Start::default(), repeats, task)
    }

    /// As [`Team::run_timed`], with a lead-in and a choice of clock. After a lead-in, each member's time starts on its own.
    ///
    /// # Errors
    /// As [`Team::run`].
    pub(crate) fn run_timed_after(&mut self, start: Start, repeats: u64, task: &Task) -> Result<u64, Fault> {
        if self.lost {
            return Err(self.hung());
        }
        if let Some(pin_guard) = &self.pin_guard {
            self.placements[0].pinned = pin_guard.renew();
        }
        // SAFETY: the three obligations of `WorkerPool::launch`. (1) The task outlives every member's use of it: we hold a
        // reference until all have finished, and if one has not by the deadline, the task is leaked below. (2) No
        // member is at work on an earlier launch: every launch ends with all finished, or the team is lost and launches
        // nothing more. (3) One launch at a time: `&mut self`, and only this team launches on its worker pool.
        let finished =
            unsafe { self.worker_pool.launch(Launch::new(&*task.0, repeats, start, self.timer), self.deadline) };
        if !finished {
            self.lost = true;
            std::mem::forget(task.clone());
            return Err(self.hung());
        }
        match self.worker_pool.take_panic() {
            Some(message) => Err(Fault::Panicked(message)),
            None => Ok(self.worker_pool.lap()),
        }
    }

    /// The ticks that member `rank` spent on its repetitions in the last launch (rank 0's, for a pointer chase under load from
    /// the other ranks). 0 for a rank that doesn't exist.
    #[must_use]
    pub fn lap_of(&self, rank: usize) -> u64 {
        self.worker_pool.lap_of(rank)
    }

    /// The clock of rank 0's core at the end of each launch.
    pub(crate) fn core_clock(&self) -> Arc<CoreClock> {
        Arc::clone(self.worker_pool.core_clock())
    }

    /// The clock of [`Team::run_timed`].
    #[must_use]
    pub fn timer(&self) -> Timer {
        self.timer
    }

    fn hung(&self) -> Fault {
        Fault::Hung { call: "a CPU worker thread", seconds: self.deadline.as_secs_f64() }
    }
}

impl fmt::Debug for Team {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Team").field("placements", &self.placements).field("lost", &self.lost).finish_non_exhaustive()
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.worker_pool.shut_down();
        if self.lost {
            // The hung worker keeps its references to the worker pool and the task; the others leave on their own.
            return;
        }
        for worker in self.workers.drain(..) {
            // A worker catches its task's panics, so the result says nothing.
            let _ = worker.join();
        }
    }
}

fn no_thread(index: usize, why: &str) -> Fault {
    Fault::Unavailable {
        what: "worker thread",
        why: format!("thread {index} could not be started: {why}"),
        hint: "Raise the limit on processes (ulimit -u, or the container's pids limit)".to_owned(),
    }
}
