//! How the command stores and shows the machine profile.

#[allow(dead_code, reason = "each test file uses a part")]
mod support;

use std::path::Path;
use std::process::Stdio;

use serde_json::Value;
use support::{Place, Ran};

fn read(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// The findings of a probe in a profile.
fn findings<'p>(profile: &'p Value, probe: &str) -> Vec<&'p Value> {
    profile["findings"].as_array().unwrap().iter().filter(|finding| finding["probe"] == probe).collect()
}

#[test]
fn runs_are_merged_into_the_named_profile_with_the_origin_of_each_figure() {
    let place = Place::new();
    place.run("measure incore --device sim:seed=3 --out a --profile p.json").ends(0).says("profile: p.json");
    place.run("measure roofline incore --device sim:seed=3 --out b --profile p.json").ends(0);
    place.run("measure latency --device sim:seed=3 --out below/c --profile p.json").ends(0);
    let profile = read(&place.path("p.json"));
    assert_eq!(profile["device_id"], "sim-3");
    for (probe, run) in [("incore", "b"), ("roofline", "b"), ("latency", "c")] {
        let found = findings(&profile, probe);
        assert!(!found.is_empty(), "{probe}");
        for finding in found {
            assert_eq!(finding["run"], run, "{finding}");
            assert!(finding["value"].is_f64() && finding["interval"].is_array() && finding["unit"].is_string());
            assert!(finding["when"].as_str().unwrap().ends_with('Z') && finding["tool"].is_string());
        }
    }
}

#[test]
fn profile_option_overrides_the_environment_and_no_profile_overrides_both() {
    let place = Place::new();
    std::fs::create_dir(place.path("all")).unwrap();
    let run = |args: &str| Ran::from_output(place.command(args).env("PLIMSOLL_PROFILE", "all").output().unwrap());
    run("measure incore --device sim:seed=3 --out none --no-profile").ends(0);
    run("measure incore --device sim:seed=3 --out own --profile own.json").ends(0);
    assert_eq!(std::fs::read_dir(place.path("all")).unwrap().count(), 0);
    assert!(place.path("own.json").exists());
    run("measure incore --device sim:seed=3 --out of-all").ends(0);
    assert!(place.path("all/sim-3.json").exists());
    place.run("measure incore --device sim --profile p.json --no-profile").ends(2).says("cannot be used with");
}

#[test]
fn a_simulated_device_is_not_stored_in_the_user_s_data_folder() {
    let place = Place::new();
    let ran = place.run("measure incore --device sim --out run").ends(0);
    assert!(!ran.stderr.contains("profile") && !place.path("data").exists(), "{}", ran.stderr);
    let homeless = place
        .command("measure incore --device sim --out other")
        .env_remove("XDG_DATA_HOME")
        .env_remove("HOME")
        .output();
    let ran = Ran::from_output(homeless.unwrap()).ends(0);
    assert!(!ran.stderr.contains("profile"), "{}", ran.stderr);
}

#[test]
fn a_doubtful_figure_does_not_replace_a_clean_one() {
    let place = Place::new();
    let measure = |scenario: &str, out: &str| {
        place.run(&format!("measure incore --device sim:seed=3{scenario} --out {out} --profile p.json")).ends(0);
    };
    measure("", "clean");
    let clean = read(&place.path("p.json"));
    measure(",steal=0.5", "doubtful");
    let record = place.record("doubtful");
    let doubtful: Vec<_> = record.findings.iter().filter(|finding| !finding.flags.doubtful().is_empty()).collect();
    assert!(!doubtful.is_empty());
    let after = read(&place.path("p.json"));
    for finding in doubtful {
        let same =
            |profile: &Value| findings(profile, "incore").into_iter().find(|f| f["name"] == *finding.name).cloned();
        assert_eq!(same(&clean), same(&after), "{}", finding.name);
    }
}

#[test]
fn a_lost_probe_or_a_chosen_size_adds_nothing_to_the_profile() {
    let place = Place::new();
    place.run("measure incore latency --device sim:seed=3,lost-after=5 --out lost --profile p.json").ends(3);
    assert!(!place.path("p.json").exists());
    let ran = place.run("measure incore --bytes 1MiB --device sim:seed=3 --out sized --profile p.json").ends(0);
    ran.says("note: the profile is unchanged: with --bytes the figures hold for that size only");
    assert!(!place.path("p.json").exists());
}

#[test]
fn a_damaged_profile_is_set_aside_with_a_warning() {
    let place = Place::new();
    for damage in [&b"{\"schema\": 1, \"device_id\""[..], b"\xff\xfe\0", b"[[[[[[", &[b'['; 200_000]] {
        let place = Place::new();
        place.write("p.json", damage);
        let ran = place.run("measure incore --device sim --out run --profile p.json").ends(0);
        ran.says("warning: the profile was damaged").says("p.json.damaged");
        assert_eq!(std::fs::read(place.path("p.json.damaged")).unwrap(), damage);
        assert!(read(&place.path("p.json"))["findings"].is_array());
    }
    // A valid profile that is not ours is left unchanged.
    place.run("measure incore --device sim:seed=3 --out a --profile p.json").ends(0);
    let before = read(&place.path("p.json"));
    place.run("measure incore --device sim:seed=4 --out b --profile p.json").ends(2).says("another device");
    place.write("later.json", r#"{"schema":99}"#);
    place.run("measure incore --device sim --out c --profile later.json").ends(2).says("Update plimsoll");
    let mut future = before.clone();
    future["findings"][0]["when"] = "9000-01-01T00:00:00Z".into();
    place.write("future.json", future.to_string());
    place.run("measure incore --device sim:seed=3 --out d --profile future.json").ends(2).says("in the future");
    place.run("peak sim:seed=3 --measured --profile future.json").ends(4).says("is not used").says("a clock is");
    assert_eq!(future, read(&place.path("future.json")));
    assert_eq!(before, read(&place.path("p.json")));
    assert!(
        ["b", "c", "d"].iter().all(|out| !place.path(out).exists()),
        "a run was started before the error was reported"
    );
}

#[test]
fn a_profile_of_another_device_costs_a_warning_wherever_it_would_be_used() {
    let place = Place::new();
    place.run("measure stream --device sim:seed=3 --out a --profile p.json").ends(0);
    let ours = place.run("peak sim:seed=3 --profile p.json").ends(0);
    assert!(!ours.stderr.contains("warning"), "{}", ours.stderr);
    let theirs = "warning: the profile of sim is not used: p.json is the profile of another device (sim-3)";
    place.run("peak sim:seed=4 --profile p.json").ends(0).says(theirs);
    place.run("peak sim:seed=4 --measured --profile p.json").ends(4).says(theirs);
    place
        .run("devices --profile p.json")
        .ends(0)
        .says("the profile of cpu is not used: p.json is the profile of another");
}

#[test]
fn a_named_profile_that_can_not_be_stored_is_reported_before_anything_is_measured() {
    let place = Place::new();
    place.write("file", "");
    for profile in ["file/p.json", "/proc/nonsense/p.json", "/dev/full"] {
        let args = format!("measure incore --device sim --out out --profile {profile}");
        place.run(&args).ends(2).says("the profile can't be stored").says("--no-profile");
        assert!(!place.path("out").exists());
    }
    place.run("measure incore --device sim --out out --no-profile").ends(0);
}

#[test]
fn a_default_profile_that_can_not_be_stored_costs_only_a_warning() {
    let place = Place::new();
    place.write("file", "");
    for (out, profile) in [("a", "file/p.json"), ("b", "/proc/nonsense/p.json"), ("c", "/dev/full")] {
        let mut command = place.command(&format!("measure incore --device sim --out {out}"));
        let ran = Ran::from_output(command.env("PLIMSOLL_PROFILE", profile).output().unwrap()).ends(0);
        assert_eq!(ran.stderr.matches("warning: ").count(), 1, "{}", ran.stderr);
        ran.says("the profile will not be stored").says("--no-profile");
        assert!(place.path(out).join("report.html").exists());
    }
}

#[test]
fn simultaneous_runs_keep_all_their_findings() {
    let place = Place::new();
    let probes = ["incore", "roofline", "latency", "stream"];
    let children = probes.map(|probe| {
        let mut command = place.command(&format!("measure {probe} --device sim:seed=3 --profile p.json"));
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    });
    for child in children {
        Ran::from_output(child.wait_with_output().unwrap()).ends(0);
    }
    let profile = read(&place.path("p.json"));
    probes.iter().for_each(|probe| assert!(!findings(&profile, probe).is_empty(), "{probe}"));
}

#[test]
fn peak_measured_shows_findings_of_devices_and_of_catalogue_machines() {
    let place = Place::new();
    place.run("peak sim --measured --profile p.json").ends(4).says("there are no measured figures for sim");
    place.run("measure stream --device sim --out run --profile p.json").ends(0);
    let ran = place.run("peak sim --measured --profile p.json").ends(0);
    assert!(ran.stdout.contains("triad"), "{}", ran.stdout);
    let ran = place.run("peak sim --profile p.json --format csv").ends(0);
    assert!(ran.stdout.contains("% of that") || ran.stdout.contains("GB/s ("), "{}", ran.stdout);
    let ran = place.run("peak H200 --measured --format csv").ends(0);
    assert!(ran.stdout.contains("plimsoll 0.") && ran.stdout.contains("published: Azure"), "{}", ran.stdout);
    let ran = place.run("peak V100 --measured --format json").ends(0);
    let profiles: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert!(profiles[0]["findings"][0]["source"].as_str().unwrap().contains("v100"), "{profiles}");
    place.run("peak nonsense --measured").ends(2).says("hint: ");
    place.run("peak --measured").ends(2);
}

#[test]
fn control_characters_in_a_profile_are_not_printed() {
    let place = Place::new();
    place.run("measure incore --device sim:seed=3 --out run --profile p.json").ends(0);
    let mut profile = read(&place.path("p.json"));
    profile["findings"][0]["name"] = "\u{1b}[2Jgone\u{202e}".into();
    place.write("p.json", profile.to_string());
    for format in ["table", "csv", "markdown"] {
        let ran = place.run(&format!("peak sim:seed=3 --measured --profile p.json --format {format}")).ends(0);
        assert!(!ran.stdout.contains('\u{1b}') && !ran.stdout.contains('\u{202e}'), "{format}: {}", ran.stdout);
    }
}

#[test]
fn devices_shows_the_location_of_each_profile() {
    let place = Place::new();
    let ran = place.run("devices --format csv").ends(0);
    assert!(ran.stdout.contains("cpu,profile,none yet"), "{}", ran.stdout);
    let json: Value = serde_json::from_str(&place.run("devices --format json").ends(0).stdout).unwrap();
    assert_eq!(json["profiles"], Value::Array(vec![]));
    let id = json["devices"][0]["id"].as_str().unwrap();
    let stored = serde_json::json!({
        "schema": 1, "device_id": id, "device_name": "CPU", "tool_version": "0.1.0", "when": "2020-01-02T00:00:00Z",
        "findings": [{ "probe": "stream", "name": "copy", "value": 1e10, "interval": [1e10, 1e10], "unit": "B/s",
            "metric": "bandwidth", "when": "2020-01-02T00:00:00Z" }],
    });
    std::fs::create_dir_all(place.path("data/plimsoll/profiles")).unwrap();
    place.write(&format!("data/plimsoll/profiles/{id}.json"), stored.to_string());
    let ran = place.run("devices --format csv").ends(0);
    assert!(ran.stdout.contains("1 finding, the newest from 2020-01-02"), "{}", ran.stdout);
    assert!(place.run("peak cpu").ends(0).stdout.contains("10 GB/s"));
}
