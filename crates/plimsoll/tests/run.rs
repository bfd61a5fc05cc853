//! The order of a run on fake devices: which records are written, and what ends a run.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};

use plimsoll::core::probe::RunContext;
use plimsoll::core::record::{Conditions, FaultRecord};
use plimsoll::core::sample::{CachePolicy, Figure};
use plimsoll::core::series::{Draw, SeriesSpec};
use plimsoll::prelude::*;
use plimsoll::probes;

/// A device that writes one series per probe and is lost in a given probe.
struct Fake {
    info: DeviceInfo,
    loses_in: Option<&'static str>,
    meet: Option<Arc<Barrier>>,
}

fn fake(selector: &str) -> Fake {
    let info = DeviceInfo { selector: selector.to_owned(), ..DeviceInfo::default() };
    Fake { info, loses_in: None, meet: None }
}

impl Instrument for Fake {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn probes(&self, _: &Request) -> Vec<Listing> {
        probes::ALL.iter().map(|spec| Listing { spec, supported: Ok(()), points: 1 }).collect()
    }

    fn counters(&self) -> Result<(), Fault> {
        Err(Fault::Unavailable { what: "hardware counters", why: "a test has none".into(), hint: String::new() })
    }

    fn measure(&mut self, probe: &str, run: &mut RunContext<'_>) -> Result<Outcome, Fault> {
        if let Some(meet) = self.meet.take() {
            meet.wait();
        }
        let mut series = SeriesSpec::new("case", Figure::Throughput, CachePolicy::Hot, vec![], vec![], Draw::Table);
        (series.id, series.device, series.probe) = (run.next_series, run.device, probe.to_owned());
        run.next_series += 1;
        run.sink.write(&Record::Series(series))?;
        match self.loses_in {
            Some(culprit) if culprit == probe => {
                Ok(Outcome::Faulted(Fault::DeviceLost { call: "wait", why: "gone".into() }))
            }
            _ => Ok(Outcome::Complete),
        }
    }

    fn verify(&mut self, _: &str, _: Depth, _: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        Ok(())
    }
}

/// A sink that accepts a limited number of records.
struct LimitedSink(usize, Vec<Record>);

impl Sink for LimitedSink {
    fn write(&mut self, record: &Record) -> Result<(), Fault> {
        if self.1.len() >= self.0 {
            return Err(Fault::Sink(std::io::ErrorKind::StorageFull.into()));
        }
        self.1.write(record)
    }
}

fn run(devices: Vec<Fake>, plan: &Plan) -> (Summary, Vec<Record>) {
    let mut devices: Vec<Box<dyn Instrument>> =
        devices.into_iter().map(|device| Box::new(device) as Box<dyn Instrument>).collect();
    let mut records = Vec::new();
    let summary = plimsoll::measure(&mut devices, plan, &mut records, &AtomicBool::new(false)).unwrap();
    (summary, records)
}

fn faults(records: &[Record]) -> Vec<&FaultRecord> {
    records.iter().filter_map(|record| if let Record::Fault(fault) = record { Some(fault) } else { None }).collect()
}

fn series(records: &[Record]) -> Vec<(u32, u32, &str)> {
    let mut found = Vec::new();
    for record in records {
        if let Record::Series(series) = record {
            found.push((series.id, series.device, series.probe.as_str()));
        }
    }
    found
}

#[test]
fn run_begins_with_a_header_and_ends_with_an_end_record() {
    let plan = Plan { probes: vec!["latency".into(), "stream".into()], ..Plan::default() };
    let (summary, records) = run(vec![fake("a")], &plan);
    assert!(summary.complete);
    let Some(Record::Run(header)) = records.first() else { panic!("{records:?}") };
    assert_eq!((header.tool.as_str(), header.devices.len()), (plimsoll::VERSION, 1));
    assert_eq!(series(&records), [(0, 0, "latency"), (1, 0, "stream")], "in the order of the plan");
    assert_eq!(records.last(), Some(&Record::End { complete: true }));
    assert!(plimsoll::core::record::Run::from_records(records).unwrap().damage.is_empty());
}

#[test]
fn header_contains_the_conditions_of_the_request() {
    let request = Request { bytes: Some(64), counters: true, ..Request::default() };
    let plan = Plan { probes: vec!["stream".into()], request, concurrent: true, ..Plan::default() };
    for (devices, concurrent) in [(vec![fake("a")], false), (vec![fake("a"), fake("b")], true)] {
        let (_, records) = run(devices, &plan);
        let Some(Record::Run(header)) = records.first() else { panic!("{records:?}") };
        let expected = Conditions { bytes: Some(64), counters: true, concurrent, trace: false };
        assert_eq!(header.conditions, expected, "a single device is never concurrent");
    }
}

#[test]
fn lost_device_records_a_fault_for_each_other_probe_and_spares_other_devices() {
    let lost = Fake { loses_in: Some("footprint"), ..fake("lost") };
    let (summary, records) = run(vec![lost, fake("sound")], &Plan::default());
    assert!(!summary.complete);
    let count = |device| series(&records).iter().filter(|(_, owner, _)| *owner == device).count();
    let tried = 1 + probes::ALL.iter().position(|spec| spec.name == "footprint").unwrap();
    assert_eq!((count(0), count(1)), (tried, probes::ALL.len()));
    let faults = faults(&records);
    assert_eq!(faults.len(), probes::ALL.len() - tried);
    assert!(faults.iter().all(|fault| fault.device == 0 && fault.what.contains("lost in footprint")), "{faults:?}");
    assert_eq!(records.last(), Some(&Record::End { complete: false }));
}

#[test]
fn run_stopped_before_its_first_probe_still_writes_a_record() {
    let mut records = Vec::new();
    let mut devices: Vec<Box<dyn Instrument>> = vec![Box::new(fake("a"))];
    let summary = plimsoll::measure(&mut devices, &Plan::default(), &mut records, &AtomicBool::new(true)).unwrap();
    assert!(!summary.complete && summary.ends.is_empty());
    assert_eq!(records.len(), 2);
}

#[test]
fn unknown_probe_is_refused_before_anything_is_written() {
    let mut records = Vec::new();
    let mut devices: Vec<Box<dyn Instrument>> = vec![Box::new(fake("a"))];
    let plan = Plan { probes: vec!["nonsense".into()], ..Plan::default() };
    let refused = plimsoll::measure(&mut devices, &plan, &mut records, &AtomicBool::new(false));
    assert!(matches!(refused, Err(Fault::Invalid(what)) if what.contains("nonsense")));
    assert!(records.is_empty());
}

#[test]
fn refused_record_ends_the_run_at_any_point() {
    for concurrent in [false, true] {
        for room in 0..6 {
            let mut devices: Vec<Box<dyn Instrument>> = vec![Box::new(fake("a")), Box::new(fake("b"))];
            let plan = Plan { concurrent, ..Plan::default() };
            let mut sink = LimitedSink(room, vec![]);
            let ended = plimsoll::measure(&mut devices, &plan, &mut sink, &AtomicBool::new(false));
            assert!(matches!(ended, Err(Fault::Sink(_))), "{ended:?}");
            assert_eq!(sink.1.len(), room);
        }
    }
}

#[test]
fn concurrent_devices_have_distinct_series_ids() {
    // Each waits for the other in its first probe, so a sequential run would never finish.
    let meet = Some(Arc::new(Barrier::new(2)));
    let devices = vec![Fake { meet: meet.clone(), ..fake("a") }, Fake { meet, ..fake("b") }];
    let (summary, records) = run(devices, &Plan { concurrent: true, ..Plan::default() });
    assert!(summary.complete);
    let mut ids: Vec<u32> = series(&records).into_iter().map(|(id, ..)| id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 2 * probes::ALL.len());
}

#[test]
fn stop_between_probes_keeps_earlier_results() {
    struct StopAfter<'s>(usize, &'s AtomicBool, Vec<Record>);
    impl Sink for StopAfter<'_> {
        fn write(&mut self, record: &Record) -> Result<(), Fault> {
            self.2.push(record.clone());
            self.1.store(self.2.len() > self.0, Ordering::Relaxed);
            Ok(())
        }
    }
    let stop = AtomicBool::new(false);
    let mut sink = StopAfter(3, &stop, vec![]);
    let mut devices: Vec<Box<dyn Instrument>> = vec![Box::new(fake("a"))];
    let summary = plimsoll::measure(&mut devices, &Plan::default(), &mut sink, &stop).unwrap();
    assert!(!summary.complete);
    assert_eq!((summary.ends.len(), series(&sink.2).len()), (3, 3));
}

#[test]
fn unopened_device_is_recorded_and_does_not_affect_the_others() {
    let (summary, records) =
        run(vec![fake("a")], &Plan { missing: vec![("cuda:1".into(), "it is lost".into())], ..Plan::default() });
    assert!(summary.complete);
    let faults = faults(&records);
    assert_eq!((faults.len(), faults[0].what.as_str()), (1, "cuda:1: it is lost"));
    assert_eq!((faults[0].device, faults[0].unopened.as_str()), (1, "cuda:1"), "not a fault of the measured device");
    let read = plimsoll::core::record::Run::from_records(records.clone()).unwrap();
    assert_eq!((read.faults.len(), read.damaged_lines), (1, 0));
    assert_eq!(series(&records).len(), probes::ALL.len());
}

#[test]
fn missing_counters_leave_their_reason_in_the_record() {
    let request = Request { counters: true, ..Request::default() };
    let (summary, records) = run(vec![fake("a")], &Plan { request, ..Plan::default() });
    assert!(summary.complete);
    let faults = faults(&records);
    assert_eq!((faults.len(), faults[0].probe.as_str(), faults[0].class.name()), (1, "counters", "unavailable"));
}
