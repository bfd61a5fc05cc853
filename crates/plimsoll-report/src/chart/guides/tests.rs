use plimsoll_core::record::Run;
use plimsoll_core::sample::{Figure, Work};
use plimsoll_core::series::{Quantity, SeriesSpec};
use plimsoll_core::{Flags, Traffic};
use plimsoll_probes::launch::{self, Mode};
use plimsoll_probes::roofline;

use super::super::{Chart, Plot, charts};
use super::*;
use crate::synthetic::{RunBuilder, over_footprints};

fn charts_of(run: Run, probe: &str) -> Vec<Chart> {
    let runs = [run];
    let report = Report::new(&runs);
    let section = report.sections.iter().find(|section| section.probe == probe).unwrap();
    charts(&report, section)
}

fn guides_of(chart: &Chart) -> (&[Guide], &[Trace]) {
    match &chart.plot {
        Plot::Lines { guides, traces, .. } => (guides, traces),
        other => panic!("no lines: {other:?}"),
    }
}

fn labels(chart: &Chart) -> Vec<&str> {
    guides_of(chart).0.iter().map(|guide| guide.label.as_str()).collect()
}

/// Three levels: 1 ns up to 32 KiB, 10 ns up to 2 MiB, 100 ns beyond.
fn staircase() -> RunBuilder {
    let mut builder = over_footprints("chase", Figure::Throughput, "latency");
    for power in 12..=26 {
        let seconds = if power <= 15 {
            1e-9
        } else if power <= 21 {
            10e-9
        } else {
            100e-9
        };
        builder.point(vec![(1u64 << power).into()], seconds, Work::default(), Flags::NONE);
    }
    builder
}

#[test]
fn plateaus_are_named_and_cache_ends_are_marked() {
    let mut builder = staircase();
    for (name, seconds) in [("latency L1", 1e-9), ("latency L2 near", 10e-9), ("latency memory", 100e-9)] {
        builder.finding("latency", name, seconds, Unit::Second, "", Flags::NONE);
    }
    // Not guides: a difference, a figure in another unit, and a finding of another probe.
    builder.finding("latency", "page walk", 50e-9, Unit::Second, "", Flags::NONE);
    builder.finding("latency", "latency L1 in cycles", 3.0, Unit::Cycle, "", Flags::NONE);
    builder.finding("stream", "latency L1", 1e-9, Unit::Second, "", Flags::NONE);
    builder.finding("latency", "capacity L1", 32768.0, Unit::Byte, "", Flags::NONE);
    builder.finding("latency", "TLB reach", 1e18, Unit::Byte, "", Flags::NONE);
    let charts = charts_of(builder.run(), "latency");
    assert_eq!(labels(&charts[0]), ["capacity L1 32 KiB", "L1 1.00 ns", "L2 near 10.0 ns", "memory 100 ns"]);
    let (guides, _) = guides_of(&charts[0]);
    let Form::Plateau { from, to, .. } = guides[2].form else { panic!("no plateau: {guides:?}") };
    assert_eq!((from, to), (65536.0, 2097152.0));
    assert!(guides[0].source.contains("latency: capacity L1"));
}

#[test]
fn findings_with_one_value_share_a_label() {
    let shared_label = |names: &[&str]| {
        let mut builder = staircase();
        names.iter().for_each(|name| builder.finding("latency", name, 32768.0, Unit::Byte, "", Flags::NONE));
        let charts = charts_of(builder.run(), "latency");
        assert_eq!(guides_of(&charts[0]).0.len(), 1);
        labels(&charts[0])[0].to_owned()
    };
    assert_eq!(shared_label(&["L2 holds of ones, plain", "L2 holds of bits"]), "L2 holds 32 KiB: ones, plain; bits");
    assert_eq!(shared_label(&["stream, full to", "graph, full to"]), "full to 32 KiB: stream, graph");
    assert_eq!(shared_label(&["holds", "holds"]), "holds 32 KiB");
}

#[test]
fn picture_of_several_devices_has_no_guides() {
    let run = |id: &str| {
        let mut builder = staircase();
        builder.finding("latency", "capacity L1", 32768.0, Unit::Byte, "", Flags::NONE);
        let mut run = builder.run();
        run.header.devices[0].id = id.into();
        run
    };
    let runs = [run("0"), run("1")];
    let report = Report::new(&runs);
    assert!(labels(&charts(&report, &report.sections[0])[0]).is_empty());
}

fn roofline_chart(add_findings: impl Fn(&mut RunBuilder)) -> Chart {
    let mut builder = RunBuilder::new("Box", "2026-01-02T03:04:05Z");
    builder.series("roofline", roofline::sweep());
    for power in 0..=8 {
        let operations = f64::from(1 << power) * 1e6;
        let work = Work { traffic: Traffic::new(1_000_000, 0), operations, ..Work::default() };
        builder.point(
            vec!["f32".into(), f64::from(1 << power).into()],
            2e-5_f64.max(operations / 1e12),
            work,
            Flags::NONE,
        );
    }
    add_findings(&mut builder);
    charts_of(builder.run(), "roofline").remove(0)
}

#[test]
fn roofline_has_a_ceiling_for_each_level_from_its_best_read_bandwidth() {
    let chart = roofline_chart(|builder| {
        builder.finding("stream", "read", 60e9, Unit::BytePerSecond, "bandwidth", Flags::NONE);
        builder.finding("footprint", "read memory", 55e9, Unit::BytePerSecond, "", Flags::NONE);
        builder.finding("footprint", "read L2", 400e9, Unit::BytePerSecond, "", Flags::NONE);
        builder.finding("l2", "read, shared L2", 500e9, Unit::BytePerSecond, "", Flags::NONE);
        builder.finding("footprint", "copy L2", 900e9, Unit::BytePerSecond, "", Flags::NONE);
        builder.finding("roofline", "ridge f32", 16.0, Unit::FlopPerByte, "", Flags::NONE);
    });
    assert_eq!(labels(&chart), ["ridge f32 16.0 FLOP/B", "memory 60.0 GB/s", "L2 500 GB/s"]);
    assert_eq!(guides_of(&chart).0[2].form, Form::Slope(500e9));
    // Without a measured read bandwidth the ceiling is memory's theoretical peak.
    assert_eq!(labels(&roofline_chart(|_| {})), ["memory: theoretical peak 76.8 GB/s"]);
}

#[test]
fn launches_are_drawn_as_points_with_their_fitted_line() {
    let mut builder = RunBuilder::new("Box", "2026-01-02T03:04:05Z");
    builder.series("launch", launch::scale());
    for power in 12..=24 {
        let bytes = 1u64 << power;
        let work = Work { traffic: Traffic::new(bytes, 0), operations: 1.0, ..Work::default() };
        builder.point(vec!["graph".into(), bytes.into()], 2e-6 + bytes as f64 / 5e12, work, Flags::NONE);
    }
    let charts = charts_of(builder.run(), "launch");
    let (guides, traces) = guides_of(&charts[0]);
    assert_eq!(traces[0].places(), []);
    let fits: Vec<&Guide> = guides.iter().filter(|guide| matches!(guide.form, Form::Fit { .. })).collect();
    assert!(!fits.is_empty() && charts[0].note.ends_with("lines are T = a + V/b"), "{guides:?}");
    let Form::Fit { path, .. } = &fits[0].form else { unreachable!() };
    assert!(path.len() > 10 && path.iter().all(|&(x, y)| x >= 4096.0 && y > 0.0));
}

#[test]
fn hot_and_cold_launches_in_one_picture_have_separate_fits() {
    let mut builder = RunBuilder::new("Box", "2026-01-02T03:04:05Z");
    let modes = [&[Mode::Stream, Mode::Graph][..], &[Mode::Graph]];
    for (spec, modes) in [launch::scale(), launch::cold()].into_iter().zip(modes) {
        builder.series("launch", spec);
        for (nth, &mode) in modes.iter().enumerate() {
            for power in 16..=24 {
                let bytes = 1u64 << power;
                let work = Work { traffic: Traffic::new(bytes, 0), operations: 1.0, ..Work::default() };
                let seconds = 1e-6 * (nth + 1) as f64 + bytes as f64 / 5e12;
                builder.point(vec![mode.name().into(), bytes.into()], seconds, work, Flags::NONE);
            }
        }
    }
    let charts = charts_of(builder.run(), "launch");
    let (guides, traces) = guides_of(&charts[0]);
    assert_eq!(charts.len(), 1);
    assert!(charts[0].note.ends_with("lines are T = a + V/b") && traces.iter().all(|trace| trace.places().is_empty()));
    let names: Vec<&str> = guides.iter().filter_map(|guide| guide.label.split(": ").next()).collect();
    assert_eq!(names, ["stream, hot", "graph, hot", "graph, cold-rotate"]);
    let looks = guides.iter().map(|guide| match guide.form {
        Form::Fit { hue, dash, .. } => (hue, dash),
        _ => panic!("no fit: {guide:?}"),
    });
    assert_eq!(looks.collect::<Vec<_>>(), traces.iter().map(|trace| (trace.hue, trace.dash)).collect::<Vec<_>>());
}

#[test]
fn power_picture_is_followed_by_a_clock_picture() {
    let mut builder = RunBuilder::new("Box", "2026-01-02T03:04:05Z");
    let mut energy = SeriesSpec::from(roofline::energy());
    // Synthetic points have no energy counter; any metric will do here.
    energy.metrics[0].quantity = Quantity::Time;
    builder.series("roofline", energy);
    for power in 0..3 {
        builder.point(vec!["f32".into(), f64::from(1 << power).into()], 300.0, Work::default(), Flags::NONE);
    }
    let charts = charts_of(builder.run(), "roofline");
    assert_eq!(
        charts.iter().map(|chart| chart.title.as_str()).collect::<Vec<_>>(),
        ["roofline energy", "roofline energy: clock"]
    );
    let (_, traces) = guides_of(&charts[1]);
    assert!(traces[0].marks.iter().all(|mark| mark.y == 3.1e9));
}
