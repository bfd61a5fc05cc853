//! Builds charts from series: which series share a picture, which rows make up a line, and the text of each point.

use plimsoll_core::sample::Figure;
use plimsoll_core::series::{Draw, Metric, Quantity, Row, Series, SeriesSpec, Value};
use plimsoll_core::stats::Interval;
use plimsoll_core::unit::Unit;

use super::bars::build_bars;
use super::bundle::{LineSet, shared_source};
use super::calls::build_call_charts;
use super::guides::build_guides;
use super::heat::build_heat_maps;
use super::levels::build_levels;
use super::{Chart, Form, Mark, Plot, Scale, Trace, references};
use crate::Report;
use crate::content::{Case, Section, Source, format_coordinate, format_figure, has_same_shape, is_finite};
use crate::text::clean;

/// The pictures of a probe, in the order in which the series were measured. Line series that differ only by cache policy share
/// a picture; a traced series is drawn call by call; a series that is best shown as a table has no picture.
#[must_use]
pub fn charts(report: &Report<'_>, section: &Section<'_>) -> Vec<Chart> {
    let mut all = Vec::new();
    for group in group_cases(section) {
        let spec = &group[0].sources[0].series.spec;
        let title = clean(&format!("{} {}", section.probe, join_names(&group)));
        let kind = match spec.figure {
            Figure::Throughput => "back to back",
            Figure::Latency => "one at a time",
            Figure::Unknown => "unknown kind of figure",
        };
        let note = build_note(kind, &group);
        let chart = |title: String, plot: Plot| Chart { title, note: note.clone(), plot };
        match &spec.draw {
            _ if spec.trace => all.extend(build_call_charts(report, section, &group, &title)),
            Draw::Lines { y, .. } => {
                let chart = |title: String, plot: Plot| {
                    let fitted = if has_fits(&plot) { ", lines are T = a + V/b" } else { "" };
                    Chart { note: format!("{note}{fitted}"), ..chart(title, plot) }
                };
                let build = |what: YQuantity<'_>| build_lines(report, section, &group, &what);
                all.extend(build(YQuantity::Metric(y)).map(|plot| chart(title.clone(), plot)));
                if spec.is_over_time() || draws_power(spec) {
                    all.extend(build(YQuantity::Clock).map(|plot| chart(format!("{title}: clock"), plot)));
                }
                // Over time each metric tells why the others change.
                for metric in spec.metrics.iter().filter(|metric| spec.is_over_time() && metric.name != *y) {
                    let title = clean(&format!("{title}: {}", metric.name));
                    all.extend(build(YQuantity::Metric(&metric.name)).map(|plot| chart(title, plot)));
                }
            }
            Draw::Bars { x, y, by } => {
                all.extend(build_bars(group[0], x, y, by.as_deref()).map(|plot| chart(title, plot)))
            }
            Draw::Heat { x, y, value } => {
                all.extend(build_heat_maps(group[0], x, y, value).into_iter().map(|(label, plot)| {
                    chart(if label.is_empty() { title.clone() } else { format!("{title}: {label}") }, plot)
                }))
            }
            Draw::Table | Draw::Unknown => {}
        }
    }
    all
}

fn has_fits(plot: &Plot) -> bool {
    let Plot::Lines { guides, .. } = plot else { return false };
    guides.iter().any(|guide| matches!(guide.form, Form::Fit { .. }))
}

/// True where the picture shows power; a second picture then shows the clock, because power means little without it.
fn draws_power(spec: &SeriesSpec) -> bool {
    let Draw::Lines { y, .. } = &spec.draw else { return false };
    spec.metrics.iter().any(|metric| metric.name == *y && metric.unit == Unit::Watt)
}

/// The quantity on the y axis of a line picture.
enum YQuantity<'h> {
    /// The metric with this name.
    Metric(&'h str),
    /// The clock at which the points were measured.
    Clock,
}

impl YQuantity<'_> {
    fn metric(&self, series: &Series) -> Option<Metric> {
        match self {
            Self::Metric(name) => series.metric(name).cloned(),
            Self::Clock => Some(Metric { name: "clock".to_owned(), unit: Unit::Hertz, quantity: Quantity::Extra }),
        }
    }

    fn mark(&self, source: &Source<'_>, nth: usize, x: f64) -> Option<Mark> {
        match self {
            Self::Metric(name) => mark(source, nth, x, name),
            Self::Clock => clock_mark(source, nth, x),
        }
    }
}

/// The clock's mean over the rounds of the `nth` row, with the lowest and highest as the interval.
fn clock_mark(source: &Source<'_>, nth: usize, x: f64) -> Option<Mark> {
    let row = source.series.rows.get(nth)?;
    let y = row.clock_hz().filter(|hz| hz.is_finite())?;
    let rounds = || row.points.iter().filter_map(|point| point.evidence.clock_hz);
    let interval = Interval { lo: rounds().fold(y, f64::min), hi: rounds().fold(y, f64::max) };
    let figure = format!("clock {}, mean of {} rounds", Unit::Hertz.format(y), rounds().count());
    let row_number = Some(source.first_row + nth);
    Some(Mark { x, y, interval, doubtful: false, place: describe_place(source, row), figure, row: row_number })
}

/// Groups cases into pictures: line series of the same shape with different cache policies share one.
fn group_cases<'c, 'r>(section: &'c Section<'r>) -> Vec<Vec<&'c Case<'r>>> {
    let mut groups: Vec<Vec<&Case<'_>>> = Vec::new();
    for case in &section.cases {
        let spec = spec_of(case);
        let joins = |group: &&mut Vec<&Case<'_>>| {
            is_lines(spec)
                && has_same_shape(spec_of(group[0]), spec)
                && group.iter().all(|other| spec_of(other).cache != spec.cache)
        };
        match groups.iter_mut().find(joins) {
            Some(group) => group.push(case),
            None => groups.push(vec![case]),
        }
    }
    // Hot comes first, whatever was measured first.
    groups.iter_mut().for_each(|group| group.sort_by_key(|case| spec_of(case).cache.is_cold()));
    groups
}

pub(super) fn spec_of<'c>(case: &'c Case<'_>) -> &'c SeriesSpec {
    &case.sources[0].series.spec
}

/// Joins case names: `trace hot and cold` for `trace hot` and `trace cold`.
fn join_names(group: &[&Case<'_>]) -> String {
    let first: Vec<&str> = group[0].name.split(' ').collect();
    let shared = |case: &&Case<'_>| first.iter().zip(case.name.split(' ')).take_while(|(a, b)| **a == *b).count();
    let shared = group[1..].iter().map(shared).min().unwrap_or(0);
    let rest = group[1..].iter().map(|case| case.name.split(' ').skip(shared).collect::<Vec<&str>>().join(" "));
    std::iter::once(group[0].name.clone()).chain(rest).collect::<Vec<String>>().join(" and ")
}

/// `one at a time, hot and cold-rotate`, followed by the source where no line names it.
pub(super) fn build_note(kind: &str, group: &[&Case<'_>]) -> String {
    let policies = group.iter().map(|case| spec_of(case).cache.name()).collect::<Vec<&str>>().join(" and ");
    match shared_source(group) {
        source if source.is_empty() || !is_lines(spec_of(group[0])) => format!("{kind}, {policies}"),
        source => format!("{kind}, {policies}, {source}"),
    }
}

fn is_lines(spec: &SeriesSpec) -> bool {
    spec.trace || matches!(spec.draw, Draw::Lines { .. })
}

/// Indices of the axes, except those in `taken`, on which the rows differ; with `texts_only` only axes of names.
pub(super) fn varying_axes(group: &[&Case<'_>], taken: &[&str], texts_only: bool) -> Vec<usize> {
    let rows = || group.iter().flat_map(|case| &case.sources).flat_map(|source| &source.series.rows);
    let spec = spec_of(group[0]);
    let differs = |place: usize| {
        let first = rows().next().and_then(|row| row.at.get(place));
        rows().any(|row| row.at.get(place) != first)
    };
    let is_text = |place: usize| rows().any(|row| matches!(row.at.get(place), Some(Value::Text(_))));
    (0..spec.axes.len())
        .filter(|&place| !taken.contains(&spec.axes[place].name.as_str()))
        .filter(|&place| differs(place) && (!texts_only || is_text(place)))
        .collect()
}

/// The mark of the `nth` row; `None` where its figure can't be computed.
pub(super) fn mark(source: &Source<'_>, nth: usize, x: f64, metric: &str) -> Option<Mark> {
    let series = source.series;
    let row = series.rows.get(nth)?;
    let known = series.estimate(row, metric).filter(is_finite)?;
    let flags = if row.flags.is_empty() { String::new() } else { format!(", {}", row.flags) };
    Some(Mark {
        x,
        y: known.value,
        interval: known.interval,
        doubtful: !series.doubtful(row).is_empty(),
        place: describe_place(source, row),
        figure: format!("{} {}, n = {}{flags}", clean(metric), format_figure(series, row, metric), row.n),
        row: Some(source.first_row + nth),
    })
}

/// A row's coordinates and source as text.
pub(super) fn describe_place(source: &Source<'_>, row: &Row) -> String {
    let places = source.series.spec.axes.iter().zip(&row.at);
    let mut place: Vec<String> =
        places.map(|(axis, value)| format!("{} {}", clean(&axis.name), format_coordinate(&axis.unit, value))).collect();
    if !source.label.is_empty() {
        place.push(source.label.clone());
    }
    place.join(", ")
}

fn build_lines(
    report: &Report<'_>,
    section: &Section<'_>,
    group: &[&Case<'_>],
    y_quantity: &YQuantity<'_>,
) -> Option<Plot> {
    let first = group[0].sources[0].series;
    let Draw::Lines { x, by, log_x, log_y, .. } = &first.spec.draw else { return None };
    let on_axis = first.axis(x).is_some();
    // Where x is itself measured, numeric axes vary along the line; only names distinguish lines.
    let apart = varying_axes(group, &[x], !on_axis);
    let mut lines = LineSet::new(group, by.as_deref().and_then(|by| first.axis(by)), apart);
    for case in group {
        for source in &case.sources {
            for (nth, row) in source.series.rows.iter().enumerate() {
                let Some(at) = x_of(source.series, row, x) else { continue };
                let Some(mark) = y_quantity.mark(source, nth, at) else { continue };
                lines.line_of(source, row).push(mark);
            }
        }
    }
    let mut traces = lines.into_traces();
    let metric = y_quantity.metric(first)?;
    if on_axis {
        traces.iter_mut().for_each(|trace| trace.marks.sort_by(|a, b| a.x.total_cmp(&b.x)));
    } else {
        traces.iter_mut().for_each(|trace| join_best_marks(trace, metric.more_is_better() != Some(false)));
    }
    if traces.is_empty() {
        return None;
    }
    let x_unit = match first.axis(x) {
        Some(place) => first.spec.axes[place].unit.clone(),
        None => first.metric(x)?.unit.clone(),
    };
    let guides = match y_quantity {
        YQuantity::Metric(_) => build_guides(report, section, group, (&x_unit, &metric), &traces),
        YQuantity::Clock => Vec::new(),
    };
    for guide in &guides {
        // Where a fit is drawn, it replaces the line between the marks.
        let Form::Fit { hue, dash, .. } = guide.form else { continue };
        let fitted = traces.iter_mut().filter(|trace| (trace.hue, trace.dash) == (hue, dash));
        fitted.for_each(|trace| trace.path = Some(Vec::new()));
    }
    let mut all = references::build_traces(group[0], &x_unit, &metric.name, &metric.unit);
    all.append(&mut traces);
    let marks = || all.iter().flat_map(|trace| &trace.marks);
    let labels: Vec<&str> = all.iter().map(|trace| trace.label.as_str()).collect();
    let mut levels = build_levels(report, section, group, &metric, &labels);
    let most = marks().map(|mark| mark.y).fold(0.0, f64::max);
    // A level far above all marks would only squeeze them to the bottom.
    levels.retain(|level| *log_y || level.value <= FAR * most);
    let x = Scale::new(x, &x_unit, *log_x, marks().map(|mark| mark.x));
    let heights = marks().flat_map(|mark| [mark.y, mark.interval.lo, mark.interval.hi]);
    let heights = heights.chain(levels.iter().map(|level| level.value));
    // An interval may reach zero although no figure does; the scale must still be logarithmic.
    let heights = heights.filter(|&height| !log_y || height > 0.0);
    let y = if *log_y {
        Scale::new(&metric.name, &metric.unit, true, heights)
    } else {
        Scale::for_marks(&metric.name, &metric.unit, heights)
    };
    Some(Plot::Lines { x, y, levels, guides, traces: all })
}

/// On a linear scale a level more than this many times the highest mark isn't drawn.
const FAR: f64 = 3.0;

/// Where several marks of a trace share an x, the line joins the best mark at each x. `more_is_better` says which is best.
pub(super) fn join_best_marks(trace: &mut Trace, more_is_better: bool) {
    let mut marks: Vec<&Mark> = trace.marks.iter().collect();
    marks.sort_by(|a, b| a.x.total_cmp(&b.x).then(a.y.total_cmp(&b.y)));
    let shared: Vec<&[&Mark]> = marks.chunk_by(|a, b| a.x == b.x).collect();
    if shared.len() == marks.len() {
        return;
    }
    let best = |same: &&[&Mark]| {
        if more_is_better { same.last().copied() } else { same.first().copied() }.map(|mark| (mark.x, mark.y))
    };
    trace.path = Some(shared.iter().filter_map(best).collect());
}

fn x_of(series: &Series, row: &Row, x: &str) -> Option<f64> {
    let number = match series.axis(x) {
        Some(_) => series.number(row, x),
        None => series.estimate(row, x).map(|known| known.value),
    };
    number.filter(|number| number.is_finite())
}
