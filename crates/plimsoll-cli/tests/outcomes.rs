//! Exit codes and files of `measure`, `verify`, `report` and `compare`, for good and bad devices and records.

#[allow(dead_code, reason = "each test file uses a part")]
mod support;

use std::process::Stdio;

use support::{Place, Ran, points, read_record};

#[test]
fn a_clean_run_leaves_a_record_and_a_report_and_prints_its_figures() {
    let place = Place::new();
    let ran = place.run("measure --device sim --out run").ends(0).says("run/run.jsonl").says("run/report.html");
    assert!(ran.stdout.contains("healthy: ") && ran.stdout.contains("latency of memory"), "{}", ran.stdout);
    let run = place.record("run");
    assert_eq!(run.end, Some(true));
    assert!(points(&run) > 50 && !run.findings.is_empty());
    assert!(run.header.argv.contains(&"--device".to_owned()));
    place.run("measure --device sim --out bare --no-report").ends(0);
    assert!(!place.path("bare/report.html").exists());
}

#[test]
fn the_command_alone_prints_its_help_and_succeeds() {
    let place = Place::new();
    let ran = place.run("").ends(0);
    assert_eq!(ran.stdout, place.run("--help").ends(0).stdout);
    assert!(ran.stderr.is_empty(), "{}", ran.stderr);
    // A verb without what it needs is still wrong usage, and a closed pipe no error.
    place.run("report").ends(2);
    let mut child = place.command("").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    Ran::from_output(child.wait_with_output().unwrap()).ends(0);
}

#[test]
fn progress_is_a_line_per_probe_where_stderr_is_no_terminal() {
    let place = Place::new();
    let ran = place.run("measure stream latency --device sim --out run").ends(0);
    let lines: Vec<&str> = ran.stderr.lines().filter(|line| line.starts_with("measured: ")).collect();
    assert_eq!(lines.len(), 2, "{}", ran.stderr);
    let run = place.record("run");
    for (line, probe) in lines.iter().zip(["stream", "latency"]) {
        let count = run.series.iter().filter(|series| series.spec.probe == probe);
        let points: usize = count.flat_map(|series| &series.rows).map(|row| row.points.len()).sum();
        assert!(line.starts_with(&format!("measured: {probe}, {points} points, ")) && line.ends_with(" s"), "{line}");
    }
    place
        .run("measure sync latency --device sim:panic=sync --out failed")
        .ends(3)
        .says(" points, ")
        .says("ended early");
    // A reader of stderr that goes away doesn't end the run.
    let mut child = place.command("measure sync --device sim --out deaf").stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stderr.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn quiet_keeps_results_warnings_and_errors_and_no_plots_keeps_the_table() {
    let place = Place::new();
    let ran = place.run("measure stream sync --device sim --out run --quiet").ends(0);
    assert!(ran.stderr.is_empty() && ran.stdout.contains("stream"), "{}", ran.stderr);
    assert!(place.path("run/report.html").exists());
    place.run("measure sync --device sim --out run --quiet").ends(2).says("error: ").says("hint: ");
    place.run("measure sync --bytes 1MiB --device sim --out sized --quiet").ends(0).says("warning: --bytes");
    let plain = place.run("measure stream --device sim --out plain --no-plots").ends(0).stdout;
    let plotted = place.run("report plain").ends(0).stdout;
    let is_drawn = |text: &str| text.chars().any(|c| ('\u{2800}'..='\u{28ff}').contains(&c) || c == '█');
    assert!(is_drawn(&plotted) && !is_drawn(&plain), "{plain}");
    assert!(plain.lines().count() > 5 && plain.lines().all(|line| plotted.contains(line)), "{plain}");
}

#[test]
fn nothing_is_overwritten_and_simultaneous_runs_get_separate_folders() {
    let place = Place::new();
    place.run("measure sync --device sim --out run").ends(0);
    place.run("measure sync --device sim --out run").ends(2).says("already holds a run").says("hint: ");
    place.run("measure sync --device sim --out other").ends(0);
    std::fs::remove_file(place.path("other/run.jsonl")).unwrap();
    place.write("other/report.html", "mine");
    place.run("measure sync --device sim --out other").ends(2).says("report.html").says("hint: ");
    assert_eq!(std::fs::read_to_string(place.path("other/report.html")).unwrap(), "mine");
    assert!(!place.path("other/run.jsonl").exists());
    let children: Vec<_> = (0..4)
        .map(|_| {
            place.command("measure sync --device sim").stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    for child in children {
        Ran::from_output(child.wait_with_output().unwrap()).ends(0);
    }
    let folders: Vec<_> =
        std::fs::read_dir(place.path("plimsoll-runs")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(folders.len(), 4, "{folders:?}");
    folders.iter().for_each(|folder| assert_eq!(read_record(folder).end, Some(true)));
}

#[test]
fn an_unwritable_folder_is_reported_before_measuring() {
    let place = Place::new();
    place.write("file", "");
    for out in ["file", "file/below", "/proc/nonsense"] {
        place.run(&format!("measure --device sim:real-time=1 --effort thorough --out {out}")).ends(2).says("--out");
    }
}

#[test]
fn a_size_that_a_probe_ignores_costs_a_warning() {
    let place = Place::new();
    let ran = place.run("measure roofline incore sync --bytes 16MiB --device sim --out run").ends(0);
    ran.says("warning: --bytes has no effect on incore, sync:");
    let ran = place.run("measure roofline --bytes 16MiB --device sim --out sized").ends(0);
    assert!(!ran.stderr.contains("--bytes"), "{}", ran.stderr);
}

#[test]
fn wrong_usage_exits_with_2_and_a_hint() {
    let place = Place::new();
    place.run("measure steram --device sim").ends(2).says("did you mean stream?");
    place.run("measure --group bandwith --device sim").ends(2).says("did you mean bandwidth?");
    place.run("measure --device cuda:x").ends(2).says("use cpu, gpu, cuda:N").says("devices here:\n").says("  cpu (");
    place.run("measure --device H300").ends(2).says("no device is called 'H300'").says("  cpu (");
    place.run("measure --device sim:nonsense=1").ends(2);
    place.run("measure --device sim:noise=nan").ends(2);
    place.run("measure --bytes 0 --device sim").ends(2).says("nothing can be measured on 0 bytes");
    place.run("measure --bytes 99999999999999999999 --device sim").ends(2);
    place.run("measure --bytes -1 --device sim").ends(2);
    place.run("measure --effort heroic --device sim").ends(2).says("quick, standard or thorough");
    place.run("nonsense").ends(2);
    place.run("verify --small --exhaustive --device sim").ends(2);
    place.run("doctor --require nonsense").ends(2).says("known: cpu");
    assert!(!place.path("plimsoll-runs").exists(), "a rejected run left files behind");
}

#[test]
fn a_repeated_argument_is_rejected() {
    let place = Place::new();
    for (args, name) in [
        ("bench x+y --in x:f32:1024 --in x:f32:1024", "x"),
        ("bench x+y --in x:f32:1024 --dtype x:f16", "x"),
        ("bench a*x --scalar a=1 --scalar a=2", "a"),
        ("bench x+y --dtype x:f16,x:f32", "x"),
        ("bench x+y --dtype f16 --dtype f32", "all names"),
        ("bench x --variant vector=4 vector=8", "vector=8"),
        ("bench x --variant unroll=2,2", "unroll=2,2"),
    ] {
        let ran = place.run(&format!("{args} --device sim")).ends(2).says(&format!("'{name}'")).says("twice");
        assert!(ran.stderr.lines().count() <= 2, "{}", ran.stderr);
    }
    place.run("explain x+y --in x:f32:1024 --in x:f32:1024 --device sim").ends(2).says("twice");
    place.run("predict x+y --in x:f32:1024 --in x:f32:1024 --machine h200 --estimate").ends(2).says("twice");
    place.run("sass x+y --scalar x=1 --scalar x=1").ends(2).says("twice");
}

#[test]
fn predict_gives_a_bound_or_a_prediction_for_every_machine_of_the_catalogue() {
    let place = Place::new();
    let mut predictions = 0;
    for machine in plimsoll::suite::machines::MACHINES {
        let mut command = place.command("predict x+y --bytes 1GiB --estimate --format json --machine");
        let ran = Ran::from_output(command.arg(machine.name).output().unwrap()).ends(0);
        let answer = &serde_json::from_str::<serde_json::Value>(&ran.stdout).unwrap()[0];
        let bound = &answer["bound"];
        let least = bound["at_least"].as_f64().unwrap();
        assert_eq!((bound["unit"].as_str(), bound["limit"].as_str()), (Some("s"), Some("memory bandwidth")));
        let expected = answer["bytes_moved"].as_f64().unwrap() / machine.peak_bandwidth();
        assert!((least / expected - 1.0).abs() < 1e-9, "{}: {least} and {expected}", machine.name);
        assert!(bound["parts"][0]["source"].as_str().unwrap().contains(machine.source));
        match answer["answer"].as_str() {
            Some("prediction") => {
                assert!(answer["seconds"].as_f64().unwrap() >= least, "{}: {answer}", machine.name);
                predictions += 1;
            }
            Some("bound") => {
                assert!(answer["seconds"].is_null(), "{}: {answer}", machine.name);
                assert!(ran.stderr.contains("not a prediction"), "{}: {}", machine.name, ran.stderr);
            }
            other => panic!("{}: {other:?}", machine.name),
        }
    }
    assert!(predictions >= 7, "{predictions}");
}

#[test]
fn predict_names_similar_machines_and_lists_ambiguous_ones() {
    let place = Place::new();
    place.run("predict x --machine MI335X").ends(2).says("did you mean").says("MI355X").says("hint: ");
    place.run("predict x --machine H100").ends(2).says("could be any of").says("H100 NVL");
}

#[test]
fn json_of_list_and_peak_has_numbers_with_their_units() {
    let place = Place::new();
    let json = |args: &str| -> serde_json::Value { serde_json::from_str(&place.run(args).ends(0).stdout).unwrap() };
    for row in json("list --device sim --format json").as_array().unwrap() {
        assert!(row["points"].is_u64() && row["quick s"].is_number(), "{row}");
    }
    for row in json("peak --format json").as_array().unwrap() {
        assert!(row["bandwidth"].is_number() || row["bandwidth"].is_null(), "{row}");
        assert_eq!(row["unit"], "B/s");
        assert_eq!(row["measured"].is_number(), row["finding"].is_string(), "{row}");
    }
    let a100 = &json("peak --memory HBM2E --bus-width 5120 --clock 1.512GHz --format json")[0];
    assert!((a100["bandwidth"].as_f64().unwrap() - 1935.36e9).abs() < 1e6, "{a100}");
}

#[test]
fn doctor_lists_the_kernel_tools_with_or_without_a_device() {
    let place = Place::new();
    let nowhere = |args: &str| {
        let mut command = place.command(args);
        command
            .env("PLIMSOLL_NVRTC", "/nowhere")
            .env("PLIMSOLL_NVDISASM", "/nowhere")
            .env("PLIMSOLL_CUPTI", "/nowhere")
            .env("PLIMSOLL_CUBLAS", "/nowhere")
            .env("PLIMSOLL_NCCL", "/nowhere")
            .env("VK_DRIVER_FILES", "/nowhere");
        Ran::from_output(command.env("PLIMSOLL_LIBNVML", "/nowhere").output().unwrap())
    };
    let ran = nowhere("doctor").ends(0);
    let json: serde_json::Value = serde_json::from_str(&nowhere("doctor --format json").ends(0).stdout).unwrap();
    for part in json["parts"].as_array().unwrap() {
        let is_present = part["present"].as_bool().unwrap();
        assert_eq!((is_present, is_present), (part["why_not"].is_null(), part["hint"].is_null()), "{part}");
        assert!(!part["adds"].as_str().unwrap().is_empty(), "{part}");
    }
    assert_eq!(json["capabilities"][0]["name"], "cpu");
    assert_eq!(nowhere("doctor --format csv").ends(0).stdout.lines().count(), 10);
    for tool in ["NVRTC", "nvdisasm", "NVML", "CUPTI", "cuBLAS", "NCCL"] {
        assert_eq!(ran.stdout.lines().filter(|line| line.starts_with(tool)).count(), 1, "{tool}: {}", ran.stdout);
        nowhere(&format!("doctor --require {tool}")).ends(3).says(&format!("{tool} is required")).says("hint: ");
    }
}

#[test]
fn a_missing_device_exits_with_3_and_the_reason() {
    let place = Place::new();
    for args in ["measure --device cuda:0", "list --device cuda:7", "verify --device cuda", "peak cuda:0"] {
        place.run(args).ends(3).says("CUDA").says("hint: ");
    }
    place.run("doctor --require cuda").ends(3).says("cuda is required");
    place.run("doctor --require cpu").ends(0);
}

#[test]
fn a_lost_device_exits_with_3_and_keeps_what_was_measured() {
    let place = Place::new();
    for (out, fault) in [("lost", "lost-after=400"), ("hung", "hang-after=400")] {
        place.run(&format!("measure --device sim:{fault} --out {out}")).ends(3);
        let run = place.record(out);
        assert!(points(&run) > 0 && run.end == Some(false), "{out}");
        assert!(run.faults.iter().any(|fault| fault.what.contains("not tried")), "{:?}", run.faults);
        assert!(place.path(out).join("report.html").exists());
    }
}

#[test]
fn a_failing_probe_does_not_stop_the_others() {
    let place = Place::new();
    place.run("measure --device sim:panic=latency --out panic").ends(3);
    let run = place.record("panic");
    assert!(run.faults.iter().any(|fault| fault.probe == "latency" && fault.class.name() == "panicked"));
    assert!(run.series.iter().any(|series| series.spec.probe == "sync"));
    place.run("measure --device sim:wrong=stream --out wrong").ends(1);
    place.run("measure --device sim:without=latency --out without").ends(0);
    place.run("measure latency --device sim:without=latency --out only").ends(3);
    // Too little memory costs the large points, not the run.
    place.run("measure footprint --device sim:oom-above=1MiB --out short").ends(0);
    assert!(place.record("short").faults.iter().any(|fault| fault.class.name() == "out_of_memory"));
}

#[test]
fn unreadable_counters_are_reported_and_do_not_change_the_exit_code() {
    let place = Place::new();
    place.run("measure sync --counters --device sim --out run").ends(0).says("counters");
    assert!(place.record("run").faults.iter().any(|fault| fault.probe == "counters"));
}

#[test]
fn verify_counts_correct_results_and_shows_wrong_ones() {
    let place = Place::new();
    let ran = place.run("verify --device sim --small").ends(0);
    assert!(ran.stdout.lines().all(|line| line.contains(" ok")), "{}", ran.stdout);
    let ran = place.run("verify stream --device sim:wrong=stream").ends(1);
    assert!(ran.stdout.contains("1 wrong") && ran.stdout.contains("  wrong: "), "{}", ran.stdout);
}

#[test]
fn a_run_equals_itself_and_a_comparison_with_another_probe_is_inconclusive() {
    let place = Place::new();
    place.run("measure latency --device sim --effort standard --out a").ends(0);
    place.run("measure latency --device sim --effort standard --out b").ends(0);
    for format in ["table", "json", "csv", "markdown"] {
        for all in ["", " --all"] {
            let ran = place.run(&format!("compare a b --format {format}{all}")).ends(0);
            assert!(ran.stdout.contains("same"), "{}", ran.stdout);
        }
    }
    place.run("measure stream --device sim --out c").ends(0);
    let ran = place.run("compare a c").ends(4);
    assert!(ran.stdout.contains("share no figure that decides"), "{}", ran.stdout);
    // Even a noisy run equals itself.
    place.run("measure --device sim:noise=0.4,wrong=stream --out noisy").ends(1);
    place.run("compare noisy noisy").ends(0);
    place.run("compare noisy noisy/run.jsonl").ends(0);
}

#[test]
fn invalid_records_are_rejected_and_damaged_ones_are_used_up_to_the_damage() {
    let place = Place::new();
    place.run("measure sync --device sim --out run").ends(0);
    place.write("empty.jsonl", "");
    place.write("foreign.json", r#"{"kind":"benchmark","x":1}"#);
    place.write("binary.jsonl", [0xffu8; 5000]);
    place.write("newer.jsonl", r#"{"kind":"run","schema":999}"#);
    place.write("deep.jsonl", "[".repeat(200_000));
    place.write("endless.jsonl", "x".repeat(9 << 20));
    std::fs::create_dir(place.path("hollow")).unwrap();
    for bad in
        ["empty.jsonl", "foreign.json", "binary.jsonl", "newer.jsonl", "deep.jsonl", "endless.jsonl", "hollow", "none"]
    {
        for args in [format!("report {bad}"), format!("compare {bad} run"), format!("compare run {bad}")] {
            let ran = place.run(&args).ends(2).says("error: ").says(bad);
            assert!(ran.stdout.is_empty() && ran.stderr.len() < 2000, "{}", ran.stderr);
        }
    }
    let whole = std::fs::read(place.path("run/run.jsonl")).unwrap();
    let mut damaged = whole.clone();
    damaged.truncate(whole.len() * 3 / 4);
    place.write("torn.jsonl", &damaged);
    place.run("report torn.jsonl").ends(0).says("cut off");
    damaged.extend(b"\n{\"kind\":\"point\",\"series\":99}\nnonsense\n");
    place.write("damaged.jsonl", &damaged);
    place.run("report damaged.jsonl -o damaged.html").ends(0).says("damaged.jsonl:");
}

/// Compresses like `gzip -9`.
fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    std::io::Write::write_all(&mut encoder, bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn compressed_records_are_reported_and_compared_like_plain_ones() {
    let place = Place::new();
    place.run("measure sync --device sim --out run").ends(0);
    let whole = std::fs::read(place.path("run/run.jsonl")).unwrap();
    std::fs::create_dir(place.path("packed")).unwrap();
    place.write("packed/run.jsonl.gz", gzip(&whole));
    place.write("misnamed.jsonl", gzip(&whole));
    let plain = place.run("report run --format csv").ends(0).stdout.replace("run,", "");
    for same in ["packed", "packed/run.jsonl.gz", "misnamed.jsonl"] {
        let csv = place.run(&format!("report {same} --format csv")).ends(0).stdout;
        assert_eq!(csv.lines().count(), plain.lines().count(), "{same}");
        let compared = place.run(&format!("compare run {same} --all --format csv")).stdout;
        assert_eq!(compared, place.run("compare run run --all --format csv").stdout, "{same}");
        assert!(compared.contains("sync"), "{same}");
    }
    // Nothing is measured into the folder of a compressed run.
    place.run("measure sync --device sim --out packed").ends(2).says("already holds a run");
}

#[test]
fn truncated_compressed_records_are_used_up_to_the_cut_and_bombs_are_rejected() {
    let place = Place::new();
    place.run("measure sync latency --device sim --out run").ends(0);
    let whole = std::fs::read(place.path("run/run.jsonl")).unwrap();
    let packed = gzip(&whole);
    place.write("torn.gz", &packed[..packed.len() * 3 / 4]);
    place.run("report torn.gz").ends(0).says("torn.gz:").says("the gzip data are cut off");
    assert!(place.run("report torn.gz --format csv").stdout.lines().count() > 1);
    place.write("headless.gz", &packed[..20]);
    place.run("report headless.gz").ends(2).says("cut off");
    // Some 200 kB: a header, followed by more data than any record has.
    let header = whole.split_inclusive(|byte| *byte == b'\n').next().unwrap();
    let bomb = [gzip(header), gzip(&[b' '; 1 << 20]).repeat(200)].concat();
    place.write("bomb.gz", &bomb);
    place.run("report bomb.gz").ends(2).says("larger than a record can be").says("when unpacked");
    place.run("compare bomb.gz run").ends(2).says("when unpacked");
}

#[test]
fn the_ending_of_the_output_file_decides_the_format() {
    let place = Place::new();
    place.run("measure latency --device sim --out run").ends(0);
    for (file, mark) in
        [("r.html", "<!doctype html>"), ("r.csv", "probe"), ("r.md", "|"), ("r.json", "{"), ("r.txt", "latency")]
    {
        place.run(&format!("report run -o {file}")).ends(0).says(file);
        let text = std::fs::read_to_string(place.path(file)).unwrap().to_lowercase();
        assert!(text.contains(mark), "{file}: {}", text.chars().take(300).collect::<String>());
    }
    place.run("report run run -o both.html").ends(0);
    place.run("report run -o pictures/").ends(0).says("pictures/");
    assert!(std::fs::read_dir(place.path("pictures")).unwrap().count() > 0);
    place.run("report run -o r.xls").ends(2).says("no format has this ending");
    place.run("report run --format svg").ends(2).says("-o");
    place.run("report run -o none/r.html").ends(2).says("can't write");
}

#[cfg(unix)]
#[test]
fn report_writes_through_links_and_into_pipes_without_replacing_them() {
    use std::os::unix::fs::{FileTypeExt, symlink};
    let place = Place::new();
    place.run("measure sync --device sim --out run").ends(0);
    place.write("kept.csv", "old");
    for (link, target) in [("link.csv", "kept.csv"), ("dangling.csv", "fresh.csv")] {
        symlink(target, place.path(link)).unwrap();
        place.run(&format!("report run -o {link} --force")).ends(0);
        assert!(place.path(link).symlink_metadata().unwrap().is_symlink(), "{link}");
        assert!(std::fs::read_to_string(place.path(target)).unwrap().starts_with("run,"), "{target}");
    }
    let made = std::process::Command::new("mkfifo").arg(place.path("pipe")).status();
    if !made.is_ok_and(|made| made.success()) {
        eprintln!("skipped: no mkfifo");
        return;
    }
    let child = place.command("report run --format csv -o pipe").stderr(Stdio::piped()).spawn().unwrap();
    let text = std::fs::read_to_string(place.path("pipe")).unwrap();
    Ran::from_output(child.wait_with_output().unwrap()).ends(0);
    assert!(text.starts_with("run,"), "{text}");
    assert!(place.path("pipe").symlink_metadata().unwrap().file_type().is_fifo());
    place.run("report run --format csv -o none/r.csv").ends(2).says("can't write none/r.csv: No such file");
}

#[test]
fn output_fits_a_narrow_terminal() {
    let place = Place::new();
    place.run("measure --device sim --out run").ends(0);
    // The charts of `report run` have a minimum width.
    let narrow =
        [(40, "list --device sim"), (40, "devices"), (40, "compare run run"), (80, "report run"), (100, "report run")];
    for (columns, args) in narrow {
        {
            let ran = Ran::from_output(place.command(args).env("COLUMNS", columns.to_string()).output().unwrap());
            let widest = ran.stdout.lines().map(|line| line.chars().count()).max().unwrap_or(0);
            assert!(widest <= columns, "{args} at {columns}: {widest}\n{}", ran.stdout);
        }
    }
}

#[test]
fn bench_shows_every_flag_and_figure_at_any_width() {
    let place = Place::new();
    let args = "bench a*x+y --scalar a=0.5 --device sim:drift=0.5,steal=0.2 --bytes 1MiB,256MiB --both";
    for columns in (40..=200).step_by(20) {
        let mut command = place.command(&format!("{args} --out run{columns}"));
        let ran = Ran::from_output(command.env("COLUMNS", columns.to_string()).output().unwrap());
        let table = &ran.stdout;
        for figure in ["per tensor", "time", "GB/s", "of peak"] {
            assert!(table.contains(figure), "{figure} in {columns} columns:\n{table}");
        }
        assert_eq!(table.matches("STEAL").count(), 4, "{columns} columns:\n{table}");
        let widest = table.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(columns), "{columns} columns:\n{table}");
    }
}

#[test]
fn no_escape_sequence_reaches_a_pipe() {
    let place = Place::new();
    for args in ["measure sync --device sim --out run", "list --device sim", "devices", "--help"] {
        let ran = place.run(args).ends(0);
        assert!(!ran.stdout.contains('\x1b') && !ran.stderr.contains('\x1b'), "{args}: {:?}", ran.stdout);
    }
}
