//! Published and measured figures of known machines, as facts with their sources, to be shown beside a user's own. The
//! figures are data (`records/references.jsonl`, one a line); this file reads them and finds them by machine, probe and
//! case. What machines are called is the catalogue's.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use plimsoll_core::series::Value;
use plimsoll_core::unit::Unit;
use serde::{Deserialize, Serialize};

use crate::machines;

/// The shipped figures. They are compiled in, so that a single executable has them everywhere.
const SHIPPED: &str = include_str!("../../../records/references.jsonl");

/// Names in the shipped figures that are no model of the catalogue: their sources don't say which board it was, or the
/// figure belongs to an architecture.
pub const UNLISTED: &[&str] = &["V100", "H800", "sm_80"];

/// One figure of one machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reference {
    /// The machine, by the catalogue's name or one of [`UNLISTED`].
    pub machine: String,
    /// The probe that measures the same thing (`stream`, `latency`).
    pub probe: String,
    /// What of the probe: the kernel, the level, the instruction.
    pub case: String,
    /// What the value is (`bandwidth`, `latency`, `reciprocal throughput`).
    pub metric: String,
    /// The figure in `unit`; the middle where the source gives a range.
    pub value: f64,
    /// What `value` is in.
    pub unit: Unit,
    /// The public document or the program it comes from, in plain words.
    pub source: String,
    /// Where on a curve the figure lies, in `x_unit`: the footprint or transfer size, the threads per multiprocessor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x: Option<f64>,
    /// What `x` is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x_unit: Option<Unit>,
    /// Where in the probe's series the figure lies: a coordinate on each axis that its source names. What is left out holds
    /// for all (`plain memory, any grid`).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub at: BTreeMap<String, Value>,
    /// Least and most, where the source gives a range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
}

/// How the cases of a data sheet's figures begin that stand beside a probe's own.
const PEAK_CASE: &str = "theoretical peak";

impl Reference {
    /// True for what a data sheet promises of the machine: nobody measured it.
    #[must_use]
    pub fn is_theoretical(&self) -> bool {
        self.probe == "peak" || self.case.starts_with(PEAK_CASE)
    }
}

/// A line of reference figures that can't be read.
#[derive(Debug, thiserror::Error)]
#[error(
    "line {line} of the reference figures can't be read: {why}; each line is one JSON object like the shipped ones"
)]
pub struct ReferenceError {
    /// The line, counted from 1.
    pub line: usize,
    /// The reader's words.
    #[source]
    pub why: serde_json::Error,
}

/// Reads figures, one JSON object a line; empty lines are skipped, unknown fields ignored.
///
/// # Errors
/// [`ReferenceError`] names the first line that isn't such an object.
pub fn parse(text: &str) -> Result<Vec<Reference>, ReferenceError> {
    text.lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(index, line)| serde_json::from_str(line).map_err(|why| ReferenceError { line: index + 1, why }))
        .collect()
}

/// Every shipped figure, in the file's order.
#[must_use]
pub fn all() -> &'static [Reference] {
    static READ: OnceLock<Vec<Reference>> = OnceLock::new();
    // A test holds that every shipped line is read; a build that had a bad one would show no figures rather than fail.
    READ.get_or_init(|| parse(SHIPPED).unwrap_or_default())
}

/// The shipped figures of one machine, called as the catalogue allows (`NVIDIA H200`).
pub fn of_machine(name: &str) -> impl Iterator<Item = &'static Reference> {
    let name = canonical(name);
    all().iter().filter(move |figure| figure.machine.eq_ignore_ascii_case(&name))
}

/// The catalogue's name where it knows the machine, else the name as given.
fn canonical(name: &str) -> String {
    machines::machine(name).map_or_else(|_| name.trim().to_owned(), |known| known.name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_line_is_read() {
        let read = parse(SHIPPED).unwrap();
        assert_eq!(read.len(), SHIPPED.lines().count());
        assert_eq!(read.len(), all().len());
        assert!(read.len() > 300);
    }

    #[test]
    fn figures_are_finite_in_known_units_and_have_a_source() {
        for figure in all() {
            assert!(figure.value.is_finite() && figure.value > 0.0, "{figure:?}");
            assert!(figure.unit.is_known() && !figure.source.is_empty(), "{figure:?}");
            assert!(figure.x_unit.as_ref().is_none_or(Unit::is_known), "{figure:?}");
            assert_eq!(figure.x.is_some(), figure.x_unit.is_some(), "{figure:?}");
            if let Some([lo, hi]) = figure.interval {
                assert!(lo <= figure.value && figure.value <= hi, "{figure:?}");
            }
        }
    }

    #[test]
    fn machines_are_the_catalogues_or_listed_exceptions() {
        for figure in all() {
            let listed = machines::machine(&figure.machine).is_ok_and(|m| m.name == figure.machine);
            assert!(listed || UNLISTED.contains(&figure.machine.as_str()), "{}", figure.machine);
        }
    }

    #[test]
    fn no_memory_figure_is_above_its_machines_peak() {
        for figure in all().iter().filter(|figure| figure.probe == "stream") {
            if let Ok(machine) = machines::machine(&figure.machine) {
                assert!(figure.value < 1.005 * machine.peak_bandwidth(), "{figure:?}");
            }
        }
    }

    #[test]
    fn peaks_agree_with_the_catalogue() {
        for figure in all().iter().filter(|figure| figure.probe == "peak") {
            let peak = machines::machine(&figure.machine).unwrap().peak_bandwidth();
            assert!((figure.value / peak - 1.0).abs() < 0.001, "{figure:?}");
        }
    }

    #[test]
    fn no_point_is_stated_twice() {
        let mut seen = std::collections::BTreeSet::new();
        for f in all() {
            let key = (&f.machine, &f.probe, &f.case, &f.metric, f.x.map(f64::to_bits), &f.source);
            assert!(seen.insert(key), "{f:?}");
        }
    }

    #[test]
    fn figures_are_found_by_a_drivers_name() {
        let far: Vec<_> = of_machine("NVIDIA H200").filter(|figure| figure.case == "far L2").collect();
        assert_eq!(far.len(), 1);
        assert_eq!(far[0].unit, Unit::Cycle);
        assert!(of_machine("h100-pcie").filter(|figure| figure.case == "read by occupancy").count() > 30);
        assert!(of_machine("sm_80").count() == 3);
        assert_eq!(of_machine("no such machine").count(), 0);
    }

    #[test]
    fn a_bad_line_is_named() {
        let good = SHIPPED.lines().next().unwrap();
        let error = parse(&format!("{good}\n\n{{\"machine\":1}}\n")).unwrap_err();
        assert_eq!(error.line, 3);
    }
}
