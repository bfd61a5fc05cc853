//! Fleets whose devices computed different bits.

use plimsoll_core::record::{Finding, Record, Run};
use plimsoll_core::stats::Interval;
use plimsoll_core::unit::Unit;

use super::{File, PROBES, not_healthy};
use crate::check::Verdict;
use crate::fleet::collect::{Fleet, Options, collect};
use crate::fleet::device::Device;
use crate::fleet::read::Folder;

/// The findings of a device: kernel, version, digest as a number.
type Digests = Vec<(&'static str, &'static str, f64)>;

/// A file with digests, which another version of the tool may have written.
fn device(file: &File, tool: &str, digests: &Digests) -> Device {
    let finding = |(kernel, version, value): &(&str, &str, f64)| {
        Record::Finding(Finding {
            device: 0,
            probe: "digest".to_owned(),
            name: (*kernel).to_owned(),
            value: *value,
            interval: Interval { lo: *value, hi: *value },
            unit: Unit::Digest,
            flags: plimsoll_core::Flags::NONE,
            metric: (*version).to_owned(),
            says: String::new(),
            published: None,
        })
    };
    let mut records = file.records();
    let end = records.pop();
    records.extend(digests.iter().map(finding).chain(end));
    if let Record::Run(header) = &mut records[0] {
        header.tool = tool.to_owned();
    }
    Device::from_run(Run::from_records(records).unwrap(), "f", PROBES).unwrap()
}

/// Judges eight devices of one version of the tool.
fn judge(digests: impl Fn(u32) -> Digests) -> Fleet {
    let devices = (0..8).map(|number| device(&File::new(number), "0.1.0", &digests(number))).collect();
    collect(Folder { devices, ..Folder::default() }, &Options::default())
}

fn usual(kernel: &'static str) -> (&'static str, &'static str, f64) {
    (kernel, "digest 1", 7.0)
}

#[test]
fn a_device_with_another_digest_is_broken_and_the_reason_names_kernel_and_digests() {
    let fleet = judge(|number| {
        let odd = ("integer", "digest 1", if number == 3 { f64::from(u32::MAX) } else { 7.0 });
        vec![usual("FMA f32"), odd]
    });
    let text = "digest of integer: 0xffffffff, but 0x00000007 on 7 of 8 NVIDIA H200";
    assert_eq!(not_healthy(&fleet), [("GPU-3", Verdict::Broken, text)]);
    assert_eq!((fleet.verdict(), fleet.count(Verdict::Healthy)), (Verdict::Broken, 7));
}

#[test]
fn models_tools_and_versions_of_the_kernel_vote_apart() {
    let versions =
        judge(|number| vec![("integer", if number < 4 { "digest 1" } else { "digest 2" }, f64::from(number / 4))]);
    assert_eq!(versions.count(Verdict::Healthy), 8, "{:?}", not_healthy(&versions));
    let apart = |change: &dyn Fn(u32, &mut File) -> &'static str| {
        let devices = (0..8).map(|number| {
            let mut file = File::new(number);
            let tool = change(number / 4, &mut file);
            device(&file, tool, &vec![("integer", "digest 1", f64::from(number / 4))])
        });
        let folder = Folder { devices: devices.collect(), ..Folder::default() };
        collect(folder, &Options::default()).count(Verdict::Broken)
    };
    assert_eq!(apart(&|half, _| ["0.1.0", "0.2.0"][half as usize]), 0);
    let by_model = |half: u32, file: &mut File| {
        file.model = ["NVIDIA H200", "NVIDIA H100"][half as usize];
        "0.1.0"
    };
    assert_eq!(apart(&by_model), 0);
}

#[test]
fn without_a_majority_all_are_unknown_and_without_a_digest_only_the_device() {
    let tie = judge(|number| vec![("integer", "digest 1", f64::from(number % 2))]);
    assert_eq!((tie.count(Verdict::Unknown), tie.verdict()), (8, Verdict::Unknown));
    let text = "digest of integer: 0x00000000 on 4 of 8 NVIDIA H200, no majority";
    assert_eq!(not_healthy(&tie)[0], ("GPU-0", Verdict::Unknown, text));
    let missing = judge(|number| if number == 5 { vec![] } else { vec![usual("FMA f32"), usual("integer")] });
    assert_eq!(not_healthy(&missing), [("GPU-5", Verdict::Unknown, "no digest to compare: FMA f32, integer")]);
    let rare = judge(|number| if number < 2 { vec![usual("integer")] } else { vec![] });
    assert_eq!(rare.count(Verdict::Healthy), 8, "{:?}", not_healthy(&rare));
}

#[test]
fn a_device_whose_rounds_differ_is_broken() {
    let mut devices: Vec<Device> =
        (0..4).map(|number| device(&File::new(number), "0.1.0", &vec![usual("integer")])).collect();
    devices.push(device(&File { round: 2, ..File::new(2) }, "0.1.0", &vec![("integer", "digest 1", 9.0)]));
    let fleet = collect(Folder { devices, ..Folder::default() }, &Options::default());
    let text = "digest of integer: 0x00000007 in one run, 0x00000009 in another";
    assert_eq!(not_healthy(&fleet), [("GPU-2", Verdict::Broken, text)]);
}

#[test]
fn numbers_that_are_no_digests_and_too_many_of_them_are_left_out() {
    let strange = device(
        &File::new(0),
        "0.1.0",
        &vec![
            ("a", "", 0.5),
            ("b", "", -1.0),
            ("c", "", 4_294_967_296.0),
            ("d", "", 1e280),
            usual("e"),
            ("e", "", 8.0),
        ],
    );
    let kept: Vec<(&str, u32)> = strange.digests.iter().map(|digest| (digest.kernel.as_str(), digest.bits)).collect();
    assert_eq!(kept, [("e", 7)]);
    let names: Vec<&'static str> = (0..1000).map(|number| &*Box::leak(number.to_string().into_boxed_str())).collect();
    let many: Digests = names.into_iter().map(usual).collect();
    assert_eq!(device(&File::new(0), "0.1.0", &many).digests.len(), 32);
}
