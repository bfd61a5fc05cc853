//! What the CPU's probes share, first of all their workload: a task on a team of pinned threads.

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
use crate::threads::pulse::Gauge;
use crate::threads::{Start, Task, Team};

/// A team on the first `threads` cores, whose interruptions and core clock the session's clock reads from now on.
///
/// # Errors
/// Those of [`Team::new`].
pub fn team(session: &mut Session<'_, Cpu>, threads: usize) -> Result<Rc<RefCell<Team>>, Fault> {
    let team = session.device.team(threads)?;
    let ids: Vec<u32> = team.placements().iter().filter_map(|placement| placement.thread_id).collect();
    session.clock().watch(&ids, team.pulse());
    Ok(Rc::new(RefCell::new(team)))
}

/// Whose time is the sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lap {
    /// From the common start to the last finish.
    Team,
    /// Rank 0's own: the others only make load.
    First,
    /// Rank 0's own, after 60 µs at the same work.
    Warm,
    /// The same of dense 512-bit code, whose clock is another.
    Dense,
}

impl Lap {
    fn start(self) -> Start {
        match self {
            Self::Team | Self::First => Start::default(),
            Self::Warm => Start { lead_in: LEAD_IN, gauge: Gauge::Plain },
            Self::Dense => Start { lead_in: LEAD_IN, gauge: Gauge::Dense },
        }
    }
}

/// How long a core runs wide vector code untimed before it is timed, seconds. A core that comes from other code runs
/// 512-bit instructions at a fraction of their rate for some 10 µs, until the upper lanes have power (measured on an
/// Emerald Rapids core: 12 % more cycles in a sample of 100 µs).
const LEAD_IN: f64 = 60e-6;

/// Runs a check on a team. Its members note what is wrong in `found`; what the first noted is the verdict.
pub fn verdict(team: &RefCell<Team>, check: &Task, found: &Mutex<Option<String>>) -> Check {
    if let Err(fault) = team.borrow_mut().run(check) {
        return Check::Failed(fault.to_string());
    }
    found.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Check::Passed, Check::Failed)
}

/// A task on a team: one launch is one run of the task by every member.
pub struct TeamLoad {
    /// Shared, because one team serves all points of a sweep.
    pub team: Rc<RefCell<Team>>,
    /// What the members run.
    pub task: Task,
    /// What one launch does.
    pub work: Work,
    /// Whose time counts.
    pub lap: Lap,
    /// How launches may be batched.
    pub batch: Batch,
    /// Asked once after the last sample.
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
            let ticks = team.timed_after(self.lap.start(), u64::from(k), &self.task)?;
            *sample = if self.lap == Lap::Team { ticks } else { team.lap_of(0) };
        }
        Ok(())
    }

    fn check(&mut self) -> Result<Check, Fault> {
        Ok((self.check)())
    }
}
