//! Whatever numbers a record holds, no picture, page or table says `NaN` or draws at infinity.

use plimsoll_core::device::Peak;
use plimsoll_core::record::{Record, Run};
use plimsoll_core::sample::Work;
use plimsoll_core::series::{Point, SeriesSpec};
use plimsoll_core::unit::Unit;
use plimsoll_core::{Flags, Traffic};
use plimsoll_probes::{footprint, launch, stream, strides};
use proptest::prelude::*;

use crate::made::{Maker, bytes};
use crate::terminal::{self, Style};
use crate::{Report, csv, html, json, markdown, svg};

/// Numbers at which formulas break: beyond them is nothing, or what JSON can't hold.
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

/// What the points of a series are made of.
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

fn points(made: &mut Maker, probe: &str, spec: SeriesSpec, at: &[Vec<plimsoll_core::series::Value>], all: &[Numbers]) {
    made.series(probe, spec);
    for (place, (at, own)) in at.iter().zip(all.iter().cycle()).enumerate() {
        let work = Work { operations: own.operations, ..bytes(4096 << place.min(30), 0) };
        made.point(
            at.clone(),
            1e-6,
            Work { traffic: Traffic::new(work.traffic.read, own.written), ..work },
            Flags::NONE,
        );
        let Some(Record::Point(Point { tick, samples, evidence, .. })) = made.last() else { unreachable!() };
        (*tick, *samples, evidence.clock_hz) = (own.tick, own.samples.clone(), Some(own.clock));
    }
}

/// A run of pictures of every kind with these numbers.
fn run(all: &[Numbers], peak: f64, finding: f64, cache: u64) -> Run {
    let mut made = Maker::new("Box", "2026-01-02T03:04:05Z");
    let sizes = || (12..24).map(|power| 1u64 << power);
    let kernels = ["read", "copy"].map(|kernel| vec![kernel.into(), "ordinary".into()]);
    points(&mut made, "stream", stream::kernels().into(), &kernels, all);
    let over: Vec<_> = sizes().map(|size| vec!["read".into(), size.into()]).collect();
    points(&mut made, "footprint", footprint::curve().into(), &over, all);
    let over: Vec<_> = sizes().map(|size| vec![launch::Mode::ALL[0].name().into(), size.into()]).collect();
    points(&mut made, "launch", launch::scale().into(), &over, all);
    let cells: Vec<_> = (0..6u64).map(|cell| vec![(4 + cell % 2).into(), (1 + cell / 2).into()]).collect();
    points(&mut made, "strides", strides::tableau().into(), &cells, all);
    let traced = SeriesSpec { trace: true, ..stream::kernels().into() };
    points(&mut made, "stream", traced, &kernels, all);
    made.finding("footprint", "capacity L2", finding, Unit::Byte, "", Flags::NONE);
    made.finding("stream", "read", finding, Unit::BytePerSecond, "bandwidth", Flags::NONE);
    let mut run = made.run();
    let device = &mut run.header.devices[0];
    device.caches[0].bytes = cache;
    device.peaks =
        vec![Peak { metric: "bandwidth".into(), value: peak, unit: Unit::BytePerSecond, source: "made up".into() }];
    run
}

/// Words that stand for no number.
fn is_none(text: &str) -> Option<String> {
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
    fn no_form_of_a_report_says_that_a_number_is_none(
        all in prop::collection::vec(numbers(), 1..4), peak in number(), finding in number(), cache: u64,
    ) {
        let runs = [run(&all, peak, finding, cache)];
        let report = Report::new(&runs);
        for picture in svg::render(&report) {
            prop_assert_eq!(is_none(&picture.svg), None, "{}", picture.file);
        }
        prop_assert_eq!(is_none(&html::render(&report)), None);
        prop_assert_eq!(is_none(&csv::render(&report)), None);
        prop_assert_eq!(is_none(&markdown::render(&report)), None);
        prop_assert_eq!(is_none(&json::render(&report)), None);
        prop_assert_eq!(is_none(&terminal::render(&report, &Style::PLAIN)), None);
    }
}
