//! Derived figures and joined rounds.

use super::*;
use crate::Traffic;
use crate::flag::Flag;
use crate::sample::{CachePolicy, Figure};
use crate::unit::Unit;

fn point(round: u32, at: f64, samples: &[u64]) -> Point {
    Point {
        round,
        k: 2,
        evidence: Evidence { clock_hz: Some(2e9), ..Evidence::default() },
        ..Point::new(
            vec![at.into()],
            Work { traffic: Traffic { read: 600, written: 400 }, operations: 10.0, ..Work::default() },
            samples.to_vec(),
        )
    }
}

fn series(points: Vec<Point>) -> Series {
    let metrics = vec![
        metric("bandwidth", Unit::BytePerSecond, Quantity::Bandwidth),
        metric("cycles", Unit::Cycle, Quantity::CyclesPerOperation),
    ];
    let axes = vec![axis("footprint", Unit::Byte)];
    Series::new(SeriesSpec::new("c", Figure::Throughput, CachePolicy::Hot, axes, metrics, Draw::Table), points)
}

#[test]
fn metrics_are_derived_from_ticks_launches_and_work() {
    let series = series(vec![point(0, 1.0, &[1000; 30])]);
    let row = &series.rows[0];
    // 1000 ticks of 1 ns for two launches: 500 ns each.
    let near = |figure: f64, expected: f64| (figure / expected - 1.0).abs() < 1e-12;
    assert!(near(row.time.value, 500e-9));
    assert!(near(series.estimate(row, "bandwidth").unwrap().value, 1000.0 / 500e-9));
    assert!(near(series.estimate(row, "cycles").unwrap().value, 100.0));
    assert!(series.estimate(row, "nothing").is_none());
}

#[test]
fn rounds_are_joined_and_the_interval_covers_their_spread() {
    let points = vec![point(0, 1.0, &[1000; 30]), point(0, 2.0, &[1; 3]), point(1, 1.0, &[1100; 30])];
    let series = series(points);
    assert_eq!(series.rows.len(), 2);
    let row = &series.rows[0];
    assert_eq!((row.points.len(), row.n), (2, 60));
    assert!(row.time.interval.lo <= 500.1e-9 && row.time.interval.hi >= 549.9e-9);
    let bandwidth = series.estimate(row, "bandwidth").unwrap();
    assert!(bandwidth.interval.lo < bandwidth.value && bandwidth.value < bandwidth.interval.hi);
}

#[test]
fn unknown_words_from_later_versions_are_read_but_give_no_figure() {
    let spec = r#"{"case":"c","figure":"teleported","cache":"warm","axes":[{"name":"x","unit":"parsec"}],
        "metrics":[{"name":"m","unit":"B/s","of":"entropy"}],"draw":{"form":"hologram","z":1}}"#;
    let spec: SeriesSpec = serde_json::from_str(spec).unwrap();
    assert_eq!((spec.figure, spec.cache, spec.draw.clone()), (Figure::Unknown, CachePolicy::Unknown, Draw::Unknown));
    let series = Series::new(spec, vec![point(0, 1.0, &[1000; 30])]);
    assert!(series.estimate(&series.rows[0], "m").is_none());
}

#[test]
fn best_prefers_more_bandwidth_and_fewer_cycles() {
    let series = series(vec![point(0, 1.0, &[1000; 30]), point(0, 2.0, &[500; 30])]);
    for metric in ["bandwidth", "cycles"] {
        assert_eq!(series.best(metric, |_| true).unwrap().0.at, [Value::Number(2.0)]);
    }
    assert!(series.best("bandwidth", |_| false).is_none());
}

#[test]
fn metrics_in_cycles_use_each_round_s_own_clock_and_work() {
    // 1,000 bytes in 2 launches of 500 ns at 2 GHz are 1 B/cycle; so are 1,100 at 2.2 GHz.
    let mut points = vec![point(0, 1.0, &[1000; 30]), point(1, 1.0, &[1000; 30]), point(2, 1.0, &[500; 30])];
    points[1].evidence.clock_hz = Some(2.2e9);
    points[1].work.traffic.read = 700;
    points[2].evidence.clock_hz = Some(4e9);
    let mut series = series(points);
    series.spec.metrics.push(metric("per cycle", Unit::BytePerCycle, Quantity::BytesPerCycle));
    let figure = series.estimate(&series.rows[0], "per cycle").unwrap();
    assert!((figure.value - 1.0).abs() < 1e-12 && figure.interval.half_width() < 1e-12, "{figure:?}");
    // A round without a clock has no figure in cycles; the others keep theirs.
    series.rows[0].points[1].evidence.clock_hz = None;
    assert_eq!(series.rows[0].rounds_of(&series.spec.metrics[2]).count(), 2);
    assert!((series.estimate(&series.rows[0], "per cycle").unwrap().value - 1.0).abs() < 1e-12);
}

#[test]
fn rounds_have_equal_weight_however_many_samples_each_took() {
    let series = series(vec![point(0, 1.0, &[1000; 300]), point(1, 1.0, &[1200; 30])]);
    assert!((series.rows[0].time.value / 550e-9 - 1.0).abs() < 1e-12);
}

#[test]
fn more_is_better_follows_from_the_quantity_or_else_the_unit() {
    let more_is_better = |unit, quantity| metric("m", unit, quantity).more_is_better();
    assert_eq!(more_is_better(Unit::BytePerSecond, Quantity::Bandwidth), Some(true));
    assert_eq!(more_is_better(Unit::Second, Quantity::Time), Some(false));
    assert_eq!(more_is_better(Unit::BytePerSecond, Quantity::Extra), Some(true));
    assert_eq!(more_is_better(Unit::Second, Quantity::Extra), Some(false));
    assert_eq!(more_is_better(Unit::One, Quantity::Extra), None);
}

#[test]
fn best_takes_the_largest_of_a_bandwidth_measured_by_the_workload() {
    let mut points = vec![point(0, 1.0, &[1000; 30]), point(0, 2.0, &[1000; 30])];
    for (point, value) in points.iter_mut().zip([5.0, 7.0]) {
        point.extra.insert("background".into(), value);
    }
    let mut series = series(points);
    series.spec.metrics.push(metric("background", Unit::BytePerSecond, Quantity::Extra));
    assert_eq!(series.best("background", |_| true).unwrap().1.value, 7.0);
}

#[test]
fn flags_that_a_series_brings_about_cast_no_doubt_on_its_rows() {
    let flags: Flags = [Flag::ThrottlePower, Flag::Drift, Flag::Outliers].into_iter().collect();
    let point = Point { flags, ..Point::new(vec![], Work::default(), vec![1_000]) };
    let spec = SeriesSpec::new("one", Figure::Latency, CachePolicy::Hot, vec![], vec![], Draw::Table);
    let doubtful = |spec: SeriesSpec| {
        let series = Series::new(spec, [point.clone()]);
        series.doubtful(&series.rows[0]).iter().collect::<Vec<Flag>>()
    };
    assert_eq!(doubtful(spec.clone()), [Flag::ThrottlePower, Flag::Drift]);
    assert_eq!(doubtful(spec.with_expected([Flag::ThrottlePower].into_iter().collect())), [Flag::Drift]);
}
