//! Each format of a fleet with hostile names, and the reduced file of a real record.

use std::path::Path;

use plimsoll_core::Flags;
use plimsoll_core::device::DeviceInfo;
use plimsoll_core::record::{Member, Record, Run, path_in, read_file};
use plimsoll_probes::stream;
use plimsoll_suite::fleet::collect::{Fleet, Options, collect};
use plimsoll_suite::fleet::device::Device;
use plimsoll_suite::fleet::file::{LARGEST, Origin, file_name, lines, recompute, reduce};
use plimsoll_suite::fleet::read::Folder;
use plimsoll_suite::fleet::strata::FigureOfFleet;
use plimsoll_suite::headlines::{derive_findings, figures};
use unicode_width::UnicodeWidthStr;

use super::{render_html, render_json, render_kubernetes, render_openmetrics, render_slurm, render_table, sentence};
use crate::synthetic;
use crate::terminal::Style;

const HOSTILE: &str = "<script>alert(1)</script> \"x\" \x1b[31m\u{202e}\\ 'y; reboot";

fn member(host: &str) -> Member {
    Member { host: host.to_owned(), rank: None, job: None, rack: None, round: 1 }
}

/// A run of `stream` whose figures follow from its samples.
fn run(name: &str, slower: f64) -> Run {
    let mut builder = synthetic::RunBuilder::new(name, "2026-01-02T03:04:05Z");
    builder.series("stream", stream::best());
    for (kernel, rate) in [("read", 61.2e9), ("init", 55e9), ("copy", 58.1e9)] {
        let work = synthetic::bytes(1 << 30, 0);
        let at = vec![kernel.into(), "ordinary".into(), 8_u64.into()];
        builder.point(at, slower * work.traffic.total() as f64 / rate, work, Flags::NONE);
    }
    let mut run = builder.run();
    run.findings = derive_findings(&run, plimsoll_probes::ALL);
    run
}

/// Eight devices of one host, the last of them slow.
fn fleet() -> Fleet {
    fleet_of(HOSTILE)
}

fn fleet_of(host: &str) -> Fleet {
    let device = |slot: u32| {
        let mut run = run(HOSTILE, if slot == 7 { 1.2 } else { 1.0 });
        run.member = Some(member(host));
        let info = &mut run.header.devices[0];
        info.backend = "cuda".to_owned();
        info.id = format!("{HOSTILE}-{slot}");
        info.notes.insert("PCIe address".to_owned(), format!("0000:{slot:02x}:00.0"));
        Device::from_run(run, "file.jsonl", plimsoll_probes::ALL).unwrap()
    };
    collect(Folder { devices: (0..8).map(device).collect(), ..Folder::default() }, &Options::default())
}

#[test]
fn the_table_fits_and_begins_with_the_verdict() {
    let fleet = fleet();
    assert!(sentence(&fleet).starts_with("slow: of 8 devices 1 is slow"), "{}", sentence(&fleet));
    for width in [60, 80, 120] {
        let text = render_table(&fleet, true, &Style { width, ..Style::PLAIN });
        assert!(text.starts_with("slow: "), "{text}");
        assert!(text.lines().all(|line| line.width() <= width), "{width}:\n{text}");
        assert!(!text.contains(['\x1b', '\u{202e}']), "{text:?}");
    }
}

#[test]
fn names_from_files_cannot_leave_their_place_in_any_format() {
    let fleet = fleet();
    let page = render_html(&fleet);
    assert!(!page.contains("<script") && !page.contains('\x1b') && page.contains("&lt;script&gt;"));
    let json: serde_json::Value = serde_json::from_str(&render_json(&fleet)).unwrap();
    assert_eq!((json["verdict"].as_str(), json["devices"].as_array().unwrap().len()), (Some("slow"), 8));
    let commands = render_slurm(&fleet);
    assert!(commands.starts_with("# not a node's name: ") && commands.lines().count() == 1, "{commands}");
}

#[test]
fn drain_commands_are_for_single_nodes() {
    let command = render_slurm(&fleet_of("n1"));
    assert!(command.starts_with("scontrol update NodeName=n1 State=DRAIN Reason='plimsoll: "), "{command}");
    assert!(!command.contains([';', '<', '\\', '"']) && command.matches('\'').count() == 2, "{command}");
    for host in ["ALL", "all", "n1;", "n[1-9]", ".n1"] {
        let commands = render_slurm(&fleet_of(host));
        assert!(commands.starts_with("# not a node's name: ") && commands.lines().count() == 1, "{host}: {commands}");
    }
}

#[test]
fn conditions_are_patches_of_single_nodes() {
    let command = render_kubernetes(&fleet_of("n1"));
    let (start, patch) = command.trim_end().split_once(" --patch='").unwrap();
    assert_eq!(start, "kubectl patch node n1 --subresource=status --type=strategic");
    let patch: serde_json::Value = serde_json::from_str(patch.strip_suffix('\'').unwrap()).unwrap();
    let condition = &patch["status"]["conditions"][0];
    assert_eq!((condition["status"].as_str(), condition["reason"].as_str()), (Some("True"), Some("GpuSlow")));
    let message = condition["message"].as_str().unwrap();
    assert!(message.starts_with("plimsoll: ") && message.contains(" slow "), "{message}");
    let started = &fleet_of("n1").devices[0].device.started;
    assert_eq!(condition["lastHeartbeatTime"].as_str().map(|time| &time[..19]), started.get(..19));
    let message_of = |fleet: &Fleet| render_kubernetes(fleet).split_once("\"message\":\"").unwrap().1.to_owned();
    let mut healthy = fleet_of("n1");
    healthy.devices.truncate(7);
    assert!(message_of(&healthy).starts_with("plimsoll: no fault found in 7 devices\",\"reason\":\"NoFaultFound"));
    // Nobody knows whose device is missing.
    healthy.missing = 1;
    let text = message_of(&healthy);
    assert!(text.contains("\"reason\":\"FilesMissing\",\"status\":\"Unknown\""), "{text}");
    for host in ["N1", "n1;", "-n", "n..1", "", "$(id)", "n1' --all"] {
        let commands = render_kubernetes(&fleet_of(host));
        assert!(commands.starts_with("# not a node's name: ") && commands.lines().count() == 1, "{host}: {commands}");
    }
}

#[test]
fn openmetrics_has_one_line_per_sample_with_escaped_labels() {
    let text = render_openmetrics(&fleet());
    assert!(text.ends_with("# EOF\n"), "{text}");
    let mut types: Vec<&str> = Vec::new();
    for line in text.lines().filter(|line| *line != "# EOF") {
        if let Some(name) = line.strip_prefix("# TYPE ") {
            types.push(name.strip_suffix(" gauge").unwrap());
        } else if !line.starts_with("# HELP ") {
            let (labels, value) = line.rsplit_once(' ').unwrap();
            assert!(value.parse::<f64>().is_ok(), "{line}");
            let name = labels.split('{').next().unwrap();
            assert_eq!(types.last(), Some(&name), "{line}");
            // Every quote within a label's value is escaped.
            let quotes = labels.replace("\\\\", "").replace("\\\"", "").matches('"').count();
            assert_eq!(quotes, 2 * labels.matches("=\"").count(), "{line}");
        }
    }
    assert!(
        text.contains("plimsoll_device_figure_bytes_per_second{") && text.contains("verdict=\"slow\"} 1"),
        "{text}"
    );
}

/// A check of a real H200, as `check --fleet` would keep it.
#[test]
fn a_reduced_record_gives_the_same_figures_within_its_size() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../records/h200/2026-11-25-check/busy");
    let run = read_file(&path_in(&folder)).unwrap();
    let records = reduce(&run, 0, &member("n1"), plimsoll_probes::ALL).unwrap();
    assert!(lines(&records).len() <= LARGEST, "{}", lines(&records).len());
    let mut again = Run::from_records(records).unwrap();
    assert!(again.damaged_lines == 0 && again.member.is_some());
    let origins = recompute(&mut again, plimsoll_probes::ALL);
    assert!(origins.len() > 8 && origins.iter().all(|(_, origin)| *origin == Origin::Confirmed), "{origins:?}");
    let before = figures(&run, 0, plimsoll_probes::ALL);
    for figure in figures(&again, 0, plimsoll_probes::ALL) {
        let old = before.iter().find(|old| old.headline.id == figure.headline.id).unwrap();
        let change = figure.finding.value / old.finding.value - 1.0;
        // Samples may have been thinned.
        assert!(change.abs() < 1e-3, "{}: {change}", figure.headline.id);
    }
}

#[test]
fn a_long_header_is_shortened_and_one_that_cannot_be_is_refused() {
    let mut long = run("Box", 1.0);
    long.header.argv = vec!["x".repeat(50_000); 3];
    long.header.host = (0..200).map(|number| (format!("fact {number}"), "y".repeat(900))).collect();
    let info = &mut long.header.devices[0];
    info.notes.insert("PCIe address".to_owned(), "0000:01:00.0".to_owned());
    info.notes.insert("driver release".to_owned(), "z".repeat(100_000));
    let plain = run("Box", 1.0);
    let samples = |records: &[Record]| records.iter().filter(|record| matches!(record, Record::Point(_))).count();
    let records = reduce(&long, 0, &member("n1"), plimsoll_probes::ALL).unwrap();
    assert!(lines(&records).len() <= LARGEST);
    assert_eq!(samples(&records), samples(&reduce(&plain, 0, &member("n1"), plimsoll_probes::ALL).unwrap()));
    let device = Device::from_run(Run::from_records(records).unwrap(), "f", plimsoll_probes::ALL).unwrap();
    assert_eq!((device.slot.as_str(), device.unchecked.len()), ("0000:01:00.0", 0));
    long.header.devices[0].id = "x".repeat(50_000);
    assert_eq!(reduce(&long, 0, &member("n1"), plimsoll_probes::ALL), None);
}

#[test]
fn pages_of_thousands_of_strata_are_short_and_gauges_stay_distinct() {
    let mut fleet = fleet();
    let (population, figures) = (fleet.populations[0].clone(), fleet.figures.clone());
    for number in 1..2000 {
        fleet.populations.push(population.clone());
        fleet.figures.extend(figures.iter().map(|figure| FigureOfFleet { population: number, ..figure.clone() }));
    }
    let page = render_html(&fleet);
    assert!(page.matches("<tr").count() < 1200 && page.contains("more figures"), "{}", page.matches("<tr").count());
    let table = render_table(&fleet, false, &Style::PLAIN);
    assert!(table.lines().count() < 500 && table.contains("(1980 more populations: --all lists them)"), "{table}");
}

#[test]
fn gauges_of_devices_with_equal_names_stay_apart_and_strata_keep_their_labels() {
    let mut fleet = fleet();
    let labels = |fleet: &Fleet| {
        let text = render_openmetrics(fleet);
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        samples.map(|line| line.rsplit_once(' ').unwrap().0.to_owned()).collect::<Vec<_>>()
    };
    let stratum = |fleet: &Fleet| labels(fleet).into_iter().find(|line| line.contains("stratum=")).unwrap();
    let before = stratum(&fleet);
    // A CPU may have a GPU's identity, and hidden characters don't count.
    let twin = fleet.devices[0].clone();
    fleet.devices[1].device = twin.device.clone();
    fleet.devices[2].device = twin.device;
    fleet.devices[2].device.id += "\u{200b}";
    let all = labels(&fleet);
    assert_eq!(all.iter().collect::<std::collections::BTreeSet<_>>().len(), all.len());
    // Another, larger stratum changes the order.
    let other = fleet.strata[0].clone();
    fleet.strata.insert(0, other);
    fleet.strata[0].model = "Other".to_owned();
    fleet.populations[0].stratum = 1;
    assert_eq!(stratum(&fleet), before);
}

#[test]
fn two_devices_of_a_run_are_kept_apart() {
    let mut run = synthetic::run("Box", "2026-01-02T03:04:05Z", 1.0);
    run.header.devices.push(DeviceInfo { id: "second".to_owned(), ..DeviceInfo::default() });
    let records = |device| reduce(&run, device, &member("n1"), plimsoll_probes::ALL);
    let findings = |records: &[Record]| records.iter().filter(|record| matches!(record, Record::Finding(_))).count();
    assert!(findings(&records(0).unwrap()) > 0);
    let second = records(1).unwrap();
    assert_eq!(findings(&second), 0);
    assert!(matches!(&second[0], Record::Run(header) if header.devices.len() == 1 && header.devices[0].id == "second"));
    assert_eq!(records(2), None);
    assert_eq!(file_name(&member("../n1"), &run.header.devices[1]), "n1-second.jsonl");
}
