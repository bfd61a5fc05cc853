use plimsoll_core::Flags;
use plimsoll_core::Traffic;
use plimsoll_core::record::Run;
use plimsoll_core::sample::{CachePolicy, Figure, Work};
use plimsoll_core::series::{Draw, Quantity, SeriesSpec, Value, axis, metric};
use plimsoll_core::unit::Unit;
use plimsoll_probes::lab::compression;
use plimsoll_probes::tensor;
use plimsoll_suite::references;

use super::*;
use crate::Report;
use crate::synthetic::{self, RunBuilder};

/// The charts of the first section.
fn first_charts(runs: &[Run]) -> Vec<Chart> {
    let report = Report::new(runs);
    report.sections.first().map_or_else(Vec::new, |section| charts(&report, section))
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
    let mut builder = RunBuilder::new("Box", "2026-01-02T03:04:05Z");
    builder.series("probe", spec);
    for (at, seconds) in points {
        builder.point(at.to_vec(), *seconds, Work::default(), Flags::NONE);
    }
    [builder.run()]
}

fn traces(chart: &Chart) -> &[Trace] {
    match &chart.plot {
        Plot::Lines { traces, .. } => traces,
        other => panic!("no lines: {other:?}"),
    }
}

#[test]
fn lines_are_split_by_every_varying_axis_and_sorted_by_x() {
    let axes = [("kernel", Unit::One), ("order", Unit::One), ("size", Unit::Byte)];
    let coordinates = |kernel: &str, size: u64| [kernel.into(), "random".into(), size.into()];
    let points =
        [(&coordinates("copy", 64)[..], 2e-6), (&coordinates("copy", 16), 1e-6), (&coordinates("read", 16), 1e-6)];
    let charts = first_charts(&run(spec(&axes, "size"), &points));
    let traces = traces(&charts[0]);
    // The order never varies, so no label names it.
    assert_eq!(traces.iter().map(|trace| trace.label.as_str()).collect::<Vec<_>>(), ["copy", "read"]);
    assert_eq!(traces[0].marks.iter().map(|mark| mark.x).collect::<Vec<_>>(), [16.0, 64.0]);
    assert!(traces[0].marks[0].place.contains("order random"));
}

#[test]
fn line_over_a_measured_x_keeps_the_order_of_its_points() {
    // Bandwidth falls again under the highest load: sorted by bandwidth, the line would cross itself.
    let mut builder = RunBuilder::new("Box", "2026-01-02T03:04:05Z");
    let mut load = spec(&[("delay", Unit::Cycle)], "rate");
    load.metrics.push(metric("rate", Unit::OpPerSecond, Quantity::OperationsPerSecond));
    builder.series("probe", load);
    for (delay, operations) in [(100u64, 1.0), (10, 3.0), (0, 2.0)] {
        builder.point(vec![delay.into()], 1e-6, Work { operations, ..Work::default() }, Flags::NONE);
    }
    let charts = first_charts(&[builder.run()]);
    let traces = traces(&charts[0]);
    assert_eq!(traces.len(), 1);
    let x: Vec<f64> = traces[0].marks.iter().map(|mark| (mark.x / 1e6).round()).collect();
    assert_eq!(x, [1.0, 3.0, 2.0]);
}

#[test]
fn shipped_curves_of_the_same_machine_come_first_and_name_the_machine() {
    let figure = references::shipped().iter().find(|figure| figure.x.is_some()).unwrap();
    let mut builder = RunBuilder::new(&figure.machine, "2026-01-02T03:04:05Z");
    let mut curve = spec(&[("x", figure.x_unit.clone().unwrap())], "x");
    curve.metrics = vec![metric(&figure.metric, figure.unit.clone(), Quantity::Time)];
    curve.draw = Draw::Lines { x: "x".into(), y: figure.metric.clone(), by: None, log_x: false, log_y: false };
    builder.series(&figure.probe, curve);
    builder.point(vec![1.0.into()], 1.0, Work::default(), Flags::NONE);
    let charts = first_charts(&[builder.run()]);
    let traces = traces(&charts[0]);
    assert!(traces.len() > 1 && traces[0].reference && traces[0].label.starts_with(&figure.machine));
    assert!(!traces.last().unwrap().reference);
}

#[test]
fn published_figures_are_marked_on_the_bars_with_matching_coordinates() {
    let mut builder = RunBuilder::new("Box", "2026-01-02T03:04:05Z");
    builder.series("compression", compression::saxpy());
    let work = Work { traffic: Traffic::new(2 << 30, 1 << 30), ..Work::default() };
    for data in ["ones", "ones, plain", "random"] {
        for grid in ["one-shot", "4000 blocks"] {
            builder.point(vec![data.into(), grid.into()], 1e-3, work, Flags::NONE);
        }
    }
    let charts = first_charts(&[builder.run()]);
    let Plot::Bars { categories, references, .. } = &charts[0].plot else { panic!("no bars") };
    assert_eq!(references[..], ["A100 40GB: Thomas-Collignon and Mehta, GTC 2020, S21819"]);
    let values = |bar: &Bar| bar.references.iter().map(|(_, mark)| mark.y / 1e12).collect::<Vec<f64>>();
    let marked: Vec<Vec<f64>> = categories.iter().flat_map(|category| &category.bars).map(values).collect();
    assert_eq!(marked, [vec![2.89], vec![0.13], vec![1.38], vec![1.38], vec![], vec![]]);
}

#[test]
fn single_points_and_equal_values_have_charts_and_empty_series_have_none() {
    let one = first_charts(&[synthetic::curve(&[(4096.0, 1e-6)])]);
    assert_eq!(traces(&one[0])[0].marks.len(), 1);
    let axes = [("size", Unit::Byte)];
    let same = first_charts(&run(spec(&axes, "size"), &[(&[1u64.into()], 1e-6), (&[2u64.into()], 1e-6)]));
    assert_eq!(traces(&same[0])[0].marks.len(), 2);
    assert!(first_charts(&[synthetic::curve(&[])]).is_empty());
    // An unknown axis gives no picture and no panic.
    assert!(first_charts(&run(spec(&axes, "no such axis"), &[(&[1u64.into()], 1e-6)])).is_empty());
}

/// A cold series before a hot one, with three kernels each.
fn hot_and_cold(trace: bool) -> Run {
    let mut builder = RunBuilder::new("Box", "2026-01-02T03:04:05Z");
    for (case, cache, seconds) in [("cold", CachePolicy::ColdRotate, 2e-6), ("hot", CachePolicy::Hot, 1e-6)] {
        let mut own = spec(&[("kernel", Unit::One), ("size", Unit::Byte)], "size");
        (own.case, own.cache, own.trace) = (case.into(), cache, trace);
        own.metrics = vec![metric("bandwidth", Unit::BytePerSecond, Quantity::Bandwidth)];
        own.draw = Draw::lines("size", "bandwidth").grouped_by("kernel").log_x();
        builder.series("copy", own);
        for kernel in ["scalar", "vector", "wide"] {
            let work = Work { traffic: plimsoll_core::Traffic::new(25_000, 25_000), ..Work::default() };
            builder.point(vec![kernel.into(), 4096u64.into()], seconds, work, Flags::NONE);
        }
    }
    builder.run()
}

fn look(chart: &Chart) -> Vec<(&str, usize, usize)> {
    traces(chart).iter().map(|trace| (trace.label.as_str(), trace.hue, trace.dash)).collect()
}

#[test]
fn series_that_differ_by_cache_policy_share_a_picture_with_hot_first() {
    let charts = first_charts(&[hot_and_cold(false)]);
    assert_eq!(charts.len(), 1);
    let texts = (charts[0].title.as_str(), charts[0].note.as_str());
    assert_eq!(texts, ("copy hot and cold", "back to back, hot and cold-rotate"));
    // A kernel keeps its hue; cold lines are dashed.
    let lines = look(&charts[0]);
    assert_eq!(lines[..2], [("scalar, hot", 0, 0), ("vector, hot", 1, 0)]);
    assert_eq!(lines[3..5], [("scalar, cold-rotate", 0, 1), ("vector, cold-rotate", 1, 1)]);
}

#[test]
fn two_runs_in_one_picture_have_separate_lines() {
    let charts = first_charts(&[hot_and_cold(false), hot_and_cold(false)]);
    let labels: Vec<&str> = look(&charts[0]).iter().map(|line| line.0).collect();
    assert_eq!((charts.len(), labels.len()), (1, 12));
    assert!(labels.contains(&"vector, run 2, cold-rotate"), "{labels:?}");
}

#[test]
fn traced_series_is_drawn_call_by_call_from_the_first_call() {
    let charts = first_charts(&[hot_and_cold(true)]);
    assert_eq!(charts.len(), 1);
    assert_eq!((charts[0].title.as_str(), look(&charts[0]).len()), ("copy hot and cold: 4 KiB", 6));
    assert_eq!(charts[0].note, "call by call, hot and cold-rotate");
    // Dashed lines lie behind.
    assert!(traces(&charts[0])[0].label.ends_with("cold-rotate"));
    let marks = &traces(&charts[0])[3].marks;
    assert_eq!(marks[..3].iter().map(|mark| mark.x).collect::<Vec<_>>(), [0.0, 1.0, 2.0]);
    assert!(marks[0].place.ends_with("hot, call 0") && marks.last().unwrap().place.ends_with("to 39"), "{marks:?}");
    // 50 kB in about a microsecond, each within its interval.
    assert!(marks.iter().all(|mark| (45e9..55e9).contains(&mark.y) && mark.interval.contains(mark.y)));
}

#[test]
fn compared_axis_sets_the_hues_and_the_other_axes_set_the_dashes() {
    let mut grids = spec(&[("grid", Unit::One), ("kernel", Unit::One), ("size", Unit::Byte)], "size");
    grids.draw = Draw::lines("size", "time").grouped_by("grid").log_x();
    let coordinates = |grid: &str, kernel: &str| [grid.into(), kernel.into(), 64u64.into()];
    let all = [coordinates("one", "a"), coordinates("one", "b"), coordinates("two", "a"), coordinates("two", "b")];
    let points: Vec<(&[Value], f64)> = all.iter().map(|at| (&at[..], 1e-6)).collect();
    let charts = first_charts(&run(grids.clone(), &points));
    let hues: Vec<(usize, usize)> = look(&charts[0]).iter().map(|line| (line.1, line.2)).collect();
    assert_eq!(hues, [(0, 0), (0, 1), (1, 0), (1, 1)]);
    // Four kernels need more dash patterns than there are: every line gets its own hue.
    let all = [
        coordinates("one", "a"),
        coordinates("one", "b"),
        coordinates("one", "c"),
        coordinates("one", "d"),
        coordinates("two", "a"),
    ];
    let points: Vec<(&[Value], f64)> = all.iter().map(|at| (&at[..], 1e-6)).collect();
    let charts = first_charts(&run(grids, &points));
    assert_eq!(look(&charts[0]).iter().map(|line| line.1).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
}

#[test]
fn levels_are_the_peak_and_streams_figure_and_absent_where_devices_differ() {
    let levels = |runs: &[Run]| match &first_charts(runs)[0].plot {
        Plot::Lines { levels, y, .. } => {
            assert!(levels.iter().all(|level| y.hi() >= level.value));
            levels.iter().map(|level| level.label.clone()).collect::<Vec<_>>()
        }
        other => panic!("no lines: {other:?}"),
    };
    let mut stream = RunBuilder::new("Box", "2026-01-02T03:04:05Z");
    for (kernel, rate) in [("read", 70e9), ("copy", 60e9)] {
        stream.finding("stream", kernel, rate, Unit::BytePerSecond, "bandwidth", Flags::NONE);
    }
    let stream = stream.run();
    assert_eq!(levels(&[hot_and_cold(false)]), ["theoretical peak 76.8 GB/s"]);
    let both = [hot_and_cold(true), stream];
    assert_eq!(levels(&both), ["theoretical peak 76.8 GB/s", "stream copy 60.0 GB/s"]);
    let mut other = hot_and_cold(false);
    other.header.devices[0].id = "1".into();
    assert!(levels(&[hot_and_cold(false), other]).is_empty());
}

#[test]
fn heat_maps_sort_numbers_and_share_a_scale_of_shades() {
    let charts = {
        let runs =
            [synthetic::run("Box", "2026-01-02T03:04:05Z", 1.0), synthetic::run("Box", "2026-01-03T03:04:05Z", 2.0)];
        let report = Report::new(&runs);
        charts(&report, &report.sections[2])
    };
    let parts = |chart: &Chart| match &chart.plot {
        Plot::Heat(heat) => (heat.columns.clone(), heat.value.clone()),
        other => panic!("no heat map: {other:?}"),
    };
    let (a, b) = (parts(&charts[0]), parts(&charts[1]));
    assert_eq!(a, b);
    assert_eq!(a.0[..3], ["1 element", "2 elements", "4 elements"]);
}

#[test]
fn wide_map_with_few_rows_is_folded_into_tableaus() {
    let mut wide = spec(&[("stride", Unit::Element), ("element", Unit::Byte)], "stride");
    wide.draw = Draw::heat("stride", "element", "time");
    let all: Vec<[Value; 2]> =
        (1..=128u64).flat_map(|stride| [[stride.into(), 4u64.into()], [stride.into(), 8u64.into()]]).collect();
    let points: Vec<(&[Value], f64)> = all.iter().map(|at| (&at[..], 1e-6)).collect();
    let charts = first_charts(&run(wide, &points));
    assert_eq!(
        charts.iter().map(|chart| chart.title.as_str()).collect::<Vec<_>>(),
        ["probe case: element 4 B", "probe case: element 8 B"]
    );
    let Plot::Heat(heat) = &charts[0].plot else { panic!("no heat map") };
    assert_eq!((heat.columns.len(), heat.rows.len(), heat.cells.len()), (16, 8, 128));
    let cell = heat.cells.iter().find(|cell| cell.mark.place.starts_with("stride 19 ")).unwrap();
    // Third column of the second line from the top.
    assert_eq!((cell.column, cell.row, heat.rows[6].as_str(), heat.columns[2].as_str()), (2, 6, "17", "+2"));
}

#[test]
fn tableau_leaves_unmeasured_numbers_blank() {
    let mut wide = spec(&[("stride", Unit::Element), ("element", Unit::Byte)], "stride");
    wide.draw = Draw::heat("stride", "element", "time");
    let columns = |strides: Vec<u64>| {
        let all: Vec<[Value; 2]> = strides.into_iter().map(|stride| [stride.into(), 4u64.into()]).collect();
        let points: Vec<(&[Value], f64)> = all.iter().map(|at| (&at[..], 1e-6)).collect();
        let charts = first_charts(&run(wide.clone(), &points));
        let Plot::Heat(heat) = &charts[0].plot else { panic!("no heat map") };
        let last = heat.cells.last().unwrap();
        (heat.columns.len(), heat.rows.len(), heat.cells.len(), (last.column, last.row))
    };
    assert_eq!(columns((1..=64).chain((68..=128).step_by(4)).collect()), (16, 8, 80, (15, 0)));
    // Most cells would be blank, so the map isn't folded.
    let apart = columns((0..48).map(|stride| stride * 100 + 1).collect());
    assert_eq!((apart.0, apart.1), (48, 1));
}

#[test]
fn matrix_has_the_same_order_of_names_on_both_axes_and_is_read_from_the_top() {
    let mut matrix = spec(&[("from", Unit::One), ("to", Unit::One)], "to");
    matrix.draw = Draw::heat("to", "from", "time");
    let charts = first_charts(&run(matrix, &[(&["a".into(), "b".into()], 1e-6), (&["b".into(), "a".into()], 2e-6)]));
    let Plot::Heat(heat) = &charts[0].plot else { panic!("no heat map") };
    assert_eq!((heat.columns.join(" "), heat.rows.join(" ")), ("a b".into(), "b a".into()));
    assert_eq!(heat.cells.iter().map(|cell| (cell.column, cell.row)).collect::<Vec<_>>(), [(1, 1), (0, 0)]);
}

#[test]
fn bars_are_coloured_by_the_compared_axis_and_other_coordinates_follow_the_figure() {
    let mut bars = spec(&[("kernel", Unit::One), ("hint", Unit::One), ("unroll", Unit::One)], "kernel");
    bars.draw = Draw::bars("kernel", "time").grouped_by("hint");
    let coordinates = |hint: &str, unroll: f64| ["copy".into(), hint.into(), unroll.into()];
    let all = [coordinates("none", 1.0), coordinates("none", 2.0), coordinates("streaming", 1.0)];
    let points: Vec<(&[Value], f64)> = all.iter().map(|at| (&at[..], 1e-6)).collect();
    let charts = first_charts(&run(bars, &points));
    let Plot::Bars { categories, labels, .. } = &charts[0].plot else { panic!("no bars") };
    assert_eq!(labels[..], ["none", "streaming"]);
    let notes: Vec<(usize, &str)> = categories[0].bars.iter().map(|bar| (bar.label, bar.note.as_str())).collect();
    assert_eq!(notes, [(0, "unroll 1"), (0, "unroll 2"), (1, "unroll 1")]);
}

#[test]
fn line_joins_the_best_mark_at_each_x() {
    let mut trace = Trace {
        label: String::new(),
        series: String::new(),
        source: String::new(),
        reference: false,
        hue: 0,
        dash: 0,
        marks: vec![],
        path: None,
    };
    for (x, y) in [(2.0, 5.0), (1.0, 3.0), (2.0, 7.0)] {
        let interval = Interval { lo: y, hi: y };
        trace.marks.push(Mark {
            x,
            y,
            interval,
            doubtful: false,
            place: String::new(),
            figure: String::new(),
            row: None,
        });
    }
    let mut less = trace.clone();
    build::join_best_marks(&mut trace, true);
    build::join_best_marks(&mut less, false);
    assert_eq!((trace.places(), less.places()), (vec![(1.0, 3.0), (2.0, 7.0)], vec![(1.0, 3.0), (2.0, 5.0)]));
    // Where every mark has its own x, the line follows the order of the marks.
    trace.path = None;
    trace.marks.pop();
    build::join_best_marks(&mut trace, true);
    assert_eq!(trace.places(), [(2.0, 5.0), (1.0, 3.0)]);
}

#[test]
fn integer_bars_show_operations_on_the_floating_point_scale() {
    let mut builder = RunBuilder::new("Box", "2026-01-02T03:04:05Z");
    builder.series("tensor", tensor::device());
    for name in ["mma f16", "mma i8"] {
        let work = Work { operations: 1e9, ..Work::default() };
        builder.point(vec![name.into()], 1e-6, work, Flags::NONE);
    }
    let runs = [builder.run()];
    let report = Report::new(&runs);
    let Plot::Bars { y, categories, .. } = &charts(&report, &report.sections[0])[0].plot else { panic!("no bars") };
    let units: Vec<&Unit> = categories.iter().map(|category| &category.bars[0].unit).collect();
    assert_eq!(units, [&Unit::FlopPerSecond, &Unit::OpPerSecond]);
    assert!(categories[1].bars[0].mark.figure.contains("Pop/s"), "{:?}", categories[1].bars[0].mark.figure);
    assert_eq!(y.title(), "rate (PFLOP/s; integers: Pop/s)");
}
