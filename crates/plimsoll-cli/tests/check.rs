//! The verdict of `plimsoll check` on the simulated device and on kept records.

#[allow(dead_code, reason = "each test file uses a part")]
mod support;

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use support::{Place, Ran};

fn check(place: &Place, scenario: &str, code: i32) -> Value {
    let device = if scenario.is_empty() { "sim".to_owned() } else { format!("sim:{scenario}") };
    let ran = place.run(&format!("check --device {device} --no-record --quiet --format json")).ends(code);
    serde_json::from_str(&ran.stdout).unwrap()
}

fn row<'v>(verdict: &'v Value, id: &str) -> &'v Value {
    let rows = verdict["devices"][0]["figures"].as_array().unwrap();
    rows.iter().find(|row| row["id"] == id).unwrap_or_else(|| panic!("{verdict}"))
}

#[test]
fn each_handicap_gets_the_right_verdict_and_cause() {
    let place = Place::new();
    for (scenario, verdict, code, words) in [
        ("", "healthy", 0, "healthy: "),
        ("seed=7", "healthy", 0, "healthy: "),
        ("link-degraded", "slow", 1, "the link runs PCIe 5.0 x8 instead of PCIe 5.0 x16"),
        ("power-limit=0.6", "slow", 1, "power limit of 300 W, lowered from 500 W"),
        ("slow=stream:5%", "slow", 1, "no cause is visible"),
        ("throttle-after=0s,throttle=thermal", "slow", 1, "too hot"),
        ("wrong=pattern", "broken", 1, "wrong results: pattern: "),
        ("wrong-sm=7", "broken", 1, "wrong results: digest: integer on multiprocessor 7: digest 0x"),
        // All cores of the device agree: only a fleet shows it.
        ("wrong-digest", "healthy", 0, "healthy: "),
        ("uncorrected=1", "broken", 1, "memory errors: 1 uncorrectable"),
        ("cotenant=0.5", "unknown", 4, "another process used the device"),
        ("steal=0.3", "unknown", 4, "the hypervisor took processor time away"),
    ] {
        let found = check(&place, scenario, code);
        let sentence = found["devices"][0]["sentence"].as_str().unwrap();
        assert_eq!(found["verdict"], verdict, "{scenario}: {sentence}");
        assert!(sentence.contains(words), "{scenario}: {sentence}");
    }
    // Corrected errors are a note: the figures are still right.
    let corrected = check(&place, "ecc=3", 0);
    let notes = corrected["devices"][0]["notes"].as_array().unwrap();
    let errors = notes.iter().find(|note| note["name"] == "memory errors").unwrap();
    assert_eq!((&errors["state"], &corrected["verdict"]), (&Value::from("note"), &Value::from("healthy")));
}

#[test]
fn json_has_numbers_with_units() {
    let found = check(&Place::new(), "", 0);
    let read = row(&found, "memory-read");
    assert!(read["value"].is_f64() && read["unit"] == "B/s" && read["of_peak"].is_f64(), "{read}");
    assert!(read["expected"]["interval"][0].is_f64() && read["expected"]["origin"] == "rule", "{read}");
    assert_eq!(found["exit"], 0);
}

#[test]
fn a_kept_record_of_an_h200_is_judged_without_a_gpu() {
    let run = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../records/h200/2026-11-22-suite/suite-2");
    let place = Place::new();
    let ran = place.run(&format!("check --run {}", run.display())).ends(0);
    assert!(ran.stdout.lines().count() <= 20, "{}", ran.stdout);
    assert!(ran.stdout.contains("healthy: 11 of 11 figures are where an NVIDIA H200 should be"), "{}", ran.stdout);
    assert!(ran.stdout.lines().all(|line| line.chars().count() <= 80), "{}", ran.stdout);
    // A further card's record has the health of the device but no points, and so no line about clocks.
    let card = run.join("../../cards/GPU-bb1b3aa6.jsonl");
    let card = place.run(&format!("check --run {}", card.display())).ends(0);
    assert!(card.stdout.lines().count() <= 19 && card.stdout.contains("memory errors"), "{}", card.stdout);
    assert!(card.stdout.lines().all(|line| line.chars().count() <= 80), "{}", card.stdout);
    let narrow = place.command(&format!("check --run {}", run.display())).env("COLUMNS", "40").output().unwrap();
    let narrow = String::from_utf8(narrow.stdout).unwrap();
    assert!(narrow.lines().all(|line| line.chars().count() <= 40) && narrow.contains("expected: "), "{narrow}");
}

#[test]
fn the_summary_of_a_whole_run_fits_on_a_screen_and_the_rest_is_one_option_away() {
    let run = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../records/h200/2026-11-22-suite/suite-2");
    let place = Place::new();
    let short = place.run(&format!("report {}", run.display())).ends(0).stdout;
    let all = place.run(&format!("report {} --all", run.display())).ends(0).stdout;
    assert!(short.lines().count() <= 60, "{short}");
    assert!(short.contains("healthy: ") && short.contains("random reads of 32 B"), "{short}");
    assert!(all.lines().count() > 400, "{}", all.lines().count());
}

#[test]
fn wrong_usage_is_answered_and_a_read_only_folder_costs_only_the_record() {
    let place = Place::new();
    place.run("check --budget 1s --device sim").ends(2).says("a budget is from 5s to 60min");
    place.run("check --run missing").ends(2);
    place.run("check --run missing --budget 9s").ends(2).says("cannot be used with");
    place.run("check --device sim:without=launch --no-record").ends(0).says("not measured: ");
    let ran = place.run("check --device sim --out kept").ends(0).says("record: ");
    assert!(place.path("kept/run.jsonl").exists() && ran.stdout.contains("wrong results"), "{}", ran.stdout);
    place.run("check --device sim --out kept").ends(2).says("already holds a run");
    // A file where the folder of runs would be.
    place.write("plimsoll-runs", "");
    place.run("check --device sim").ends(0).says("no record is kept");
}

/// Measures a simulated card for the folder `fleet`.
fn measure_for_fleet(place: &Place, host: &str, scenario: &str) {
    place.run(&format!("check --device sim:{scenario} --fleet fleet --host {host} --quiet")).ends(0);
}

/// Collects the folder `fleet`, which must end with this code.
fn collect(place: &Place, options: &str, code: i32) -> Value {
    let ran = place.run(&format!("collect fleet --format json {options}")).ends(code);
    serde_json::from_str(&ran.stdout).unwrap()
}

fn find_device<'v>(fleet: &'v Value, id: &str) -> &'v Value {
    let devices = fleet["devices"].as_array().unwrap();
    devices.iter().find(|device| device["id"] == id).unwrap_or_else(|| panic!("{fleet}"))
}

#[test]
fn a_fleet_file_is_small_and_an_edited_figure_is_recomputed_and_named() {
    let place = Place::new();
    for seed in 0..5 {
        measure_for_fleet(&place, "n1", &format!("seed={seed},slot={seed}"));
    }
    let path = place.path("fleet/n1-sim-3.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.len() <= 40 << 10, "{}", text.len());
    let before = collect(&place, "--expect 5", 0);
    assert_eq!(
        before["devices"].as_array().unwrap().iter().filter(|device| device["unchecked_figures"] != 0).count(),
        0
    );
    let edited: Vec<String> = text
        .lines()
        .map(|line| {
            let mut line: Value = serde_json::from_str(line).unwrap();
            if line["kind"] == "finding" && line["name"] == "read" {
                (line["value"], line["interval"]) = (2e11.into(), serde_json::json!([2e11, 2e11]));
            }
            line.to_string()
        })
        .collect();
    std::fs::write(&path, edited.join("\n")).unwrap();
    let after = collect(&place, "", 0);
    let [problem] = &after["problems"].as_array().unwrap()[..] else { panic!("{after}") };
    assert_eq!((&problem["kind"], &problem["file"]), (&"edited".into(), &"n1-sim-3.jsonl".into()));
    assert!(
        problem["text"].as_str().unwrap().contains("memory read doesn't match its samples: 200 GB/s claimed, 180 GB/s")
    );
    assert_eq!(find_device(&after, "sim-3")["figures"], find_device(&before, "sim-3")["figures"]);
    place.run("collect fleet --format json --out fleet/n1-sim-3.jsonl --force").ends(2);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), edited.join("\n"));
}

#[test]
fn the_fleet_names_a_card_whose_digest_is_wrong_on_all_multiprocessors() {
    let place = Place::new();
    for (seed, fault) in [(0, ""), (1, ""), (2, ",wrong-digest"), (3, ",wrong-sm=7"), (4, "")] {
        measure_for_fleet(&place, "n1", &format!("seed={seed},slot={seed}{fault}"));
    }
    let reasons = |fleet: &Value, id: &str| -> Vec<(String, String)> {
        let reasons = find_device(fleet, id)["reasons"].as_array().unwrap().iter();
        let words = |reason: &Value, key: &str| reason[key].as_str().unwrap().to_owned();
        reasons.map(|reason| (words(reason, "verdict"), words(reason, "text"))).collect()
    };
    let found = collect(&place, "", 1);
    let [(verdict, text)] = &reasons(&found, "sim-2")[..] else { panic!("{found}") };
    assert!(verdict == "broken" && text.starts_with("digest of special functions: 0x"), "{text}");
    assert!(text.ends_with(" on 4 of 5 Simulated device"), "{text}");
    let [(verdict, text)] = &reasons(&found, "sim-3")[..] else { panic!("{found}") };
    assert!(verdict == "broken" && text.contains("digest: integer on multiprocessor 7: digest 0x"), "{text}");
    assert!(["sim-0", "sim-1", "sim-4"].iter().all(|id| reasons(&found, id).is_empty()), "{found}");
    let slurm = place.run("collect fleet --format slurm").ends(1).stdout;
    let expected = "0000:02:00.0 broken digest of special functions, 0000:03:00.0 broken wrong results";
    assert!(slurm.contains(expected), "{slurm}");
    let page = place.run("collect fleet --format html").ends(1).stdout;
    assert!(page.contains("digest of special functions: 0x"), "{page}");
    // Two cards that differ: nobody knows which is wrong.
    for seed in [0, 1, 4] {
        std::fs::remove_file(place.path(&format!("fleet/n1-sim-{seed}.jsonl"))).unwrap();
    }
    let two = collect(&place, "", 1);
    let text = &reasons(&two, "sim-2")[0].1;
    assert!(text.ends_with(" on 1 of 2 Simulated device, no majority"), "{text}");
}

#[test]
fn measure_writes_files_of_a_fleet_with_its_own_probes() {
    let place = Place::new();
    place.run("measure stream --device sim:seed=1 --effort standard --fleet fleet --host n1 --quiet").ends(0);
    let found = collect(&place, "--expect 1", 0);
    let ids: Vec<&str> =
        found["devices"][0]["figures"].as_array().unwrap().iter().filter_map(|row| row["id"].as_str()).collect();
    assert_eq!(ids, ["memory-write", "memory-read", "memory-copy"]);
    assert_eq!(found["strata"][0]["settings"]["effort"], "standard");
    assert!(!place.path("plimsoll-runs").exists());
    place.run("measure stream --device sim --fleet fleet --out run").ends(2);
}

#[test]
fn a_folder_that_cannot_be_written_or_read_is_an_error() {
    let place = Place::new();
    place.write("file", "");
    place.run("check --device sim --fleet file").ends(2).says("error: can't create the folder file: ");
    place.run("collect nowhere").ends(2).says("error: can't read nowhere: ");
    std::fs::create_dir(place.path("empty")).unwrap();
    place.run("collect empty").ends(2).says("empty holds no file of a device");
    place.run("collect empty --out fleet.docx").ends(2).says("no format has this ending");
    place.run("check --rank 3").ends(2).says("--fleet <DIR>");
}

/// Begins to measure a card of the host n1 that takes its time, and waits until there is something to keep.
fn start_slow(place: &Place, seed: u32, options: &str) -> Child {
    let scenario = format!("seed={seed},slot={seed},real-time");
    let mut command =
        place.command(&format!("check --device sim:{scenario} --fleet fleet --host n1 --quiet {options}"));
    let child = command.stderr(Stdio::piped()).spawn().unwrap();
    let has_begun = || parts(place).iter().any(|part| part.metadata().unwrap().len() > 4000);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !has_begun() {
        assert!(std::time::Instant::now() < deadline, "nothing was written");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    child
}

/// The files of measurements that run or were cut off.
fn parts(place: &Place) -> Vec<PathBuf> {
    let files = std::fs::read_dir(place.path("fleet")).into_iter().flatten().flatten().map(|file| file.path());
    files.filter(|path| path.extension().is_some_and(|ending| ending == "part")).collect()
}

#[test]
fn a_stopped_measurement_does_not_replace_a_complete_one() {
    let place = Place::new();
    let stop = |seed| {
        let child = start_slow(&place, seed, "");
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        Ran::from_output(child.wait_with_output().unwrap()).ends(143)
    };
    measure_for_fleet(&place, "n1", "seed=1,slot=1");
    let path = place.path("fleet/n1-sim-1.jsonl");
    let before = std::fs::read_to_string(&path).unwrap();
    stop(1).says("warning: stopped early: fleet/n1-sim-1.jsonl of an earlier measurement is kept");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), before);
    // Without an earlier one, what was measured is kept, and isn't taken for the whole.
    stop(2);
    let found = collect(&place, "", 4);
    assert_eq!((&found["problems"], parts(&place)), (&serde_json::json!([]), vec![]));
    assert_eq!(find_device(&found, "sim-2")["verdict"], "unknown");
}

#[test]
fn results_that_cannot_be_written_stay_in_the_partial_file() {
    let place = Place::new();
    std::fs::create_dir_all(place.path("fleet/n1-sim-1.jsonl")).unwrap();
    let ran = place.run("check --device sim:seed=1,slot=1 --fleet fleet --host n1 --quiet").ends(2);
    let [part] = &parts(&place)[..] else { panic!("{:?}", parts(&place)) };
    let name = part.file_name().unwrap().to_str().unwrap();
    ran.says(&format!("hint: what was measured is in fleet/{name}"));
    let found = collect(&place, "", 4);
    assert!(found["problems"].to_string().contains("n1 (sim-1): it had "), "{found}");
}

#[test]
fn a_lost_device_ends_the_process_with_3_and_its_file_says_so() {
    let place = Place::new();
    place.run("check --device sim:seed=1,lost-after=400 --fleet fleet --host n1 --quiet").ends(3);
    let found = collect(&place, "", 4);
    let why = find_device(&found, "sim-1")["reasons"].to_string();
    assert!(why.contains("simulated by the scenario (lost-after)"), "{why}");
}

#[test]
fn probes_that_a_fleets_files_do_not_hold_are_named() {
    let place = Place::new();
    let only = place.run("measure strides --device sim --fleet fleet --host n1 --quiet").ends(2);
    only.says("error: a fleet's files hold no figures of strides").says("hint: name probes of `plimsoll check`");
    let mixed = place.run("measure stream strides --device sim --fleet fleet --host n1 --quiet").ends(0);
    mixed.says("warning: not measured: strides");
    place.run("collect fleet --expect x").ends(2).says("write a whole number, at least 1");
}

#[test]
fn a_killed_process_leaves_what_it_had_and_is_named() {
    let place = Place::new();
    measure_for_fleet(&place, "n1", "seed=1,slot=1");
    let mut child = start_slow(&place, 2, "--rank 1");
    child.kill().unwrap();
    child.wait().unwrap();
    let found = collect(&place, "", 4);
    let [problem] = &found["problems"].as_array().unwrap()[..] else { panic!("{found}") };
    assert_eq!((&problem["kind"], &found["verdict"]), (&"cut off".into(), &"unknown".into()));
    let text = problem["text"].as_str().unwrap();
    assert!(text.starts_with("rank 1 on n1 (sim-2): cut off in "), "{text}");
    // Measured again, it is complete.
    measure_for_fleet(&place, "n1", "seed=2,slot=2");
    assert_eq!(collect(&place, "", 0)["problems"], serde_json::json!([]));
}

#[test]
fn a_soak_says_when_the_device_settled_and_names_wrong_results_with_their_time() {
    let place = Place::new();
    let hot = place.run("soak --device sim:throttle-after=30 --duration 2min --out hot").ends(0);
    let says = "settled after 30.0 s at 1.23 TFLOP/s, 2.400 GHz, 500 W, 20.1 % below the first window; too hot in 37 of 48 windows; the same results in all 48 windows";
    let words = hot.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(says), "{}", hot.stdout);
    let page = std::fs::read_to_string(place.path("hot/report.html")).unwrap();
    for picture in ["soak over time", "soak over time: clock", "soak over time: power"] {
        assert!(page.contains(&format!(">{picture}</")), "{picture}");
    }
    let wrong = place.run("soak --device sim:wrong=soak --duration 20s --no-plots --out wrong").ends(1);
    assert!(wrong.stdout.contains("WRONG results in 8 of 8 windows, first at 0 s"), "{}", wrong.stdout);
    assert!(wrong.stdout.contains("the first at time 0 s: simulated"), "{}", wrong.stdout);
    place.run("soak --device sim --duration 5s").ends(2).says("a soak takes from 20s to 24h");
    // Stopped early, what was measured is kept.
    let mut command = place.command("soak --device sim:real-time --duration 20s --quiet --out cut");
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let record = place.path("cut/run.jsonl");
    while !std::fs::read_to_string(&record).is_ok_and(|text| text.contains("\"kind\":\"series\"")) {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    Ran::from_output(child.wait_with_output().unwrap()).ends(130);
    assert!(std::fs::read_to_string(&record).unwrap().ends_with("{\"kind\":\"end\",\"complete\":false}\n"));
}
