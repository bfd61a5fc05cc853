//! The plimsoll command as a function, for the executable and for packages that bring the command along. Each subcommand
//! ("verb") is a file of `cli` that turns its arguments into an exit code.
#![deny(unsafe_code)]

mod cli;

use std::ffi::OsString;

/// Runs the command and returns its exit code. The first argument is the program's name. It prints to
/// stdout and stderr, handles SIGINT, SIGTERM and SIGHUP for the rest of the process, and may be called once per process.
#[must_use]
pub fn run(arguments: Vec<OsString>) -> u8 {
    cli::main(arguments)
}
