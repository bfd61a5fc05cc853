//! From series to charts: which rows make a line, a group of bars or a heat map, and what each point says of itself.

use std::cmp::Ordering;

use plimsoll_core::sample::Figure;
use plimsoll_core::series::{Draw, Row, Series, SeriesSpec, Value};
use plimsoll_core::unit::Unit;
use plimsoll_suite::references;

use super::bundle::{Bundle, Places, label, shared_source};
use super::calls::calls;
use super::levels::levels;
use super::{Category, Cell, Chart, Heat, Mark, Plot, Scale, Trace};
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
            Draw::Lines { .. } => all.extend(lines(report, section, &group).map(|plot| chart(title, plot))),
            Draw::Bars { x, y, .. } => all.extend(bars(group[0], x, y).map(|plot| chart(title, plot))),
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
fn mark(source: &Source<'_>, row: &Row, x: f64, metric: &str) -> Option<Mark> {
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

fn lines(report: &Report<'_>, section: &Section<'_>, group: &[&Case<'_>]) -> Option<Plot> {
    let first = group[0].sources[0].series;
    let Draw::Lines { x, y, by, log_x, log_y } = &first.spec.draw else { return None };
    let on_axis = first.axis(x).is_some();
    // Where x is itself measured, numeric axes are what moves along the line; only names tell lines apart.
    let apart = varying(group, &[x], !on_axis);
    let mut bundle = Bundle::new(group, by.as_deref().and_then(|by| first.axis(by)), apart);
    for case in group {
        for source in &case.sources {
            for row in &source.series.rows {
                let Some(at) = x_of(source.series, row, x) else { continue };
                let Some(mark) = mark(source, row, at, y) else { continue };
                bundle.line_of(source, row).push(mark);
            }
        }
    }
    let mut traces = bundle.traces();
    if on_axis {
        traces.iter_mut().for_each(|trace| trace.marks.sort_by(|a, b| a.x.total_cmp(&b.x)));
    }
    if traces.is_empty() {
        return None;
    }
    let x_unit = match first.axis(x) {
        Some(place) => first.spec.axes[place].unit.clone(),
        None => first.metric(x)?.unit.clone(),
    };
    let metric = first.metric(y)?;
    let mut all = reference_traces(group[0], &x_unit, y, &metric.unit);
    all.append(&mut traces);
    let levels = levels(report, section, group, metric);
    let marks = || all.iter().flat_map(|trace| &trace.marks);
    let x = Scale::new(x, &x_unit, *log_x, marks().map(|mark| mark.x));
    let heights = marks().flat_map(|mark| [mark.y, mark.interval.lo, mark.interval.hi]);
    let heights = heights.chain(levels.iter().map(|level| level.value));
    // An interval may reach zero where no figure does: it must not cost the logarithmic scale.
    let y = Scale::new(y, &metric.unit, *log_y, heights.filter(|&height| !log_y || height > 0.0));
    Some(Plot::Lines { x, y, levels, traces: all })
}

fn x_of(series: &Series, row: &Row, x: &str) -> Option<f64> {
    let number = match series.axis(x) {
        Some(_) => series.number(row, x),
        None => series.estimate(row, x).map(|known| known.value),
    };
    number.filter(|number| number.is_finite())
}

/// Shipped curves of the same machine models with the same axes.
fn reference_traces(case: &Case<'_>, x_unit: &Unit, metric: &str, unit: &Unit) -> Vec<Trace> {
    let mut traces: Vec<Trace> = Vec::new();
    let mut machines: Vec<&str> = case.sources.iter().map(|source| source.device.name.as_str()).collect();
    machines.dedup();
    for figure in machines.into_iter().flat_map(references::of_machine) {
        let (Some(x), Some(in_unit)) = (figure.x, &figure.x_unit) else { continue };
        let same = figure.probe == case.sources[0].series.spec.probe
            && figure.metric == metric
            && figure.unit == *unit
            && in_unit == x_unit;
        if !same {
            continue;
        }
        let label = clean(&format!("{}: {} (reference)", figure.machine, figure.case));
        let [lo, hi] = figure.interval.unwrap_or([figure.value; 2]);
        let mark = Mark {
            x,
            y: figure.value,
            interval: [lo, hi].into(),
            doubtful: false,
            place: format!("{label}, {}", clean(&x_unit.format(x))),
            figure: clean(&format!("{metric} {}, {}", unit.format(figure.value), figure.source)),
        };
        match traces.iter_mut().find(|trace| trace.label == label) {
            Some(trace) => trace.marks.push(mark),
            None => traces.push(Trace { label, reference: true, hue: 0, dash: 0, marks: vec![mark] }),
        }
    }
    traces
}

fn bars(case: &Case<'_>, x: &str, y: &str) -> Option<Plot> {
    let apart = varying(&[case], &[x], false);
    let (mut categories, mut labels): (Vec<Category>, Vec<String>) = Default::default();
    let (mut named, mut labelled) = (Places::default(), Places::default());
    for source in &case.sources {
        for row in &source.series.rows {
            let (Some(place), Some(mark)) = (source.series.axis(x), mark(source, row, 0.0, y)) else { continue };
            let name = coordinate(&source.series.spec.axes[place].unit, &row.at[place]);
            let label = label(source, row, &apart);
            let (category, of) = (named.of(&name), labelled.of(&label));
            if category == categories.len() {
                categories.push(Category { name, bars: vec![] });
            }
            if of == labels.len() {
                labels.push(label);
            }
            categories[category].bars.push((of, mark));
        }
    }
    categories.iter_mut().for_each(|category| category.bars.sort_by_key(|bar| bar.0));
    let unit = case.sources[0].series.metric(y)?.unit.clone();
    let marks = categories.iter().flat_map(|category| &category.bars).map(|bar| &bar.1);
    let y = Scale::new(y, &unit, false, marks.flat_map(|mark| [mark.y, mark.interval.hi]));
    (!categories.is_empty()).then_some(Plot::Bars { y, categories, labels })
}

/// A cell before its column and row are counted: its places on both axes.
type Placed<'v> = (&'v Value, &'v Value, Mark);

/// One heat map per source and per value of any further axis.
fn heats(case: &Case<'_>, x: &str, y: &str, value: &str) -> Vec<(String, Plot)> {
    let apart = varying(&[case], &[x, y], false);
    let (mut groups, mut places): (Vec<(String, Vec<Placed<'_>>)>, Places) = Default::default();
    for source in &case.sources {
        for row in &source.series.rows {
            let (Some(a), Some(b)) = (source.series.at(row, x), source.series.at(row, y)) else { continue };
            let Some(mark) = mark(source, row, 0.0, value) else { continue };
            let label = label(source, row, &apart);
            let place = places.of(&label);
            if place == groups.len() {
                groups.push((label, vec![]));
            }
            groups[place].1.push((a, b, mark));
        }
    }
    let first = case.sources[0].series;
    let unit_of = |name: &str| first.axis(name).map_or(Unit::One, |place| first.spec.axes[place].unit.clone());
    let Some(unit) = first.metric(value).map(|metric| metric.unit.clone()) else { return Vec::new() };
    // All maps of a series share one scale of shades, or they could not be compared.
    let scale = Scale::shades(value, &unit, groups.iter().flat_map(|group| &group.1).map(|cell| cell.2.y));
    let heat = |cells: Vec<Placed<'_>>| {
        let columns = ordered(cells.iter().map(|cell| cell.0));
        let rows = ordered(cells.iter().map(|cell| cell.1));
        let place = |all: &[&Value]| {
            let mut places = Places::default();
            all.iter().for_each(|value| {
                places.of(&key(value));
            });
            move |value: &Value| places.of(&key(value))
        };
        let (mut column, mut row) = (place(&columns), place(&rows));
        let named = |name: &str, all: &[&Value]| all.iter().map(|value| coordinate(&unit_of(name), value)).collect();
        Plot::Heat(Heat {
            x: clean(x),
            y: clean(y),
            columns: named(x, &columns),
            rows: named(y, &rows),
            value: scale.clone(),
            cells: cells.into_iter().map(|(a, b, mark)| Cell { column: column(a), row: row(b), mark }).collect(),
        })
    };
    groups.into_iter().map(|(label, cells)| (label, heat(cells))).collect()
}

/// What tells values apart.
fn key(value: &Value) -> String {
    format!("{value:?}")
}

/// Different values in order: numbers by size, names as they come.
fn ordered<'v>(values: impl Iterator<Item = &'v Value>) -> Vec<&'v Value> {
    let (mut all, mut places): (Vec<&Value>, Places) = Default::default();
    for value in values {
        if places.of(&key(value)) == all.len() {
            all.push(value);
        }
    }
    all.sort_by(|a, b| match (a.number(), b.number()) {
        (Some(a), Some(b)) => a.total_cmp(&b),
        // Names before numbers, where an axis has both: an order must be total.
        (None, Some(_)) => Ordering::Less,
        (Some(_), None) => Ordering::Greater,
        (None, None) => Ordering::Equal,
    });
    all
}
