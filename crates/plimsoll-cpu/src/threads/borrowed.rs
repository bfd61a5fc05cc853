//! Launches of work that borrows its data. The caller can't give up on a worker then, so such work must not hang: loops over
//! memory, not waits.

use std::time::Duration;

use plimsoll_core::Fault;

use super::{Launch, Rank, Start, Team};

impl Team {
    /// Runs `body` `repeats` times on every member without waiting in between, and returns the ticks from the common start to
    /// the last finish, as [`Team::run_timed`] does. Returns only when all have finished, however long that takes. Allocates
    /// nothing.
    ///
    /// # Errors
    /// [`Fault::Panicked`] if a member panicked; [`Fault::Hung`] if an earlier launch hung.
    pub fn run_borrowed(&mut self, repeats: u64, body: &(dyn Fn(Rank<'_>) + Send + Sync)) -> Result<u64, Fault> {
        if self.lost {
            return Err(self.hung());
        }
        if let Some(pin_guard) = &self.pin_guard {
            self.placements[0].pinned = pin_guard.renew();
        }
        // SAFETY: only the lifetime is changed. No member uses the body after the launch. The launch below returns only
        // when all have finished, as it has no deadline; it doesn't unwind.
        let body = unsafe {
            std::mem::transmute::<&(dyn Fn(Rank<'_>) + Send + Sync), &'static (dyn Fn(Rank<'_>) + Send + Sync)>(body)
        };
        let launch = Launch::new(body, repeats, Start::default(), self.timer);
        // SAFETY: (1) the body outlives the launch, as explained above; (2) every earlier launch ended with all finished, as
        // the team isn't lost; (3) `&mut self` excludes other launches.
        if !unsafe { self.worker_pool.launch(launch, Duration::MAX) } {
            // A worker still has the body.
            std::process::abort();
        }
        match self.worker_pool.take_panic() {
            Some(message) => Err(Fault::Panicked(message)),
            None => Ok(self.worker_pool.lap()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::timer::Timer;

    #[test]
    fn borrowed_data_is_usable_after_the_launch_and_after_a_panic() {
        let cpu = crate::threads::affinity::allowed_cpus()[0];
        let mut team = Team::new(&[cpu, cpu], Timer::best()).unwrap();
        let sum = AtomicU64::new(0);
        for _ in 0..10 {
            team.run_borrowed(3, &|rank| {
                sum.fetch_add(1 + rank.index as u64, Ordering::Relaxed);
            })
            .unwrap();
        }
        assert_eq!(sum.into_inner(), 10 * 3 * (1 + 2));
        let fault = team.run_borrowed(1, &|rank| assert_eq!(rank.index, 0)).unwrap_err();
        assert!(matches!(fault, Fault::Panicked(_)));
        team.run_borrowed(1, &|_| ()).unwrap();
    }
}
