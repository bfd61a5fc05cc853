//! Call by call: every launch of a traced point from the first one on, over its number. The first calls are drawn one by
//! one; further on, where marks would lie on one another, a mark stands for the median of some and its interval runs
//! from the least to the most of them, so that no call is hidden.

use std::cmp::Reverse;
use std::ops::Range;

use plimsoll_core::Flag;
use plimsoll_core::series::{Metric, Quantity, Row};
use plimsoll_core::stats::Interval;

use super::build::{note, place, spec_of, varying};
use super::bundle::Bundle;
use super::levels::levels;
use super::{Chart, HUES, Mark, Plot, Scale, Trace};
use crate::Report;
use crate::content::{Case, Section, Source, coordinate};
use crate::text::clean;

/// Calls that are drawn one by one.
const SINGLE: usize = 16;
/// Beyond them, this share of the calls before goes into one mark: some four marks per doubling.
const SHARE: usize = 5;

/// Pictures of traced series, as many as their lines need.
pub(super) fn calls(report: &Report<'_>, section: &Section<'_>, group: &[&Case<'_>], title: &str) -> Vec<Chart> {
    let spec = spec_of(group[0]);
    let timed = |metric: &&Metric| !matches!(metric.of, Quantity::Extra | Quantity::Unknown);
    let Some(metric) = spec.metrics.iter().find(timed) else { return Vec::new() };
    let mut bundle = Bundle::new(group, None, varying(group, &[], false));
    for case in group {
        for source in &case.sources {
            for row in &source.series.rows {
                let marks = marks(source, row, metric);
                if !marks.is_empty() {
                    bundle.line_of(source, row).extend(marks);
                }
            }
        }
    }
    let mut traces = bundle.traces();
    // What is dashed lies behind: it is what the others are held against.
    traces.sort_by_key(|trace| (trace.hue / HUES, Reverse(trace.dash)));
    let parts: Vec<&[Trace]> = traces.chunk_by(|a, b| a.hue / HUES == b.hue / HUES).collect();
    let levels = levels(report, section, group, metric, &[]);
    let constant = constant(group);
    let title = if constant.is_empty() { title.to_owned() } else { format!("{title}: {constant}") };
    let part = |(place, traces): (usize, &&[Trace])| {
        let title =
            if parts.len() == 1 { title.clone() } else { format!("{title} ({} of {})", place + 1, parts.len()) };
        let marks = || traces.iter().flat_map(|trace| &trace.marks);
        let heights = marks().flat_map(|mark| [mark.interval.lo, mark.interval.hi]);
        let heights = heights.chain(levels.iter().map(|level| level.value));
        // One time may be a thousand others; a rate never is.
        let log = metric.more_is_better() == Some(false);
        Chart {
            title,
            note: note("call by call", group),
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

/// Coordinates that all rows share: what no label says.
fn constant(group: &[&Case<'_>]) -> String {
    let axes = &spec_of(group[0]).axes;
    let apart = varying(group, &[], false);
    let row = group.iter().flat_map(|case| &case.sources).find_map(|source| source.series.rows.first());
    let shared = axes.iter().zip(row.map_or(&[][..], |row| &row.at)).enumerate();
    let shared = shared.filter(|(place, _)| !apart.contains(place));
    shared.map(|(_, (axis, value))| coordinate(&axis.unit, value)).collect::<Vec<String>>().join(", ")
}

/// The calls of the first round: those of later rounds find a device that has worked before.
fn marks(source: &Source<'_>, row: &Row, metric: &Metric) -> Vec<Mark> {
    let Some(point) = row.points.first() else { return Vec::new() };
    let of = |seconds| metric.of.of(seconds, &point.work, point.evidence.clock_hz);
    // A call of no time has no rate; its number is still counted.
    let figures: Vec<Option<f64>> = point.seconds().map(of).collect();
    // That the first calls are slower than the last is what the picture shows, and no fault of it.
    let expected = [Flag::Bimodal, Flag::Correlated, Flag::Drift, Flag::Outliers, Flag::Quantized];
    let doubtful = point.flags.impugning().iter().any(|flag| !expected.contains(&flag));
    let at = format!("{}, {}", place(source, row), source.series.spec.cache.name());
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
            place: format!("{at}, {number}"),
            figure: format!("{name} {figure}"),
        })
    };
    bins(figures.len()).into_iter().filter_map(mark).collect()
}

/// Which calls share a mark.
fn bins(calls: usize) -> Vec<Range<usize>> {
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
        fn every_call_is_in_one_mark_and_the_first_ones_have_their_own(calls in 0usize..5000) {
            let bins = bins(calls);
            prop_assert_eq!(bins.iter().cloned().flatten().collect::<Vec<usize>>(), (0..calls).collect::<Vec<usize>>());
            prop_assert!(bins.iter().take(SINGLE).all(|bin| bin.len() == 1));
            prop_assert!(bins.len() < 80, "{} marks", bins.len());
        }
    }
}
