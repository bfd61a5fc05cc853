//! Time for CPU probes: the processor's time-stamp counter if it is usable as a clock, else the operating system's clock,
//! each with its measured resolution and cost; and the core's actual frequency. `plimsoll-core` decides what is timed, and
//! how often.

use std::fmt;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use plimsoll_core::Fault;

use crate::arch::{cycle, tsc};

/// Length of each half of a frequency measurement (100 ms together).
const CALIBRATION_HALF: Duration = Duration::from_millis(50);
/// Largest relative difference between the halves: ten times the error of a slewing NTP clock (500 ppm, `adjtimex(2)`).
const STABLE_WITHIN: f64 = 0.005;
/// Pairs of readings behind [`Timer::resolution`] and [`Timer::overhead_seconds`].
const PAIRS: usize = 2_000;
/// Chain length for [`core_hz`]: 30,000 cycles are about 10 µs, short enough to fit between two interrupts.
const CHAIN_ITERATIONS: u64 = 1_000;
/// Chains timed by [`core_hz`]; the fastest counts, since interruptions only add time.
const CHAINS: usize = 25;

/// Why the time-stamp counter can't serve as a clock here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TscUnavailable {
    /// The architecture has no counter that this crate can read.
    MissingInstructions,
    /// The counter follows the core's frequency (CPUID 8000_0007H EDX bit 8 is clear).
    VariableFrequency,
    /// Two measurements of its frequency disagreed.
    Unstable,
}

impl fmt::Display for TscUnavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MissingInstructions => "this architecture has no time-stamp counter that plimsoll reads",
            Self::VariableFrequency => "the time-stamp counter follows the core's frequency",
            Self::Unstable => "two measurements of the time-stamp counter's frequency disagreed",
        })
    }
}

impl std::error::Error for TscUnavailable {}

/// A monotonic clock that is cheap to read and counts in ticks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Timer {
    /// The processor's time-stamp counter.
    Tsc {
        /// Its measured frequency, in ticks per second.
        hz: f64,
    },
    /// The operating system's monotonic clock, in nanoseconds.
    Os,
}

impl Timer {
    /// The best clock here: the time-stamp counter if [`Timer::tsc`] succeeds, else the operating system's.
    #[must_use]
    pub fn best() -> Self {
        Self::tsc().unwrap_or(Self::Os)
    }

    /// The time-stamp counter, its frequency measured against the operating system's clock. The first call takes 0.1 s;
    /// later ones return the same result immediately.
    pub fn tsc() -> Result<Self, TscUnavailable> {
        static MEASURED: OnceLock<Result<f64, TscUnavailable>> = OnceLock::new();
        MEASURED.get_or_init(measure_tsc).map(|hz| Self::Tsc { hz })
    }

    /// The current time in ticks since some fixed moment. Serialised: earlier instructions have completed.
    #[inline(always)]
    #[must_use]
    pub fn now(&self) -> u64 {
        match self {
            Self::Tsc { .. } => tsc::ticks(),
            Self::Os => os_nanoseconds(),
        }
    }

    /// The length of one tick in seconds.
    #[must_use]
    pub fn tick_seconds(&self) -> f64 {
        match self {
            Self::Tsc { hz } => hz.recip(),
            Self::Os => 1e-9,
        }
    }

    /// `ticks` in seconds.
    #[must_use]
    pub fn seconds(&self, ticks: u64) -> f64 {
        ticks as f64 * self.tick_seconds()
    }

    /// The smallest non-zero difference between two readings, in ticks, over 2,000 pairs: the clock's real resolution,
    /// which may be coarser than its nominal tick. At least 1.
    #[must_use]
    pub fn resolution(&self) -> u64 {
        let mut smallest = u64::MAX;
        for _ in 0..PAIRS {
            let first = self.now();
            // A coarse clock repeats a reading many times; a stopped clock must not loop forever.
            let later = (0..10_000).map(|_| self.now()).find(|&t| t > first);
            smallest = smallest.min(later.map_or(u64::MAX, |t| t - first));
        }
        if smallest == u64::MAX { 1 } else { smallest }
    }

    /// The cost of one reading in seconds: the median of 2,000 back-to-back differences, or the mean where the clock is
    /// too coarse to see one.
    #[must_use]
    pub fn overhead_seconds(&self) -> f64 {
        let mut gaps = [0_u64; PAIRS];
        let begin = self.now();
        let mut last = begin;
        for gap in &mut gaps {
            let now = self.now();
            *gap = now.saturating_sub(last);
            last = now;
        }
        gaps.sort_unstable();
        match gaps[PAIRS / 2] {
            0 => self.seconds(last.saturating_sub(begin)) / PAIRS as f64,
            median => self.seconds(median),
        }
    }
}

/// The time-stamp counter's frequency as the processor states it, in hertz, to compare with the measured one. A virtual
/// machine often doesn't state it.
#[must_use]
pub fn stated_tsc_hz() -> Option<f64> {
    tsc::stated_hz()
}

/// The clock frequency of the core that runs the caller, in hertz: the fastest of 25 chains of about 10 µs of dependent
/// one-cycle additions. It is the frequency at this moment; an idle core needs some milliseconds to speed up.
///
/// # Errors
/// [`Fault::Unavailable`] if the architecture has no such chain here, or the clock could not time one.
pub fn core_hz(timer: &Timer) -> Result<f64, Fault> {
    let unavailable = |why: &str| Fault::Unavailable {
        what: "core frequency",
        why: why.to_owned(),
        hint: "Cycle counts are left out; times are unaffected".to_owned(),
    };
    if !cycle::is_available() {
        return Err(unavailable("no cycle-exact loop is written for this architecture"));
    }
    let fastest = (0..CHAINS)
        .map(|_| {
            let begin = timer.now();
            std::hint::black_box(cycle::chain(CHAIN_ITERATIONS));
            timer.now().saturating_sub(begin)
        })
        .min()
        .unwrap_or(0);
    // Each time includes one reading of the clock, about 10 ns of 10 µs, which is subtracted.
    let seconds = timer.seconds(fastest) - timer.overhead_seconds();
    if seconds <= 0.0 {
        return Err(unavailable("the clock is too coarse to time 10 µs"));
    }
    Ok((CHAIN_ITERATIONS * cycle::ADDS_PER_ITERATION) as f64 / seconds)
}

fn os_nanoseconds() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    // 2^64 ns are 584 years.
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

fn measure_tsc() -> Result<f64, TscUnavailable> {
    if !tsc::is_available() {
        return Err(TscUnavailable::MissingInstructions);
    }
    if !tsc::is_invariant() {
        return Err(TscUnavailable::VariableFrequency);
    }
    let first = paired_reading();
    std::thread::sleep(CALIBRATION_HALF);
    let middle = paired_reading();
    std::thread::sleep(CALIBRATION_HALF);
    let last = paired_reading();
    frequency([first, middle, last])
}

/// Ticks and nanoseconds at one moment: the tightest of several brackets, so that an interrupt between the two readings
/// doesn't count.
fn paired_reading() -> (u64, u64) {
    (0..16)
        .map(|_| {
            let before = os_nanoseconds();
            let ticks = tsc::ticks();
            let after = os_nanoseconds();
            (after - before, (ticks, before + (after - before) / 2))
        })
        .min_by_key(|&(width, _)| width)
        .map_or((0, 0), |(_, reading)| reading)
}

/// The frequency over all three moments, if the two halves agree.
fn frequency(moments: [(u64, u64); 3]) -> Result<f64, TscUnavailable> {
    let hz = |from: (u64, u64), to: (u64, u64)| {
        let ticks = to.0.checked_sub(from.0).filter(|&t| t > 0).ok_or(TscUnavailable::Unstable)?;
        let nanoseconds = to.1.checked_sub(from.1).filter(|&t| t > 0).ok_or(TscUnavailable::Unstable)?;
        Ok(ticks as f64 / (nanoseconds as f64 * 1e-9))
    };
    let [first, middle, last] = moments;
    let (a, b) = (hz(first, middle)?, hz(middle, last)?);
    if (a - b).abs() > STABLE_WITHIN * a.min(b) {
        return Err(TscUnavailable::Unstable);
    }
    hz(first, last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_changes_speed_stops_or_runs_backwards_is_refused() {
        let half = 50_000_000;
        let steady = [(0, 0), (100_000_000, half), (200_000_000, 2 * half)];
        assert!((frequency(steady).unwrap() / 2e9 - 1.0).abs() < 1e-12);
        let slowed = [(0, 0), (100_000_000, half), (198_000_000, 2 * half)];
        assert_eq!(frequency(slowed), Err(TscUnavailable::Unstable));
        let reset = [(100_000_000, 0), (10, half), (100_000_010, 2 * half)];
        assert_eq!(frequency(reset), Err(TscUnavailable::Unstable));
        let stopped = [(5, 0), (5, half), (5, 2 * half)];
        assert_eq!(frequency(stopped), Err(TscUnavailable::Unstable));
    }

    #[test]
    fn both_clocks_agree_on_the_length_of_a_pause() {
        let timers = [Timer::Os, Timer::best()];
        let begin = timers.map(|t| t.now());
        std::thread::sleep(Duration::from_millis(20));
        let seconds = [0, 1].map(|i| timers[i].seconds(timers[i].now() - begin[i]));
        // The readings of the two clocks are not simultaneous: the bound only catches a wrong unit or frequency.
        assert!((seconds[0] / seconds[1] - 1.0).abs() < 0.5, "{seconds:?}");
    }

    #[test]
    fn the_resolution_is_at_least_one_tick_and_the_overhead_positive() {
        for timer in [Timer::Os, Timer::best()] {
            assert!(timer.resolution() >= 1);
            assert!(timer.overhead_seconds() > 0.0);
        }
    }

    #[test]
    fn the_core_frequency_is_plausible() {
        let timer = Timer::best();
        if !cycle::is_available() {
            assert!(core_hz(&timer).is_err());
            return;
        }
        // An emulated or busy machine may be slow; no core is faster than 10 GHz, so 'constant' additions show here.
        let hz = core_hz(&timer).unwrap();
        assert!((1e6..1e10).contains(&hz), "{hz}");
    }
}
