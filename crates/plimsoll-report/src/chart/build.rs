//! From series to charts: which series share a picture, which rows make a line, and what each point says of itself.

use plimsoll_core::sample::Figure;
use plimsoll_core::series::{Draw, Metric, Quantity, Row, Series, SeriesSpec, Value};
use plimsoll_core::stats::Interval;
use plimsoll_core::unit::Unit;

use super::bars::bars;
use super::bundle::{Bundle, shared_source};
use super::calls::calls;
use super::guides::guides;
use super::heat::heats;
use super::levels::levels;
use super::{Chart, Form, Mark, Plot, Scale, Trace, references};
use crate::Report;
use crate::content::{Case, Section, Source, alike, coordinate, figure, is_finite};
use crate::text::clean;

/// The pictures of a probe, in the order measured. Series that differ only by where the data were go into one picture of
/// lines; a series of single calls is drawn call by call; what is best shown as a table has no picture.
#[must_use]
pub fn charts(report: &Report<'_>, section: &Section<'_>) -> Vec<Chart> {
    let mut all = Vec::new();
    for group in groups(section) {
        let spec = &group[0].sources[0].series.spec;
        let title = clean(&format!("{} {}", section.probe, names(&group)));
        let kind = match spec.figure {
            Figure::Throughput => "back to back",
            Figure::Latency => "one at a time",
            Figure::Unknown => "unknown kind of figure",
        };
        let note = note(kind, &group);
        let chart = |title: String, plot: Plot| Chart { title, note: note.clone(), plot };
        match &spec.draw {
            _ if spec.trace => all.extend(calls(report, section, &group, &title)),
            Draw::Lines { y, .. } => {
                let chart = |title: String, plot: Plot| {
                    let fitted = if has_fits(&plot) { ", lines are T = a + V/b" } else { "" };
                    Chart { note: format!("{note}{fitted}"), ..chart(title, plot) }
                };
                let clock = drawn_with_power(spec).then(|| format!("{title}: clock"));
                all.extend(lines(report, section, &group, &Height::Metric(y)).map(|plot| chart(title, plot)));
                let lines = |title| lines(report, section, &group, &Height::Clock).map(|plot| chart(title, plot));
                all.extend(clock.and_then(lines));
            }
            Draw::Bars { x, y, by } => all.extend(bars(group[0], x, y, by.as_deref()).map(|plot| chart(title, plot))),
            Draw::Heat { x, y, value } => {
                all.extend(heats(group[0], x, y, value).into_iter().map(|(of, plot)| {
                    chart(if of.is_empty() { title.clone() } else { format!("{title}: {of}") }, plot)
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

/// Power says little without the clock that it leaves.
fn drawn_with_power(spec: &SeriesSpec) -> bool {
    let Draw::Lines { y, .. } = &spec.draw else { return false };
    spec.metrics.iter().any(|metric| metric.name == *y && metric.unit == Unit::Watt)
}

/// What is along the left of a picture of lines.
enum Height<'h> {
    /// A metric of this name.
    Metric(&'h str),
    /// The clock at which the points were measured.
    Clock,
}

impl Height<'_> {
    fn metric(&self, series: &Series) -> Option<Metric> {
        match self {
            Self::Metric(name) => series.metric(name).cloned(),
            Self::Clock => Some(Metric { name: "clock".to_owned(), unit: Unit::Hertz, of: Quantity::Extra }),
        }
    }

    fn mark(&self, source: &Source<'_>, row: &Row, x: f64) -> Option<Mark> {
        match self {
            Self::Metric(name) => mark(source, row, x, name),
            Self::Clock => clock(source, row, x),
        }
    }
}

/// The clock's mean over a row's rounds, and the least and most of them.
fn clock(source: &Source<'_>, row: &Row, x: f64) -> Option<Mark> {
    let y = row.clock_hz().filter(|hz| hz.is_finite())?;
    let rounds = || row.points.iter().filter_map(|point| point.evidence.clock_hz);
    let interval = Interval { lo: rounds().fold(y, f64::min), hi: rounds().fold(y, f64::max) };
    let figure = format!("clock {}, mean of {} rounds", Unit::Hertz.format(y), rounds().count());
    Some(Mark { x, y, interval, doubtful: false, place: place(source, row), figure })
}

/// Series by the picture that they go into: those of one kind, each with another cache policy.
fn groups<'c, 'r>(section: &'c Section<'r>) -> Vec<Vec<&'c Case<'r>>> {
    let mut groups: Vec<Vec<&Case<'_>>> = Vec::new();
    for case in &section.cases {
        let spec = spec_of(case);
        let joins = |group: &&mut Vec<&Case<'_>>| {
            is_lines(spec)
                && alike(spec_of(group[0]), spec)
                && group.iter().all(|other| spec_of(other).cache != spec.cache)
        };
        match groups.iter_mut().find(joins) {
            Some(group) => group.push(case),
            None => groups.push(vec![case]),
        }
    }
    // What is hot comes first, whatever was measured first.
    groups.iter_mut().for_each(|group| group.sort_by_key(|case| spec_of(case).cache.is_cold()));
    groups
}

pub(super) fn spec_of<'c>(case: &'c Case<'_>) -> &'c SeriesSpec {
    &case.sources[0].series.spec
}

/// `trace hot and cold` for `trace hot` and `trace cold`.
fn names(group: &[&Case<'_>]) -> String {
    let first: Vec<&str> = group[0].name.split(' ').collect();
    let shared = |case: &&Case<'_>| first.iter().zip(case.name.split(' ')).take_while(|(a, b)| **a == *b).count();
    let shared = group[1..].iter().map(shared).min().unwrap_or(0);
    let rest = group[1..].iter().map(|case| case.name.split(' ').skip(shared).collect::<Vec<&str>>().join(" "));
    std::iter::once(group[0].name.clone()).chain(rest).collect::<Vec<String>>().join(" and ")
}

/// `one at a time, hot and cold-rotate`, and whose it is where no line says so.
pub(super) fn note(kind: &str, group: &[&Case<'_>]) -> String {
    let policies = group.iter().map(|case| spec_of(case).cache.name()).collect::<Vec<&str>>().join(" and ");
    match shared_source(group) {
        source if source.is_empty() || !is_lines(spec_of(group[0])) => format!("{kind}, {policies}"),
        source => format!("{kind}, {policies}, {source}"),
    }
}

fn is_lines(spec: &SeriesSpec) -> bool {
    spec.trace || matches!(spec.draw, Draw::Lines { .. })
}

/// Axes beside `taken` on which the rows differ.
pub(super) fn varying(group: &[&Case<'_>], taken: &[&str], texts_only: bool) -> Vec<usize> {
    let rows = || group.iter().flat_map(|case| &case.sources).flat_map(|source| &source.series.rows);
    let spec = spec_of(group[0]);
    let differs = |place: usize| {
        let first = rows().next().and_then(|row| row.at.get(place));
        rows().any(|row| row.at.get(place) != first)
    };
    let text = |place: usize| rows().any(|row| matches!(row.at.get(place), Some(Value::Text(_))));
    (0..spec.axes.len())
        .filter(|&place| !taken.contains(&spec.axes[place].name.as_str()))
        .filter(|&place| differs(place) && (!texts_only || text(place)))
        .collect()
}

/// A point; `None` where its figure can't be derived.
pub(super) fn mark(source: &Source<'_>, row: &Row, x: f64, metric: &str) -> Option<Mark> {
    let series = source.series;
    let known = series.estimate(row, metric).filter(is_finite)?;
    let flags = if row.flags.is_empty() { String::new() } else { format!(", {}", row.flags) };
    Some(Mark {
        x,
        y: known.value,
        interval: known.interval,
        doubtful: !row.flags.impugning().is_empty(),
        place: place(source, row),
        figure: format!("{} {}, n = {}{flags}", clean(metric), figure(series, row, metric), row.n),
    })
}

/// Where a row is: its coordinates and its source.
pub(super) fn place(source: &Source<'_>, row: &Row) -> String {
    let places = source.series.spec.axes.iter().zip(&row.at);
    let mut place: Vec<String> =
        places.map(|(axis, value)| format!("{} {}", clean(&axis.name), coordinate(&axis.unit, value))).collect();
    if !source.label.is_empty() {
        place.push(source.label.clone());
    }
    place.join(", ")
}

fn lines(report: &Report<'_>, section: &Section<'_>, group: &[&Case<'_>], height: &Height<'_>) -> Option<Plot> {
    let first = group[0].sources[0].series;
    let Draw::Lines { x, by, log_x, log_y, .. } = &first.spec.draw else { return None };
    let on_axis = first.axis(x).is_some();
    // Where x is itself measured, numeric axes are what moves along the line; only names tell lines apart.
    let apart = varying(group, &[x], !on_axis);
    let mut bundle = Bundle::new(group, by.as_deref().and_then(|by| first.axis(by)), apart);
    for case in group {
        for source in &case.sources {
            for row in &source.series.rows {
                let Some(at) = x_of(source.series, row, x) else { continue };
                let Some(mark) = height.mark(source, row, at) else { continue };
                bundle.line_of(source, row).push(mark);
            }
        }
    }
    let mut traces = bundle.traces();
    let metric = height.metric(first)?;
    if on_axis {
        traces.iter_mut().for_each(|trace| trace.marks.sort_by(|a, b| a.x.total_cmp(&b.x)));
    } else {
        traces.iter_mut().for_each(|trace| along_the_best(trace, metric.more_is_better() != Some(false)));
    }
    if traces.is_empty() {
        return None;
    }
    let x_unit = match first.axis(x) {
        Some(place) => first.spec.axes[place].unit.clone(),
        None => first.metric(x)?.unit.clone(),
    };
    let guides = match height {
        Height::Metric(_) => guides(report, section, group, (&x_unit, &metric), &traces),
        Height::Clock => Vec::new(),
    };
    for guide in &guides {
        // Where a fit is drawn, the line is the fit.
        let Form::Fit { hue, dash, .. } = guide.form else { continue };
        let fitted = traces.iter_mut().filter(|trace| (trace.hue, trace.dash) == (hue, dash));
        fitted.for_each(|trace| trace.path = Some(Vec::new()));
    }
    let mut all = references::traces(group[0], &x_unit, &metric.name, &metric.unit);
    all.append(&mut traces);
    let marks = || all.iter().flat_map(|trace| &trace.marks);
    let labels: Vec<&str> = all.iter().map(|trace| trace.label.as_str()).collect();
    let mut levels = levels(report, section, group, &metric, &labels);
    let most = marks().map(|mark| mark.y).fold(0.0, f64::max);
    // What is far above all marks would only press them to the bottom.
    levels.retain(|level| *log_y || level.value <= FAR * most);
    let x = Scale::new(x, &x_unit, *log_x, marks().map(|mark| mark.x));
    let heights = marks().flat_map(|mark| [mark.y, mark.interval.lo, mark.interval.hi]);
    let heights = heights.chain(levels.iter().map(|level| level.value));
    // An interval may reach zero where no figure does: it must not cost the logarithmic scale.
    let heights = heights.filter(|&height| !log_y || height > 0.0);
    let y = if *log_y {
        Scale::new(&metric.name, &metric.unit, true, heights)
    } else {
        Scale::places(&metric.name, &metric.unit, heights)
    };
    Some(Plot::Lines { x, y, levels, guides, traces: all })
}

/// A level this many times the highest mark isn't drawn on a linear scale.
const FAR: f64 = 3.0;

/// Where several points of a line share an x, no path leads from one to the next: the line joins the best of each.
pub(super) fn along_the_best(trace: &mut Trace, more: bool) {
    let mut marks: Vec<&Mark> = trace.marks.iter().collect();
    marks.sort_by(|a, b| a.x.total_cmp(&b.x).then(a.y.total_cmp(&b.y)));
    let shared: Vec<&[&Mark]> = marks.chunk_by(|a, b| a.x == b.x).collect();
    if shared.len() == marks.len() {
        return;
    }
    let best =
        |same: &&[&Mark]| if more { same.last().copied() } else { same.first().copied() }.map(|mark| (mark.x, mark.y));
    trace.path = Some(shared.iter().filter_map(best).collect());
}

fn x_of(series: &Series, row: &Row, x: &str) -> Option<f64> {
    let number = match series.axis(x) {
        Some(_) => series.number(row, x),
        None => series.estimate(row, x).map(|known| known.value),
    };
    number.filter(|number| number.is_finite())
}
