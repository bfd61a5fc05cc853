//! The command line: one file per subcommand ("verb"), and what they share. Measuring, timing and rendering are in the
//! libraries.

mod against;
mod all_inputs;
mod args;
mod baselines;
mod bench;
mod check;
mod collect;
mod compare;
mod compared;
mod completions;
#[allow(unsafe_code)]
mod consent;
mod custom;
mod devices;
mod doctor;
mod exit;
mod explain;
mod expression;
mod fleet;
mod list;
mod measure;
mod measuring;
mod narrow;
mod output;
mod outputs;
mod peak;
mod predict;
mod predicted;
mod present;
mod profile;
mod progress;
mod report;
mod runs;
mod runs_list;
mod sass;
mod schema;
mod sheet;
mod signals;
mod soak;
mod tee;
mod tune;
mod tuned;
mod verify;
mod vulkan;

use std::ffi::OsString;
use std::sync::OnceLock;

use clap::Parser;
use clap::error::ErrorKind;

use args::{Args, Verb};
use exit::{Exit, Failure, say};

/// The arguments after the program's name.
static ARGUMENTS: OnceLock<Vec<OsString>> = OnceLock::new();

/// The command's arguments as a record keeps them: of a path only the last part, because folders name the user.
fn recorded_arguments() -> Vec<String> {
    ARGUMENTS.get().into_iter().flatten().map(|word| without_folders(&word.to_string_lossy())).collect()
}

fn without_folders(word: &str) -> String {
    let (option, value) = match word.split_once('=') {
        Some((option, value)) if option.starts_with("--") => (format!("{option}="), value),
        _ => (String::new(), word),
    };
    let last = value.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    format!("{option}{last}")
}

/// Parses the command line, runs its verb and reports errors. clap answers wrong usage, with exit code 2.
pub(crate) fn main(arguments: Vec<OsString>) -> u8 {
    if std::env::var_os("RUST_BACKTRACE").is_none() {
        std::panic::set_hook(Box::new(|panic| say("internal error", &summarize_panic(panic))));
    }
    let args = Args::try_parse_from(&arguments);
    let _ = ARGUMENTS.set(arguments.into_iter().skip(1).collect());
    let exit = match args {
        Ok(args) => run(&args.verb).unwrap_or_else(|failure| {
            failure.print();
            failure.exit
        }),
        Err(answer) => print_usage(&answer),
    };
    exit as u8
}

fn run(verb: &Verb) -> Result<Exit, Failure> {
    match verb {
        Verb::Devices(args) => devices::run(args),
        Verb::Check(args) => check::run(args),
        Verb::List(args) => list::run(args),
        Verb::Measure(args) => measure::run(args),
        Verb::Soak(args) => soak::run(args),
        Verb::Bench(args) => bench::run(args),
        Verb::Explain(args) => explain::run(args),
        Verb::Predict(args) => predict::run(args),
        Verb::Tune(args) => tune::run(args),
        Verb::Verify(args) => verify::run(args),
        Verb::Sass(args) => sass::run(args),
        Verb::Peak(args) => peak::run(args),
        Verb::Report(args) => report::run(args),
        Verb::Compare(args) => compare::run(args),
        Verb::Collect(args) => collect::run(args),
        Verb::Runs(args) => runs_list::run(args),
        Verb::Doctor(args) => doctor::run(args),
        Verb::Schema => schema::run(),
        Verb::Completions(args) => completions::run(args),
    }
}

/// A probe's panic is caught and recorded, so one line about it is enough.
fn summarize_panic(panic: &std::panic::PanicHookInfo<'_>) -> String {
    let payload = panic.payload();
    let message =
        payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let message = message.unwrap_or("a panic without a message");
    let location = panic.location().map(|place| format!(" (at {}:{})", place.file(), place.line()));
    format!("{message}{}", location.unwrap_or_default())
}

/// Help and version go to stdout and are a success, and so is the help that `plimsoll` alone prints. Anything else is wrong
/// usage.
fn print_usage(answer: &clap::Error) -> Exit {
    if answer.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
        && let Err(help) = Args::try_parse_from(["plimsoll", "--help"])
    {
        let _ = help.print();
        return Exit::Success;
    }
    // A closed pipe is no error: the reader has seen enough.
    let _ = answer.print();
    if answer.use_stderr() { Exit::Usage } else { Exit::Success }
}

#[cfg(test)]
mod tests {
    use super::without_folders;

    #[test]
    fn the_record_keeps_arguments_but_only_the_last_part_of_paths() {
        for (given, kept) in [
            ("measure", "measure"),
            ("--effort=quick", "--effort=quick"),
            ("sim:seed=7,noise=0.01", "sim:seed=7,noise=0.01"),
            ("/home/alice/runs/today/", "today"),
            ("--out=/home/alice/today", "--out=today"),
            ("../alice/libnvrtc.so", "libnvrtc.so"),
            ("/", ""),
        ] {
            assert_eq!(without_folders(given), kept);
        }
    }
}
