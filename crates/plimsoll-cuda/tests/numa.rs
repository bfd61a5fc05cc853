//! Host memory on chosen memory nodes, and `numa` on a fake driver: what can't be placed is left out with the reason.
#![allow(unsafe_code)]

mod common;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use common::{Bare, Fake, SourceCompiler, allowed_cpus, two_nodes};
use plimsoll_core::probe::{Instrument, Outcome, Request, RunContext};
use plimsoll_core::record::Record;
use plimsoll_core::{Fault, FaultClass};
use plimsoll_cuda::memory::{DeviceBuffer, HostBuffer};
use plimsoll_cuda::{Options, open_with};

#[test]
fn placed_memory_is_copied_read_and_freed_like_pinned_memory() {
    let (fake, bare) = Bare::with_orders("");
    let before = fake.alive();
    let mut host = HostBuffer::on_cpus(&bare.context, 10_000, &allowed_cpus()).unwrap();
    host.content().unwrap().iter_mut().zip(0..).for_each(|(byte, place)| *byte = (place % 251) as u8);
    let device = DeviceBuffer::new(&bare.context, 10_000).unwrap();
    host.copy_to(&bare.stream, device.whole()).unwrap();
    let mut other = HostBuffer::on_cpus(&bare.context, 10_000, &allowed_cpus()).unwrap();
    other.copy_from(&bare.stream, device.whole()).unwrap();
    assert_eq!(*other.content().unwrap(), *host.content().unwrap());
    assert!(other.mapped().is_ok());
    drop((host, other, device));
    assert_eq!((fake.alive(), fake.freed_early()), (before, 0));
    assert_eq!(fake.count("cuMemHostUnregister"), 2);
}

#[test]
fn placed_memory_is_freed_after_the_copies_that_use_it() {
    let (fake, bare) = Bare::with_orders("");
    let device = DeviceBuffer::new(&bare.context, 4096).unwrap();
    let mut host = HostBuffer::on_cpus(&bare.context, 4096, &allowed_cpus()).unwrap();
    fake.hold();
    host.copy_from(&bare.stream, device.whole()).unwrap();
    assert!(fake.waits(move || drop(host)));
    assert_eq!(fake.freed_early(), 0);
}

#[test]
fn memory_that_can_not_be_placed_or_pinned_is_a_typed_fault() {
    let (fake, bare) = Bare::with_orders("");
    for cpus in [vec![], vec![1_000_000]] {
        let refused = HostBuffer::on_cpus(&bare.context, 4096, &cpus);
        assert!(matches!(refused, Err(Fault::Unavailable { ref hint, .. }) if hint.contains("cpuset")), "{refused:?}");
    }
    assert!(matches!(HostBuffer::on_cpus(&bare.context, 0, &allowed_cpus()), Err(Fault::Invalid(_))));
    assert!(matches!(HostBuffer::on_cpus(&bare.context, u64::MAX, &allowed_cpus()), Err(Fault::OutOfMemory { .. })));
    drop(bare);
    let bare = Bare::new(fake.order("fail=cuMemHostRegister_v2:2")).unwrap();
    assert!(matches!(HostBuffer::on_cpus(&bare.context, 4096, &allowed_cpus()), Err(Fault::OutOfMemory { .. })));
}

#[test]
fn a_node_whose_memory_is_elsewhere_is_left_out_with_the_reason() {
    let fake = Fake::new();
    let sys = Some(two_nodes(fake.folder.path()));
    let options = Options { compiler: Some(Arc::new(SourceCompiler)), sys, ..fake.options() };
    let driver = fake.order("kernel=500000;cache=1048576").driver().unwrap();
    let mut bench = open_with(&driver, 0, &options, plimsoll_probes::cuda_probes()).unwrap();
    let request = Request { bytes: Some(1 << 20), seed: 7, ..Request::default() };
    let (stop, mut records) = (AtomicBool::new(false), Vec::new());
    let mut run = RunContext { request: &request, sink: &mut records, stop: &stop, device: 0, next_series: 0 };
    assert!(matches!(bench.measure("numa", &mut run).unwrap(), Outcome::Complete));
    drop(bench);
    let reasons: Vec<&str> = records
        .iter()
        .filter_map(|record| match record {
            Record::Fault(fault) if fault.class == FaultClass::Unavailable => Some(fault.what.as_str()),
            _ => None,
        })
        .collect();
    // Where the kernel says nothing about nodes, both are left out.
    assert!(reasons.iter().any(|reason| reason.contains("node 9: only 0 of")) || reasons.len() == 2, "{reasons:?}");
    assert_eq!(fake.alive(), 0);
}

#[test]
fn a_machine_with_one_node_is_refused() {
    let fake = Fake::new();
    let sys = two_nodes(fake.folder.path());
    std::fs::remove_dir_all(sys.join("devices/system/node/node9")).unwrap();
    let options = Options { compiler: Some(Arc::new(SourceCompiler)), sys: Some(sys), ..fake.options() };
    let mut bench = open_with(&fake.order("").driver().unwrap(), 0, &options, plimsoll_probes::cuda_probes()).unwrap();
    let (request, stop, mut records) = (Request::default(), AtomicBool::new(false), Vec::new());
    let mut run = RunContext { request: &request, sink: &mut records, stop: &stop, device: 0, next_series: 0 };
    let why = match bench.measure("numa", &mut run) {
        Ok(Outcome::Faulted(Fault::Unavailable { why, .. })) | Err(Fault::Unavailable { why, .. }) => why,
        other => panic!("{other:?}"),
    };
    assert!(why.contains("one node"), "{why}");
}
