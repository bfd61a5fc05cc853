//! What the findings of several probes are made with: a [line](affine) through times, the [levels] of a curve, the sentence of
//! [advice], and a finding read off rows.

pub mod advice;
pub mod affine;
pub mod levels;
#[cfg(any(test, feature = "synthetic"))]
pub mod synthetic;

use plimsoll_core::flag::Flags;
use plimsoll_core::record::Finding;
use plimsoll_core::series::{Axes, Estimate, Row, Series};
use plimsoll_core::unit::Unit;

/// The group of experiments that answer questions: `measure` runs it where it is asked for, or a probe of it.
pub const LAB: &str = "lab";

/// Half-width that is asked of what the host's own work decides (the call of a launch, the staging of a copy): in a virtual
/// machine the host's speed wanders by 1–4 % within seconds, however long one samples.
pub const HOST_PRECISION: f64 = 0.02;

/// Every row with its point. Rows that are none of this version's points, by a name of a later version say, show nothing.
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

/// A finding from several rows, with the flags of all that it was read from. The session fills in device and probe.
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
