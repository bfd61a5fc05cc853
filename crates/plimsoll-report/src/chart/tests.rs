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
use crate::made::{self, Maker};

fn first(runs: &[Run]) -> Vec<Chart> {
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
fn what_others_published_of_the_same_question_is_marked_on_the_bars_that_it_belongs_to() {
    let mut made = Maker::new("Box", "2026-01-02T03:04:05Z");
    made.series("compression", compression::saxpy());
    let work = Work { traffic: Traffic::new(2 << 30, 1 << 30), ..Work::default() };
    for data in ["ones", "ones, plain", "random"] {
        for grid in ["one-shot", "4000 blocks"] {
            made.point(vec![data.into(), grid.into()], 1e-3, work, Flags::NONE);
        }
    }
    let charts = first(&[made.run()]);
    let Plot::Bars { categories, references, .. } = &charts[0].plot else { panic!("no bars") };
    assert_eq!(references[..], ["A100 40GB: Thomas-Collignon and Mehta, GTC 2020, S21819"]);
    let of = |bar: &Bar| bar.references.iter().map(|(_, mark)| mark.y / 1e12).collect::<Vec<f64>>();
    let marked: Vec<Vec<f64>> = categories.iter().flat_map(|category| &category.bars).map(of).collect();
    assert_eq!(marked, [vec![2.89], vec![0.13], vec![1.38], vec![1.38], vec![], vec![]]);
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

/// Cold before hot, two kernels, and a probe that is drawn with them.
fn hot_and_cold(trace: bool) -> Run {
    let mut made = Maker::new("Box", "2026-01-02T03:04:05Z");
    for (case, cache, seconds) in [("cold", CachePolicy::ColdRotate, 2e-6), ("hot", CachePolicy::Hot, 1e-6)] {
        let mut own = spec(&[("kernel", Unit::One), ("size", Unit::Byte)], "size");
        (own.case, own.cache, own.trace) = (case.into(), cache, trace);
        own.metrics = vec![metric("bandwidth", Unit::BytePerSecond, Quantity::Bandwidth)];
        own.draw = Draw::Lines {
            x: "size".into(),
            y: "bandwidth".into(),
            by: Some("kernel".into()),
            log_x: true,
            log_y: false,
        };
        made.series("copy", own);
        for kernel in ["scalar", "vector", "wide"] {
            let work = Work { traffic: plimsoll_core::Traffic::new(25_000, 25_000), ..Work::default() };
            made.point(vec![kernel.into(), 4096u64.into()], seconds, work, Flags::NONE);
        }
    }
    made.run()
}

fn look(chart: &Chart) -> Vec<(&str, usize, usize)> {
    traces(chart).iter().map(|trace| (trace.label.as_str(), trace.hue, trace.dash)).collect()
}

#[test]
fn series_that_differ_by_where_the_data_were_share_one_picture_hot_first() {
    let charts = first(&[hot_and_cold(false)]);
    assert_eq!(charts.len(), 1);
    let told = (charts[0].title.as_str(), charts[0].note.as_str());
    assert_eq!(told, ("copy hot and cold", "back to back, hot and cold-rotate"));
    // A kernel keeps its hue; dashes are cold.
    let lines = look(&charts[0]);
    assert_eq!(lines[..2], [("scalar, hot", 0, 0), ("vector, hot", 1, 0)]);
    assert_eq!(lines[3..5], [("scalar, cold-rotate", 0, 1), ("vector, cold-rotate", 1, 1)]);
}

#[test]
fn two_runs_of_one_picture_keep_their_lines_apart() {
    let charts = first(&[hot_and_cold(false), hot_and_cold(false)]);
    let labels: Vec<&str> = look(&charts[0]).iter().map(|line| line.0).collect();
    assert_eq!((charts.len(), labels.len()), (1, 12));
    assert!(labels.contains(&"vector, run 2, cold-rotate"), "{labels:?}");
}

#[test]
fn a_traced_series_is_drawn_call_by_call_from_the_first_one() {
    let charts = first(&[hot_and_cold(true)]);
    assert_eq!(charts.len(), 1);
    assert_eq!((charts[0].title.as_str(), look(&charts[0]).len()), ("copy hot and cold: 4 KiB", 6));
    assert_eq!(charts[0].note, "call by call, hot and cold-rotate");
    // What is dashed lies behind.
    assert!(traces(&charts[0])[0].label.ends_with("cold-rotate"));
    let marks = &traces(&charts[0])[3].marks;
    assert_eq!(marks[..3].iter().map(|mark| mark.x).collect::<Vec<_>>(), [0.0, 1.0, 2.0]);
    assert!(marks[0].place.ends_with("hot, call 0") && marks.last().unwrap().place.ends_with("to 39"), "{marks:?}");
    // 50 kB in about a microsecond, each within what its interval says.
    assert!(marks.iter().all(|mark| (45e9..55e9).contains(&mark.y) && mark.interval.contains(mark.y)));
}

#[test]
fn the_axis_that_a_picture_is_about_gives_the_hues_and_the_others_the_dashes() {
    let mut grids = spec(&[("grid", Unit::One), ("kernel", Unit::One), ("size", Unit::Byte)], "size");
    grids.draw = Draw::Lines { x: "size".into(), y: "time".into(), by: Some("grid".into()), log_x: true, log_y: false };
    let at = |grid: &str, kernel: &str| [grid.into(), kernel.into(), 64u64.into()];
    let all = [at("one", "a"), at("one", "b"), at("two", "a"), at("two", "b")];
    let points: Vec<(&[Value], f64)> = all.iter().map(|at| (&at[..], 1e-6)).collect();
    let charts = first(&run(grids.clone(), &points));
    let hues: Vec<(usize, usize)> = look(&charts[0]).iter().map(|line| (line.1, line.2)).collect();
    assert_eq!(hues, [(0, 0), (0, 1), (1, 0), (1, 1)]);
    // Four kernels are more than there are dashes: every line has a hue of its own then.
    let all = [at("one", "a"), at("one", "b"), at("one", "c"), at("one", "d"), at("two", "a")];
    let points: Vec<(&[Value], f64)> = all.iter().map(|at| (&at[..], 1e-6)).collect();
    let charts = first(&run(grids, &points));
    assert_eq!(look(&charts[0]).iter().map(|line| line.1).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
}

#[test]
fn the_peak_and_the_same_kernel_of_stream_lie_across_and_none_where_devices_differ() {
    let levels = |runs: &[Run]| match &first(runs)[0].plot {
        Plot::Lines { levels, y, .. } => {
            assert!(levels.iter().all(|level| y.hi() >= level.value));
            levels.iter().map(|level| level.label.clone()).collect::<Vec<_>>()
        }
        other => panic!("no lines: {other:?}"),
    };
    let mut stream = Maker::new("Box", "2026-01-02T03:04:05Z");
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
fn heat_maps_order_numbers_by_size_and_share_their_shades() {
    let charts = {
        let runs = [made::run("Box", "2026-01-02T03:04:05Z", 1.0), made::run("Box", "2026-01-03T03:04:05Z", 2.0)];
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
fn a_wide_map_of_few_rows_is_folded_into_tableaus() {
    let mut wide = spec(&[("stride", Unit::Element), ("element", Unit::Byte)], "stride");
    wide.draw = Draw::Heat { x: "stride".into(), y: "element".into(), value: "time".into() };
    let all: Vec<[Value; 2]> =
        (1..=128u64).flat_map(|stride| [[stride.into(), 4u64.into()], [stride.into(), 8u64.into()]]).collect();
    let points: Vec<(&[Value], f64)> = all.iter().map(|at| (&at[..], 1e-6)).collect();
    let charts = first(&run(wide, &points));
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
fn a_tableau_leaves_numbers_blank_that_were_not_measured() {
    let mut wide = spec(&[("stride", Unit::Element), ("element", Unit::Byte)], "stride");
    wide.draw = Draw::Heat { x: "stride".into(), y: "element".into(), value: "time".into() };
    let columns = |strides: Vec<u64>| {
        let all: Vec<[Value; 2]> = strides.into_iter().map(|stride| [stride.into(), 4u64.into()]).collect();
        let points: Vec<(&[Value], f64)> = all.iter().map(|at| (&at[..], 1e-6)).collect();
        let charts = first(&run(wide.clone(), &points));
        let Plot::Heat(heat) = &charts[0].plot else { panic!("no heat map") };
        let last = heat.cells.last().unwrap();
        (heat.columns.len(), heat.rows.len(), heat.cells.len(), (last.column, last.row))
    };
    assert_eq!(columns((1..=64).chain((68..=128).step_by(4)).collect()), (16, 8, 80, (15, 0)));
    // Most of the lines would be blank: an ordinary map.
    let apart = columns((0..48).map(|stride| stride * 100 + 1).collect());
    assert_eq!((apart.0, apart.1), (48, 1));
}

#[test]
fn a_matrix_has_the_same_names_in_the_same_order_on_both_sides_and_is_read_from_the_top() {
    let mut matrix = spec(&[("from", Unit::One), ("to", Unit::One)], "to");
    matrix.draw = Draw::Heat { x: "to".into(), y: "from".into(), value: "time".into() };
    let charts = first(&run(matrix, &[(&["a".into(), "b".into()], 1e-6), (&["b".into(), "a".into()], 2e-6)]));
    let Plot::Heat(heat) = &charts[0].plot else { panic!("no heat map") };
    assert_eq!((heat.columns.join(" "), heat.rows.join(" ")), ("a b".into(), "b a".into()));
    assert_eq!(heat.cells.iter().map(|cell| (cell.column, cell.row)).collect::<Vec<_>>(), [(1, 1), (0, 0)]);
}

#[test]
fn bars_are_coloured_by_what_the_picture_is_about_and_the_rest_is_told_behind_the_figure() {
    let mut bars = spec(&[("kernel", Unit::One), ("hint", Unit::One), ("unroll", Unit::One)], "kernel");
    bars.draw = Draw::Bars { x: "kernel".into(), y: "time".into(), by: Some("hint".into()) };
    let at = |hint: &str, unroll: f64| ["copy".into(), hint.into(), unroll.into()];
    let all = [at("none", 1.0), at("none", 2.0), at("streaming", 1.0)];
    let points: Vec<(&[Value], f64)> = all.iter().map(|at| (&at[..], 1e-6)).collect();
    let charts = first(&run(bars, &points));
    let Plot::Bars { categories, labels, .. } = &charts[0].plot else { panic!("no bars") };
    assert_eq!(labels[..], ["none", "streaming"]);
    let told: Vec<(usize, &str)> = categories[0].bars.iter().map(|bar| (bar.label, bar.note.as_str())).collect();
    assert_eq!(told, [(0, "unroll 1"), (0, "unroll 2"), (1, "unroll 1")]);
}

#[test]
fn where_points_share_an_x_the_line_joins_the_best_of_each() {
    let mut trace = Trace { label: String::new(), reference: false, hue: 0, dash: 0, marks: vec![], path: None };
    for (x, y) in [(2.0, 5.0), (1.0, 3.0), (2.0, 7.0)] {
        let interval = Interval { lo: y, hi: y };
        trace.marks.push(Mark { x, y, interval, doubtful: false, place: String::new(), figure: String::new() });
    }
    let mut less = trace.clone();
    build::along_the_best(&mut trace, true);
    build::along_the_best(&mut less, false);
    assert_eq!((trace.places(), less.places()), (vec![(1.0, 3.0), (2.0, 7.0)], vec![(1.0, 3.0), (2.0, 5.0)]));
    // With an x of its own for each, the order of the points is the path.
    trace.path = None;
    trace.marks.pop();
    build::along_the_best(&mut trace, true);
    assert_eq!(trace.places(), [(2.0, 5.0), (1.0, 3.0)]);
}

#[test]
fn bars_of_whole_numbers_say_operations_on_the_scale_of_the_floats() {
    let mut made = Maker::new("Box", "2026-01-02T03:04:05Z");
    made.series("tensor", tensor::device());
    for name in ["mma f16", "mma i8"] {
        let work = Work { operations: 1e9, ..Work::default() };
        made.point(vec![name.into()], 1e-6, work, Flags::NONE);
    }
    let runs = [made.run()];
    let report = Report::new(&runs);
    let Plot::Bars { y, categories, .. } = &charts(&report, &report.sections[0])[0].plot else { panic!("no bars") };
    let units: Vec<&Unit> = categories.iter().map(|category| &category.bars[0].unit).collect();
    assert_eq!(units, [&Unit::FlopPerSecond, &Unit::OpPerSecond]);
    assert!(categories[1].bars[0].mark.figure.contains("Pop/s"), "{:?}", categories[1].bars[0].mark.figure);
    assert_eq!(y.title(), "rate (PFLOP/s, of whole numbers Pop/s)");
}
