//! Synthetic points for tests: 30 equal samples on a device that runs at 2 GHz.

use plimsoll_core::record::Finding;
use plimsoll_core::sample::{Evidence, Work};
use plimsoll_core::series::{Point, Value};

/// The clock, hertz.
pub const CLOCK: f64 = 2e9;

/// A launch of `seconds` that does `work`, with extra figures.
#[must_use]
pub fn point(at: Vec<Value>, seconds: f64, work: Work, extra: &[(&str, f64)]) -> Point {
    Point {
        tick: 1e-12,
        evidence: Evidence { clock_hz: Some(CLOCK), ..Evidence::default() },
        extra: extra.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
        ..Point::new(at, work, vec![(seconds * 1e12).round() as u64; 30])
    }
}

/// Checks that a finding says all of this.
///
/// # Panics
/// If it doesn't.
pub fn assert_says(finding: &Finding, parts: &[&str]) {
    parts.iter().for_each(|part| assert!(finding.says.contains(part), "{part}: {}", finding.says));
}
