//! Ctrl-C and SIGTERM: the first asks the run to stop and keeps what was measured, the second exits at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;

use super::exit::{Exit, Failure, say};

static STOP: AtomicBool = AtomicBool::new(false);
static FIRST: AtomicI32 = AtomicI32::new(0);

/// Takes over the signals; what it returns becomes true with the first of them.
///
/// They are handled on a thread of its own, which sleeps until then and so disturbs no measurement.
pub(crate) fn install() -> Result<&'static AtomicBool, Failure> {
    let deaf = |error| Failure::usage(format!("can't listen for signals: {error}"));
    // With a handler in place, a write past the limit on file sizes is an error that can be told, like a full disk.
    signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false))).map_err(deaf)?;
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(deaf)?;
    let listen = move || {
        for signal in signals.forever() {
            if STOP.swap(true, Ordering::Relaxed) {
                std::process::exit(of(signal) as i32);
            }
            FIRST.store(signal, Ordering::Relaxed);
            say("note", "stopping, and keeping what was measured; once more to exit at once");
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(listen).map_err(deaf)?;
    Ok(&STOP)
}

/// How a run ends that a signal stopped.
pub(crate) fn exit() -> Exit {
    of(FIRST.load(Ordering::Relaxed))
}

fn of(signal: i32) -> Exit {
    if signal == SIGTERM { Exit::Terminated } else { Exit::Interrupted }
}
