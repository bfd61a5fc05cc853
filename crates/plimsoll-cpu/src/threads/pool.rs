//! A team for whoever calls: it belongs to no thread, and the caller of each launch is its rank 0. What is run on it is the
//! business of the crate's own loops.

use std::sync::{Mutex, PoisonError};

use plimsoll_core::Fault;

use super::Team;
use super::affinity::Stay;
use crate::timer::Timer;

/// Workers tied to their CPUs, and a place for one thread that calls. Calls of several threads wait for each other.
///
/// The caller is tied to the first CPU while a launch lasts, as the workers of the last one spin for some 50 ms on theirs:
/// beside one of them it would get half of its time. With no workers it stays where it is.
#[derive(Debug)]
pub struct Pool {
    team: Mutex<Untied>,
    first: usize,
    size: usize,
}

/// A team that no thread is tied to.
#[derive(Debug)]
struct Untied(Team);

// SAFETY: what binds a team to a thread is its stay, which gives that thread its affinity back, and this one has none
// (`Pool::new` makes it so, and `Pool::enter` lends it to this crate's loops alone, which don't exchange it). All else in it is
// `Send`: the crew that its workers share, their handles, numbers.
unsafe impl Send for Untied {}

impl Pool {
    /// A pool with a member on each of `cpus`, the first for the caller.
    ///
    /// # Errors
    /// [`Fault::Invalid`] for no CPU at all; [`Fault::Unavailable`] where threads can't be started.
    pub fn new(cpus: &[usize], timer: Timer) -> Result<Self, Fault> {
        let team = Team::untied(cpus, timer)?;
        let (first, size) = (team.placements()[0].cpu, team.size());
        Ok(Self { team: Mutex::new(Untied(team)), first, size })
    }

    /// How many members it has, the caller among them.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// Does something with the team, as its rank 0, when no other thread does.
    pub(crate) fn enter<R>(&self, body: impl FnOnce(&mut Team) -> R) -> R {
        // A panic of the body's leaves a team that can be used: launches catch those of their tasks.
        let mut team = self.team.lock().unwrap_or_else(PoisonError::into_inner);
        let _stay = if self.size > 1 { Stay::on(self.first).ok() } else { None };
        body(&mut team.0)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::threads::affinity::allowed_cpus;

    #[test]
    fn threads_take_turns_and_keep_their_affinity() {
        let cpu = allowed_cpus().first().copied().unwrap_or(0);
        let pool = Pool::new(&[cpu, cpu], Timer::best()).unwrap();
        let (pool, sum) = (&pool, &AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(move || {
                    let before = allowed_cpus();
                    for _ in 0..5 {
                        let add = |rank: crate::threads::Rank<'_>| {
                            sum.fetch_add(1 + rank.index as u64, Ordering::Relaxed);
                        };
                        pool.enter(|team| team.lend(1, &add)).unwrap();
                    }
                    assert_eq!(allowed_cpus(), before);
                });
            }
        });
        assert_eq!(sum.load(Ordering::Relaxed), 3 * 5 * (1 + 2));
    }

    #[test]
    fn a_pool_needs_a_member() {
        assert!(matches!(Pool::new(&[], Timer::best()), Err(Fault::Invalid(_))));
        assert_eq!(Pool::new(&[0], Timer::best()).unwrap().size(), 1);
    }
}
