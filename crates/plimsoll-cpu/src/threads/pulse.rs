//! The core clock as a team's work leaves it behind: rank 0 times a chain of known length right after every launch. Dense
//! 512-bit code lowers the clock (by 7 % on an Emerald Rapids core), and half a microsecond to two after it the clock is
//! back: behind such a launch the chain runs amid 512-bit FMAs. The sampling clock asks for the median since it last
//! asked.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::arch::cycle;
use crate::timer::Timer;

/// Readings kept between two questions; older ones are overwritten.
const KEPT: usize = 64;
/// Cycles of a chain, at the least: some 0.7 µs.
const CYCLES: u64 = 2048;
/// Cycles of a chain amid wide code, at the least: what fills and drains its pipelines is 0.5 % of it.
const DENSE_CYCLES: u64 = 8192;
/// A chain is at least this many resolutions of the timer long.
const RESOLUTIONS: f64 = 100.0;
/// Chains per reading: the faster counts, since interruptions only lengthen.
const CHAINS: usize = 2;
/// About the fastest core there is, hertz: what a chain's length is planned with.
const FASTEST: f64 = 4e9;

/// Which code's clock is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gauge {
    /// That of ordinary code.
    #[default]
    Plain,
    /// That of dense 512-bit code.
    Dense,
    /// None: nobody asks, and a reading takes over a microsecond.
    None,
}

/// Readings of one core's clock, written by that core.
#[derive(Debug)]
pub struct Pulse {
    timer: Timer,
    /// Least cycles of a chain that the timer can time.
    least: u64,
    overhead: f64,
    /// Hertz, as bits.
    read: [AtomicU64; KEPT],
    beats: AtomicUsize,
}

impl Pulse {
    pub(super) fn new(timer: Timer) -> Self {
        let least = RESOLUTIONS * timer.resolution() as f64 * timer.tick_seconds() * FASTEST;
        let read = std::array::from_fn(|_| AtomicU64::new(0));
        let overhead = timer.overhead_seconds();
        Self { timer, least: least as u64, overhead, read, beats: AtomicUsize::new(0) }
    }

    /// Times a chain now, on the calling thread.
    pub(super) fn beat(&self, gauge: Gauge) {
        let hz = match gauge {
            Gauge::Dense if cycle::has_dense() => self.time(DENSE_CYCLES, cycle::CYCLES_PER_DENSE_TURN, cycle::dense),
            Gauge::None => return,
            _ if cycle::exists() => self.time(CYCLES, cycle::ADDS_PER_TURN, cycle::chain),
            _ => return,
        };
        if let Some(hz) = hz {
            let beat = self.beats.fetch_add(1, Ordering::Relaxed);
            self.read[beat % KEPT].store(hz.to_bits(), Ordering::Relaxed);
        }
    }

    /// The clock by a chain of at least so many cycles, hertz.
    fn time(&self, cycles: u64, per_iteration: u64, chain: impl Fn(u64) -> u64) -> Option<f64> {
        let iterations = cycles.max(self.least).div_ceil(per_iteration);
        let mut last = self.timer.now();
        let mut fastest = u64::MAX;
        for _ in 0..CHAINS {
            std::hint::black_box(chain(iterations));
            let now = self.timer.now();
            fastest = fastest.min(now.saturating_sub(last));
            last = now;
        }
        let seconds = self.timer.seconds(fastest) - self.overhead;
        (seconds > 0.0).then(|| (iterations * per_iteration) as f64 / seconds)
    }

    /// The median clock of the readings since the last call, hertz; `None` where there was none. Allocates nothing.
    pub(crate) fn take(&self) -> Option<f64> {
        let mut read = [0.0; KEPT];
        let beats = self.beats.swap(0, Ordering::Relaxed).min(KEPT);
        let read = &mut read[..beats];
        read.iter_mut().zip(&self.read).for_each(|(hz, bits)| *hz = f64::from_bits(bits.load(Ordering::Relaxed)));
        read.sort_unstable_by(f64::total_cmp);
        read.get(beats / 2).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_known_after_a_beat_and_asked_for_once() {
        for timer in [Timer::Os, Timer::best()] {
            let pulse = Pulse::new(timer);
            assert_eq!(pulse.take(), None);
            for (beats, gauge) in
                [(1, Gauge::Plain), (2, Gauge::Dense), (KEPT, Gauge::Plain), (3 * KEPT + 1, Gauge::Dense)]
            {
                (0..beats).for_each(|_| pulse.beat(gauge));
                // An emulated or busy machine may be slow; no core is faster than 10 GHz.
                let hz = pulse.take();
                assert!(!cycle::exists() || hz.is_some_and(|hz| (1e6..1e10).contains(&hz)), "{hz:?}");
                assert_eq!(pulse.take(), None);
            }
        }
    }
}
