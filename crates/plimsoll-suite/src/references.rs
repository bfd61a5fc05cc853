//! Published and measured figures of known machines with their sources, to compare a user's figures with. The figures are data
//! (`references.jsonl`, one per line); this module reads them and finds them by machine. The catalogue defines the names
//! of machines.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use plimsoll_core::series::Value;
use plimsoll_core::unit::Unit;
use serde::{Deserialize, Serialize};

use crate::machines;

/// The shipped figures, compiled in so that the executable needs no data files.
const SHIPPED: &str = include_str!("../references.jsonl");

/// Names in the shipped figures that aren't models of the catalogue: their sources don't say which board it was, or the figure
/// belongs to an architecture.
pub const UNLISTED: &[&str] = &["V100", "H800", "sm_80"];

/// One figure of one machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reference {
    /// The machine, by the catalogue's name or one of [`UNLISTED`].
    pub machine: String,
    /// The probe that measures the same thing (`stream`, `latency`).
    pub probe: String,
    /// The part of the probe: the kernel, the level or the instruction.
    pub case: String,
    /// The quantity (`bandwidth`, `latency`, `reciprocal throughput`).
    pub metric: String,
    /// The figure in `unit`; the middle where the source gives a range.
    pub value: f64,
    /// The unit of `value`.
    pub unit: Unit,
    /// The public document or the program that it comes from, in plain words.
    pub source: String,
    /// The figure's position on a curve, in `x_unit`: the footprint, the transfer size or the threads per multiprocessor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x: Option<f64>,
    /// The unit of `x`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x_unit: Option<Unit>,
    /// The figure's coordinates in the probe's series, on the axes that its source names. It applies to all coordinates on other
    /// axes (`plain memory, any grid`).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub at: BTreeMap<String, Value>,
    /// Smallest and largest value, where the source gives a range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
    /// What keeps the program that measured the figure from what the machine can do. Such a figure is a lower bound: it is
    /// listed and drawn with this reason, but no measurement is compared with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lower_bound: Option<String>,
}

/// The start of the case of a theoretical figure that belongs to another probe.
const PEAK_CASE: &str = "theoretical peak";

impl Reference {
    /// True for a data sheet's theoretical figure, which nobody measured.
    #[must_use]
    pub fn is_theoretical(&self) -> bool {
        self.probe == "peak" || self.case.starts_with(PEAK_CASE)
    }

    /// The source, with the reason if the figure is only a lower bound.
    #[must_use]
    pub fn describe_source(&self) -> String {
        let why = self.lower_bound.as_ref();
        why.map_or_else(|| self.source.clone(), |why| format!("{}; a lower bound: {why}", self.source))
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
    /// The parser's error.
    #[source]
    pub why: serde_json::Error,
}

/// Reads figures, one JSON object per line; empty lines and unknown fields are ignored.
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
pub fn shipped() -> &'static [Reference] {
    static READ: OnceLock<Vec<Reference>> = OnceLock::new();
    // A test checks that every shipped line can be read; a build with a bad one would show no figures rather than fail.
    READ.get_or_init(|| parse(SHIPPED).unwrap_or_default())
}

/// The shipped figures of one machine, by any name that the catalogue accepts (`NVIDIA H200`).
pub fn of_machine(name: &str) -> impl Iterator<Item = &'static Reference> {
    let name = canonical_name(name);
    shipped().iter().filter(move |figure| figure.machine.eq_ignore_ascii_case(&name))
}

/// The catalogue's name where it knows the machine, else the given name.
fn canonical_name(name: &str) -> String {
    machines::find(name).map_or_else(|| name.trim().to_owned(), |known| known.name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_line_is_read() {
        let read = parse(SHIPPED).unwrap();
        assert_eq!(read.len(), SHIPPED.lines().count());
        assert_eq!(read.len(), shipped().len());
        assert!(read.len() > 300);
    }

    #[test]
    fn figures_are_finite_in_known_units_and_have_a_source() {
        for figure in shipped() {
            assert!(figure.value.is_finite() && figure.value > 0.0, "{figure:?}");
            assert!(figure.unit.is_known() && !figure.source.is_empty(), "{figure:?}");
            assert!(figure.x_unit.as_ref().is_none_or(Unit::is_known), "{figure:?}");
            assert_eq!(figure.x.is_some(), figure.x_unit.is_some(), "{figure:?}");
            if let Some([lo, hi]) = figure.interval {
                assert!(lo <= figure.value && figure.value <= hi, "{figure:?}");
            }
        }
    }

    /// One program's figures of one memory lie close together unless the program limits some of them.
    #[test]
    fn a_stream_figure_far_below_the_same_programs_best_is_marked_as_a_lower_bound() {
        let stream = || shipped().iter().filter(|figure| figure.probe == "stream" && figure.x.is_none());
        let program = |figure: &Reference| figure.source.split([' ', ';']).next().map(str::to_owned);
        for figure in stream() {
            let same = stream().filter(|other| other.machine == figure.machine && program(other) == program(figure));
            let best = same.map(|other| other.value).fold(0.0, f64::max);
            assert!(figure.value >= 0.8 * best || figure.lower_bound.is_some(), "{figure:?}, best {best}");
        }
    }

    #[test]
    fn a_lower_bound_gives_its_reason_with_its_source() {
        let of = |case| of_machine("H200").find(|figure| figure.probe == "stream" && figure.case == case).unwrap();
        assert!(
            of("read")
                .describe_source()
                .ends_with("a lower bound: one load of 8 B per thread leaves too few bytes in flight for this memory")
        );
        assert_eq!(of("init").describe_source(), of("init").source);
    }

    #[test]
    fn machines_are_the_catalogues_or_listed_exceptions() {
        for figure in shipped() {
            let listed = machines::machine(&figure.machine).is_ok_and(|m| m.name == figure.machine);
            assert!(listed || UNLISTED.contains(&figure.machine.as_str()), "{}", figure.machine);
        }
    }

    #[test]
    fn no_stream_figure_is_above_its_machines_peak() {
        for figure in shipped().iter().filter(|figure| figure.probe == "stream") {
            if let Ok(machine) = machines::machine(&figure.machine) {
                assert!(figure.value < 1.005 * machine.peak_bandwidth(), "{figure:?}");
            }
        }
    }

    #[test]
    fn peaks_agree_with_the_catalogue() {
        for figure in shipped().iter().filter(|figure| figure.probe == "peak") {
            let peak = machines::machine(&figure.machine).unwrap().peak_bandwidth();
            assert!((figure.value / peak - 1.0).abs() < 0.001, "{figure:?}");
        }
    }

    #[test]
    fn no_figure_is_listed_twice() {
        let mut seen = std::collections::BTreeSet::new();
        for f in shipped() {
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
    fn parse_names_the_first_bad_line() {
        let good = SHIPPED.lines().next().unwrap();
        let error = parse(&format!("{good}\n\n{{\"machine\":1}}\n")).unwrap_err();
        assert_eq!(error.line, 3);
    }
}
