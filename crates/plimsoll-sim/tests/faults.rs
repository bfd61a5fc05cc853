//! Faults: earlier points are kept, the fault is recorded, and measuring continues where possible.

mod common;

use common::{device, faults, measure, measure_on, points, probes};
use plimsoll_core::probe::{Instrument, Outcome, Request, RunContext};
use plimsoll_core::record::Record;
use plimsoll_core::{Fault, Flag};

#[test]
fn a_lost_or_hung_device_keeps_all_earlier_points() {
    let (_, clean) = measure("", "sync", &Request::default());
    let clean = points(&clean);
    for (key, class) in [("lost-after", "device_lost"), ("hang-after", "hung")] {
        let mut most = 0;
        for after in (1..200).step_by(3) {
            let (outcome, records) = measure(&format!("{key}={after}"), "sync", &Request::default());
            let Outcome::Faulted(fault) = outcome else {
                assert!(points(&records).len() == clean.len() && faults(&records).is_empty());
                continue;
            };
            assert!(fault.ends_the_device() && fault.class().name() == class);
            assert_eq!(faults(&records), [class]);
            let kept = points(&records);
            most = most.max(kept.len());
            for (i, (kept_point, clean_point)) in kept.iter().zip(&clean).enumerate() {
                if i + 1 < kept.len() {
                    assert_eq!(kept_point, clean_point, "{key}={after}");
                } else {
                    // The current point keeps the slices that were taken.
                    assert!(clean_point.samples.starts_with(&kept_point.samples), "{key}={after}");
                }
            }
        }
        assert!(most > 5, "{most}");
    }
}

#[test]
fn a_panic_only_ends_its_own_probe() {
    let mut bench = device("panic=latency");
    for probe in probes() {
        let mut records = Vec::new();
        let outcome = measure_on(&mut bench, probe, &Request::default(), &mut records);
        if probe == "latency" {
            assert!(matches!(&outcome, Outcome::Faulted(Fault::Panicked(why)) if why.contains("scenario")));
            // The sweep that panicked wrote its points; only the figures derived from them are lost.
            assert_eq!((points(&records).len(), faults(&records)), (2, vec!["panicked"]));
        } else {
            assert!(matches!(outcome, Outcome::Complete), "{probe}: {outcome:?}");
            assert!(faults(&records).is_empty());
        }
    }
}

#[test]
fn points_too_large_for_memory_leave_faults_and_the_others_are_measured() {
    for scenario in ["oom-above=1MiB", "memory=1MiB"] {
        let (outcome, records) = measure(scenario, "latency", &Request::default());
        assert!(matches!(outcome, Outcome::Complete));
        let listed = device("").probes(&Request::default());
        let all = listed.iter().find(|listing| listing.spec.name == "latency").unwrap().points;
        let (measured, failed) = (points(&records).len(), faults(&records));
        assert!(measured > 10 && failed.len() > 10 && measured + failed.len() >= all);
        assert!(failed.iter().all(|class| *class == "out_of_memory"));
        for record in &records {
            match record {
                Record::Point(point) => assert!(point.at[2].number().unwrap() <= 1048576.0),
                Record::Fault(fault) => {
                    assert!(fault.at[2].number().unwrap() > 983040.0 && fault.what.contains("out of memory"));
                }
                _ => {}
            }
        }
    }
}

#[test]
fn stream_shrinks_to_the_free_memory_and_flags_it() {
    let request = Request { bytes: Some(1 << 40), ..Request::default() };
    let (outcome, records) = measure("memory=8GiB", "stream", &request);
    assert!(matches!(outcome, Outcome::Complete));
    assert!(points(&records).iter().all(|point| point.flags.contains(Flag::Shrunk) && point.work.window < 2 << 30));
    // A limit that only shows in the allocation can't be anticipated by shrinking: it is a fault.
    let (_, records) = measure("oom-above=1GiB", "stream", &Request::default());
    assert!(faults(&records).contains(&"out_of_memory") && !points(&records).is_empty());
}

#[test]
fn any_size_is_measured_refused_or_out_of_memory() {
    for probe in probes() {
        for bytes in [1, 63, 64, 4097, 1 << 32, 1 << 62, u64::MAX - 1, u64::MAX] {
            let request = Request { bytes: Some(bytes), ..Request::default() };
            let (outcome, records) = measure("", probe, &request);
            assert!(matches!(outcome, Outcome::Complete), "{probe} on {bytes} bytes: {outcome:?}");
            assert!(points(&records).len() + faults(&records).len() > 0, "{probe} on {bytes} bytes");
        }
        let request = Request { bytes: Some(0), ..Request::default() };
        assert!(matches!(measure("", probe, &request).0, Outcome::Faulted(Fault::Invalid(_))));
    }
}

#[test]
fn an_unsupported_probe_is_listed_with_the_reason_and_measures_nothing() {
    let listed = device("without=sync").probes(&Request::default());
    assert_eq!(listed.len(), plimsoll_sim::PROBES.len());
    for listing in listed {
        assert_eq!(listing.supported.is_err(), listing.spec.name == "sync");
    }
    let (outcome, records) = measure("without=sync", "sync", &Request::default());
    assert!(matches!(outcome, Outcome::Faulted(Fault::Unavailable { .. })));
    assert_eq!((records.len(), faults(&records)), (1, vec!["unavailable"]));
}

#[test]
fn an_unknown_probe_is_an_error_and_writes_nothing() {
    let (mut records, stop) = (Vec::new(), false.into());
    let request = Request::default();
    let mut run = RunContext { request: &request, sink: &mut records, stop: &stop, device: 0, next_series: 0 };
    assert!(matches!(device("").measure("no-such", &mut run), Err(Fault::Invalid(_))));
    assert!(records.is_empty());
}

#[test]
fn a_wrong_kernel_flags_its_points_and_leaves_a_fault_for_each() {
    let (outcome, records) = measure("wrong=stream", "stream", &Request::default());
    assert!(matches!(outcome, Outcome::Complete));
    let points = points(&records);
    assert!(points.iter().all(|point| point.flags.contains(Flag::VerifyFail)));
    assert_eq!(faults(&records), vec!["verify"; points.len()]);
}
