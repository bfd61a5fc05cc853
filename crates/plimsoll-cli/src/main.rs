//! The plimsoll command: arguments to a verb, a verb to an exit code. Each verb is a file of `cli`.
#![forbid(unsafe_code)]

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
