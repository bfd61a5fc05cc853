//! Every probe from end to end with the fake driver: sweeps are complete, no object leaks, and points measured before a device
//! fails are kept. Kernels aren't checked here: those of the fake driver do nothing.
#![allow(unsafe_code)]

mod common;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use common::{Fake, FakeLibrary, SourceCompiler};
use plimsoll_core::flag::Flag;
use plimsoll_core::probe::{Depth, Instrument, Outcome, Request, RunContext};
use plimsoll_core::record::Record;
use plimsoll_core::{Fault, FaultClass};
use plimsoll_cuda::{Options, open_with};
use plimsoll_gen::Target;
use plimsoll_probes::cuda_probes;

fn options(fake: &Fake) -> Options {
    // An opened library must not be overwritten.
    let path = fake.folder.path().join("libnccl.so.2");
    let nccl = Some(if path.exists() { path } else { FakeLibrary::nccl(fake.folder.path(), &[]).path });
    let sys = Some(common::two_nodes(fake.folder.path()));
    Options { compiler: Some(Arc::new(SourceCompiler)), nccl, sys, ..fake.options() }
}

/// Slow kernels, so that a sample has few of them, and a small cache to flush.
const LONG: &str = "kernel=500000;cache=1048576;devices=2";

/// The probes whose sizes the user can choose.
const BANDWIDTH: [&str; 3] = ["stream", "mix", "copy"];

/// Runs one probe on the configured driver.
fn measure(fake: &Fake, probe: &str, request: &Request) -> Result<(Outcome, Vec<Record>), Fault> {
    let mut bench = open_with(&fake.driver()?, 0, &options(fake), plimsoll_probes::cuda_probes())?;
    let (stop, mut records) = (AtomicBool::new(false), Vec::new());
    let mut run = RunContext { request, sink: &mut records, stop: &stop, device: 0, next_series: 0 };
    let outcome = bench.measure(probe, &mut run)?;
    Ok((outcome, records))
}

/// Small arrays, so that the fake driver has little to do.
fn small() -> Request {
    Request { bytes: Some(64 << 20), seed: 7, ..Request::default() }
}

fn cases(records: &[Record]) -> BTreeSet<String> {
    let case = |record: &Record| match record {
        Record::Series(series) => Some(series.case.clone()),
        _ => None,
    };
    records.iter().filter_map(case).collect()
}

fn points(records: &[Record]) -> usize {
    records.iter().filter(|record| matches!(record, Record::Point(_))).count()
}

#[test]
fn every_probe_completes_and_no_object_leaks() {
    let fake = Fake::new();
    for probe in cuda_probes().iter() {
        let name = probe.spec().name;
        let (outcome, records) = measure(fake.order(LONG), name, &small()).unwrap();
        assert!(matches!(outcome, Outcome::Complete), "{name}: {outcome:?}");
        assert!(points(&records) > 0, "{name}");
        for record in &records {
            match record {
                Record::Point(point) => {
                    assert!(!point.samples.is_empty());
                }
                // The fake driver's kernels do nothing, so verification fails; there is no cuBLAS, and only one real memory node.
                Record::Fault(fault) => {
                    let expected = fault.class == FaultClass::Verify
                        || fault.class == FaultClass::Unavailable
                            && ["cuBLAS", "numa: node "].iter().any(|what| fault.what.starts_with(what));
                    assert!(expected, "{name}: {}", fault.what)
                }
                _ => {}
            }
        }
        assert_eq!(fake.alive(), 0, "{name}");
    }
}

#[test]
fn the_bandwidth_probes_have_the_series_that_their_pages_describe() {
    let fake = Fake::new();
    let series = |probe| cases(&measure(fake.order(LONG), probe, &small()).unwrap().1).into_iter().collect::<Vec<_>>();
    assert_eq!(series("stream"), ["best", "bytes in flight", "configurations", "occupancy", "placements"]);
    assert_eq!(series("mix"), ["bursts", "ceilings", "phased copy"]);
    assert_eq!(series("copy"), ["cold", "grids", "hot", "indices", "one multiprocessor"]);
}

#[test]
fn queued_launches_fit_the_driver_s_queue_and_none_starts_before_all_are_queued() {
    let fake = Fake::new();
    let records = measure(fake.order("kernel=500;cache=1048576"), "launch", &small()).unwrap().1;
    let queued = |record: &Record| match record {
        Record::Point(point) if point.at.first() == Some(&"stream, queued".into()) => Some((point.k, point.flags)),
        _ => None,
    };
    let queued: Vec<_> = records.iter().filter_map(queued).collect();
    assert!(queued.len() > 4, "{}", queued.len());
    assert!(queued.iter().all(|(k, flags)| *k <= 768 && !flags.contains(Flag::VerifyFail)), "{queued:?}");
}

#[test]
fn a_trace_of_copy_has_one_size_hot_and_cold_with_one_launch_per_sample() {
    let fake = Fake::new();
    let request = Request { trace: true, seed: 7, ..Request::default() };
    let (outcome, records) = measure(fake.order(LONG), "copy", &request).unwrap();
    assert!(matches!(outcome, Outcome::Complete), "{outcome:?}");
    assert_eq!(cases(&records).into_iter().collect::<Vec<_>>(), ["trace cold", "trace hot"]);
    for record in &records {
        if let Record::Point(point) = record {
            assert_eq!((point.k, point.work.traffic.read), (1, 16 << 20));
        }
    }
}

#[test]
fn a_device_lost_in_a_probe_keeps_the_points_before_it() {
    let fake = Fake::new();
    for name in BANDWIDTH {
        measure(fake.order(LONG), name, &small()).unwrap();
        let total = fake.total();
        for share in [4, 2] {
            match measure(fake.order(&format!("{LONG};lost-after={}", total / share)), name, &small()) {
                Ok((Outcome::Faulted(fault), _)) => assert!(fault.ends_the_device(), "{name}: {fault}"),
                // The number of calls in a run depends on timing: some runs end before the loss.
                Ok((Outcome::Complete, _)) => {}
                Err(fault) => assert!(!matches!(fault, Fault::Panicked(_)), "{name}: {fault}"),
            }
        }
    }
}

#[test]
fn a_device_with_little_memory_measures_less_and_says_so() {
    let fake = Fake::new();
    for name in BANDWIDTH {
        let (outcome, records) =
            measure(fake.order(&format!("{LONG};memory=1000000000")), name, &Request::default()).unwrap();
        assert!(matches!(outcome, Outcome::Complete), "{name}: {outcome:?}");
        let shrunk = |record: &&Record| matches!(record, Record::Point(point) if point.flags.contains(Flag::Shrunk));
        assert!(records.iter().find(shrunk).is_some(), "{name}");
    }
}

#[test]
fn zero_bytes_and_overflowing_sizes_are_refused_and_large_sizes_are_reduced() {
    let fake = Fake::new();
    for name in BANDWIDTH {
        let measure_bytes = |bytes| {
            measure(fake.order(&format!("{LONG};memory=4000000000")), name, &Request { bytes: Some(bytes), ..small() })
        };
        assert!(matches!(measure_bytes(0).unwrap().0, Outcome::Faulted(Fault::Invalid(_))), "{name}");
        assert!(matches!(measure_bytes(u64::MAX).unwrap().0, Outcome::Faulted(Fault::Invalid(_))), "{name}");
        // A rotation of the smallest slices is a graph of 8192 launches, which takes the fake driver long.
        let few = if name == "mix" { 1 } else { 1 << 20 };
        assert!(matches!(measure_bytes(few).unwrap().0, Outcome::Complete), "{name}");
        assert!(matches!(measure_bytes(1 << 40).unwrap().0, Outcome::Complete), "{name}");
    }
}

#[test]
fn verification_launches_every_kernel_of_every_probe() {
    let fake = Fake::new();
    for probe in cuda_probes().iter() {
        let name = probe.spec().name;
        let mut bench =
            open_with(&fake.order("devices=2").driver().unwrap(), 0, &options(&fake), plimsoll_probes::cuda_probes())
                .unwrap();
        let mut kernels = BTreeSet::new();
        let ended = bench.verify(name, Depth::Small, &mut |case| {
            if case.kernel != "checks" {
                kernels.insert(case.kernel);
            } else {
                // The fake driver's kernels do nothing, and so do those that check.
                assert!(case.wrong.contains("no result can be trusted"), "{case:?}");
            }
        });
        assert!(ended.is_ok(), "{name}: {ended:?}");
        match plimsoll_probes::sources().iter().copied().find(|source| source.name() == name) {
            // The fake device has compute capability 9.0, whose architecture-specific target includes the plain one's kernels.
            Some(source) => {
                let target = Target { capability: 90, specific: true };
                assert_eq!(kernels.len(), source.kernels(target).len(), "{name}");
            }
            // A probe without its own kernels reports cases for those of others; `soak` has a single load.
            None => {
                let least = match name {
                    "soak" => 1,
                    "nccl" | "numa" => 2,
                    _ => 4,
                };
                assert!(kernels.len() >= least, "{name}: {kernels:?}");
            }
        }
    }
}
