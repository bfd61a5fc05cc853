//! What a session writes and keeps when a kernel is wrong, the sink fails, or the backend itself fails.

mod support;

use std::convert::Infallible;
use std::sync::atomic::AtomicBool;

use plimsoll_core::device::DeviceInfo;
use plimsoll_core::probe::{
    Backend, Bench, Case, Depth, Instrument, Outcome, Probe, ProbeSpec, Request, RunContext, Session, Sweep,
};
use plimsoll_core::record::{Finding, Record, Sink};
use plimsoll_core::sample::{CachePolicy, Check, Clock, Figure, Work, Workload};
use plimsoll_core::series::{Draw, Quantity, Series, SeriesSpec, Value, axis, metric};
use plimsoll_core::stats::Interval;
use plimsoll_core::unit::Unit;
use plimsoll_core::{Fault, FaultClass, Flag, Flags};
use support::SteppingClock;

/// A backend without a device.
struct Fake;

impl Backend for Fake {
    type Device = ();
    type Clock = SteppingClock;
    type Need = Infallible;
    const NAME: &'static str = "fake";
}

/// Launches of one millisecond whose result is wrong.
struct WrongWorkload;

impl Workload for WrongWorkload {
    fn work(&self) -> Work {
        Work::default()
    }
    fn sample(&mut self, k: u32, out: &mut [u64]) -> Result<(), Fault> {
        out.fill(1_000_000 * u64::from(k));
        Ok(())
    }
    fn check(&mut self) -> Result<Check, Fault> {
        Ok(Check::Failed("element 7 differs".into()))
    }
}

/// One finding per row.
fn findings(_: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let rows = series.iter().flat_map(|series| &series.rows);
    let finding = |row: &plimsoll_core::series::Row| Finding {
        device: 0,
        probe: String::new(),
        name: "time".into(),
        value: row.time.value,
        interval: Interval { lo: row.time.value, hi: row.time.value },
        unit: Unit::Second,
        flags: row.flags,
        metric: String::new(),
        says: String::new(),
        published: None,
    };
    rows.map(finding).collect()
}

static SPEC: ProbeSpec = ProbeSpec { takes_bytes: true, ..ProbeSpec::unlisted("fake", findings) };

/// A probe with one point, whose axis is a footprint.
struct FakeProbe {
    /// The coordinates of a point.
    coordinates: fn(&u64) -> Vec<Value>,
}

/// A probe whose point has the coordinate that its axis asks for.
static WELL_FORMED: FakeProbe = FakeProbe { coordinates: |bytes| vec![(*bytes).into()] };

/// A probe whose point has one coordinate too many.
static MISSHAPEN: FakeProbe = FakeProbe { coordinates: |bytes| vec!["read".into(), (*bytes).into()] };

impl Probe<Fake> for FakeProbe {
    fn spec(&self) -> &'static ProbeSpec {
        &SPEC
    }
    fn supports(&self, _device: &()) -> Result<(), Fault> {
        Ok(())
    }
    fn points(&self, _device: &(), _request: &Request) -> usize {
        1
    }
    fn run(&self, session: &mut Session<'_, Fake>) -> Result<(), Fault> {
        let axes = vec![axis("footprint", Unit::Byte)];
        let metrics = vec![metric("time", Unit::Second, Quantity::Time)];
        let series = SeriesSpec::new("c", Figure::Throughput, CachePolicy::Hot, axes, metrics, Draw::Table);
        let sweep = Sweep { series, points: &[1_u64 << 36], share: 1.0, flags: Flags::NONE };
        session.sweep(sweep, self.coordinates, |(), _| Ok(WrongWorkload)).map(|_| ())
    }
    fn verify(&self, _: &mut (), _: Depth, _: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        Ok(())
    }
}

/// Launches whose length never settles.
struct RestlessWorkload(u64);

impl Workload for RestlessWorkload {
    fn work(&self) -> Work {
        Work::default()
    }
    fn sample(&mut self, k: u32, out: &mut [u64]) -> Result<(), Fault> {
        for ticks in out {
            self.0 += 1;
            *ticks = 1_000_000 * u64::from(k) * (1 + self.0 % 7);
        }
        Ok(())
    }
    fn check(&mut self) -> Result<Check, Fault> {
        Ok(Check::Passed)
    }
}

/// A probe with two sweeps. Set-up before each of them takes several times the budget.
struct SlowSetup;

impl Probe<Fake> for SlowSetup {
    fn spec(&self) -> &'static ProbeSpec {
        &SPEC
    }
    fn points(&self, _device: &(), _request: &Request) -> usize {
        2
    }
    fn run(&self, session: &mut Session<'_, Fake>) -> Result<(), Fault> {
        for case in ["first", "second"] {
            for _ in 0..5000 {
                session.clock().now();
            }
            let axes = vec![axis("footprint", Unit::Byte)];
            let series = SeriesSpec::new(case, Figure::Throughput, CachePolicy::Hot, axes, vec![], Draw::Table);
            let sweep = Sweep { series, points: &[64_u64], share: 0.5, flags: Flags::NONE };
            session.sweep(sweep, |bytes| vec![(*bytes).into()], |(), _| Ok(RestlessWorkload(0)))?;
        }
        Ok(())
    }
    fn verify(&self, _: &mut (), _: Depth, _: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        Ok(())
    }
}

#[test]
fn set_up_before_and_between_sweeps_does_not_use_up_the_budget() {
    static PROBES: [&dyn Probe<Fake>; 1] = [&SlowSetup];
    let clock = SteppingClock::default();
    let mut bench = Bench::<Fake>::new((), DeviceInfo::default(), clock, &PROBES);
    let (stop, mut sink) = (AtomicBool::new(false), Vec::<Record>::new());
    let request = Request::default();
    let context = &mut RunContext { request: &request, sink: &mut sink, stop: &stop, device: 0, next_series: 0 };
    assert!(matches!(bench.measure("fake", context), Ok(Outcome::Complete)));
    let samples = |record: &Record| if let Record::Point(point) = record { Some(point.samples.len()) } else { None };
    let samples: Vec<usize> = sink.iter().filter_map(samples).collect();
    assert_eq!(samples.len(), 2);
    // A point that comes after its deadline takes three.
    assert!(samples.iter().all(|samples| *samples > 30), "{samples:?}");
}

/// Fails on fault records and keeps all others.
#[derive(Default)]
struct FailsOnFaults(Vec<Record>);

impl Sink for FailsOnFaults {
    fn write(&mut self, record: &Record) -> Result<(), Fault> {
        if matches!(record, Record::Fault(_)) {
            return Err(Fault::Sink(std::io::ErrorKind::StorageFull.into()));
        }
        self.0.push(record.clone());
        Ok(())
    }
}

fn measure(panics: bool, request: &Request, sink: &mut dyn Sink) -> Result<Outcome, Fault> {
    static PROBES: [&dyn Probe<Fake>; 1] = [&WELL_FORMED];
    let mut bench =
        Bench::<Fake>::new((), DeviceInfo::default(), SteppingClock { panics, ..SteppingClock::default() }, &PROBES);
    let stop = AtomicBool::new(false);
    bench.measure("fake", &mut RunContext { request, sink, stop: &stop, device: 0, next_series: 0 })
}

#[test]
fn findings_include_a_point_whose_fault_could_not_be_written() {
    let mut sink = FailsOnFaults::default();
    assert!(matches!(measure(false, &Request::default(), &mut sink), Err(Fault::Sink(_))));
    let count = |matches: fn(&Record) -> bool| sink.0.iter().filter(|record| matches(record)).count();
    assert_eq!(count(|record| matches!(record, Record::Point(_))), 1);
    assert_eq!(count(|record| matches!(record, Record::Finding(_))), 1);
}

#[test]
fn a_wrong_result_leaves_a_fault_with_its_series_and_point() {
    let mut records: Vec<Record> = vec![];
    assert!(matches!(measure(false, &Request::default(), &mut records), Ok(Outcome::Complete)));
    let fault = records.iter().find_map(|record| if let Record::Fault(fault) = record { Some(fault) } else { None });
    let fault = fault.expect("a fault for the wrong result");
    assert_eq!((fault.class, fault.series), (FaultClass::Verify, Some(0)));
    let spec = records.iter().find_map(|record| if let Record::Series(spec) = record { Some(spec) } else { None });
    let series = Series::new(spec.expect("a series").clone(), []);
    assert_eq!(fault.place(&[series]), "footprint 64 GiB");
    assert_eq!(fault.place(&[]), "68719476736");
}

#[test]
fn a_coordinate_too_many_ends_the_probe_before_measuring() {
    let mut records: Vec<Record> = vec![];
    let clock = SteppingClock::default();
    let mut bench = Bench::<Fake>::new((), DeviceInfo::default(), clock, &[]);
    let (request, stop) = (Request::default(), AtomicBool::new(false));
    let mut run = RunContext { request: &request, sink: &mut records, stop: &stop, device: 0, next_series: 0 };
    let outcome = bench.measure_with(&MISSHAPEN, &mut run);
    assert!(matches!(outcome, Ok(Outcome::Faulted(Fault::Panicked(_)))), "{outcome:?}");
    let [Record::Fault(fault)] = &records[..] else { panic!("{records:?}") };
    assert!(fault.what.ends_with("a point with 2 coordinates on 1 axes (series 'c')"), "{}", fault.what);
}

#[test]
fn a_panic_while_the_clock_settles_only_ends_its_probe() {
    let mut records: Vec<Record> = vec![];
    assert!(matches!(measure(true, &Request::default(), &mut records), Ok(Outcome::Faulted(Fault::Panicked(_)))));
    assert!(matches!(&records[..], [Record::Fault(fault)] if fault.class == FaultClass::Panicked));
}

#[test]
fn a_trace_is_marked_and_gets_no_budget_flag() {
    let is_marked = |request: &Request| {
        let mut records: Vec<Record> = vec![];
        measure(false, request, &mut records).unwrap();
        records.iter().any(|record| matches!(record, Record::Series(spec) if spec.trace))
    };
    assert!(is_marked(&Request { trace: true, ..Request::default() }) && !is_marked(&Request::default()));
    let flags = |request: &Request| {
        let mut records: Vec<Record> = vec![];
        measure(false, request, &mut records).unwrap();
        let points =
            records.iter().filter_map(|record| if let Record::Point(point) = record { Some(point) } else { None });
        points.fold(Flags::NONE, |all, point| all.union(point.flags))
    };
    assert!(!flags(&Request { trace: true, ..Request::default() }).contains(Flag::Budget));
}
