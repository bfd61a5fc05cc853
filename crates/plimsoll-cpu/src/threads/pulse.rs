//! The core clock as a team's work leaves it behind: rank 0 times a chain of one-cycle additions within a microsecond or
//! two of the end of every launch, before a clock that wide vector code has lowered comes back (measured on an Emerald
//! Rapids core: 7 % lower under dense 512-bit FMA, and back 2 µs after it). The sampling clock asks for the median since
//! it last asked.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::arch::cycle;
use crate::timer::Timer;

/// Readings kept between two questions; older ones are overwritten.
const KEPT: usize = 64;
/// Turns of the chain, at the least: 2,048 cycles, some 0.7 µs.
const TURNS: u64 = 64;
/// A chain is at least this many resolutions of the timer long.
const RESOLUTIONS: f64 = 100.0;
/// Chains per reading: the faster counts, since interruptions only lengthen.
const CHAINS: usize = 2;
/// About the fastest core there is, hertz: what the chain's length is planned with.
const FASTEST: f64 = 4e9;

/// Readings of one core's clock, written by that core.
#[derive(Debug)]
pub struct Pulse {
    timer: Timer,
    turns: u64,
    overhead: f64,
    ticks: [AtomicU64; KEPT],
    beats: AtomicUsize,
}

impl Pulse {
    pub(super) fn new(timer: Timer) -> Self {
        let least = RESOLUTIONS * timer.resolution() as f64 * timer.tick_seconds();
        let turns = TURNS.max((least * FASTEST / cycle::ADDS_PER_TURN as f64).ceil() as u64);
        let ticks = std::array::from_fn(|_| AtomicU64::new(0));
        Self { timer, turns, overhead: timer.overhead_seconds(), ticks, beats: AtomicUsize::new(0) }
    }

    /// Times the chain now, on the calling thread.
    pub(super) fn beat(&self) {
        if !cycle::exists() {
            return;
        }
        let mut last = self.timer.now();
        let mut fastest = u64::MAX;
        for _ in 0..CHAINS {
            std::hint::black_box(cycle::chain(self.turns));
            let now = self.timer.now();
            fastest = fastest.min(now.saturating_sub(last));
            last = now;
        }
        let beat = self.beats.fetch_add(1, Ordering::Relaxed);
        self.ticks[beat % KEPT].store(fastest, Ordering::Relaxed);
    }

    /// The median clock of the readings since the last call, hertz; `None` where there was none. Allocates nothing.
    pub(crate) fn take(&self) -> Option<f64> {
        let mut read = [0; KEPT];
        let beats = self.beats.swap(0, Ordering::Relaxed).min(KEPT);
        let read = &mut read[..beats];
        read.iter_mut().zip(&self.ticks).for_each(|(read, ticks)| *read = ticks.load(Ordering::Relaxed));
        read.sort_unstable();
        let seconds = self.timer.seconds(*read.get(beats / 2)?) - self.overhead;
        (seconds > 0.0).then(|| (self.turns * cycle::ADDS_PER_TURN) as f64 / seconds)
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
            for beats in [1, 2, KEPT, 3 * KEPT + 1] {
                (0..beats).for_each(|_| pulse.beat());
                // An emulated or busy machine may be slow; no core is faster than 10 GHz.
                let hz = pulse.take();
                assert!(!cycle::exists() || hz.is_some_and(|hz| (1e6..1e10).contains(&hz)), "{hz:?}");
                assert_eq!(pulse.take(), None);
            }
        }
    }
}
