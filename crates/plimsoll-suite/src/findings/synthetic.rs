//! Points made up for tests: so many samples of one length, on a device of 2 GHz.

use plimsoll_core::flag::Flags;
use plimsoll_core::sample::{Evidence, Work};
use plimsoll_core::series::{Point, Value};

/// The clock, hertz.
pub const CLOCK: f64 = 2e9;

/// A launch of `seconds` that does `work`, with figures of its own.
#[must_use]
pub fn point(at: Vec<Value>, seconds: f64, work: Work, extra: &[(&str, f64)]) -> Point {
    Point {
        series: 0,
        round: 0,
        at,
        k: 1,
        tick: 1e-12,
        work,
        samples: vec![(seconds * 1e12).round() as u64; 30],
        evidence: Evidence { clock_hz: Some(CLOCK), ..Evidence::default() },
        flags: Flags::NONE,
        extra: extra.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
    }
}
