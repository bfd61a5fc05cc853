//! `compare` as a gate, its pictures, `runs`, `last`, baselines, and several runs side by side.

#[allow(dead_code, reason = "each test file uses a part")]
mod support;

use std::path::Path;

use support::Place;

/// A record of this repository.
fn record(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../records").join(name).display().to_string()
}

fn suite(number: u8) -> String {
    record(&format!("h200/2026-11-22-suite/suite-{number}"))
}

/// Runs of `stream` on a device above its peak, in the folder `fast`, and on a usual one, in `slow`.
fn fast_and_slow() -> Place {
    let place = Place::new();
    place.run("measure stream --device sim:above-peak --effort standard --out fast").ends(0);
    place.run("measure stream --device sim --effort standard --out slow").ends(0);
    place
}

#[test]
fn two_standard_runs_of_one_h200_pass_the_gate() {
    let place = Place::new();
    let ran = place.run(&format!("compare {} {}", suite(1), suite(2))).ends(0);
    assert!(ran.stdout.contains("nothing is worse: 11 of 11 figures"), "{}", ran.stdout);
    assert!(ran.stdout.lines().count() < 32, "{}", ran.stdout);
    assert!(ran.stdout.contains("521 ambiguous"), "the points are counted: {}", ran.stdout);
    let ran = place.run(&format!("compare {} {} --probe stream", suite(1), suite(2))).ends(0);
    assert!(ran.stdout.contains("3 of 3 figures"), "{}", ran.stdout);
    let ran = place.run(&format!("compare {} {} --probe strem", suite(1), suite(2))).ends(2);
    ran.says("no probe of the records is called 'strem'").says("the records have ");
}

#[test]
fn the_worst_figures_are_shown_and_the_others_are_counted_in_every_format() {
    let place = Place::new();
    let compare = |options: &str| place.run(&format!("compare {} {} {options}", suite(1), suite(2))).ends(0);
    let lines = |options: &str| compare(options).stdout.lines().count();
    let table = compare("--top 3").stdout;
    assert!(table.contains("--top left out ") && table.contains("11 of 11 figures"), "{table}");
    assert_eq!(lines("--top 3 --format csv"), 4);
    assert_eq!(lines("--top 3 --format markdown"), 5);
    compare("--top 3 --format csv").says("--top left out ");
    let json: serde_json::Value = serde_json::from_str(&compare("--top 3 --format json").stdout).unwrap();
    assert_eq!(json["headlines"].as_array().unwrap().len(), 3);
    assert!(json["headlines_left_out"].as_u64().unwrap() > 8, "{json}");
    place.run(&format!("compare {} {} --top 0", suite(1), suite(2))).ends(2).says("at least 1");
}

#[test]
fn the_table_of_a_run_shows_the_figures_that_matter_most_and_counts_the_others() {
    let place = Place::new();
    let table = place.run(&format!("report {} --top 2", suite(1))).ends(0).stdout;
    assert!(table.contains("--top left out ") && table.contains("memory write"), "{table}");
    assert!(!table.contains("grid barrier") && table.contains("healthy: "), "{table}");
    place.run(&format!("report {} --top 2 --format csv", suite(1))).ends(2).says("in the table of one run");
    let table = place.run("measure stream copy --device sim --top 1 --out b").ends(0).stdout;
    assert!(table.contains("--top left out "), "{table}");
}

#[test]
fn a_report_of_chosen_probes_names_those_that_are_left_out() {
    let place = Place::new();
    place.run("measure stream copy latency --device sim --out a").ends(0);
    for format in ["table", "markdown", "csv", "json", "html"] {
        let ran = place.run(&format!("report a --probe copy,latency --format {format}")).ends(0);
        assert!(ran.stdout.contains("copy") && !ran.stdout.contains("triad"), "{format}: {}", ran.stdout);
        ran.says("--probe left out 1 probe: stream");
    }
    let ran = place.run("report a --probe gather").ends(2);
    ran.says("no probe of the record is called 'gather'").says("the record has stream, copy, latency");
}

#[test]
fn a_lower_bandwidth_fails_unless_the_threshold_allows_it() {
    let place = fast_and_slow();
    let ran = place.run("compare fast slow").ends(1);
    assert!(ran.stdout.contains("worse: ") && ran.stdout.contains("memory read"), "{}", ran.stdout);
    place.run("compare slow fast").ends(0);
    place.run("compare fast slow --threshold 60%").ends(0);
    place.run("compare fast slow --threshold 3").ends(2).says("write one like 3%");
    let json = place.run("compare fast slow --format json").ends(1).stdout;
    assert!(json.contains("\"id\": \"memory-read\"") && json.contains("\"role\": \"gate\""), "{json}");
}

#[test]
fn a_cpu_is_not_compared_with_a_gpu() {
    let place = Place::new();
    let cpu = record("cpu/2026-11-20-emerald-rapids/quick");
    let ran = place.run(&format!("compare {} {cpu} --across version", suite(1))).ends(4);
    assert!(ran.stdout.contains("of a GPU") && ran.stdout.contains("of a CPU"), "{}", ran.stdout);
}

#[test]
fn pictures_of_a_comparison_never_replace_a_file_unless_forced() {
    let place = Place::new();
    place.run("measure stream --device sim --out a").ends(0);
    place.run("compare a a -o x.svg").ends(0).says("picture: x.svg");
    place.run("compare a a -o x.html").ends(0);
    place.run("compare a a -o x.html").ends(2).says("--force replaces it");
    place.run("compare a a -o x.html --force").ends(0);
    place.run("compare a a -o x.csv").ends(2).says("no picture has this ending");
    std::fs::copy(place.path("a/run.jsonl"), place.path("record.svg")).unwrap();
    place.run("compare record.svg a -o record.svg --force").ends(2).says("it is an input");
    let page = std::fs::read_to_string(place.path("x.html")).unwrap();
    assert!(page.contains("memory read") && page.contains("run 2") && !page.contains("<script"));
}

#[test]
fn runs_are_listed_newest_first_and_last_means_the_newest() {
    let place = Place::new();
    place.run("runs").ends(2).says("can't list plimsoll-runs");
    place.run("measure stream --device sim --out all/one").ends(0);
    std::thread::sleep(std::time::Duration::from_millis(1100));
    place.run("measure sync --device sim --out all/two").ends(0);
    std::fs::create_dir(place.path("all/empty")).unwrap();
    std::fs::create_dir(place.path("all/bad")).unwrap();
    place.write("all/bad/run.jsonl", "nonsense\n");
    #[cfg(unix)]
    std::os::unix::fs::symlink(place.path("all/one"), place.path("all/link")).unwrap();
    let ran = place.run("runs all --format csv").ends(0).says("all/bad/run.jsonl is left out");
    let rows: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(rows.len(), 3, "{}", ran.stdout);
    assert!(rows[1].ends_with(",all/two") && rows[2].ends_with(",all/one"), "{}", ran.stdout);
    assert!(place.run("runs all --format json").ends(0).stdout.contains("\"probes\": 1"));
    assert!(place.run("report last~1 --dir all --format csv").ends(0).stdout.contains(",stream,"));
    place.run("report last~2 --dir all").ends(2).says("there is no run 'last~2': all holds 2");
    place.run("compare last last --dir all").ends(4);
}

#[test]
fn a_baseline_is_stored_under_a_name_and_compared_with() {
    let place = Place::new();
    place.run("measure stream --device sim --effort standard --out plimsoll-runs/one").ends(0);
    place.run("compare --baseline good").ends(2).says("no baseline is called 'good'");
    place.run("runs --baseline good plimsoll-runs/one").ends(0).says("baseline: ");
    place.run("runs --baseline good last").ends(2).says("--force replaces it");
    place.run("runs --baseline good last --force").ends(0);
    place.run("runs --baseline ../good last").ends(2).says("can't be a baseline's name");
    place.run("compare --baseline good").ends(0);
    place.run("compare --baseline good plimsoll-runs/one").ends(0);
    place.run("compare --baseline good last last").ends(2).says("name only the run to judge");
    place.run("compare last").ends(2).says("name two runs");
}

#[test]
fn several_runs_are_shown_side_by_side() {
    let place = fast_and_slow();
    let ran = place.run("report slow slow slow fast").ends(0);
    assert!(ran.stdout.contains("[4]") && ran.stdout.contains('▲'), "{}", ran.stdout);
    assert!(ran.stdout.lines().all(|line| line.chars().count() <= 80), "{}", ran.stdout);
    let all = place.run("report slow fast --all").ends(0).stdout;
    assert!(all.contains("achieved") && !all.contains("[2]"), "{all}");
}
