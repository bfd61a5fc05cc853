//! Fleets with known faults, written as files and read back.

mod bounds;
mod digests;

use std::fs;

use plimsoll_core::device::DeviceInfo;
use plimsoll_core::headline::{Better, Headline};
use plimsoll_core::health::Health;
use plimsoll_core::probe::ProbeSpec;
use plimsoll_core::record::{Finding, Member, Rank, Record, RunHeader};
use plimsoll_core::sample::{CachePolicy, Effort, Figure, Work};
use plimsoll_core::series::{Axis, Draw, Point, Row, Series, SeriesSpec};
use plimsoll_core::stats::Interval;
use plimsoll_core::unit::Unit;
use tempfile::TempDir;

use crate::check::Verdict;
use crate::fleet::collect::{Baseline, Fleet, Options, collect};
use crate::fleet::complete::{Expected, Kind};
use crate::fleet::file::{file_name, lines};
use crate::fleet::read::{LARGEST_READ, read_folder};

/// Each row of the series is a figure: its name and its value.
fn derive(_: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let finding = |row: &Row| {
        let value = row.points[0].extra["figure"];
        Finding {
            device: 0,
            probe: "stream".to_owned(),
            name: row.at[0].to_string(),
            value,
            interval: Interval { lo: value * 0.9995, hi: value * 1.0005 },
            unit: Unit::BytePerSecond,
            flags: plimsoll_core::Flags::NONE,
            metric: "bandwidth".to_owned(),
            says: String::new(),
            published: None,
        }
    };
    series.iter().flat_map(|series| &series.rows).map(finding).collect()
}

fn series() -> SeriesSpec {
    let name = Axis { name: "name".to_owned(), unit: Unit::One };
    SeriesSpec {
        probe: "stream".to_owned(),
        ..SeriesSpec::new("figures", Figure::Throughput, CachePolicy::Hot, vec![name], vec![], Draw::Table)
    }
}

static STREAM: ProbeSpec = ProbeSpec {
    headlines: &[
        Headline::gate("memory-read", "memory read", Better::More, &["read"], 0.003),
        Headline::gate("memory-write", "memory write", Better::More, &["init"], 0.003),
    ],
    ..ProbeSpec::unlisted("stream", derive)
};
const PROBES: &[&ProbeSpec] = &[&STREAM];

/// A device's file.
#[derive(Clone)]
struct File {
    host: String,
    rack: Option<String>,
    slot: u32,
    id: String,
    model: &'static str,
    started: &'static str,
    round: u32,
    rank: Option<u32>,
    health: Health,
    /// Shares of the typical read and write; 0 where it wasn't measured.
    figures: [f64; 2],
    /// Whether the file has samples of the read and of the write.
    has_samples: [bool; 2],
}

impl File {
    fn new(number: u32) -> Self {
        Self {
            host: format!("n{}", number / 8),
            rack: None,
            slot: number % 8,
            id: format!("GPU-{number}"),
            model: "NVIDIA H200",
            started: "2026-01-02T03:04:05Z",
            round: 1,
            rank: Some(number),
            health: Health { power_limit: Some(700.0), ..Health::default() },
            // Cards differ by up to 0.2 %.
            has_samples: [true; 2],
            figures: [0, 1].map(|figure| 1.0 + 0.001 * (f64::from((7 * number + 3 * figure) % 5) - 2.0)),
        }
    }

    fn records(&self) -> Vec<Record> {
        let info = DeviceInfo {
            name: self.model.to_owned(),
            id: self.id.clone(),
            backend: "cuda".to_owned(),
            health: self.health.clone(),
            notes: [("PCIe address".to_owned(), format!("0000:{:02x}:00.0", self.slot))].into(),
            ..DeviceInfo::default()
        };
        let header = RunHeader {
            schema: 1,
            tool: "0.1.0".to_owned(),
            started: self.started.to_owned(),
            argv: vec![],
            conditions: plimsoll_core::record::Conditions::default(),
            effort: Effort::Quick,
            seed: 0,
            host: std::collections::BTreeMap::new(),
            devices: vec![info],
        };
        let [read, write] = self.figures;
        let figures = [("read", 4.63e12 * read), ("init", 4.68e12 * write)];
        let point = |(name, value): (&str, f64)| Point {
            extra: [("figure".to_owned(), value)].into(),
            ..Point::new(vec![name.into()], Work::default(), vec![1000; 5])
        };
        let is_measured = |(_, value): &(&str, f64)| *value > 0.0;
        let all: Vec<Point> = figures.into_iter().filter(is_measured).map(point).collect();
        let findings = derive(&DeviceInfo::default(), &[Series::new(series(), all)]);
        let sampled = figures.into_iter().zip(self.has_samples).filter(|(_, has)| *has).map(|(figure, _)| figure);
        let points = sampled.filter(is_measured).map(point).map(Record::Point);
        let head = [Record::Run(header), Record::Member(self.member()), Record::Series(series())];
        let findings = findings.into_iter().map(Record::Finding);
        head.into_iter().chain(points).chain(findings).chain([Record::End { complete: true }]).collect()
    }

    fn member(&self) -> Member {
        let rank = self.rank.map(|number| Rank { number, world: Some(64), source: "SLURM_PROCID".to_owned() });
        Member { host: self.host.clone(), rank, job: None, rack: self.rack.clone(), round: self.round }
    }

    fn write(&self, folder: &TempDir) {
        let info = DeviceInfo { id: self.id.clone(), ..DeviceInfo::default() };
        fs::write(folder.path().join(file_name(&self.member(), &info)), lines(&self.records())).unwrap();
    }
}

/// Writes 64 files after a change, and judges them.
fn judge(options: &Options, change: impl FnOnce(&mut Vec<File>)) -> Fleet {
    judge_folder(options, change, |_| {})
}

fn judge_folder(options: &Options, change: impl FnOnce(&mut Vec<File>), spoil: impl FnOnce(&TempDir)) -> Fleet {
    let mut files: Vec<File> = (0..64).map(File::new).collect();
    change(&mut files);
    let folder = TempDir::new().unwrap();
    files.iter().for_each(|file| file.write(&folder));
    spoil(&folder);
    collect(read_folder(folder.path(), PROBES).unwrap(), options)
}

fn not_healthy(fleet: &Fleet) -> Vec<(&str, Verdict, &str)> {
    let bad = fleet.devices.iter().filter(|judged| judged.verdict != Verdict::Healthy);
    bad.map(|judged| (judged.device.id.as_str(), judged.verdict, judged.reasons[0].text.as_str())).collect()
}

fn problems(fleet: &Fleet) -> Vec<(Kind, &str)> {
    fleet.problems.iter().map(|problem| (problem.kind, problem.text.as_str())).collect()
}

#[test]
fn one_slow_device_of_64_is_named_with_its_figure_and_no_other() {
    let fleet = judge(&Options::default(), |files| files[19].figures[1] = 0.96);
    let [(id, Verdict::Slow, why)] = not_healthy(&fleet)[..] else { panic!("{:?}", not_healthy(&fleet)) };
    assert_eq!(id, "GPU-19");
    assert!(
        why.starts_with("memory write 4.") && why.contains("% worse than the fleet: 4.49 TB/s, median 4.68 TB/s"),
        "{why}"
    );
    assert_eq!((fleet.verdict(), fleet.missing, fleet.problems.len()), (Verdict::Slow, 0, 0));
    assert_eq!(
        fleet.devices.iter().map(|judged| judged.device.host.as_str()).collect::<Vec<_>>()[15..17],
        ["n1", "n2"]
    );
}

#[test]
fn only_the_models_figures_see_that_all_devices_are_slow() {
    let fleet = judge(&Options::default(), |files| files.iter_mut().for_each(|file| file.figures[1] *= 0.9));
    assert_eq!(fleet.count(Verdict::Slow), 64);
    assert!(fleet.devices.iter().all(|judged| judged.reasons[0].baseline == Baseline::Model));
    assert!(fleet.devices[0].reasons[0].text.contains("H200 cards measured"), "{:?}", fleet.devices[0].reasons);
}

#[test]
fn three_runs_confirm_a_slow_device_or_clear_it() {
    let options = Options { confirm: true, ..Options::default() };
    let again = |files: &mut Vec<File>, figures: [f64; 3]| {
        files[19].figures[1] = figures[0];
        for (round, figure) in [(2, figures[1]), (3, figures[2])] {
            files.push(File { round, figures: [1.0, figure], ..File::new(19) });
        }
    };
    let unconfirmed = judge(&options, |files| files[19].figures[1] = 0.96);
    assert!(
        matches!(not_healthy(&unconfirmed)[..], [("GPU-19", Verdict::Unknown, why)] if why.contains("measure again"))
    );
    assert!(unconfirmed.devices[19].to_confirm && unconfirmed.devices[19].runs == 1);
    let slow = judge(&options, |files| again(files, [0.96, 1.0, 0.961]));
    assert!(matches!(not_healthy(&slow)[..], [("GPU-19", Verdict::Slow, _)]), "{:?}", not_healthy(&slow));
    let cleared = judge(&options, |files| again(files, [0.96, 1.0, 0.999]));
    assert_eq!((not_healthy(&cleared), cleared.devices[19].runs), (vec![], 3));
}

#[test]
fn a_slow_host_is_slow_as_a_whole() {
    let fleet = judge(&Options::default(), |files| {
        // Hosts differ by some 0.5 %, so that an effect of a host is plausible.
        for (number, file) in files.iter_mut().enumerate() {
            file.figures[1] *= 1.0 - 0.002 * ((number / 8) % 3) as f64 - if number / 8 == 5 { 0.08 } else { 0.0 };
        }
    });
    assert_eq!(fleet.count(Verdict::Slow), 8);
    assert!(fleet.groups.iter().any(|group| group.name == "host n5"), "{:?}", fleet.groups);
}

#[test]
fn a_slow_rack_is_named_and_devices_without_a_rack_are_none() {
    let slow_half = |rack: Option<&str>| {
        let fleet = judge(&Options::default(), |files| {
            for (number, file) in files.iter_mut().enumerate() {
                file.rack = if number < 48 { Some("r1".to_owned()) } else { rack.map(str::to_owned) };
                file.figures[1] *= 1.0 - 0.002 * ((number / 8) % 3) as f64 - if number < 48 { 0.0 } else { 0.1 };
            }
        });
        fleet.groups.iter().filter(|group| group.name.starts_with("rack")).map(|group| group.name.clone()).collect()
    };
    let names: Vec<String> = slow_half(Some("r2"));
    assert_eq!(names, ["rack r2"]);
    assert_eq!(slow_half(None), Vec::<String>::new());
}

#[test]
fn settings_that_differ_are_named_and_explain_a_slow_device() {
    let fleet = judge(&Options::default(), |files| {
        files[3].figures = [0.95, 0.95];
        files[3].health.power_limit = Some(500.0);
        files[4].model = "NVIDIA H100";
    });
    let mixed = "n0 0000:03:00.0: power limit 500 W instead of 700 W";
    assert_eq!(problems(&fleet), [(Kind::Mixed, mixed)]);
    assert!(
        fleet.devices[3].reasons[0].text.contains("(power limit 500 W instead of 700 W)"),
        "{:?}",
        fleet.devices[3].reasons
    );
    // Alone of its model, and nothing is known of these figures.
    assert_eq!(fleet.strata.len(), 3);
}

#[test]
fn another_process_and_a_wide_interval_make_a_low_figure_unknown() {
    let fleet = judge(&Options::default(), |files| {
        files[3].figures[1] = 0.9;
        files[3].health.other_processes = Some(1);
    });
    assert!(matches!(not_healthy(&fleet)[..], [("GPU-3", Verdict::Unknown, why)] if why.contains("another process")));
}

#[test]
fn wrong_results_and_worn_memory_are_broken() {
    let fleet = judge(&Options::default(), |files| files[3].health.uncorrected_errors = Some(2));
    assert!(
        matches!(not_healthy(&fleet)[..], [("GPU-3", Verdict::Broken, why)] if why.starts_with("memory errors: 2"))
    );
}

#[test]
fn missing_devices_and_ranks_are_named() {
    let expected = Expected { devices: Some(65), per_host: Some(8), since: None };
    let fleet = judge(&Options { expected, ..Options::default() }, |files| drop(files.remove(9)));
    let expected = [
        (Kind::Missing, "n1 has only 7 of 8 devices"),
        (Kind::Missing, "63 of 65 devices are here"),
        (Kind::Missing, "1 of 64 ranks (SLURM_PROCID) have no file: 9"),
    ];
    assert_eq!((problems(&fleet), fleet.missing, fleet.verdict()), (expected.to_vec(), 2, Verdict::Unknown));
}

#[test]
fn a_device_without_figures_is_not_healthy() {
    let one = judge(&Options::default(), |files| files[3].figures = [1.0, 0.0]);
    assert_eq!(not_healthy(&one), [("GPU-3", Verdict::Unknown, "not measured: memory write")]);
    let none = judge(&Options::default(), |files| files.iter_mut().for_each(|file| file.figures = [0.0; 2]));
    let bad = not_healthy(&none);
    assert!(bad.len() == 64 && bad.iter().all(|(_, _, why)| *why == "no figure was measured"), "{bad:?}");
}

#[test]
fn a_number_of_ranks_that_a_file_claims_costs_no_memory() {
    let claim = |world: u32| {
        judge_folder(
            &Options::default(),
            |files| files.truncate(1),
            |folder| {
                for entry in fs::read_dir(folder.path()).unwrap() {
                    let path = entry.unwrap().path();
                    let text = fs::read_to_string(&path).unwrap();
                    assert!(text.contains("\"world\":64"), "{text}");
                    fs::write(&path, text.replace("\"world\":64", &format!("\"world\":{world}"))).unwrap();
                }
            },
        )
    };
    let fleet = claim(1 << 24);
    assert_eq!(fleet.missing, (1 << 24) - 1);
    assert!(fleet.problems[0].text.ends_with("have no file: 1, 2, 3, 4, 5, 6, 7, 8, …"), "{:?}", fleet.problems);
    // No launcher starts that many.
    assert_eq!(claim(u32::MAX).missing, 0);
}

#[test]
fn a_device_of_two_hosts_is_unknown_and_an_older_file_is_left_out() {
    let fleet = judge(&Options::default(), |files| {
        let elsewhere = File { host: "n9".to_owned(), ..files[7].clone() };
        files.push(elsewhere);
    });
    let [(Kind::Duplicate, text)] = problems(&fleet)[..] else { panic!("{:?}", fleet.problems) };
    assert!(text.starts_with("GPU-7 is on 2 hosts: n0, n9"), "{text}");
    assert!(matches!(not_healthy(&fleet)[..], [("GPU-7", Verdict::Unknown, _)]));

    let expected = Expected { since: Some("2026-01-02T00:00:00Z".to_owned()), ..Expected::default() };
    let fleet = judge(&Options { expected, ..Options::default() }, |files| files[7].started = "2026-01-01T23:59:59Z");
    assert_eq!(fleet.devices.len(), 63);
    assert!(problems(&fleet).iter().any(|(kind, text)| *kind == Kind::Stale && text.starts_with("n0 0000:07:00.0")));
}

#[test]
fn rounds_from_before_the_first_do_not_count() {
    let fleet = judge(&Options::default(), |files| {
        for round in [2, 3] {
            files.push(File { round, started: "2026-01-01T23:59:59Z", ..files[7].clone() });
        }
        // Measured again afterwards.
        files[7].figures = [1.0, 0.9];
    });
    assert_eq!(problems(&fleet).iter().filter(|(kind, _)| *kind == Kind::Stale).count(), 2);
    assert!(matches!(not_healthy(&fleet)[..], [("GPU-7", Verdict::Slow, _)]), "{:?}", not_healthy(&fleet));
}

#[test]
fn files_that_cannot_be_used_are_named_with_the_reason() {
    let spoil = |folder: &TempDir| {
        let path = |name: &str| folder.path().join(name);
        let whole = lines(&File::new(0).records());
        fs::write(path("cut.jsonl"), &whole[..whole.len() - 30]).unwrap();
        fs::write(path("empty.jsonl"), "").unwrap();
        fs::write(path("huge.jsonl"), vec![b' '; LARGEST_READ as usize + 1]).unwrap();
        fs::write(path("later.jsonl"), "{\"kind\":\"run\",\"schema\":99}\n").unwrap();
        fs::create_dir(path("folder.jsonl")).unwrap();
        fs::write(path("other.txt"), "not read").unwrap();
        let alone: Vec<Record> =
            File::new(0).records().into_iter().filter(|record| !matches!(record, Record::Member(_))).collect();
        fs::write(path("alone.jsonl"), lines(&alone)).unwrap();
    };
    let fleet = judge_folder(&Options::default(), |_| {}, spoil);
    let found: Vec<(&str, &str)> =
        fleet.problems.iter().map(|problem| (problem.file.as_deref().unwrap(), problem.text.as_str())).collect();
    let expected = [
        ("alone.jsonl", "a record, but not one of a fleet"),
        ("cut.jsonl", "cut off: its last line is missing"),
        ("empty.jsonl", "not a plimsoll record"),
        ("folder.jsonl", "it is a folder, not a regular file"),
        ("huge.jsonl", "larger than 1 MiB"),
        ("later.jsonl", "its schema is version 99"),
    ];
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for ((file, text), (name, words)) in found.iter().zip(expected) {
        assert!(*file == name && text.starts_with(words), "{file}: {text}");
    }
    assert_eq!((fleet.devices.len(), fleet.verdict()), (64, Verdict::Unknown));
}

#[test]
fn a_killed_process_is_named_with_its_rank_and_what_it_had() {
    let spoil = |folder: &TempDir| {
        let file = File::new(9);
        let begun = lines(&file.records()[..2]);
        fs::write(folder.path().join(".n1-GPU-9.jsonl.77.part"), &begun).unwrap();
        // A device with a file isn't cut off, whatever another process left.
        fs::write(folder.path().join(".n0-GPU-1.jsonl.78.part"), lines(&File::new(1).records()[..2])).unwrap();
    };
    let fleet = judge_folder(&Options::default(), |files| drop(files.remove(9)), spoil);
    assert!(
        problems(&fleet).contains(&(Kind::CutOff, "rank 9 on n1 (GPU-9): nothing measured yet")),
        "{:?}",
        fleet.problems
    );
    let cut_off = |fleet: &Fleet| fleet.problems.iter().filter(|problem| problem.kind == Kind::CutOff).count();
    assert_eq!(cut_off(&fleet), 1);
    let expected = Expected { since: Some("2026-01-02T03:04:06Z".to_owned()), ..Expected::default() };
    let later = judge_folder(&Options { expected, ..Options::default() }, |files| drop(files.remove(9)), spoil);
    assert_eq!(cut_off(&later), 0);
}

#[test]
fn equal_host_names_turn_the_judgement_of_hosts_off() {
    let fleet = judge(&Options::default(), |files| {
        files.iter_mut().for_each(|file| file.host = "localhost".to_owned());
        files[19].figures[1] = 0.9;
    });
    assert!(matches!(not_healthy(&fleet)[..], [("GPU-19", Verdict::Slow, _)]), "{:?}", not_healthy(&fleet));
    assert!(problems(&fleet)[0].1.starts_with("several hosts call themselves localhost"));
}

#[test]
fn few_devices_of_an_unknown_model_are_not_judged() {
    let fleet = judge(&Options::default(), |files| {
        files.truncate(3);
        files.iter_mut().for_each(|file| (file.model, file.rank) = ("Some card", None));
    });
    assert_eq!((fleet.count(Verdict::NotJudged), fleet.verdict()), (3, Verdict::NotJudged));
}

#[test]
fn figures_without_samples_are_stated_and_never_make_a_device_healthy() {
    let text = "stated, not checked, because the file has no samples: memory write";
    let fleet = judge(&Options::default(), |files| {
        files[3].has_samples = [true, false];
        files[4].has_samples = [false; 2];
        // It could be the slowest: nothing follows from it.
        files[4].figures[1] = 0.5;
    });
    let both = "stated, not checked, because the file has no samples: memory read, memory write";
    let expected = [("GPU-3", Verdict::Unknown, text), ("GPU-4", Verdict::Unknown, both)];
    assert_eq!(not_healthy(&fleet), expected);
    let named =
        [(Kind::Unchecked, format!("n0 0000:03:00.0: {text}")), (Kind::Unchecked, format!("n0 0000:04:00.0: {both}"))];
    assert_eq!(problems(&fleet), named.each_ref().map(|(kind, text)| (*kind, text.as_str())));
    assert!(
        fleet.figures.iter().all(|figure| figure.count == 64 - usize::from(figure.headline.id == "memory-write") - 1)
    );
    // Where no file has samples of a figure, the others decide.
    let none = judge(&Options::default(), |files| files.iter_mut().for_each(|file| file.has_samples = [true, false]));
    assert_eq!((none.count(Verdict::Healthy), none.problems.len()), (64, 64));
    // A run without samples confirms nothing.
    let options = Options { confirm: true, ..Options::default() };
    let unconfirmed = judge(&options, |files| {
        files[19].figures[1] = 0.96;
        let again = |round| File { round, has_samples: [true, round == 2], ..files[19].clone() };
        files.extend([again(2), again(3)]);
    });
    assert!(
        matches!(not_healthy(&unconfirmed)[..], [("GPU-19", Verdict::Unknown, why)] if why.ends_with("; measure again"))
    );
}

#[test]
fn confirmation_also_covers_what_the_model_and_groups_say() {
    let options = Options { confirm: true, ..Options::default() };
    // All are slow: only the model's figures see it.
    let all = |files: &mut Vec<File>| files.iter_mut().for_each(|file| file.figures[1] *= 0.9);
    let once = judge(&options, all);
    assert_eq!(
        (once.count(Verdict::Unknown), once.devices.iter().filter(|judged| judged.to_confirm).count()),
        (64, 64)
    );
    assert!(once.devices[0].reasons[0].text.ends_with("; measure again"), "{:?}", once.devices[0].reasons);
    let thrice = |slow: &dyn Fn(&mut Vec<File>)| {
        judge(&options, |files| {
            slow(files);
            let again: Vec<File> =
                files.iter().flat_map(|file| [2, 3].map(|round| File { round, ..file.clone() })).collect();
            files.extend(again);
        })
    };
    assert_eq!(thrice(&all).count(Verdict::Slow), 64);
    // A slow host: see `a_slow_host_is_slow_as_a_whole`.
    let host = |files: &mut Vec<File>| {
        for (number, file) in files.iter_mut().enumerate() {
            file.figures[1] *= 1.0 - 0.002 * ((number / 8) % 3) as f64 - if number / 8 == 5 { 0.08 } else { 0.0 };
        }
    };
    let once = judge(&options, host);
    assert_eq!((once.count(Verdict::Unknown), once.count(Verdict::Slow)), (8, 0));
    assert_eq!(thrice(&host).count(Verdict::Slow), 8);
}

#[test]
fn instances_of_one_mig_device_do_not_make_hosts_ambiguous() {
    let fleet = judge(&Options::default(), |files| {
        for (number, file) in files.iter_mut().enumerate() {
            (file.id, file.slot) = (format!("MIG-{number:08x}-0000"), file.slot / 4);
        }
    });
    assert_eq!((problems(&fleet), fleet.count(Verdict::Healthy)), (vec![], 64));
    assert_eq!(fleet.devices[1].device.slot, "0000:00:00.0 MIG-00000001");
    assert!(!fleet.populations[0].ambiguous_hosts && fleet.populations[0].hosts.len() == 8);
}
