//! The causes of ambiguous figures, as short texts for tables and programs.

use std::fmt;

use plimsoll_core::Flag;
use plimsoll_core::unit::Unit;

/// A reason why a figure is neither the same nor faster nor slower.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cause {
    /// A flag in either run: something other than the device may have changed the figure, or widened its interval.
    Flag(Flag),
    /// The clock changed by more than 1 %, and its effect on the figure is unknown.
    Clock {
        /// The base run's clock, hertz.
        base: f64,
        /// The new run's clock, hertz.
        new: f64,
    },
    /// The row's interval lies beyond ±1 %, but among so many figures one may do so by chance.
    Chance {
        /// Number of figures in the comparison.
        figures: usize,
    },
    /// The interval contains +1 % or −1 %, and no flag explains its width.
    Interval {
        /// Half-width of the ratio's 95 % interval, as a share.
        half_width: f64,
        /// Numbers of rounds in the base and the new run.
        rounds: (usize, usize),
    },
}

impl Cause {
    /// One word for the kind of cause, by which a summary counts.
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

/// As readable text: `BUDGET`, `clock 3.02 → 3.19 GHz`, `interval ±2.3 %, 3 rounds`.
impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Flag(flag) => f.write_str(flag.name()),
            Self::Clock { base, new } => {
                let (factor, label) = Unit::Hertz.scale_for(base.max(new));
                write!(f, "clock {:.2} → {:.2} {label}", base / factor, new / factor)
            }
            Self::Chance { figures } => write!(f, "chance among {figures} figures"),
            Self::Interval { half_width, rounds: (base, new) } => {
                let percent = 100.0 * half_width;
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
    fn causes_are_shown_as_short_texts() {
        let words = [
            (Cause::Flag(Flag::Budget), "BUDGET"),
            (Cause::Clock { base: 3.021e9, new: 3.19e9 }, "clock 3.02 → 3.19 GHz"),
            (Cause::Clock { base: 980e6, new: 1.02e9 }, "clock 0.98 → 1.02 GHz"),
            (Cause::Chance { figures: 252 }, "chance among 252 figures"),
            (Cause::Interval { half_width: 0.0231, rounds: (3, 3) }, "interval ±2.3 %, 3 rounds"),
            (Cause::Interval { half_width: 0.0023, rounds: (1, 1) }, "interval ±0.23 %, 1 round"),
            (Cause::Interval { half_width: 0.5, rounds: (1, 3) }, "interval ±50.0 %, 1 and 3 rounds"),
        ];
        for (cause, want) in words {
            assert_eq!(cause.to_string(), want);
            assert!(want.starts_with(cause.label()));
        }
    }
}
