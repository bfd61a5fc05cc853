//! Call by call: every launch of a traced point over its number, starting with the first. Early calls are drawn one by one.
//! Later, where marks would overlap, a mark is the median of several calls and its interval spans all of them, so that no call
//! is hidden.

use std::cmp::Reverse;
use std::ops::Range;

use plimsoll_core::Flag;
use plimsoll_core::series::{Metric, Quantity, Row};
use plimsoll_core::stats::Interval;

use super::build::{build_note, describe_place, spec_of, varying_axes};
use super::bundle::LineSet;
use super::levels::build_levels;
use super::{Chart, HUES, Mark, Plot, Scale, Trace};
use crate::Report;
use crate::content::{Case, Section, Source, format_coordinate};
use crate::text::clean;

/// Calls that are drawn one by one.
const SINGLE: usize = 16;
/// Beyond them, one mark combines as many calls as there were before it, divided by this: about four marks per doubling.
const SHARE: usize = 5;

/// The pictures of traced series: one for every [`HUES`] hues.
pub(super) fn build_call_charts(
    report: &Report<'_>,
    section: &Section<'_>,
    group: &[&Case<'_>],
    title: &str,
) -> Vec<Chart> {
    let spec = spec_of(group[0]);
    let is_timed = |metric: &&Metric| !matches!(metric.quantity, Quantity::Extra | Quantity::Unknown);
    let Some(metric) = spec.metrics.iter().find(is_timed) else { return Vec::new() };
    let mut lines = LineSet::new(group, None, varying_axes(group, &[], false));
    for case in group {
        for source in &case.sources {
            for row in &source.series.rows {
                let marks = build_marks(source, row, metric);
                if !marks.is_empty() {
                    lines.line_of(source, row).extend(marks);
                }
            }
        }
    }
    let mut traces = lines.into_traces();
    // Dashed lines lie behind: the others are compared with them.
    traces.sort_by_key(|trace| (trace.hue / HUES, Reverse(trace.dash)));
    let parts: Vec<&[Trace]> = traces.chunk_by(|a, b| a.hue / HUES == b.hue / HUES).collect();
    let levels = build_levels(report, section, group, metric, &[]);
    let constant = constant_coordinates(group);
    let title = if constant.is_empty() { title.to_owned() } else { format!("{title}: {constant}") };
    let part = |(place, traces): (usize, &&[Trace])| {
        let title =
            if parts.len() == 1 { title.clone() } else { format!("{title} ({} of {})", place + 1, parts.len()) };
        let marks = || traces.iter().flat_map(|trace| &trace.marks);
        let heights = marks().flat_map(|mark| [mark.interval.lo, mark.interval.hi]);
        let heights = heights.chain(levels.iter().map(|level| level.value));
        // One call may take a thousand times as long as another, so times need a logarithmic scale; rates don't.
        let log = metric.more_is_better() == Some(false);
        Chart {
            title,
            note: build_note("call by call", group),
            plot: Plot::Lines {
                x: Scale::counts("call", marks().map(|mark| mark.x)),
                y: Scale::new(&metric.name, &metric.unit, log, heights),
                levels: levels.clone(),
                guides: Vec::new(),
                traces: traces.to_vec(),
            },
        }
    };
    parts.iter().enumerate().map(part).collect()
}

/// The coordinates that all rows share, which no label names.
fn constant_coordinates(group: &[&Case<'_>]) -> String {
    let axes = &spec_of(group[0]).axes;
    let apart = varying_axes(group, &[], false);
    let row = group.iter().flat_map(|case| &case.sources).find_map(|source| source.series.rows.first());
    let shared = axes.iter().zip(row.map_or(&[][..], |row| &row.at)).enumerate();
    let shared = shared.filter(|(place, _)| !apart.contains(place));
    shared.map(|(_, (axis, value))| format_coordinate(&axis.unit, value)).collect::<Vec<String>>().join(", ")
}

/// The marks of the first round's calls: in later rounds the device is already warm.
fn build_marks(source: &Source<'_>, row: &Row, metric: &Metric) -> Vec<Mark> {
    let Some(point) = row.points.first() else { return Vec::new() };
    let figure_of = |seconds| metric.quantity.compute(seconds, &point.work, point.evidence.clock_hz);
    // A call that took no measurable time has no rate, but keeps its number.
    let figures: Vec<Option<f64>> = point.seconds().map(figure_of).collect();
    // The picture shows that the first calls are slower than the last, so flags that say so cast no doubt on it.
    let expected = [Flag::Bimodal, Flag::Correlated, Flag::Drift, Flag::Outliers, Flag::Quantized];
    let doubtful = point.flags.doubtful().iter().any(|flag| !expected.contains(&flag));
    let place = format!("{}, {}", describe_place(source, row), source.series.spec.cache.name());
    let name = clean(&metric.name);
    let mark = |calls: Range<usize>| {
        let mut own: Vec<f64> = figures[calls.clone()].iter().flatten().copied().collect();
        if own.is_empty() {
            return None;
        }
        own.sort_unstable_by(f64::total_cmp);
        let (lo, median, hi) = (own[0], own[own.len() / 2], own[own.len() - 1]);
        let figure = |value: f64| clean(&metric.unit.format(value));
        let (number, figure) = match calls.len() {
            1 => (format!("call {}", calls.start), figure(median)),
            _ => (
                format!("calls {} to {}", calls.start, calls.end - 1),
                format!("{}, from {} to {}", figure(median), figure(lo), figure(hi)),
            ),
        };
        Some(Mark {
            x: (calls.start + (calls.len() - 1) / 2) as f64,
            y: median,
            interval: Interval { lo, hi },
            doubtful,
            place: format!("{place}, {number}"),
            figure: format!("{name} {figure}"),
            row: None,
        })
    };
    bin_calls(figures.len()).into_iter().filter_map(mark).collect()
}

/// The ranges of calls that share a mark.
fn bin_calls(calls: usize) -> Vec<Range<usize>> {
    let (mut bins, mut start) = (Vec::new(), 0);
    while start < calls {
        let length = if start < SINGLE { 1 } else { start / SHARE };
        let end = (start + length).min(calls);
        bins.push(start..end);
        start = end;
    }
    bins
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_call_belongs_to_one_mark_and_early_calls_have_their_own(calls in 0usize..5000) {
            let bins = bin_calls(calls);
            prop_assert_eq!(bins.iter().cloned().flatten().collect::<Vec<usize>>(), (0..calls).collect::<Vec<usize>>());
            prop_assert!(bins.iter().take(SINGLE).all(|bin| bin.len() == 1));
            prop_assert!(bins.len() < 80, "{} marks", bins.len());
        }
    }
}
