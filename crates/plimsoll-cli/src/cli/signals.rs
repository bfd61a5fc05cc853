//! Ctrl-C and SIGTERM: the first asks the run to stop and keeps what was measured, the second exits at once.

use std::sync::atomic::{AtomicBool, Ordering};

use super::exit::{Exit, Failure, say};

static STOP: AtomicBool = AtomicBool::new(false);

/// Takes over the signals; what it returns becomes true with the first of them.
///
/// The handler runs on a thread of its own, which sleeps until then and so disturbs no measurement.
pub(crate) fn install() -> Result<&'static AtomicBool, Failure> {
    let handler = || {
        if STOP.swap(true, Ordering::Relaxed) {
            std::process::exit(Exit::Interrupted as i32);
        }
        say("note", "stopping, and keeping what was measured; once more to exit at once");
    };
    ctrlc::set_handler(handler).map_err(|error| Failure::usage(format!("can't listen for signals: {error}")))?;
    Ok(&STOP)
}
