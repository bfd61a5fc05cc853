//! Helpers for the findings of several probes: a [straight line](affine) through times, the [levels] of a curve, the sentence of
//! [advice], and findings read off rows.

pub mod advice;
pub mod affine;
pub mod levels;
#[cfg(any(test, feature = "synthetic"))]
pub mod synthetic;

use plimsoll_core::flag::Flags;
use plimsoll_core::record::Finding;
use plimsoll_core::series::{Axes, Estimate, Row, Series};
use plimsoll_core::unit::Unit;

/// The group of experiments that answer a question each: `measure` runs it, or one of its probes, only on request.
pub const LAB: &str = "lab";

/// Requested half-width, as a share, for figures that depend on work of the host (the call of a launch, the staging of a copy):
/// in a virtual machine the host's speed drifts by 1–4 % within seconds, however long the sampling.
pub const HOST_PRECISION: f64 = 0.02;

/// Every row with its point. Rows that this version can't parse, such as those with a name of a later version, are skipped.
pub fn known_rows<A: Axes>(series: &Series) -> impl Iterator<Item = (A, &Row)> {
    series.parse_rows().filter_map(Result::ok)
}

/// A finding read off one row. The session fills in device and probe.
#[must_use]
pub fn finding(name: impl Into<String>, unit: Unit, row: &Row, estimate: Estimate) -> Finding {
    Finding {
        device: 0,
        probe: String::new(),
        name: name.into(),
        value: estimate.value,
        interval: estimate.interval,
        unit,
        flags: row.flags,
        metric: String::new(),
        says: String::new(),
        published: None,
    }
}

/// A finding from several rows, with the flags of all of them. The session fills in device and probe.
#[must_use]
pub fn derived(name: impl Into<String>, unit: Unit, known: Estimate, flags: Flags) -> Finding {
    Finding {
        device: 0,
        probe: String::new(),
        name: name.into(),
        value: known.value,
        interval: known.interval,
        unit,
        flags,
        metric: String::new(),
        says: String::new(),
        published: None,
    }
}
