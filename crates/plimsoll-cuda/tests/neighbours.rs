//! `neighbours` with a fake driver of several devices: which series and points there are, and what is said where they lack.
#![allow(unsafe_code)]

mod common;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use common::{Fake, SourceCompiler};
use plimsoll_core::probe::{Instrument, Outcome, Request, RunContext};
use plimsoll_core::record::Record;
use plimsoll_core::{Fault, FaultClass};
use plimsoll_cuda::{Options, open_with};

const LONG: &str = "kernel=500000;cache=1048576";

/// Runs `neighbours` on one device of a driver with these orders.
fn measure(orders: &str, device: u32) -> Result<(Fake, Vec<Record>), Fault> {
    let fake = Fake::new();
    let options = Options { compiler: Some(Arc::new(SourceCompiler)), ..fake.options() };
    let driver = fake.order(&format!("{LONG};{orders}")).driver()?;
    let mut bench = open_with(&driver, device, &options, plimsoll_probes::cuda_probes())?;
    let request = Request { bytes: Some(1 << 20), seed: 7, ..Request::default() };
    let (stop, mut records) = (AtomicBool::new(false), Vec::new());
    let mut run = RunContext { request: &request, sink: &mut records, stop: &stop, device: 0, next_series: 0 };
    match bench.measure("neighbours", &mut run)? {
        Outcome::Complete => {}
        Outcome::Faulted(fault) => return Err(fault),
    }
    drop(bench);
    Ok((fake, records))
}

/// The cases of the series, each with its number of points.
fn cases(records: &[Record]) -> Vec<(&str, usize)> {
    let mut cases: Vec<(&str, usize)> = Vec::new();
    for record in records {
        match record {
            Record::Series(series) => cases.push((series.case.as_str(), 0)),
            Record::Point(_) => cases.last_mut().unwrap().1 += 1,
            _ => {}
        }
    }
    cases
}

#[test]
fn four_devices_are_measured_alone_together_and_in_disjoint_pairs_and_nothing_leaks() {
    let (fake, records) = measure("devices=4", 0).unwrap();
    let rounds = cases(&records)[0].1 / 8;
    let expected = [8, 8, 8, 8, 12].map(|points| points * rounds);
    let found = cases(&records);
    assert_eq!(
        found.iter().map(|(case, _)| *case).collect::<Vec<_>>(),
        ["memory reads", "host to device", "device to host", "matrix products", "pairs"]
    );
    assert_eq!(found.iter().map(|(_, points)| *points).collect::<Vec<_>>(), expected);
    assert_eq!(fake.alive(), 0);
}

#[test]
fn points_whose_company_ends_first_are_not_trusted() {
    // The fake driver's work is done at once, so no work of others ever outlasts the timed one.
    let (_, records) = measure("devices=2", 0).unwrap();
    let lacks = |record: &&Record| match record {
        Record::Fault(fault) => fault.class == FaultClass::Verify && fault.what.contains("other devices ended first"),
        _ => false,
    };
    assert!(records.iter().filter(lacks).count() >= 6, "{records:?}");
    assert!(!cases(&records).iter().any(|(case, _)| *case == "pairs"));
}

#[test]
fn one_device_and_any_but_the_first_are_refused_with_the_way_out() {
    for (orders, device, reason, way_out) in [
        ("devices=1", 0, "sees 1 device", "CUDA_VISIBLE_DEVICES"),
        ("devices=2", 1, "cuda:0 measures for all devices", "cuda:0"),
    ] {
        let Err(Fault::Unavailable { why, hint, .. }) = measure(orders, device) else { panic!("{orders}") };
        assert!(why.contains(reason) && hint.contains(way_out), "{why}: {hint}");
    }
}
