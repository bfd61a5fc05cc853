//! A load that is warmed up by itself until it goes on at one pace. A device at its power limit takes a tenth of a second and
//! more to find the clock that a heavy load leaves it, in steps, and starts from the clock that the load before had.

use std::collections::BTreeMap;

use plimsoll_core::Fault;
use plimsoll_core::sample::{Batch, Check, Work, Workload};

use crate::Gpu;
use crate::load::Load;

/// Samples between two waits: the device hardly rests between them.
const TOGETHER: usize = 16;
/// Length of a window, nanoseconds: longer than the 30 to 60 ms for which a step lasts on an H200.
const WINDOW: u64 = 60_000_000;
/// Windows that must agree.
const WINDOWS: usize = 2;
/// Relative difference of windows that agree.
const ALIKE: f64 = 0.01;
/// After so many windows what the clock does is left to the flags.
const MOST: usize = 8;

/// The load.
pub struct Steady<G: Gpu> {
    load: Load<G>,
    settled: bool,
}

impl<G: Gpu> Steady<G> {
    /// A load that settles before its first sample.
    pub fn new(load: Load<G>) -> Self {
        Self { load, settled: false }
    }

    /// Mean length of a sample of k launches over a window.
    fn window(&mut self, k: u32) -> Result<f64, Fault> {
        let (mut total, mut samples) = (0_u64, 0_u32);
        let mut lengths = [0; TOGETHER];
        while total < WINDOW {
            self.load.sample(k, &mut lengths)?;
            // Events of a device that stands still end it, too.
            total = total.saturating_add(lengths.iter().sum::<u64>().max(WINDOW / 100));
            samples += TOGETHER as u32;
        }
        Ok(total as f64 / f64::from(samples))
    }

    fn settle(&mut self, k: u32) -> Result<(), Fault> {
        let mut seen = Vec::with_capacity(MOST);
        while seen.len() < MOST && !agree(&seen) {
            let window = self.window(k)?;
            seen.push(window);
        }
        Ok(())
    }
}

/// Whether the last windows differ by little. The first never counts: in it the device may not have noticed the load yet.
fn agree(seen: &[f64]) -> bool {
    let Some(last) = seen.get(1..).and_then(|seen| seen.last_chunk::<WINDOWS>()) else { return false };
    let (low, high) = last.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), x| (low.min(*x), high.max(*x)));
    high - low <= ALIKE * high
}

impl<G: Gpu> Workload for Steady<G> {
    fn work(&self) -> Work {
        self.load.work()
    }

    fn batch(&self) -> Batch {
        self.load.batch()
    }

    fn prepare(&mut self, k: u32) -> Result<(), Fault> {
        self.load.prepare(k)?;
        if !std::mem::replace(&mut self.settled, true) {
            self.settle(k)?;
        }
        Ok(())
    }

    fn sample(&mut self, k: u32, out: &mut [u64]) -> Result<(), Fault> {
        self.load.sample(k, out)
    }

    fn check(&mut self) -> Result<Check, Fault> {
        self.load.check()
    }

    fn ready(&mut self) -> Result<u32, Fault> {
        self.load.ready()
    }

    fn once(&mut self) -> Result<(), Fault> {
        self.load.once()
    }

    fn extra(&self, out: &mut BTreeMap<String, f64>) {
        self.load.extra(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_is_steady_when_windows_after_the_first_agree() {
        assert!(!agree(&[]) && !agree(&[1.0, 1.0]));
        assert!(agree(&[1.0, 1.15, 1.155]));
        assert!(!agree(&[1.0, 1.0, 1.15]));
        assert!(agree(&[1.0, 1.0, 1.15, 1.16]));
    }
}
