//! However a run is ended from outside, its measurements so far are kept and readable.

#[allow(dead_code, reason = "each test file uses a part")]
mod support;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use support::{Place, Ran, points, read_record};

/// Runs in real time for as long as its budgets allow.
const SLOW: &str = "measure --device sim:real-time=1 --effort thorough --out run";
/// Longer than a time slice takes on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

fn start(command: &mut Command, folder: &Path) -> Child {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The signal handlers are installed before the record is started.
    let has_started = || folder.join("run.jsonl").metadata().is_ok_and(|record| record.len() > 0);
    let deadline = Instant::now() + TIMEOUT;
    while !has_started() {
        assert!(Instant::now() < deadline, "no record was started");
        std::thread::sleep(Duration::from_millis(5));
    }
    child
}

fn send(child: &Child, signal: Signal) {
    // If the process has already ended, the test fails on the exit code.
    let _ = kill_process(Pid::from_child(child), signal);
}

#[test]
fn the_first_signal_keeps_what_was_measured_whenever_it_comes() {
    for (signal, after) in [
        (Signal::INT, 0),
        (Signal::TERM, 3),
        (Signal::INT, 40),
        (Signal::HUP, 90),
        (Signal::TERM, 170),
        (Signal::INT, 700),
    ] {
        let place = Place::new();
        let child = start(&mut place.command(SLOW), &place.path("run"));
        std::thread::sleep(Duration::from_millis(after));
        send(&child, signal);
        let ran = Ran::from_output(child.wait_with_output().unwrap())
            .ends(128 + signal.as_raw())
            .says("stopping, and keeping what was measured");
        let run = read_record(&place.path("run"));
        assert_eq!(run.end, Some(false));
        assert!(place.path("run/report.html").exists(), "{}", ran.stderr);
        place.run("report run").ends(0);
    }
}

#[test]
fn a_signal_ignored_at_the_start_stays_ignored() {
    let place = Place::new();
    let plimsoll = env!("CARGO_BIN_EXE_plimsoll");
    let mut command = Command::new("sh");
    command.args(["-c", &format!("trap '' INT HUP; exec {plimsoll} {SLOW}")]).current_dir(place.path("."));
    let child = start(&mut command, &place.path("run"));
    send(&child, Signal::INT);
    send(&child, Signal::HUP);
    std::thread::sleep(Duration::from_millis(200));
    send(&child, Signal::TERM);
    let ran = Ran::from_output(child.wait_with_output().unwrap()).ends(143);
    assert_eq!(ran.stderr.matches("stopping").count(), 1, "{}", ran.stderr);
}

#[test]
fn a_second_signal_exits_at_once() {
    let place = Place::new();
    let child = start(&mut place.command(SLOW), &place.path("run"));
    for _ in 0..200 {
        send(&child, Signal::INT);
        std::thread::sleep(Duration::from_micros(200));
    }
    Ran::from_output(child.wait_with_output().unwrap()).ends(130);
    place.run("report run").ends(0);
}

#[test]
fn a_killed_run_leaves_a_readable_record() {
    let place = Place::new();
    let mut child = start(&mut place.command(SLOW), &place.path("run"));
    std::thread::sleep(Duration::from_millis(300));
    child.kill().unwrap();
    child.wait().unwrap();
    place.run("report run -o killed.html").ends(0).says("the run was cut off");
    place.run("report run/run.jsonl --format csv").ends(0);
}

#[test]
fn a_closed_pipe_is_not_an_error() {
    let place = Place::new();
    for args in ["list --device sim", "schema", "completions bash", "peak", "measure latency --device sim --out run"] {
        let mut child = place.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let ran = Ran::from_output(child.wait_with_output().unwrap()).ends(0);
        assert!(!ran.stderr.contains("error"), "{args}: {}", ran.stderr);
    }
    assert!(points(&read_record(&place.path("run"))) > 0);
}

#[test]
fn a_full_stdout_is_an_error_but_record_and_report_are_written() {
    let Ok(full) = std::fs::OpenOptions::new().write(true).open("/dev/full") else {
        eprintln!("skipped: no /dev/full");
        return;
    };
    let place = Place::new();
    let mut command = place.command("measure latency --device sim --out run");
    let child = command.stdout(full).stderr(Stdio::piped()).spawn().unwrap();
    Ran::from_output(child.wait_with_output().unwrap()).ends(2).says("can't write to standard output");
    assert_eq!(read_record(&place.path("run")).end, Some(true));
    assert!(place.path("run/report.html").exists());
}

#[test]
fn a_full_disk_keeps_complete_lines_and_every_figure_is_shown() {
    let place = Place::new();
    let plimsoll = env!("CARGO_BIN_EXE_plimsoll");
    // A limit on file sizes simulates a full disk.
    let script = format!("ulimit -f 64; exec {plimsoll} measure stream latency --device sim --out run");
    let mut command = Command::new("sh");
    command.args(["-c", &script]).current_dir(place.path("."));
    let ran = Ran::from_output(command.output().unwrap()).ends(2).says("points were written").says("run.jsonl");
    assert!(ran.stdout.contains("stream"), "{}", ran.stdout);
    let run = read_record(&place.path("run"));
    assert!(points(&run) > 0 && run.end.is_none());
}
