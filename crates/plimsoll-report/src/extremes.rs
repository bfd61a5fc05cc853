//! Whatever numbers a record holds, no picture, page or table shows `NaN` or draws at infinity.

use plimsoll_core::device::Peak;
use plimsoll_core::record::{Record, Run};
use plimsoll_core::sample::Work;
use plimsoll_core::series::{Point, SeriesSpec};
use plimsoll_core::unit::Unit;
use plimsoll_core::{Flags, Traffic};
use plimsoll_probes::{footprint, launch, stream, strides};
use proptest::prelude::*;

use crate::synthetic::{RunBuilder, bytes};
use crate::terminal::{self, Style};
use crate::{Report, csv, html, json, markdown, svg};

/// Numbers at the limits of `f64`, where formulas overflow or underflow, and ordinary ones.
fn number() -> impl Strategy<Value = f64> {
    let edges = [f64::MAX, f64::MIN_POSITIVE, 5e-324, 1e300, 1e-300, 1e150, 1e-150, 1.0, 1e-9, 0.0];
    prop_oneof![
        prop::sample::select(edges.to_vec()),
        any::<f64>().prop_map(|x| if x.is_finite() { x.abs() } else { 1.0 })
    ]
}

fn samples() -> impl Strategy<Value = Vec<u64>> {
    let edges = [0, 1, 2, 1 << 20, u64::MAX];
    prop::collection::vec(prop_oneof![prop::sample::select(edges.to_vec()), any::<u64>()], 1..6)
}

/// The numbers that the points of a series are built from.
#[derive(Clone, Debug)]
struct Numbers {
    tick: f64,
    samples: Vec<u64>,
    operations: f64,
    clock: f64,
    written: u64,
}

fn numbers() -> impl Strategy<Value = Numbers> {
    (number(), samples(), number(), number(), any::<u64>()).prop_map(|(tick, samples, operations, clock, written)| {
        Numbers { tick: if tick > 0.0 { tick } else { 1.0 }, samples, operations, clock, written }
    })
}

fn add_points(
    builder: &mut RunBuilder,
    probe: &str,
    spec: SeriesSpec,
    at: &[Vec<plimsoll_core::series::Value>],
    all: &[Numbers],
) {
    builder.series(probe, spec);
    for (place, (at, own)) in at.iter().zip(all.iter().cycle()).enumerate() {
        let work = Work { operations: own.operations, ..bytes(4096 << place.min(30), 0) };
        builder.point(
            at.clone(),
            1e-6,
            Work { traffic: Traffic::new(work.traffic.read, own.written), ..work },
            Flags::NONE,
        );
        let Some(Record::Point(Point { tick, samples, evidence, .. })) = builder.last() else { unreachable!() };
        (*tick, *samples, evidence.clock_hz) = (own.tick, own.samples.clone(), Some(own.clock));
    }
}

/// A run with every kind of picture, built from these numbers.
fn run(all: &[Numbers], peak: f64, finding: f64, cache: u64) -> Run {
    let mut builder = RunBuilder::new("Box", "2026-01-02T03:04:05Z");
    let sizes = || (12..24).map(|power| 1u64 << power);
    let kernels = ["read", "copy"].map(|kernel| vec![kernel.into(), "ordinary".into()]);
    add_points(&mut builder, "stream", stream::kernels().into(), &kernels, all);
    let over: Vec<_> = sizes().map(|size| vec!["read".into(), size.into()]).collect();
    add_points(&mut builder, "footprint", footprint::curve().into(), &over, all);
    let over: Vec<_> = sizes().map(|size| vec![launch::Mode::ALL[0].name().into(), size.into()]).collect();
    add_points(&mut builder, "launch", launch::scale().into(), &over, all);
    let cells: Vec<_> = (0..6u64).map(|cell| vec![(4 + cell % 2).into(), (1 + cell / 2).into()]).collect();
    add_points(&mut builder, "strides", strides::tableau().into(), &cells, all);
    let traced = SeriesSpec { trace: true, ..stream::kernels().into() };
    add_points(&mut builder, "stream", traced, &kernels, all);
    builder.finding("footprint", "capacity L2", finding, Unit::Byte, "", Flags::NONE);
    builder.finding("stream", "read", finding, Unit::BytePerSecond, "bandwidth", Flags::NONE);
    let mut run = builder.run();
    let device = &mut run.header.devices[0];
    device.caches[0].bytes = cache;
    device.peaks =
        vec![Peak { metric: "bandwidth".into(), value: peak, unit: Unit::BytePerSecond, source: "made up".into() }];
    run
}

/// The surroundings of the first word such as `NaN` or `inf`, if there is one.
fn find_non_number(text: &str) -> Option<String> {
    let words = text.split(|c: char| !(c.is_alphanumeric() || c == '∞'));
    words.into_iter().find(|word| ["NaN", "nan", "inf", "Inf", "infinity", "∞"].contains(word)).map(|word| {
        let place = text.find(word).unwrap_or(0);
        let from = text[..place].char_indices().rev().nth(80).map_or(0, |(place, _)| place);
        text[from..].chars().take(160).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_report_format_shows_nan_or_infinity(
        all in prop::collection::vec(numbers(), 1..4), peak in number(), finding in number(), cache: u64,
    ) {
        let runs = [run(&all, peak, finding, cache)];
        let report = Report::new(&runs);
        for picture in svg::render(&report) {
            prop_assert_eq!(find_non_number(&picture.svg), None, "{}", picture.file);
        }
        prop_assert_eq!(find_non_number(&html::render(&report)), None);
        prop_assert_eq!(find_non_number(&csv::render(&report)), None);
        prop_assert_eq!(find_non_number(&markdown::render(&report)), None);
        prop_assert_eq!(find_non_number(&json::render(&report)), None);
        prop_assert_eq!(find_non_number(&terminal::render(&report, &Style::PLAIN)), None);
    }
}
