//! A team that any thread may use: the caller of each launch is its rank 0. Only this crate's own loops run on it.

use std::sync::{Mutex, PoisonError};

use plimsoll_core::Fault;

use super::Team;
use super::affinity::PinGuard;
use crate::timer::Timer;

/// Pinned workers, and rank 0 for one calling thread. Calls from several threads wait for each other.
///
/// The caller is pinned to the first CPU during a launch. Workers of the last launch spin for about 50 ms on their CPUs, and a
/// caller that shared one of those would get half of its time. Without workers the caller isn't pinned.
#[derive(Debug)]
pub struct SharedTeam {
    team: Mutex<UnpinnedTeam>,
    first: usize,
    size: usize,
}

/// A team whose rank 0 is not pinned.
#[derive(Debug)]
struct UnpinnedTeam(Team);

// SAFETY: the only field that ties a team to a thread is its `PinGuard`, which restores that thread's affinity. This team has
// none: `SharedTeam::new` makes it without one, and `SharedTeam::enter` passes it only to this crate's loops, which don't swap
// it for another. All other fields are `Send`: the worker pool, the workers' handles, numbers.
unsafe impl Send for UnpinnedTeam {}

impl SharedTeam {
    /// A team with a member on each of `cpus`, the first for the caller.
    ///
    /// # Errors
    /// [`Fault::Invalid`] if `cpus` is empty; [`Fault::Unavailable`] if threads can't be started.
    pub fn new(cpus: &[usize], timer: Timer) -> Result<Self, Fault> {
        let team = Team::unpinned(cpus, timer)?;
        let (first, size) = (team.placements()[0].cpu, team.size());
        Ok(Self { team: Mutex::new(UnpinnedTeam(team)), first, size })
    }

    /// How many members it has, including the caller.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// Runs `body` with the team, as its rank 0. Waits until no other thread does so.
    pub(crate) fn enter<R>(&self, body: impl FnOnce(&mut Team) -> R) -> R {
        // The team stays usable if `body` panics: launches catch the panics of their tasks.
        let mut team = self.team.lock().unwrap_or_else(PoisonError::into_inner);
        let _pin_guard = if self.size > 1 { PinGuard::pin_to(self.first).ok() } else { None };
        body(&mut team.0)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::threads::affinity::allowed_cpus;

    #[test]
    fn calls_from_several_threads_wait_for_each_other_and_keep_their_affinity() {
        let cpu = allowed_cpus().first().copied().unwrap_or(0);
        let pool = SharedTeam::new(&[cpu, cpu], Timer::best()).unwrap();
        let (pool, sum) = (&pool, &AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(move || {
                    let before = allowed_cpus();
                    for _ in 0..5 {
                        let add = |rank: crate::threads::Rank<'_>| {
                            sum.fetch_add(1 + rank.index as u64, Ordering::Relaxed);
                        };
                        pool.enter(|team| team.run_borrowed(1, &add)).unwrap();
                    }
                    assert_eq!(allowed_cpus(), before);
                });
            }
        });
        assert_eq!(sum.load(Ordering::Relaxed), 3 * 5 * (1 + 2));
    }

    #[test]
    fn an_empty_team_is_refused() {
        assert!(matches!(SharedTeam::new(&[], Timer::best()), Err(Fault::Invalid(_))));
        assert_eq!(SharedTeam::new(&[0], Timer::best()).unwrap().size(), 1);
    }
}
