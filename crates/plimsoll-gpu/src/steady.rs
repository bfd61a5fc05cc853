//! A load that warms up until it runs at a constant pace. Under a heavy load, a device at its power limit needs 0.1 s and more to
//! settle on a clock. It gets there in steps, and starts from the clock of the load before.

use plimsoll_core::sample::Workload;
use plimsoll_core::{Fault, forward_workload};

use crate::Gpu;
use crate::load::Load;

/// Samples between two waits, so that the device is hardly ever idle.
const TOGETHER: usize = 16;
/// Length of a window, nanoseconds: at least the 30 to 60 ms that a clock step lasts on an H200.
const WINDOW: u64 = 60_000_000;
/// Number of windows that must agree.
const WINDOWS: usize = 2;
/// Largest relative difference of windows that agree.
const ALIKE: f64 = 0.01;
/// Most windows. After that the measurement starts anyway, and flags report an unsteady clock.
const MOST: usize = 8;

/// A load that settles before its first sample.
pub struct Steady<G: Gpu> {
    load: Load<G>,
    settled: bool,
}

impl<G: Gpu> Steady<G> {
    /// Wraps a load.
    pub fn new(load: Load<G>) -> Self {
        Self { load, settled: false }
    }

    /// Measures one window: the mean length of a sample of k launches.
    fn measure_window(&mut self, k: u32) -> Result<f64, Fault> {
        let (mut total, mut samples) = (0_u64, 0_u32);
        let mut lengths = [0; TOGETHER];
        while total < WINDOW {
            self.load.sample(k, &mut lengths)?;
            // The minimum ends the loop even if the device's events stand still.
            total = total.saturating_add(lengths.iter().sum::<u64>().max(WINDOW / 100));
            samples += TOGETHER as u32;
        }
        Ok(total as f64 / f64::from(samples))
    }

    fn settle(&mut self, k: u32) -> Result<(), Fault> {
        let mut seen = Vec::with_capacity(MOST);
        while seen.len() < MOST && !windows_agree(&seen) {
            let window = self.measure_window(k)?;
            seen.push(window);
        }
        Ok(())
    }
}

/// Whether the last windows agree. The first window never counts, because the device may not have reacted to the load yet.
fn windows_agree(seen: &[f64]) -> bool {
    let Some(last) = seen.get(1..).and_then(|seen| seen.last_chunk::<WINDOWS>()) else { return false };
    let (low, high) = last.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), x| (low.min(*x), high.max(*x)));
    high - low <= ALIKE * high
}

impl<G: Gpu> Workload for Steady<G> {
    forward_workload!(load: work, batch, sample, check, unjudged, extra, prepare_count, launch_once);

    fn prepare(&mut self, k: u32) -> Result<(), Fault> {
        self.load.prepare(k)?;
        if !std::mem::replace(&mut self.settled, true) {
            self.settle(k)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_is_steady_when_windows_after_the_first_agree() {
        assert!(!windows_agree(&[]) && !windows_agree(&[1.0, 1.0]));
        assert!(windows_agree(&[1.0, 1.15, 1.155]));
        assert!(!windows_agree(&[1.0, 1.0, 1.15]));
        assert!(windows_agree(&[1.0, 1.0, 1.15, 1.16]));
    }
}
