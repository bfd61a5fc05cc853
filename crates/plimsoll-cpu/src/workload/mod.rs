//! Shared parts of the CPU's probes, in particular their workload: a task on a team of pinned threads.

pub mod bench;
pub mod chain;
pub mod kernels;
pub mod window;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Mutex, PoisonError};

use plimsoll_core::Fault;
use plimsoll_core::probe::Session;
use plimsoll_core::sample::{Batch, Check, Work, Workload};

use crate::Cpu;
use crate::threads::core_clock::ClockKind;
use crate::threads::{Start, Task, Team};

/// A team on the first `threads` cores. From now on, the session's clock reads its interruptions and core clock.
pub fn team(session: &mut Session<'_, Cpu>, threads: usize) -> Result<Rc<RefCell<Team>>, Fault> {
    let team = session.device.team(threads)?;
    let ids: Vec<u32> = team.placements().iter().filter_map(|placement| placement.thread_id).collect();
    session.clock().watch(&ids, team.core_clock());
    Ok(Rc::new(RefCell::new(team)))
}

/// The time that counts as a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lap {
    /// From the common start to the last finish.
    Team,
    /// Rank 0's time; the other ranks only generate load.
    First,
    /// Rank 0's time, after 60 µs of the same work.
    Warm,
    /// As [`Lap::Warm`], for dense 512-bit code, which runs at a different clock.
    Dense,
}

impl Lap {
    fn start(self) -> Start {
        match self {
            Self::Team | Self::First => Start::default(),
            Self::Warm => Start { lead_in: LEAD_IN, clock_kind: ClockKind::Plain },
            Self::Dense => Start { lead_in: LEAD_IN, clock_kind: ClockKind::Dense },
        }
    }
}

/// How long a core runs wide vector code before it is timed, seconds. After other code, a core runs 512-bit instructions at a
/// fraction of their rate for about 10 µs, until the upper lanes have power (measured on an Emerald Rapids core: 12 % more
/// cycles in a sample of 100 µs).
const LEAD_IN: f64 = 60e-6;

/// Runs a check on a team. Its members store an error in `found`; the stored one is the verdict.
pub fn verdict(team: &RefCell<Team>, check: &Task, found: &Mutex<Option<String>>) -> Check {
    if let Err(fault) = team.borrow_mut().run(check) {
        return Check::Failed(fault.to_string());
    }
    found.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Check::Passed, Check::Failed)
}

/// A task on a team: in one launch every member runs the task once.
pub struct TeamLoad {
    /// Shared, because all points of a sweep use one team.
    pub team: Rc<RefCell<Team>>,
    /// The task that every member runs.
    pub task: Task,
    /// The work of one launch.
    pub work: Work,
    /// The time that counts as a sample.
    pub lap: Lap,
    /// How launches may be batched.
    pub batch: Batch,
    /// Called once after the last sample.
    pub check: Box<dyn FnMut() -> Check>,
}

impl Workload for TeamLoad {
    fn work(&self) -> Work {
        self.work
    }

    fn batch(&self) -> Batch {
        self.batch
    }

    fn sample(&mut self, k: u32, out: &mut [u64]) -> Result<(), Fault> {
        let mut team = self.team.borrow_mut();
        for sample in out {
            let ticks = team.run_timed_after(self.lap.start(), u64::from(k), &self.task)?;
            *sample = if self.lap == Lap::Team { ticks } else { team.lap_of(0) };
        }
        Ok(())
    }

    fn check(&mut self) -> Result<Check, Fault> {
        Ok((self.check)())
    }
}
