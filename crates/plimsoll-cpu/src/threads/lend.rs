//! Launches of work that borrows what it uses. A worker can't be given up on then, so nothing may be lent that could hang:
//! loops over memory, not waits.

use std::time::Duration;

use plimsoll_core::Fault;

use super::{Order, Rank, Start, Team};

impl Team {
    /// Runs `body` `repeats` times on every member without waiting in between, and returns the ticks from the common start to
    /// the last finish, as [`Team::timed`] does. Returns only when all have finished, however long that takes. Allocates
    /// nothing.
    ///
    /// # Errors
    /// [`Fault::Panicked`] if a member panicked; [`Fault::Hung`] if the team was lost before.
    pub fn lend(&mut self, repeats: u64, body: &(dyn Fn(Rank<'_>) + Send + Sync)) -> Result<u64, Fault> {
        if self.lost {
            return Err(self.hung());
        }
        if let Some(stay) = &self.stay {
            self.placements[0].pinned = stay.renew();
        }
        // SAFETY: only the lifetime is changed. No member uses the body after the launch, and the launch below returns
        // when all have finished, as it has no deadline; it doesn't unwind.
        let body = unsafe {
            std::mem::transmute::<&(dyn Fn(Rank<'_>) + Send + Sync), &'static (dyn Fn(Rank<'_>) + Send + Sync)>(body)
        };
        let order = Order::new(body, repeats, Start { gauge: self.gauge, ..Start::default() }, self.timer);
        // SAFETY: (1) the body outlives the launch, as said; (2) every launch before ended with all finished, as the team
        // isn't lost; (3) `&mut self` excludes other launches.
        if !unsafe { self.crew.launch(order, Duration::MAX) } {
            // A worker still has the body.
            std::process::abort();
        }
        match self.crew.take_panic() {
            Some(message) => Err(Fault::Panicked(message)),
            None => Ok(self.crew.lap()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::timer::Timer;

    #[test]
    fn what_is_lent_is_back_when_the_launch_returns() {
        let cpu = crate::threads::affinity::allowed_cpus()[0];
        let mut team = Team::new(&[cpu, cpu], Timer::best()).unwrap();
        let sum = AtomicU64::new(0);
        for _ in 0..10 {
            team.lend(3, &|rank| {
                sum.fetch_add(1 + rank.index as u64, Ordering::Relaxed);
            })
            .unwrap();
        }
        assert_eq!(sum.into_inner(), 10 * 3 * (1 + 2));
        let fault = team.lend(1, &|rank| assert_eq!(rank.index, 0)).unwrap_err();
        assert!(matches!(fault, Fault::Panicked(_)));
        team.lend(1, &|_| ()).unwrap();
    }
}
