//! How the command ends: exit codes, and errors as `error:` and `hint:` lines on stderr.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use plimsoll::core::Fault;
use plimsoll::core::record::ReadError;
use plimsoll_report::text::clean;

/// The exit codes of the manual.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// Everything succeeded.
    Success = 0,
    /// A check or a comparison failed.
    Failed = 1,
    /// Wrong usage, bad input, or an output that can't be written.
    Usage = 2,
    /// A device or library is unavailable or was lost.
    Unavailable = 3,
    /// Nothing can be concluded, or the inputs can't be compared.
    Inconclusive = 4,
    /// SIGHUP, for example from a closed terminal; what was measured is kept.
    HungUp = 129,
    /// Ctrl-C; what was measured is kept.
    Interrupted = 130,
    /// SIGTERM; what was measured is kept.
    Terminated = 143,
}

/// An error that ends a verb, with hints for the user.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The exit code.
    pub exit: Exit,
    /// The message, printed after `error: `.
    pub error: String,
    /// What to do about it; each is printed after `hint: `.
    pub hints: Vec<String>,
}

impl Failure {
    /// Wrong usage or bad input.
    pub fn usage(error: impl fmt::Display) -> Self {
        Self { exit: Exit::Usage, error: error.to_string(), hints: vec![] }
    }

    /// Adds a hint.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// A file that can't be read or written.
    pub fn file(what: &str, path: &std::path::Path, error: impl fmt::Display) -> Self {
        Self::usage(format!("can't {what} {}: {error}", path.display()))
    }

    /// A record that can't be read.
    pub fn record(path: &std::path::Path, error: &ReadError) -> Self {
        Self::usage(format!("{}: {error}", path.display()))
    }

    /// Prints the error and its hints to stderr. Text from devices and files can't move the cursor or hide itself, and its
    /// second and later lines are indented so that they can't be mistaken for ours.
    pub fn print(&self) {
        use std::io::Write;
        let mut lines = self.error.split('\n');
        say("error", lines.next().unwrap_or_default());
        lines.for_each(|line| drop(writeln!(std::io::stderr().lock(), "  {}", clean(line))));
        self.hints.iter().for_each(|hint| say("hint", hint));
    }
}

/// Whether `--quiet` was given.
static IS_QUIET: AtomicBool = AtomicBool::new(false);
/// The lines that `--quiet` leaves to be printed.
const LOUD: [&str; 4] = ["error", "hint", "warning", "internal error"];

/// From now on, prints only errors, their hints and warnings to stderr.
pub(crate) fn be_quiet() {
    IS_QUIET.store(true, Ordering::Relaxed);
}

/// Prints one line to stderr, unless `--quiet` silences its kind. Errors are ignored: there is nowhere to report them.
pub(crate) fn say(kind: &str, text: &str) {
    use std::io::Write;
    if IS_QUIET.load(Ordering::Relaxed) && !LOUD.contains(&kind) {
        return;
    }
    let _ = writeln!(std::io::stderr().lock(), "{kind}: {}", clean(text));
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Unavailable { what, why, hint } => {
                Self { exit: Exit::Unavailable, error: format!("{what}: {why}"), hints: vec![hint] }
            }
            Fault::Invalid(what) => Self::usage(what),
            Fault::Sink(error) => Self::usage(format!("can't write the record: {error}")),
            Fault::Stopped => Self { exit: super::signals::exit(), error: "interrupted".to_owned(), hints: vec![] },
            other => Self { exit: Exit::Unavailable, error: other.to_string(), hints: vec![] },
        }
    }
}
