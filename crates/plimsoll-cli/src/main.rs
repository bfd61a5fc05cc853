//! The plimsoll command. Each subcommand ("verb") is a file of `cli` that turns its arguments into an exit code.
#![deny(unsafe_code)]

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
