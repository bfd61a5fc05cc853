//! Folders that are made to cost time, and lists that are cut off.

use std::time::{Duration, Instant};

use plimsoll_core::record::{Record, Run};

use super::{File, PROBES, judge, problems};
use crate::fleet::collect::{Options, collect};
use crate::fleet::complete::Kind;
use crate::fleet::device::{COMPARED_NOTES, Device};
use crate::fleet::file::{LARGEST, lines, reduce};
use crate::fleet::read::{Folder, Partial, read_folder};

/// Changes the device of a number.
type Change = dyn Fn(u32, &mut Device);

/// The time to judge `files` files: none has a setting or a model in common with another, or all are of one host, and all were cut off.
fn time_of_hostile_files(files: u32) -> Duration {
    let template = Device::from_run(Run::from_records(File::new(0).records()).unwrap(), "f", PROBES).unwrap();
    let fleets: [&Change; 3] = [
        &|number, device| (device.model, device.settings) = (format!("model {}", number / 4), Vec::new()),
        &|number, device| device.settings.push(("size", number.to_string())),
        &|number, device| (device.host, device.slot) = ("n0".to_owned(), number.to_string()),
    ];
    let begun = Instant::now();
    for change in fleets {
        let mut folder = Folder::default();
        for number in 0..files {
            let mut device = Device { id: number.to_string(), host: number.to_string(), ..template.clone() };
            device.rank = None;
            change(number, &mut device);
            folder.devices.push(device);
            folder.partial.push(Partial {
                file: number.to_string(),
                member: File::new(0).member(),
                ids: (0..8).map(|device| format!("other {number} {device}")).collect(),
                started: String::new(),
                probes: Vec::new(),
            });
        }
        let fleet = collect(folder, &Options::default());
        let cut_off = fleet.problems.iter().filter(|problem| problem.kind == Kind::CutOff).count();
        assert_eq!((fleet.devices.len(), cut_off), (files as usize, files as usize));
    }
    begun.elapsed()
}

#[test]
fn hostile_files_take_time_in_proportion_to_their_number() {
    let best = |files| (0..3).map(|_| time_of_hostile_files(files)).min().unwrap();
    let (few, many) = (best(3000), best(12_000));
    // Four times as long, or sixteen times with a loop over all pairs.
    assert!(many < 9 * few, "{few:?} {many:?}");
}

#[test]
fn long_names_of_a_measurement_that_was_cut_off_are_shortened() {
    let file = File { id: "i".repeat(5000), host: "h".repeat(5000), ..File::new(3) };
    let folder = tempfile::TempDir::new().unwrap();
    let cut = lines(&file.records()[..3]);
    std::fs::write(folder.path().join(".x.part"), cut).unwrap();
    let read = read_folder(folder.path(), PROBES).unwrap();
    let [partial] = &read.partial[..] else { panic!("{read:?}") };
    let lengths = [&partial.member.host, &partial.ids[0]].map(|name| name.chars().count());
    assert!(lengths.iter().all(|length| *length <= 101), "{lengths:?}");
    let fleet = collect(read, &Options::default());
    assert!(fleet.problems[0].text.len() < 400, "{}", fleet.problems[0].text);
}

#[test]
fn settings_beyond_those_that_are_listed_are_counted() {
    let fleet = judge(&Options::default(), |files| {
        for (number, file) in files.iter_mut().enumerate().take(25) {
            file.health.power_limit = Some(400.0 + number as f64);
        }
    });
    let mixed: Vec<&str> =
        problems(&fleet).into_iter().filter(|(kind, _)| *kind == Kind::Mixed).map(|(_, text)| text).collect();
    assert_eq!(mixed.len(), 21);
    assert_eq!(mixed[20], "5 more devices differ in their settings from the most common ones of their model");
}

/// A device with hundreds of long notes fills no file with them, and still has its settings and its slot.
#[test]
fn a_long_header_keeps_what_devices_are_compared_by() {
    let file = File::new(3);
    let mut records = file.records();
    if let Record::Run(header) = &mut records[0] {
        let notes = &mut header.devices[0].notes;
        notes.extend((0..300).map(|number| (format!("A {number}"), "long ".repeat(40))));
        for name in COMPARED_NOTES {
            notes.insert(name.to_owned(), format!("its {name} {}", "and more ".repeat(8)));
        }
        notes.insert("short".to_owned(), "kept".to_owned());
    }
    let run = Run::from_records(records).unwrap();
    let reduced = reduce(&run, 0, &file.member(), PROBES).unwrap();
    assert!(lines(&reduced).len() <= LARGEST);
    let reduced = Run::from_records(reduced).unwrap();
    assert_eq!(reduced.header.devices[0].notes.len(), 40);
    assert_eq!(reduced.header.devices[0].notes.get("short").map(String::as_str), Some("kept"));
    let [whole, short] = [run, reduced].map(|run| Device::from_run(run, "f", PROBES).unwrap());
    assert!(whole.settings.len() >= 5 && whole.settings == short.settings, "{:?} {:?}", whole.settings, short.settings);
    assert_eq!(whole.slot, short.slot);
}
