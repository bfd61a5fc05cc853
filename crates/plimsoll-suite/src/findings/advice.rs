//! The advice of a lab probe: a finding named [`NAME`] with the decisive figure and a sentence that says what to do on this
//! device. A report shows it below the probe's pictures. Each probe decides what to advise.

use plimsoll_core::flag::Flags;
use plimsoll_core::record::Finding;
use plimsoll_core::series::{Estimate, Row};
use plimsoll_core::stats::Interval;
use plimsoll_core::unit::Unit;

use crate::findings::derived;

/// The name of the finding; a probe gives at most one for each device.
pub const NAME: &str = "advice";

/// Builds the advice from a sentence that contains figures, the decisive figure, and the rows that both were read from.
#[must_use]
pub fn advice<'r>(
    says: impl Into<String>,
    unit: Unit,
    decides: Estimate,
    rows: impl IntoIterator<Item = &'r Row>,
) -> Finding {
    let flags = rows.into_iter().fold(Flags::NONE, |all, row| all.union(row.flags));
    Finding { says: says.into(), ..derived(NAME, unit, decides, flags) }
}

/// True where a finding is its probe's advice.
#[must_use]
pub fn is_advice(finding: &Finding) -> bool {
    finding.name == NAME && !finding.says.is_empty()
}

/// Case over control, with the interval that both intervals allow. Most advice is based on such a ratio.
#[must_use]
pub fn ratio(case: Estimate, control: Estimate) -> Estimate {
    let interval = Interval { lo: case.interval.lo / control.interval.hi, hi: case.interval.hi / control.interval.lo };
    Estimate { value: case.value / control.value, interval }
}

/// Describes how a ratio differs from one: `12 % faster`, `3.4 % slower`, `2.4 times as fast`, or `as fast` where its interval
/// contains one or it is within a hundredth of one. The words are for more, the same and less.
#[must_use]
pub fn describe_ratio(ratio: Estimate, [more, same, less]: [&str; 3]) -> String {
    /// Smaller differences don't count: the precision that the engine promises.
    const NEGLIGIBLE: f64 = 0.01;
    let percent = 100.0 * (ratio.value - 1.0).abs();
    let digits = usize::from(percent < 9.95);
    match ratio.value {
        value if percent < 100.0 * NEGLIGIBLE || ratio.interval.contains(1.0) || !value.is_finite() => same.to_owned(),
        value if value >= 2.0 => format!("{value:.1} times {same}"),
        value if value > 1.0 => format!("{percent:.digits$} % {more}"),
        _ => format!("{percent:.digits$} % {less}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about(value: f64) -> Estimate {
        Estimate { value, interval: Interval { lo: value * 0.999, hi: value * 1.001 } }
    }

    #[test]
    fn describe_ratio_ignores_a_hundredth_and_uncertain_differences() {
        let describe = |value| describe_ratio(about(value), ["faster", "as fast", "slower"]);
        let expected = ["as fast", "3.4 % faster", "12 % faster", "2.4 times as fast", "29 % slower"];
        assert_eq!([1.008, 1.034, 1.12, 2.4, 0.71].map(describe), expected);
        let wide = Estimate { value: 1.2, interval: Interval { lo: 0.9, hi: 1.4 } };
        assert_eq!(describe_ratio(wide, ["faster", "as fast", "slower"]), "as fast");
    }

    #[test]
    fn advice_is_a_sound_finding_with_a_sentence() {
        let decided = ratio(about(6.0), about(4.0));
        let found = advice("Do it: 1.5 times as fast.", Unit::One, decided, []);
        assert!(is_advice(&found) && found.is_sound() && (found.value - 1.5).abs() < 1e-12);
        assert!(!is_advice(&Finding { says: String::new(), ..found }));
    }
}
