//! Ctrl-C, SIGTERM and SIGHUP: the first asks the run to stop and keeps what was measured, the second exits at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;

use super::exit::{Exit, Failure, say};

static STOP: AtomicBool = AtomicBool::new(false);
/// Whether the signals are handled already: two handlers would take one signal for two.
static INSTALLED: AtomicBool = AtomicBool::new(false);
static FIRST: AtomicI32 = AtomicI32::new(0);

/// Handles the signals and returns a flag that the first of them sets.
///
/// They are handled on a separate thread, which sleeps until then and so doesn't disturb measurements.
pub(crate) fn install() -> Result<&'static AtomicBool, Failure> {
    if INSTALLED.swap(true, Ordering::Relaxed) {
        return Ok(&STOP);
    }
    let to_failure = |error| Failure::usage(format!("can't listen for signals: {error}"));
    // With a handler, a write past the limit on file sizes returns an error, like a full disk, instead of ending the process.
    signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false))).map_err(to_failure)?;
    let handled = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|&signal| !is_ignored(signal));
    let mut signals = Signals::new(handled).map_err(to_failure)?;
    let listen = move || {
        for signal in signals.forever() {
            if STOP.swap(true, Ordering::Relaxed) {
                std::process::exit(exit_for(signal) as i32);
            }
            FIRST.store(signal, Ordering::Relaxed);
            say("note", "stopping, and keeping what was measured; send the signal again to exit at once");
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(listen).map_err(to_failure)?;
    Ok(&STOP)
}

/// The exit code of a run that a signal stopped.
pub(crate) fn exit() -> Exit {
    exit_for(FIRST.load(Ordering::Relaxed))
}

fn exit_for(signal: i32) -> Exit {
    match signal {
        SIGTERM => Exit::Terminated,
        SIGHUP => Exit::HungUp,
        _ => Exit::Interrupted,
    }
}

/// True if the process was started with the signal ignored, as by nohup or by a shell for a background job. Such a signal
/// stays ignored.
fn is_ignored(signal: i32) -> bool {
    std::fs::read_to_string("/proc/self/status").is_ok_and(|status| ignored_in(&status, signal))
}

/// `SigIgn` of proc_pid_status(5): a hexadecimal mask whose lowest bit is signal 1.
fn ignored_in(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    (1..=64).contains(&signal) && mask >> (signal - 1) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_parsed_from_the_mask() {
        let status = "Name:\tx\nSigIgn:\t0000000000000003\nSigCgt:\t0000000000004000\n";
        assert!(ignored_in(status, SIGHUP) && ignored_in(status, SIGINT) && !ignored_in(status, SIGTERM));
        assert!(!ignored_in("", SIGINT) && !ignored_in("SigIgn:\tzz\n", SIGINT));
    }
}
