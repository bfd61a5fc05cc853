//! `plimsoll completions`: a script that the user's shell can source.

use clap::CommandFactory;

use super::args::{Args, CompletionsArgs};
use super::exit::{Exit, Failure};
use super::output;

pub(crate) fn run(args: &CompletionsArgs) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Args::command(), "plimsoll", &mut script);
    output::print(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Success)
}
