//! Small parts that several places of a page use: anchors, ranges, and the picture of a figure within its expected range.

use minijinja::Value;

use plimsoll_core::unit::Unit;

use crate::Report;
use crate::text::clean;

/// The anchor of the section at this place: a number, because names are untrusted.
pub(super) fn anchor(place: usize) -> String {
    format!("probe-{place}")
}

/// The anchor of a probe's section.
pub(super) fn anchor_of(report: &Report<'_>, probe: &str) -> String {
    anchor(report.sections.iter().position(|section| section.probe == probe).unwrap_or(0))
}

/// A share as per cent; `None` for one that can't be right.
pub(super) fn format_percent(share: f64) -> Option<String> {
    (share.abs() < 1e4).then(|| format!("{:.0} %", 100.0 * share))
}

/// `4.58 … 4.67 TB/s`; the unit is said once where both ends have the same.
pub(super) fn format_range(unit: &Unit, [lo, hi]: [f64; 2]) -> String {
    let (lo, hi) = (unit.format(lo), unit.format(hi));
    let same = match (lo.split_once(' '), hi.split_once(' ')) {
        (Some((number, one)), Some((_, other))) if one == other => number.to_owned(),
        _ => lo.clone(),
    };
    clean(&if lo == hi { lo } else { format!("{same} … {hi}") })
}

/// [`format_range`] for the column next to a figure: without the unit if the figure has the same one.
pub(super) fn format_range_beside(unit: &Unit, range: [f64; 2], value: f64) -> String {
    let (range, value) = (format_range(unit, range), unit.format(value));
    let same = range.rsplit_once(' ').zip(value.rsplit_once(' ')).filter(|(range, value)| range.1 == value.1);
    // Both ends must be in that unit.
    match same {
        Some(((numbers, _), _)) if !numbers.contains(char::is_alphabetic) => numbers.to_owned(),
        _ => range,
    }
}

/// Width of [`range_picture`].
const WIDTH: f64 = 72.0;

/// The expected range as a band in the middle and the figure as a dot; a dot far outside is at the edge.
pub(super) fn range_picture(value: f64, [lo, hi]: [f64; 2]) -> Option<Value> {
    let width = (hi - lo).max(f64::MIN_POSITIVE);
    let share = (value - lo) / width;
    if !share.is_finite() {
        return None;
    }
    let x = (WIDTH * (0.3 + 0.4 * share)).clamp(5.0, WIDTH - 5.0);
    Some(Value::from_safe_string(format!(
        "<svg class=\"range\" viewBox=\"0 0 {WIDTH} 12\" aria-hidden=\"true\"><path d=\"M0 6H{WIDTH}\"/>\
         <rect x=\"{:.1}\" y=\"2\" width=\"{:.1}\" height=\"8\" rx=\"2\"/><circle cx=\"{x:.1}\" cy=\"6\" r=\"4\"/></svg>",
        0.3 * WIDTH,
        0.4 * WIDTH
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_name_a_shared_unit_once() {
        assert_eq!(format_range(&Unit::BytePerSecond, [4.58e12, 4.67e12]), "4.58 … 4.67 TB/s");
        assert_eq!(format_range(&Unit::BytePerSecond, [9e11, 1.1e12]), "900 GB/s … 1.10 TB/s");
        assert_eq!(format_range(&Unit::Second, [1e-6, 1e-6]), "1.00 µs");
        assert_eq!(format_range_beside(&Unit::BytePerSecond, [4.58e12, 4.67e12], 4.6e12), "4.58 … 4.67");
        assert_eq!(format_range_beside(&Unit::BytePerSecond, [9e11, 1.1e12], 1e12), "900 GB/s … 1.10 TB/s");
        assert_eq!(format_range_beside(&Unit::BytePerSecond, [4.58e12, 4.67e12], 4.6e11), "4.58 … 4.67 TB/s");
    }

    #[test]
    fn any_figure_lies_within_its_picture() {
        for (value, range) in [(0.0, [1.0, 1.0]), (1e300, [1.0, 2.0]), (-1.0, [1.0, 2.0]), (1.5, [1.0, 2.0])] {
            let picture = range_picture(value, range).map(|picture| picture.to_string());
            assert!(picture.is_none_or(|picture| !picture.contains("NaN") && !picture.contains("inf")), "{value}");
        }
        assert!(range_picture(f64::NAN, [1.0, 2.0]).is_none());
    }
}
