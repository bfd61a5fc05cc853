//! Teams of pinned threads that start a measured region together and report when the last of them finished. What they
//! run is the probes' affair; which CPUs they run on is [`crate::topology`]'s to choose.
//!
//! The caller takes part as rank 0. A caller that only waited would have to spin, to see the finish at once, and on a
//! machine with as many workers as CPUs it would steal the time of the worker it waits for.
//!
//! Tasks own what they use (`'static`): a worker that hangs may go on using it after [`Team::run`] has given up on it,
//! so borrowed data could not be lent safely. Share buffers through [`std::sync::Arc`], and give each rank its part with
//! [`crate::memory::Split`].

pub mod affinity;
mod crew;
mod lend;
mod pool;
pub(crate) mod pulse;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use plimsoll_core::Fault;

use crate::timer::Timer;
use affinity::{PinRefused, Stay};
use crew::{Crew, Order};
use pulse::{Gauge, Pulse};

pub use pool::Pool;

/// How long a launch may take before the team is given up, unless [`Team::set_deadline`] says otherwise.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// A member's view of the launch that it takes part in.
#[derive(Clone, Copy, Debug)]
pub struct Rank<'a> {
    /// This member's number: 0 is the thread that called.
    pub index: usize,
    /// How many members take part.
    pub of: usize,
    stop: &'a AtomicBool,
}

impl Rank<'_> {
    /// True once rank 0 has finished all its repetitions, a member has panicked, or the deadline has passed. A member
    /// that only makes load for rank 0 works until then.
    #[inline]
    #[must_use]
    pub fn stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// What the members of a team run. Members that differ tell themselves apart by [`Rank::index`].
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

/// How a launch is begun, and whose clock is read at its end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Start {
    /// Seconds for which every member repeats the task untimed first: for what needs a while at work before it runs at its
    /// steady speed.
    pub(crate) lead_in: f64,
    /// Which code's clock is read.
    pub(crate) gauge: Gauge,
}

/// Where a member of a team runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The CPU it was meant for.
    pub cpu: usize,
    /// Whether it is tied to that CPU, or why not.
    pub pinned: Result<(), PinRefused>,
    /// The system's number for its thread, for [`crate::steal::Counters`]; `None` off Linux.
    pub thread_id: Option<u32>,
}

/// Threads of our own, one per CPU given, the calling thread among them. It belongs to that thread (not `Send`), which
/// gets its old affinity back when the team is dropped.
pub struct Team {
    crew: Arc<Crew>,
    workers: Vec<JoinHandle<()>>,
    placements: Vec<Placement>,
    stay: Option<Stay>,
    timer: Timer,
    deadline: Duration,
    /// Which clock is read after what is lent.
    gauge: Gauge,
    lost: bool,
    only_here: std::marker::PhantomData<*const ()>,
}

impl Team {
    /// A team with one member on each of `cpus`, in rank order; the calling thread moves to the first. A member that
    /// can't be tied to its CPU still works: see [`Team::placements`].
    ///
    /// # Errors
    /// [`Fault::Invalid`] for no CPU at all; [`Fault::Unavailable`] where threads can't be started.
    pub fn new(cpus: &[usize], timer: Timer) -> Result<Self, Fault> {
        let here = affinity::allowed_cpus();
        // Workers start before the caller is tied, so that one whose own tie is refused doesn't inherit the caller's.
        let mut team = Self::hired(cpus, timer)?;
        match Stay::on(cpus[0]) {
            Ok(stay) => team.stay = Some(stay),
            Err(refused) => team.placements[0].pinned = Err(refused),
        }
        // Threads that share a CPU, or may, must let each other run while they wait.
        let scattered = team.placements.iter().any(|p| p.pinned.is_err());
        if scattered && here.len() < cpus.len() {
            team.crew.set_crowded();
        }
        Ok(team)
    }

    /// The same without moving the caller, whoever that will be. Members let others run while they wait, as callers come from
    /// any CPU, and nobody asks for the clock.
    fn untied(cpus: &[usize], timer: Timer) -> Result<Self, Fault> {
        let mut team = Self::hired(cpus, timer)?;
        team.gauge = Gauge::None;
        team.crew.set_crowded();
        Ok(team)
    }

    /// The workers, and a place for the caller.
    fn hired(cpus: &[usize], timer: Timer) -> Result<Self, Fault> {
        let Some(&first) = cpus.first() else {
            return Err(Fault::Invalid("a team needs at least one CPU".to_owned()));
        };
        let mut sorted = cpus.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        let crew = Arc::new(Crew::new(cpus.len(), timer, sorted.len() < cpus.len()));
        let mut team = Self {
            crew,
            workers: Vec::with_capacity(cpus.len() - 1),
            placements: Vec::with_capacity(cpus.len()),
            stay: None,
            timer,
            deadline: DEADLINE,
            gauge: Gauge::default(),
            lost: false,
            only_here: std::marker::PhantomData,
        };
        team.placements.push(Placement { cpu: first, pinned: Ok(()), thread_id: affinity::thread_id() });
        for (index, &cpu) in cpus.iter().enumerate().skip(1) {
            team.hire(index, cpu)?;
        }
        Ok(team)
    }

    fn hire(&mut self, index: usize, cpu: usize) -> Result<(), Fault> {
        let (tell, told) = std::sync::mpsc::sync_channel(1);
        let crew = Arc::clone(&self.crew);
        let worker = std::thread::Builder::new()
            .name(format!("plimsoll-{index}"))
            .spawn(move || {
                let placement = Placement { cpu, pinned: affinity::pin(cpu), thread_id: affinity::thread_id() };
                // The team may have failed to start another worker and gone: then `quit` is set.
                let _ = tell.send(placement);
                crew.serve(index);
            })
            .map_err(|error| no_thread(index, &error.to_string()))?;
        self.workers.push(worker);
        match told.recv_timeout(self.deadline) {
            Ok(placement) => {
                self.placements.push(placement);
                Ok(())
            }
            Err(_) => {
                self.lost = true;
                Err(no_thread(index, "it never came up"))
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

    /// Sets how long a launch may take before the team is given up.
    pub fn set_deadline(&mut self, deadline: Duration) {
        self.deadline = deadline;
    }

    /// Runs `task` once on every member and waits for all. Allocates nothing.
    ///
    /// # Errors
    /// [`Fault::Panicked`] if a member panicked (the team can be used again); [`Fault::Hung`] if a worker did not finish
    /// by the deadline (the team is then lost, and every later launch says so). Rank 0 is the caller: nothing can give
    /// up on it from outside.
    pub fn run(&mut self, task: &Task) -> Result<(), Fault> {
        self.timed(1, task).map(drop)
    }

    /// Runs `task` `repeats` times on every member without waiting in between, and returns the ticks of the team's timer
    /// from the common start to the last finish. Allocates nothing.
    ///
    /// # Errors
    /// As [`Team::run`].
    pub fn timed(&mut self, repeats: u64, task: &Task) -> Result<u64, Fault> {
        self.timed_after(Start::default(), repeats, task)
    }

    /// As [`Team::timed`], begun in another way. After a lead-in, members start to be timed one by one.
    ///
    /// # Errors
    /// As [`Team::run`].
    pub(crate) fn timed_after(&mut self, start: Start, repeats: u64, task: &Task) -> Result<u64, Fault> {
        if self.lost {
            return Err(self.hung());
        }
        if let Some(stay) = &self.stay {
            self.placements[0].pinned = stay.renew();
        }
        // SAFETY: the crew asks three things of an order. (1) The task outlives every member's use of it: we hold a
        // reference until all have finished, and if one has not by the deadline, the task is leaked below. (2) No
        // member is at work on an earlier order: every launch ends with all finished, or the team is lost and launches
        // nothing more. (3) One order at a time: `&mut self`, and nobody else has the crew's ordering side.
        let finished = unsafe { self.crew.launch(Order::new(&*task.0, repeats, start, self.timer), self.deadline) };
        if !finished {
            self.lost = true;
            std::mem::forget(task.clone());
            return Err(self.hung());
        }
        match self.crew.take_panic() {
            Some(message) => Err(Fault::Panicked(message)),
            None => Ok(self.crew.lap()),
        }
    }

    /// The ticks that member `rank` spent on its repetitions in the last launch: rank 0's is the time of a chaser whose
    /// companions only made load. 0 for a rank that isn't there.
    #[must_use]
    pub fn lap_of(&self, rank: usize) -> u64 {
        self.crew.lap_of(rank)
    }

    /// The clock of rank 0's core at the end of each launch.
    pub(crate) fn pulse(&self) -> Arc<Pulse> {
        Arc::clone(self.crew.pulse())
    }

    /// The clock of [`Team::timed`].
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
        self.crew.dismiss();
        if self.lost {
            // The hung worker keeps its share of the crew and of the task; the others leave on their own.
            return;
        }
        for worker in self.workers.drain(..) {
            // A worker catches its task's panics, so there is nothing to learn here.
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
