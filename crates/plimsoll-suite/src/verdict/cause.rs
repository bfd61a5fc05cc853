//! Why a figure is ambiguous, in words that a table, a sheet and a program can all show.

use std::fmt;

use plimsoll_core::Flag;
use plimsoll_core::unit::Unit;

/// One reason why a figure is neither the same nor faster nor slower.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cause {
    /// A flag of either side: something other than the device moved the figure, or widened its interval.
    Flag(Flag),
    /// The clock moved by more than 1 %, and what that does to the figure is not known.
    Clock {
        /// The base run's clock, hertz.
        base: f64,
        /// The new run's clock, hertz.
        new: f64,
    },
    /// The row's own interval lies beyond ±1 %, but among so many figures one does by chance.
    Chance {
        /// Figures of the comparison.
        figures: usize,
    },
    /// The interval spans ±1 % on one side, with no flag to blame.
    Interval {
        /// Half of the width of the ratio's 95 % interval, as a share.
        half: f64,
        /// Rounds of the base and the new run.
        rounds: (usize, usize),
    },
}

impl Cause {
    /// One word for it, the same for all figures: what a summary counts by.
    #[must_use]
    pub const fn label(&self) -> &'static str {
        match self {
            Self::Flag(flag) => flag.name(),
            Self::Clock { .. } => "clock",
            Self::Chance { .. } => "chance",
            Self::Interval { .. } => "interval",
        }
    }
}

/// For a person: `BUDGET`, `clock 3.02 → 3.19 GHz`, `interval ±2.3 %, 3 rounds`.
impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Flag(flag) => f.write_str(flag.name()),
            Self::Clock { base, new } => {
                let (factor, label) = Unit::Hertz.scale_for(base.max(new));
                write!(f, "clock {:.2} → {:.2} {label}", base / factor, new / factor)
            }
            Self::Chance { figures } => write!(f, "chance among {figures} figures"),
            Self::Interval { half, rounds: (base, new) } => {
                let percent = 100.0 * half;
                let decimals = if percent < 0.995 { 2 } else { 1 };
                write!(f, "interval ±{percent:.decimals$} %, ")?;
                match (base, new) {
                    (1, 1) => f.write_str("1 round"),
                    (base, new) if base == new => write!(f, "{base} rounds"),
                    (base, new) => write!(f, "{base} and {new} rounds"),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_read_as_words() {
        let words = [
            (Cause::Flag(Flag::Budget), "BUDGET"),
            (Cause::Clock { base: 3.021e9, new: 3.19e9 }, "clock 3.02 → 3.19 GHz"),
            (Cause::Clock { base: 980e6, new: 1.02e9 }, "clock 0.98 → 1.02 GHz"),
            (Cause::Chance { figures: 252 }, "chance among 252 figures"),
            (Cause::Interval { half: 0.0231, rounds: (3, 3) }, "interval ±2.3 %, 3 rounds"),
            (Cause::Interval { half: 0.0023, rounds: (1, 1) }, "interval ±0.23 %, 1 round"),
            (Cause::Interval { half: 0.5, rounds: (1, 3) }, "interval ±50.0 %, 1 and 3 rounds"),
        ];
        for (cause, want) in words {
            assert_eq!(cause.to_string(), want);
            assert!(want.starts_with(cause.label()));
        }
    }
}
