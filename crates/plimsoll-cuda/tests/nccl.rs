//! Collectives with a fake NCCL and a fake driver of several devices: results are correct, and anything that the library lacks,
//! refuses or never answers is a typed fault.
#![allow(unsafe_code)]

mod common;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use common::{Fake, FakeLibrary, SourceCompiler};
use plimsoll_core::Fault;
use plimsoll_core::probe::{Depth, Instrument, Outcome, Request, RunContext};
use plimsoll_core::record::Record;
use plimsoll_cuda::driver::{Context, DeviceHandle, Stream};
use plimsoll_cuda::memory::{DeviceBuffer, Transfer as _};
use plimsoll_cuda::nccl::{Collective, Exchange, Group, Nccl};
use plimsoll_cuda::{Options, open_with};

const DEADLINE: Duration = Duration::from_millis(40);
const COUNT: usize = 5;

/// Some devices of a fake driver, each with a stream and two arrays.
struct Devices {
    fake: Fake,
    vendor: FakeLibrary,
    streams: Vec<Arc<Stream>>,
    send: Vec<DeviceBuffer>,
    receive: Vec<DeviceBuffer>,
}

impl Devices {
    fn new(count: u32) -> Self {
        let fake = Fake::new();
        let vendor = FakeLibrary::nccl(fake.folder.path(), &[]);
        let driver = fake.order(&format!("devices={count}")).driver().unwrap();
        let stream = |device| {
            let context = Context::new(DeviceHandle::new(&driver, device).unwrap(), DEADLINE).unwrap();
            Arc::new(Stream::new(&context).unwrap())
        };
        let streams: Vec<Arc<Stream>> = (0..count).map(stream).collect();
        let array = |bytes: usize| {
            streams.iter().map(|stream| DeviceBuffer::new(stream.context(), bytes as u64).unwrap()).collect()
        };
        let (send, receive): (Vec<DeviceBuffer>, Vec<DeviceBuffer>) =
            (array(4 * COUNT), array(4 * COUNT * count as usize));
        for (rank, (stream, send)) in streams.iter().zip(&send).enumerate() {
            let numbers = (0..COUNT).flat_map(|place| (((rank + 1) * 100 + place) as f32).to_le_bytes());
            send.upload(stream, &numbers.collect::<Vec<u8>>()).unwrap();
        }
        Self { fake, vendor, streams, send, receive }
    }

    fn group(&self) -> Result<Group, Fault> {
        Group::new(&Nccl::find(Some(&self.vendor.path)).unwrap(), &self.streams)
    }

    fn exchanges(&self, collective: Collective) -> Vec<Exchange> {
        let bytes = |receive: &DeviceBuffer| match collective {
            Collective::AllReduce => (4 * COUNT) as u64,
            Collective::AllGather => receive.bytes(),
        };
        let exchange = |(send, receive): (&DeviceBuffer, &DeviceBuffer)| Exchange {
            send: send.whole(),
            receive: receive.part(0, bytes(receive)).unwrap(),
        };
        self.send.iter().zip(&self.receive).map(exchange).collect()
    }

    /// The first numbers that a device received.
    fn received(&self, rank: usize, count: usize) -> Vec<f32> {
        let mut bytes = vec![0; 4 * count];
        self.receive[rank].download(&self.streams[rank], &mut bytes).unwrap();
        bytes.chunks_exact(4).map(|number| f32::from_le_bytes(number.try_into().unwrap())).collect()
    }
}

#[test]
fn every_device_gets_the_sums_and_all_numbers_and_no_object_leaks() {
    let devices = Devices::new(3);
    let group = devices.group().unwrap();
    group.enqueue(Collective::AllReduce, &devices.exchanges(Collective::AllReduce)).unwrap();
    for rank in 0..3 {
        assert_eq!(devices.received(rank, COUNT), [600.0, 603.0, 606.0, 609.0, 612.0], "{rank}");
    }
    group.enqueue(Collective::AllGather, &devices.exchanges(Collective::AllGather)).unwrap();
    let all: Vec<f32> = (1..4).flat_map(|rank| (0..COUNT).map(move |place| (rank * 100 + place) as f32)).collect();
    for rank in 0..3 {
        assert_eq!(devices.received(rank, 3 * COUNT), all, "{rank}");
    }
    assert_eq!((devices.vendor.number("fakenccl_collectives"), devices.vendor.number("fakenccl_alive")), (2, 3));
    drop(group);
    assert_eq!((devices.vendor.number("fakenccl_alive"), devices.vendor.number("fakenccl_aborted")), (0, 0));
    let Devices { fake, streams, send, receive, .. } = devices;
    drop((streams, send, receive));
    assert_eq!(fake.alive(), 0);
}

#[test]
fn wrong_arrays_and_groups_are_refused_before_the_library_is_called() {
    let devices = Devices::new(2);
    let group = devices.group().unwrap();
    let right = devices.exchanges(Collective::AllReduce);
    let swapped = vec![right[1], right[0]];
    let in_place = right.iter().map(|one| Exchange { receive: one.send, ..*one }).collect();
    let freed = DeviceBuffer::new(devices.streams[0].context(), 20).unwrap().whole();
    let gone = vec![Exchange { send: freed, ..right[0] }, right[1]];
    let odd = right.iter().map(|one| Exchange { send: one.send.part(0, 3).unwrap(), ..*one }).collect();
    for (wrong, why) in [
        (right[..1].to_vec(), "of 1 devices for a group of 2"),
        (swapped, "another device"),
        (in_place, "overlap"),
        (gone, "freed"),
        (odd, "sizes"),
        (devices.exchanges(Collective::AllGather), "sizes"),
    ] {
        let refused = group.enqueue(Collective::AllReduce, &wrong);
        assert!(matches!(refused, Err(Fault::Invalid(ref found)) if found.contains(why)), "{why}: {refused:?}");
    }
    assert_eq!((devices.vendor.number("fakenccl_collectives"), devices.vendor.number("fakenccl_open_groups")), (0, 0));
    group.enqueue(Collective::AllReduce, &right).unwrap();
    let nccl = Nccl::find(Some(&devices.vendor.path)).unwrap();
    let [first, second] = [&devices.streams[0], &devices.streams[1]].map(Arc::clone);
    for streams in [vec![], vec![Arc::clone(&first)], vec![first, second.clone(), second]] {
        assert!(matches!(Group::new(&nccl, &streams), Err(Fault::Invalid(_))));
    }
}

#[test]
fn missing_calls_and_refusals_are_reasons_with_a_hint() {
    for missing in ["ncclGetVersion", "ncclCommInitAll", "ncclCommAbort", "ncclGroupEnd", "ncclAllReduce"] {
        let folder = tempfile::tempdir().unwrap();
        let vendor = FakeLibrary::nccl(folder.path(), &[missing]);
        let reason = Nccl::find(Some(&vendor.path)).unwrap_err();
        assert!(reason.why.contains(missing) && reason.hint.contains("pip install"), "{reason}");
    }
    let devices = Devices::new(2);
    assert_eq!(Nccl::find(Some(&devices.vendor.path)).unwrap().version_text(), "2.27.3");
    let calls = ["ncclCommInitAll", "ncclGroupStart", "ncclAllReduce", "ncclGroupEnd", "ncclCommGetAsyncError"];
    for order in calls.map(|call| format!("fail={call}:2")).into_iter().chain(["asynchronous=2".to_owned()]) {
        devices.vendor.order(&order);
        let exchanges = devices.exchanges(Collective::AllReduce);
        let ended = devices.group().and_then(|group| group.enqueue(Collective::AllReduce, &exchanges));
        let Err(Fault::Unavailable { what, why, hint }) = ended else { panic!("{order}: {ended:?}") };
        assert!(what == "NCCL" && why.contains("unhandled system error"), "{order}: {why}");
        assert!(hint.contains("NCCL_DEBUG=WARN"), "{hint}");
        assert_eq!(devices.vendor.number("fakenccl_alive"), 0, "{order}");
    }
}

#[test]
fn calls_that_never_return_are_given_up_and_hold_what_they_use() {
    for (call, made) in [("ncclCommInitAll", false), ("ncclGroupEnd", true)] {
        let devices = Devices::new(2);
        devices.vendor.order(&format!("hang={call}:2000"));
        let begin = Instant::now();
        let exchanges = devices.exchanges(Collective::AllReduce);
        let ended = devices.group().and_then(|group| {
            assert!(made, "{call}");
            group.enqueue(Collective::AllReduce, &exchanges)
        });
        assert!(matches!(ended, Err(Fault::Hung { call: hung, .. }) if hung == call), "{ended:?}");
        assert!(begin.elapsed() < Duration::from_secs(1), "{call}: {:?}", begin.elapsed());
        // Nothing is freed that the call may still use.
        assert!(devices.streams.iter().all(|stream| stream.context().is_given_up()), "{call}");
        let alive = devices.fake.alive();
        let Devices { fake, send, receive, .. } = devices;
        drop((send, receive));
        assert_eq!(fake.alive(), alive, "{call}");
        // The copy of the library must outlive its call.
        std::thread::sleep(Duration::from_millis(2100));
    }
}

#[test]
fn communicators_whose_work_does_not_end_are_aborted() {
    let devices = Devices::new(2);
    let group = devices.group().unwrap();
    devices.fake.hold();
    // Unfinished work in front of the collective.
    devices.receive[1].whole().fill(&devices.streams[1], 1).unwrap();
    drop(group);
    assert_eq!((devices.vendor.number("fakenccl_aborted"), devices.vendor.number("fakenccl_alive")), (2, 0));
    devices.fake.finish();
}

/// Runs the probe with a fake NCCL and a fake driver that have these orders.
fn measure(devices: u32, orders: &str) -> (Fake, FakeLibrary, Result<Outcome, Fault>, Vec<Record>) {
    let fake = Fake::new();
    let vendor = FakeLibrary::nccl(fake.folder.path(), &[]);
    vendor.order(orders);
    let options =
        Options { compiler: Some(Arc::new(SourceCompiler)), nccl: Some(vendor.path.clone()), ..fake.options() };
    let driver = fake.order(&format!("kernel=500000;cache=1048576;devices={devices}")).driver().unwrap();
    let mut bench = open_with(&driver, 0, &options, plimsoll_probes::cuda_probes()).unwrap();
    let request = Request { bytes: Some(1 << 14), seed: 7, ..Request::default() };
    let (stop, mut records) = (AtomicBool::new(false), Vec::new());
    let mut run = RunContext { request: &request, sink: &mut records, stop: &stop, device: 0, next_series: 0 };
    let outcome = bench.measure("nccl", &mut run);
    drop(bench);
    (fake, vendor, outcome, records)
}

#[test]
fn the_probe_measures_both_operations_at_every_size_and_no_object_leaks() {
    let (fake, vendor, outcome, records) = measure(3, "");
    assert!(matches!(outcome, Ok(Outcome::Complete)), "{outcome:?}");
    let point = |record: &Record| match record {
        Record::Point(point) => Some((point.at[0].text()?.to_owned(), point.at[1].number()? as u64)),
        _ => None,
    };
    let mut points: Vec<(String, u64)> = records.iter().filter_map(point).collect();
    points.sort();
    points.dedup();
    // From 8 to 16 KiB, in whole numbers for three devices.
    let sizes = |operation: &str| [8196, 16_380].map(|size| (operation.to_owned(), size)).to_vec();
    assert_eq!(points, [sizes("all-gather"), sizes("all-reduce")].concat());
    assert!(vendor.number("fakenccl_collectives") > 100);
    assert_eq!((vendor.number("fakenccl_alive"), fake.alive()), (0, 0));
}

#[test]
fn the_probe_needs_two_devices_and_a_library_that_starts() {
    let (_, _, outcome, _) = measure(1, "");
    let unavailable = |outcome: Result<Outcome, Fault>| match outcome {
        Ok(Outcome::Faulted(Fault::Unavailable { why, hint, .. })) | Err(Fault::Unavailable { why, hint, .. }) => {
            (why, hint)
        }
        other => panic!("{other:?}"),
    };
    assert!(unavailable(outcome).0.contains("sees 1 device"));
    let (fake, vendor, outcome, _) = measure(2, "fail=ncclCommInitAll:2");
    let (why, hint) = unavailable(outcome);
    assert!(why.contains("ncclCommInitAll: unhandled system error") && hint.contains("NCCL_DEBUG=WARN"), "{why}");
    assert_eq!((vendor.number("fakenccl_alive"), fake.alive()), (0, 0));
}

#[test]
fn verification_covers_both_operations() {
    let fake = Fake::new();
    let vendor = FakeLibrary::nccl(fake.folder.path(), &[]);
    let options =
        Options { compiler: Some(Arc::new(SourceCompiler)), nccl: Some(vendor.path.clone()), ..fake.options() };
    let driver = fake.order("devices=2").driver().unwrap();
    let mut bench = open_with(&driver, 0, &options, plimsoll_probes::cuda_probes()).unwrap();
    let mut cases = Vec::new();
    bench.verify("nccl", Depth::Small, &mut |case| cases.push((case.kernel, case.on))).unwrap();
    for operation in ["all-reduce", "all-gather"] {
        assert_eq!(cases.iter().filter(|(kernel, _)| kernel == operation).count(), 4, "{cases:?}");
    }
}
