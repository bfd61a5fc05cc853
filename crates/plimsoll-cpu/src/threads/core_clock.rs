//! The core clock right after a team's work: rank 0 times a chain of known length after every launch. Dense 512-bit code
//! lowers the clock (by 7 % on an Emerald Rapids core), and the clock recovers within 0.5 to 2 µs. So after such a launch the
//! chain runs among 512-bit FMAs. The sampling clock takes the median of the readings since it last did so.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::arch::cycle::{self, Density};
use crate::timer::Timer;

/// Readings kept between two calls of [`CoreClock::take_median`]; older ones are overwritten.
const KEPT: usize = 64;
/// Fewest cycles of a chain: about 0.7 µs.
const CYCLES: u64 = 2048;
/// Fewest cycles of a chain among wide code: filling and draining the pipelines is 0.5 % of it.
const DENSE_CYCLES: u64 = 8192;
/// Shortest chain, in units of the timer's resolution.
const RESOLUTIONS: f64 = 100.0;
/// Trials of each density; the fastest counts.
const DENSITY_TRIALS: usize = 8;
/// Chains per reading. The faster one counts, since interruptions only add time.
const CHAINS: usize = 2;
/// The clock that a chain's length is planned for, hertz: about the fastest core there is.
const FASTEST: f64 = 4e9;

/// The kind of code whose clock is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClockKind {
    /// Ordinary code.
    #[default]
    Plain,
    /// Dense 512-bit code.
    Dense,
}

/// Readings of one core's clock, written by the thread on that core.
#[derive(Debug)]
pub struct CoreClock {
    timer: Timer,
    /// Fewest cycles of a chain that the timer can resolve.
    least: u64,
    overhead: f64,
    /// Hertz, as bits.
    readings: [AtomicU64; KEPT],
    count: AtomicUsize,
}

impl CoreClock {
    pub(super) fn new(timer: Timer) -> Self {
        let least = RESOLUTIONS * timer.resolution() as f64 * timer.tick_seconds() * FASTEST;
        let readings = std::array::from_fn(|_| AtomicU64::new(0));
        let overhead = timer.overhead_seconds();
        Self { timer, least: least as u64, overhead, readings, count: AtomicUsize::new(0) }
    }

    /// Times a chain now, on the calling thread.
    pub(super) fn measure(&self, clock_kind: ClockKind) {
        let hz = match clock_kind {
            // A core that starts one 512-bit multiply-add per cycle is read among fewer of them.
            ClockKind::Dense if cycle::has_dense() => {
                let density = find_density(self.timer);
                self.time(DENSE_CYCLES, cycle::CYCLES_PER_DENSE_ITERATION, |iterations| {
                    cycle::dense(density, iterations)
                })
            }
            _ if cycle::is_available() => self.time(CYCLES, cycle::ADDS_PER_ITERATION, cycle::chain),
            _ => return,
        };
        if let Some(hz) = hz {
            let reading = self.count.fetch_add(1, Ordering::Relaxed);
            self.readings[reading % KEPT].store(hz.to_bits(), Ordering::Relaxed);
        }
    }

    /// The clock in hertz, from a chain of at least `cycles` cycles.
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

    /// The median of the readings since the last call, hertz; `None` if there were none. Allocates nothing.
    pub(crate) fn take_median(&self) -> Option<f64> {
        let mut hz = [0.0; KEPT];
        let count = self.count.swap(0, Ordering::Relaxed).min(KEPT);
        let hz = &mut hz[..count];
        hz.iter_mut().zip(&self.readings).for_each(|(hz, bits)| *hz = f64::from_bits(bits.load(Ordering::Relaxed)));
        hz.sort_unstable_by(f64::total_cmp);
        hz.get(count / 2).copied()
    }
}

/// The density of dense code that the cores of this machine can run, measured once, in some 50 µs.
fn find_density(timer: Timer) -> Density {
    static FOUND: OnceLock<Density> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let iterations = DENSE_CYCLES / cycle::CYCLES_PER_DENSE_ITERATION;
        let time = |density| {
            let begin = timer.now();
            std::hint::black_box(cycle::dense(density, iterations));
            timer.now().saturating_sub(begin)
        };
        // Interruptions only add time.
        let shortest = |[five, two]: [u64; 2], _| [five.min(time(Density::Five)), two.min(time(Density::Two))];
        let [five, two] = (0..DENSITY_TRIALS).fold([u64::MAX; 2], shortest);
        Density::from_times(five, two)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_taken_once_after_a_reading() {
        for timer in [Timer::Os, Timer::best()] {
            let core_clock = CoreClock::new(timer);
            assert_eq!(core_clock.take_median(), None);
            for (count, clock_kind) in [
                (1, ClockKind::Plain),
                (2, ClockKind::Dense),
                (KEPT, ClockKind::Plain),
                (3 * KEPT + 1, ClockKind::Dense),
            ] {
                (0..count).for_each(|_| core_clock.measure(clock_kind));
                // An emulated or busy machine may be slow; no core is faster than 10 GHz.
                let hz = core_clock.take_median();
                assert!(!cycle::is_available() || hz.is_some_and(|hz| (1e6..1e10).contains(&hz)), "{hz:?}");
                assert_eq!(core_clock.take_median(), None);
            }
        }
    }
}
