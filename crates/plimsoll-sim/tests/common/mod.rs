//! Shared test helpers: measure a probe in a scenario into memory.
#![allow(dead_code, reason = "each test binary uses only some")]

use std::sync::atomic::{AtomicBool, Ordering};

use plimsoll_core::Fault;
use plimsoll_core::probe::{Bench, Instrument, Outcome, Request, RunContext};
use plimsoll_core::record::{Record, RunHeader, SCHEMA, Sink};
use plimsoll_core::sample::Effort;
use plimsoll_core::series::Point;
use plimsoll_sim::{Sim, open};

/// Opens the device of a scenario.
pub fn device(scenario: &str) -> Bench<Sim> {
    open(&scenario.parse().expect("the tests' scenarios are valid"))
}

/// A request with an effort.
pub fn request_with(effort: Effort) -> Request {
    Request { effort, ..Request::default() }
}

/// Measures one probe.
pub fn measure(scenario: &str, probe: &str, request: &Request) -> (Outcome, Vec<Record>) {
    let mut records = Vec::new();
    let outcome = measure_on(&mut device(scenario), probe, request, &mut records);
    (outcome, records)
}

/// Measures one probe on a device that may have measured others.
pub fn measure_on(bench: &mut Bench<Sim>, probe: &str, request: &Request, sink: &mut dyn Sink) -> Outcome {
    let stop = AtomicBool::new(false);
    let mut run = RunContext { request, sink, stop: &stop, device: 0, next_series: 0 };
    bench.measure(probe, &mut run).expect("the sink accepts everything and the probe exists")
}

/// Measures one probe and stops it after the `last`-th record.
pub fn measure_until(last: usize, scenario: &str, probe: &str) -> (Outcome, Vec<Record>) {
    struct Stopper<'s> {
        stop: &'s AtomicBool,
        last: usize,
        records: Vec<Record>,
    }
    impl Sink for Stopper<'_> {
        fn write(&mut self, record: &Record) -> Result<(), Fault> {
            self.records.push(record.clone());
            self.stop.fetch_or(self.records.len() >= self.last, Ordering::Relaxed);
            Ok(())
        }
    }
    let stop = AtomicBool::new(false);
    let mut sink = Stopper { stop: &stop, last, records: vec![] };
    let request = Request::default();
    let mut run = RunContext { request: &request, sink: &mut sink, stop: &stop, device: 0, next_series: 0 };
    let outcome = device(scenario).measure(probe, &mut run).expect("the sink accepts everything");
    (outcome, sink.records)
}

/// The names of all simulated probes.
pub fn probes() -> impl Iterator<Item = &'static str> {
    plimsoll_sim::PROBES.iter().map(|probe| probe.spec().name)
}

/// The points among records.
pub fn points(records: &[Record]) -> Vec<&Point> {
    records.iter().filter_map(|record| if let Record::Point(point) = record { Some(point) } else { None }).collect()
}

/// The classes of the faults among records.
pub fn faults(records: &[Record]) -> Vec<&str> {
    let faults = records.iter().filter_map(|record| if let Record::Fault(fault) = record { Some(fault) } else { None });
    faults.map(|fault| fault.class.name()).collect()
}

/// The header of a simulated run's record.
pub fn header(scenario: &str) -> Record {
    Record::Run(RunHeader {
        schema: SCHEMA,
        tool: "0".into(),
        started: "2026-01-01T00:00:00Z".into(),
        argv: vec![],
        conditions: Default::default(),
        effort: Effort::Quick,
        seed: 0,
        host: Default::default(),
        devices: vec![device(scenario).info().clone()],
    })
}

/// Serializes records as the lines of a file.
pub fn lines<'r>(records: impl IntoIterator<Item = &'r Record>) -> Vec<u8> {
    let line = |record| serde_json::to_string(record).expect("records hold finite numbers") + "\n";
    records.into_iter().map(line).collect::<String>().into_bytes()
}
