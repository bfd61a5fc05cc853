use plimsoll_core::Flags;
use plimsoll_core::record::Run;
use plimsoll_core::sample::{CachePolicy, Figure, Work};
use plimsoll_core::series::{Draw, Quantity, SeriesSpec, Value, axis, metric};
use plimsoll_core::unit::Unit;
use plimsoll_suite::references;

use super::*;
use crate::Report;
use crate::made::{self, Maker};

fn first(runs: &[Run]) -> Vec<Chart> {
    let report = Report::new(runs);
    report.sections.first().map_or_else(Vec::new, |section| charts(section, &section.cases[0]))
}

/// A series of times over these axes, drawn as lines over `x`.
fn spec(axes: &[(&str, Unit)], x: &str) -> SeriesSpec {
    SeriesSpec::new(
        "case",
        Figure::Throughput,
        CachePolicy::Hot,
        axes.iter().map(|(name, unit)| axis(name, unit.clone())).collect(),
        vec![metric("time", Unit::Second, Quantity::Time)],
        Draw::Lines { x: x.into(), y: "time".into(), by: None, log_x: false, log_y: false },
    )
}

fn run(spec: SeriesSpec, points: &[(&[Value], f64)]) -> [Run; 1] {
    let mut made = Maker::new("Box", "2026-01-02T03:04:05Z");
    made.series("probe", spec);
    for (at, seconds) in points {
        made.point(at.to_vec(), *seconds, Work::default(), Flags::NONE);
    }
    [made.run()]
}

fn traces(chart: &Chart) -> &[Trace] {
    match &chart.plot {
        Plot::Lines { traces, .. } => traces,
        other => panic!("no lines: {other:?}"),
    }
}

#[test]
fn lines_differ_by_every_axis_that_varies_and_their_points_are_in_order() {
    let axes = [("kernel", Unit::One), ("order", Unit::One), ("size", Unit::Byte)];
    let at = |kernel: &str, size: u64| [kernel.into(), "random".into(), size.into()];
    let points = [(&at("copy", 64)[..], 2e-6), (&at("copy", 16), 1e-6), (&at("read", 16), 1e-6)];
    let charts = first(&run(spec(&axes, "size"), &points));
    let traces = traces(&charts[0]);
    // The order never varies, so no label names it.
    assert_eq!(traces.iter().map(|trace| trace.label.as_str()).collect::<Vec<_>>(), ["copy", "read"]);
    assert_eq!(traces[0].marks.iter().map(|mark| mark.x).collect::<Vec<_>>(), [16.0, 64.0]);
    assert!(traces[0].marks[0].place.contains("order random"));
}

#[test]
fn a_line_over_something_measured_keeps_the_order_of_its_points() {
    // Bandwidth falls again under the highest load: sorted by bandwidth, the line would cross itself.
    let mut made = Maker::new("Box", "2026-01-02T03:04:05Z");
    let mut load = spec(&[("delay", Unit::Cycle)], "rate");
    load.metrics.push(metric("rate", Unit::OpPerSecond, Quantity::OperationsPerSecond));
    made.series("probe", load);
    for (delay, operations) in [(100u64, 1.0), (10, 3.0), (0, 2.0)] {
        made.point(vec![delay.into()], 1e-6, Work { operations, ..Work::default() }, Flags::NONE);
    }
    let charts = first(&[made.run()]);
    let traces = traces(&charts[0]);
    assert_eq!(traces.len(), 1);
    let x: Vec<f64> = traces[0].marks.iter().map(|mark| (mark.x / 1e6).round()).collect();
    assert_eq!(x, [1.0, 3.0, 2.0]);
}

#[test]
fn shipped_curves_of_the_same_machine_lie_behind_and_say_whose_they_are() {
    let figure = references::all().iter().find(|figure| figure.x.is_some()).unwrap();
    let mut made = Maker::new(&figure.machine, "2026-01-02T03:04:05Z");
    let mut curve = spec(&[("x", figure.x_unit.clone().unwrap())], "x");
    curve.metrics = vec![metric(&figure.metric, figure.unit.clone(), Quantity::Time)];
    curve.draw = Draw::Lines { x: "x".into(), y: figure.metric.clone(), by: None, log_x: false, log_y: false };
    made.series(&figure.probe, curve);
    made.point(vec![1.0.into()], 1.0, Work::default(), Flags::NONE);
    let charts = first(&[made.run()]);
    let traces = traces(&charts[0]);
    assert!(traces.len() > 1 && traces[0].reference && traces[0].label.starts_with(&figure.machine));
    assert!(!traces.last().unwrap().reference);
}

#[test]
fn a_single_point_equal_values_and_none_at_all_are_charts_or_no_chart() {
    let one = first(&[made::curve(&[(4096.0, 1e-6)])]);
    assert_eq!(traces(&one[0])[0].marks.len(), 1);
    let axes = [("size", Unit::Byte)];
    let same = first(&run(spec(&axes, "size"), &[(&[1u64.into()], 1e-6), (&[2u64.into()], 1e-6)]));
    assert_eq!(traces(&same[0])[0].marks.len(), 2);
    assert!(first(&[made::curve(&[])]).is_empty());
    // A picture whose axis does not exist is no picture, and no panic.
    assert!(first(&run(spec(&axes, "no such axis"), &[(&[1u64.into()], 1e-6)])).is_empty());
}

#[test]
fn heat_maps_order_numbers_by_size_and_share_their_shades() {
    let charts = {
        let runs = [made::run("Box", "2026-01-02T03:04:05Z", 1.0), made::run("Box", "2026-01-03T03:04:05Z", 2.0)];
        let report = Report::new(&runs);
        charts(&report.sections[2], &report.sections[2].cases[0])
    };
    let parts = |chart: &Chart| match &chart.plot {
        Plot::Heat { columns, value, .. } => (columns.clone(), value.clone()),
        other => panic!("no heat map: {other:?}"),
    };
    let (a, b) = (parts(&charts[0]), parts(&charts[1]));
    assert_eq!(a, b);
    assert_eq!(a.0[..3], ["1 element", "2 elements", "4 elements"]);
}
