//! Tests of profiles and their files.

use std::fs::File;
use std::path::Path;

use plimsoll_core::Flag;
use plimsoll_core::device::DeviceInfo;
use plimsoll_core::flag::Flags;
use plimsoll_core::record::{Conditions, FaultRecord, Published, Record};
use plimsoll_core::sample::Effort;
use plimsoll_core::stats::Interval;
use plimsoll_core::unit::Unit;
use plimsoll_core::{Fault, FaultClass};

use super::file::LARGEST_FILE;
use super::*;

mod places;

fn finding(probe: &str, name: &str, value: f64, when: &str) -> StoredFinding {
    let finding = Finding {
        device: 0,
        probe: probe.to_owned(),
        name: name.to_owned(),
        value,
        interval: Interval { lo: value * 0.99, hi: value * 1.01 },
        unit: Unit::BytePerSecond,
        flags: Flags::NONE,
        metric: "bandwidth".to_owned(),
        says: String::new(),
        published: None,
    };
    StoredFinding {
        finding,
        run: "run".to_owned(),
        when: when.to_owned(),
        tool: "0.1.0".to_owned(),
        source: String::new(),
    }
}

fn flagged(flag: Flag, value: f64, when: &str) -> StoredFinding {
    let mut stored = finding("stream", "copy", value, when);
    stored.finding.flags.insert(flag);
    stored
}

fn profile(when: &str, findings: Vec<StoredFinding>) -> Profile {
    Profile { findings, ..Profile::new("GPU-1234", "NVIDIA H200", "0.1.0", when) }
}

#[test]
fn stored_profile_is_read_back_bit_for_bit() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("made/on/demand");
    let kept = profile(
        "2020-01-02T03:04:05Z",
        vec![
            finding("latency", "L2", f64::MIN_POSITIVE, ""),
            finding("stream", "copy", 4.3e12 / 3.0, "2020-01-02T03:04:05Z"),
        ],
    );
    let path = Profile::path(&folder, "GPU-1234").unwrap();
    assert_eq!(path, folder.join("GPU-1234.json"));
    assert_eq!(Profile::load(&path, "GPU-1234").unwrap(), None);
    kept.store(&path).unwrap();
    assert_eq!(Profile::load(&path, "GPU-1234").unwrap(), Some(kept));
    let files = std::fs::read_dir(&folder).unwrap().count();
    assert_eq!(files, 1, "no temporary file stays");
}

#[test]
fn newer_finding_replaces_the_older_and_others_stay() {
    let old = profile(
        "2020-01-01T00:00:00Z",
        vec![
            finding("stream", "copy", 1.0, "2020-01-01T00:00:00Z"),
            finding("latency", "L1", 2.0, "2020-01-01T00:00:00Z"),
        ],
    );
    let new = profile("2020-02-01T00:00:00Z", vec![finding("stream", "copy", 3.0, "2020-02-01T00:00:00Z")]);
    for (mut into, from) in [(old.clone(), new.clone()), (new, old)] {
        into.merge(from).unwrap();
        assert_eq!(into.when, "2020-02-01T00:00:00Z");
        assert_eq!(into.findings.len(), 2);
        assert_eq!(into.finding("stream", "copy").unwrap().finding.value, 3.0);
        assert_eq!(into.finding("latency", "L1").unwrap().finding.value, 2.0);
        assert!(into.findings.is_sorted_by_key(|f| (f.finding.probe.clone(), f.finding.name.clone())));
    }
}

#[test]
fn doubtful_finding_never_replaces_a_clean_one_in_any_order() {
    let clean = finding("stream", "copy", 1.0, "2020-01-01T00:00:00Z");
    let doubtful = flagged(Flag::ThrottlePower, 2.0, "2020-02-01T00:00:00Z");
    for order in [[clean.clone(), doubtful.clone()], [doubtful.clone(), clean.clone()]] {
        let mut profile = profile("", vec![]);
        order.into_iter().for_each(|stored| _ = profile.insert(stored));
        assert_eq!(profile.findings, std::slice::from_ref(&clean));
    }
    // Some flags don't make a finding doubtful. Of two doubtful findings the newer stays.
    let qualified = flagged(Flag::Outliers, 3.0, "2020-03-01T00:00:00Z");
    let mut of_clean = profile("", vec![clean]);
    assert!(of_clean.insert(qualified.clone()) && of_clean.findings == [qualified]);
    let newer = flagged(Flag::Steal, 4.0, "2020-03-01T00:00:00Z");
    let mut of_doubtful = profile("", vec![doubtful]);
    assert!(of_doubtful.insert(newer.clone()) && of_doubtful.findings == [newer]);
}

#[test]
fn finding_from_a_wrong_result_is_never_stored() {
    let mut profile = profile("", vec![]);
    assert!(!profile.insert(flagged(Flag::VerifyFail, 1.0, "")));
    assert!(profile.findings.is_empty());
}

#[test]
fn flags_metric_and_published_range_are_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let mut stored = flagged(Flag::Outliers, 1.0, "");
    let range = Interval { lo: 1.0, hi: 2.0 };
    stored.finding.published = Some(Published { range, source: "a page".to_owned() });
    let kept = profile("", vec![stored]);
    let path = dir.path().join("p.json");
    kept.store(&path).unwrap();
    assert_eq!(Profile::load(&path, "GPU-1234").unwrap(), Some(kept));
}

#[test]
fn profile_of_another_device_is_not_merged() {
    let mut ours = profile("", vec![]);
    let theirs = Profile::new("GPU-other", "", "", "");
    assert!(matches!(ours.merge(theirs), Err(ProfileError::OtherDevice { .. })));
}

#[test]
fn error_for_a_damaged_file_names_it_and_a_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("GPU-1234.json");
    let kept = serde_json::to_vec(&profile("", vec![finding("a", "b", 1.0, "")])).unwrap();
    for length in 1..kept.len() {
        std::fs::write(&path, &kept[..length]).unwrap();
        let error = Profile::load(&path, "GPU-1234").unwrap_err();
        assert!(matches!(error, ProfileError::Damaged { .. }), "{length}: {error}");
        let text = error.to_string();
        assert!(text.contains("GPU-1234.json") && text.contains("Remove it"), "{text}");
    }
    std::fs::write(&path, [0xff; 64]).unwrap();
    assert!(Profile::load(&path, "GPU-1234").is_err());
}

#[test]
fn huge_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("GPU-1234.json");
    let file = File::create(&path).unwrap();
    file.set_len(LARGEST_FILE * 1000).unwrap();
    let error = Profile::load(&path, "GPU-1234").unwrap_err();
    assert!(error.to_string().contains("larger than 4 MiB"), "{error}");
}

#[test]
fn unknown_fields_are_ignored_and_later_layouts_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("GPU-1234.json");
    let mut value = serde_json::to_value(profile("", vec![finding("a", "b", 1.0, "")])).unwrap();
    value["colour"] = "blue".into();
    value["findings"][0]["mood"] = 7.into();
    std::fs::write(&path, value.to_string()).unwrap();
    assert!(Profile::load(&path, "GPU-1234").unwrap().is_some());
    std::fs::write(&path, r#"{"schema":99,"device":{}}"#).unwrap();
    assert!(matches!(Profile::load(&path, "GPU-1234"), Err(ProfileError::TooNew { found: 99, .. })));
}

/// Writes a file with these findings, without checking them.
fn write_file(path: &Path, findings: &[StoredFinding]) {
    let whole = profile("2020-01-01T00:00:00Z", findings.to_vec());
    std::fs::write(path, serde_json::to_vec(&whole).unwrap()).unwrap();
}

#[test]
fn unsound_finding_makes_a_file_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p.json");
    let mut outside = finding("stream", "copy", 1.0, "");
    outside.finding.interval = Interval { lo: 2.0, hi: 3.0 };
    let mut crossed = finding("stream", "copy", 1.0, "");
    crossed.finding.interval = Interval { lo: 1.1, hi: 0.9 };
    let mut published = finding("stream", "copy", 1.0, "");
    published.finding.published = Some(Published { range: Interval { lo: 2.0, hi: 1.0 }, source: "a page".into() });
    for bad in [outside, crossed, published, finding("stream", "copy", 1e300, "")] {
        write_file(&path, &[finding("a", "b", 1.0, ""), bad]);
        let error = Profile::load(&path, "GPU-1234").unwrap_err();
        assert!(matches!(error, ProfileError::Damaged { .. }), "{error}");
        assert!(error.to_string().contains("finding stream/copy"), "{error}");
    }
}

#[test]
fn load_keeps_the_duplicate_that_merging_would_have_kept() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p.json");
    let newer = finding("stream", "copy", 2.0, "2020-02-01T00:00:00Z");
    let older = finding("stream", "copy", 1.0, "2020-01-01T00:00:00Z");
    let doubtful = flagged(Flag::ThrottlePower, 3.0, "2020-03-01T00:00:00Z");
    let wrong = flagged(Flag::VerifyFail, 4.0, "2020-04-01T00:00:00Z");
    let other = finding("latency", "L1", 5.0, "");
    let all = [newer.clone(), other.clone(), doubtful, older, wrong];
    for shift in 0..all.len() {
        let mut all = all.clone();
        all.rotate_left(shift);
        write_file(&path, &all);
        assert_eq!(Profile::load(&path, "GPU-1234").unwrap().unwrap().findings, [other.clone(), newer.clone()]);
    }
}

#[test]
fn invalid_and_future_dates_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p.json");
    for when in ["yesterday", "2020-01-01", "2020-01-01T00:00:00+00:00", "2020-1-1T00:00:00Z", "99999-01-01T00:00:00Z"]
    {
        write_file(&path, &[finding("stream", "copy", 1.0, when)]);
        let error = Profile::load(&path, "GPU-1234").unwrap_err();
        assert!(matches!(error, ProfileError::Damaged { .. }) && error.to_string().contains(when), "{error}");
    }
    // A wrong clock is not damage: the file isn't touched, and a finding from the future isn't stored.
    let future = profile("2020-01-01T00:00:00Z", vec![finding("stream", "copy", 1.0, "9000-01-01T00:00:00Z")]);
    write_file(&path, &future.findings);
    let before = std::fs::read(&path).unwrap();
    for refused in [
        Profile::load(&path, "GPU-1234").map(drop),
        profile("", vec![]).keep(&path).map(drop),
        Profile::check_writable(&path, "GPU-1234"),
        future.keep(&dir.path().join("other.json")).map(drop),
    ] {
        let error = refused.unwrap_err();
        assert!(matches!(error, ProfileError::Future { .. }) && error.to_string().contains("clock"), "{error}");
    }
    assert_eq!(std::fs::read(&path).unwrap(), before);
    assert!(!dir.path().join("other.json").exists());
}

#[test]
fn check_writable_tells_before_measuring_whether_a_profile_can_be_stored() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("made/on/demand/p.json");
    Profile::check_writable(&path, "GPU-1234").unwrap();
    assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 0, "the check leaves no file");
    std::fs::write(&path, "{half of").unwrap();
    Profile::check_writable(&path, "GPU-1234").unwrap();
    assert!(path.exists(), "a damaged file is only renamed when there is a new one");
    profile("", vec![]).store(&path).unwrap();
    Profile::check_writable(&path, "GPU-1234").unwrap();
    assert!(matches!(Profile::check_writable(&path, "GPU-5678"), Err(ProfileError::NotOurs { .. })));
    assert!(matches!(Profile::check_writable(&path.join("p.json"), "GPU-1234"), Err(ProfileError::Io { .. })));
    assert!(Profile::check_writable(dir.path(), "GPU-1234").is_err());
}

#[test]
fn file_of_another_device_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p.json");
    profile("", vec![]).store(&path).unwrap();
    let before = std::fs::read(&path).unwrap();
    let error = Profile::new("GPU-5678", "", "", "").keep(&path).unwrap_err();
    assert!(matches!(error, ProfileError::NotOurs { .. }) && error.to_string().contains("GPU-1234"), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn ids_cannot_lead_out_of_the_folder() {
    let dir = tempfile::tempdir().unwrap();
    let long = "a".repeat(129);
    for id in ["", ".", "..", ".hidden", "../x", "a/b", "a\\b", "a\0b", "a b", "é", &long] {
        assert!(matches!(Profile::path(dir.path(), id), Err(ProfileError::BadId(_))));
    }
    assert!(Profile::path(dir.path(), "cpu-0123456789abcdef").is_ok());
}

#[test]
fn numbers_that_json_cannot_hold_are_refused_before_anything_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let bad = profile("", vec![finding("stream", "copy", f64::NAN, "")]);
    assert!(matches!(bad.store(&dir.path().join("p.json")), Err(ProfileError::Unsound { .. })));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn error_names_an_unwritable_folder() {
    let dir = tempfile::tempdir().unwrap();
    let blocked = dir.path().join("a file");
    std::fs::write(&blocked, "").unwrap();
    let error = profile("", vec![]).store(&blocked.join("p.json")).unwrap_err();
    assert!(error.to_string().contains("a file"), "{error}");
}

#[test]
fn keep_merges_with_the_stored_profile() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("below/p.json");
    let old = profile(
        "2020-01-01T00:00:00Z",
        vec![
            finding("stream", "copy", 1.0, "2020-01-01T00:00:00Z"),
            finding("latency", "L1", 2.0, "2020-01-01T00:00:00Z"),
        ],
    );
    let kept = old.keep(&path).unwrap();
    assert_eq!(kept, Kept { taken: 2, known: 2, set_aside: None });
    let mut doubtful = finding("latency", "L1", 9.0, "2020-02-01T00:00:00Z");
    doubtful.finding.flags.insert(Flag::Cotenant);
    let new = profile("2020-02-01T00:00:00Z", vec![finding("stream", "copy", 3.0, "2020-02-01T00:00:00Z"), doubtful]);
    assert_eq!(new.keep(&path).unwrap(), Kept { taken: 1, known: 2, set_aside: None });
    let known = Profile::load(&path, "GPU-1234").unwrap().unwrap();
    assert_eq!(known.finding("stream", "copy").unwrap().finding.value, 3.0);
    assert_eq!(known.finding("latency", "L1").unwrap().finding.value, 2.0);
}

#[test]
fn damaged_file_is_renamed_and_an_empty_file_counts_as_none() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p.json");
    std::fs::write(&path, "").unwrap();
    assert_eq!(profile("", vec![]).keep(&path).unwrap().set_aside, None);
    for (damage, name) in [("{half of", "p.json.damaged"), ("[]", "p.json.damaged-2")] {
        std::fs::write(&path, damage).unwrap();
        let kept = profile("", vec![finding("a", "b", 1.0, "")]).keep(&path).unwrap();
        let aside = kept.set_aside.unwrap();
        assert_eq!(aside.path, dir.path().join(name));
        assert_eq!(std::fs::read_to_string(&aside.path).unwrap(), damage);
        assert!(Profile::load(&path, "GPU-1234").unwrap().is_some());
    }
}

#[test]
fn folders_and_files_of_a_later_layout_are_not_touched() {
    let dir = tempfile::tempdir().unwrap();
    assert!(profile("", vec![]).keep(dir.path()).is_err());
    let path = dir.path().join("p.json");
    std::fs::write(&path, r#"{"schema":99}"#).unwrap();
    assert!(matches!(profile("", vec![]).keep(&path), Err(ProfileError::TooNew { .. })));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), r#"{"schema":99}"#);
}

#[test]
fn concurrent_merges_lose_no_findings() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p.json");
    std::thread::scope(|scope| {
        for run in 0..8 {
            let path = &path;
            scope.spawn(move || {
                for n in 0..4 {
                    profile("", vec![finding("probe", &format!("{run} {n}"), 1.0, "")]).keep(path).unwrap();
                }
            });
        }
    });
    assert_eq!(Profile::load(&path, "GPU-1234").unwrap().unwrap().findings.len(), 32);
}

fn run(conditions: Conditions, findings: &[(u32, &str, &str, f64)], faults: &[FaultRecord]) -> Run {
    let device = |n: u32| DeviceInfo { id: format!("GPU-{n}"), name: format!("Box {n}"), ..DeviceInfo::default() };
    let header = RunHeader {
        schema: 1,
        tool: "0.2.0".into(),
        started: "2020-03-01T00:00:00Z".into(),
        argv: vec!["measure".into()],
        conditions,
        effort: Effort::Quick,
        seed: 0,
        host: Default::default(),
        devices: vec![device(0), device(1)],
    };
    let found = findings.iter().map(|&(device, probe, name, value)| {
        Record::Finding(Finding { device, ..finding(probe, name, value, "").finding })
    });
    let faults = faults.iter().cloned().map(Record::Fault);
    Run::from_records(std::iter::once(Record::Run(header)).chain(found).chain(faults)).unwrap()
}

#[test]
fn profile_from_a_run_has_the_devices_findings_and_their_origin() {
    let run =
        run(Conditions::default(), &[(0, "stream", "copy", 1.0), (1, "stream", "copy", 2.0), (1, "a", "b", 3.0)], &[]);
    let profile = Profile::from_run(&run, 1, "20260301T000000Z-all").unwrap().unwrap();
    assert_eq!((profile.device_id.as_str(), profile.device_name.as_str()), ("GPU-1", "Box 1"));
    let kept = profile.finding("stream", "copy").unwrap();
    assert_eq!((kept.finding.value, kept.finding.device), (2.0, 0));
    assert_eq!([kept.run.as_str(), &kept.when, &kept.tool], ["20260301T000000Z-all", "2020-03-01T00:00:00Z", "0.2.0"]);
    assert_eq!(profile.findings.len(), 2);
    assert!(Profile::from_run(&run, 2, "run").unwrap().is_none());
}

#[test]
fn findings_of_failed_probes_are_dropped_and_those_with_a_failed_point_are_kept() {
    let stopped = FaultRecord::from_fault(0, "stream", &Fault::Stopped);
    let point = FaultRecord::new(0, "latency", FaultClass::OutOfMemory, String::new()).at_point(0, vec![]);
    let run = run(Conditions::default(), &[(0, "stream", "copy", 1.0), (0, "latency", "L1", 2.0)], &[stopped, point]);
    let profile = Profile::from_run(&run, 0, "run").unwrap().unwrap();
    assert!(profile.finding("stream", "copy").is_none());
    assert!(profile.finding("latency", "L1").is_some());
}

#[test]
fn runs_under_special_conditions_make_no_profile() {
    let usual = Conditions::default();
    for conditions in [
        Conditions { trace: true, ..usual },
        Conditions { bytes: Some(1 << 20), ..usual },
        Conditions { concurrent: true, ..usual },
    ] {
        let why = Profile::from_run(&run(conditions, &[(0, "a", "b", 1.0)], &[]), 0, "run").unwrap_err();
        assert!(why.to_string().contains(' '), "{why}");
    }
}

#[test]
fn run_without_a_valid_start_time_makes_no_profile() {
    for started in
        ["", "yesterday", "2020-03-01", "2020-03-01T00:00:00+01:00", "2020-03-01 00:00:00Z", "2020-13-01T00:00:00Z"]
    {
        let mut run = run(Conditions::default(), &[(0, "a", "b", 1.0)], &[]);
        run.header.started = started.to_owned();
        assert!(Profile::from_run(&run, 0, "run").is_err(), "{started}");
    }
}

#[test]
fn best_bandwidth_is_the_best_clean_finding_of_stream() {
    let mut above = finding("stream", "read", 9.0, "");
    above.finding.flags.insert(Flag::AbovePeak);
    let all = vec![
        finding("stream", "copy", 1.0, ""),
        finding("stream", "triad", 2.0, ""),
        above,
        finding("mix", "4:0", 5.0, ""),
    ];
    assert_eq!(profile("", all).best_bandwidth().unwrap().finding.name, "triad");
    assert_eq!(profile("", vec![]).best_bandwidth(), None);
}
