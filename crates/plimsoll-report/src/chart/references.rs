//! Published figures in the background of a picture: curves of the same machine models and, for a lab experiment, the results
//! of others for the same question on any machine.

use plimsoll_core::series::{Row, Series};
use plimsoll_core::unit::Unit;
use plimsoll_suite::findings::LAB;
use plimsoll_suite::references::{self, Reference};

use super::{Mark, Trace};
use crate::content::Case;
use crate::text::clean;

/// The published figures of this probe, metric and unit.
fn find_references(case: &Case<'_>, metric: &str, unit: &Unit) -> Vec<&'static Reference> {
    let probe = &case.sources[0].series.spec.probe;
    let mut machines: Vec<&str> = case.sources.iter().map(|source| source.device.name.as_str()).collect();
    machines.dedup();
    let any_machine = plimsoll_probes::find(probe).is_some_and(|spec| spec.group == LAB);
    let all: Vec<&Reference> = if any_machine {
        references::shipped().iter().collect()
    } else {
        machines.into_iter().flat_map(references::of_machine).collect()
    };
    let same = |figure: &&Reference| figure.probe == *probe && figure.metric == metric && figure.unit == *unit;
    all.into_iter().filter(same).collect()
}

fn mark(figure: &Reference, x: f64, place: String) -> Mark {
    let [lo, hi] = figure.interval.unwrap_or([figure.value; 2]);
    let text = format!("{} {}, {}", figure.metric, figure.unit.format(figure.value), figure.describe_source());
    Mark { x, y: figure.value, interval: [lo, hi].into(), doubtful: false, place, figure: clean(&text), row: None }
}

/// Lines through the figures that have an x value.
pub(super) fn build_traces(case: &Case<'_>, x_unit: &Unit, metric: &str, unit: &Unit) -> Vec<Trace> {
    let mut traces: Vec<Trace> = Vec::new();
    for figure in find_references(case, metric, unit) {
        let (Some(x), Some(in_unit)) = (figure.x, &figure.x_unit) else { continue };
        if in_unit != x_unit {
            continue;
        }
        let label = clean(&format!("{}: {} (reference)", figure.machine, figure.case));
        let mark = mark(figure, x, format!("{label}, {}", clean(&x_unit.format(x))));
        match traces.iter_mut().find(|trace| trace.label == label) {
            Some(trace) => trace.marks.push(mark),
            None => {
                let series = label.clone();
                let source = String::new();
                traces.push(Trace {
                    label,
                    series,
                    source,
                    reference: true,
                    hue: 0,
                    dash: 0,
                    marks: vec![mark],
                    path: None,
                });
            }
        }
    }
    traces
}

/// Figures with coordinates in the series, each with its owner.
pub(super) struct PlacedReferences {
    figures: Vec<(String, &'static Reference)>,
}

impl PlacedReferences {
    pub fn new(case: &Case<'_>, metric: &str, unit: &Unit) -> Self {
        let placed = find_references(case, metric, unit).into_iter().filter(|figure| !figure.at.is_empty());
        Self { figures: placed.map(|figure| (describe_owner(figure), figure)).collect() }
    }

    /// Owner and mark of each figure at a row's coordinates.
    pub fn marks_at<'p>(&'p self, series: &'p Series, row: &'p Row) -> impl Iterator<Item = (&'p str, Mark)> {
        let is_here =
            |figure: &Reference| figure.at.iter().all(|(axis, value)| value_on_axis(series, row, axis) == Some(value));
        self.figures.iter().filter(move |(_, figure)| is_here(figure)).map(|(owner, figure)| {
            let place = clean(&format!("{}: {}", figure.machine, figure.case));
            (owner.as_str(), mark(figure, 0.0, place))
        })
    }
}

fn value_on_axis<'r>(series: &Series, row: &'r Row, axis: &str) -> Option<&'r plimsoll_core::series::Value> {
    series.axis(axis).and_then(|place| row.at.get(place))
}

/// Machine and source of a figure.
fn describe_owner(figure: &Reference) -> String {
    let what = if figure.is_theoretical() { ", theoretical peak" } else { "" };
    clean(&format!("{}{what}: {}", figure.machine, figure.source))
}
