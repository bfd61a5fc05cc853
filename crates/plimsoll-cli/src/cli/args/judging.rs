//! The arguments of the verbs that judge runs: `check`, `compare` and `runs`.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use clap::ValueEnum;

use super::{DeviceArg, Format};

const CHECK_HELP: &str = "The figures that summarize a device are measured and compared with what they should be: with cards of the same model \
that were measured with plimsoll, else with published figures, else with a rule for its kind. The table names what is \
known; where nothing is, there is no verdict on the figure.

The verdict is `healthy`, `slow` (a figure is worse than expected), `broken` (a result was wrong, or memory errors \
could not be corrected), `unknown` (something disturbed the measurement) or `not judged` (nothing is known about the \
model). The exit code is 0 for healthy and not judged, 1 for slow and broken, 4 for unknown.";

#[derive(Debug, clap::Args)]
#[command(after_help = CHECK_HELP)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub device: DeviceArg,
    /// Time for the probes of one device, such as 45s or 1min; default: 52s for a GPU, 36s for a CPU
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub budget: Option<f64>,
    /// Judge this run, which `measure` or `check` recorded, instead of measuring
    #[arg(long, value_name = "RUN", conflicts_with_all = ["budget", "device", "out", "no_record", "fleet"])]
    pub run: Option<PathBuf>,
    /// Also show the figures that are not part of the verdict
    #[arg(long)]
    pub all: bool,
    /// Folder for the record; default: plimsoll-runs/UTC-DEVICE. Nothing is overwritten
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Keep no record
    #[arg(long, conflicts_with_all = ["out", "fleet"])]
    pub no_record: bool,
    /// Print only the verdict, warnings and errors: no progress, notes and names of files
    #[arg(long)]
    pub quiet: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    #[command(flatten)]
    pub fleet: FleetArgs,
}

/// Measuring one device among many.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Fleets")]
pub(crate) struct FleetArgs {
    /// Write one file per device into this folder, for `plimsoll collect`, and nothing else; under a launcher, every process
    /// measures its own GPU, or all GPUs of its host if it is alone there
    #[arg(long, value_name = "DIR", conflicts_with_all = ["all", "out", "format"])]
    pub fleet: Option<PathBuf>,
    /// Rank of this process; default: from the launcher's environment
    #[arg(long, value_name = "N", requires = "fleet")]
    pub rank: Option<u32>,
    /// Name of this host; default: Slurm's name of the node, else the host's name
    #[arg(long, value_name = "NAME", requires = "fleet")]
    pub host: Option<String>,
    /// Rack of this host, to judge racks as groups; default: Slurm's switch next to the node
    #[arg(long, value_name = "NAME", requires = "fleet")]
    pub rack: Option<String>,
    /// Number of this measurement: 2 and 3 measure again what `collect --confirm` names
    #[arg(long, value_name = "N", requires = "fleet", default_value_t = 1, hide_default_value = true,
        value_parser = clap::value_parser!(u32).range(1..=99))]
    pub round: u32,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RunsPlace {
    /// Folder in which `last` is the newest run, and last~1 the one before
    #[arg(long, value_name = "DIR", default_value = crate::cli::runs::RUNS)]
    pub dir: PathBuf,
}

#[derive(Debug, clap::Args)]
#[command(
    override_usage = "plimsoll compare <BASE> <NEW> [OPTIONS]\n       plimsoll compare --baseline <NAME> [NEW] [OPTIONS]"
)]
pub(crate) struct CompareArgs {
    /// The base run and the run to judge: folders, their run.jsonl, or last, last~1, … With --baseline only the run to judge;
    /// default: last
    #[arg(value_name = "RUN", num_args = 0..=2)]
    pub runs: Vec<PathBuf>,
    /// Base run: the one stored under this name by `plimsoll runs --baseline`
    #[arg(long, value_name = "NAME")]
    pub baseline: Option<String>,
    #[command(flatten)]
    pub place: RunsPlace,
    /// Smallest loss that counts, such as 3%
    #[arg(long, value_name = "SHARE", default_value = "1%", value_parser = parse_share)]
    pub threshold: f64,
    /// Compare only the headlines of these probes: a list with commas; may be repeated
    #[arg(long, value_name = "PROBE", value_delimiter = ',')]
    pub probe: Vec<String>,
    /// Print only the N worst headlines, and how many are left out; the verdict still follows from all of them
    #[arg(long, value_name = "N", value_parser = parse_count, conflicts_with = "all")]
    pub top: Option<usize>,
    /// Compare even if this differs; may be repeated
    #[arg(long, value_enum)]
    pub across: Vec<AcrossWhat>,
    /// Also list every point of both runs
    #[arg(long)]
    pub all: bool,
    /// Picture of the differences to write: .html (with the curves of both runs) or .svg
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace an existing picture, but never the runs that are read
    #[arg(long, requires = "output")]
    pub force: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RunsArgs {
    /// Folder with runs
    #[arg(value_name = "DIR", default_value = crate::cli::runs::RUNS, conflicts_with = "baseline")]
    pub dir: PathBuf,
    /// List all runs, not only the newest 20
    #[arg(long)]
    pub all: bool,
    /// Store a run as a baseline: a name of letters, digits and hyphens, and the run's folder
    #[arg(long, num_args = 2, value_names = ["NAME", "RUN"])]
    pub baseline: Vec<String>,
    /// Replace the stored baseline of this name
    #[arg(long, requires = "baseline")]
    pub force: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// A difference between two runs that `--across` permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AcrossWhat {
    /// The driver's or kernel's version
    Driver,
    /// plimsoll's version
    Version,
}

fn parse_time(text: &str) -> Result<f64, String> {
    parse_duration(text, 5.0..=3600.0, "a budget is from 5s to 60min")
}

/// Seconds of `45s`, `45`, `1.5min` or `2h` within a range.
pub(super) fn parse_duration(text: &str, range: RangeInclusive<f64>, otherwise: &str) -> Result<f64, String> {
    let units = [("min", 60.0), ("h", 3600.0), ("s", 1.0)];
    let known = units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)));
    let (number, factor) = known.unwrap_or((text, 1.0));
    let seconds =
        number.trim().parse::<f64>().map_err(|_| "a time is a number with s, min or h, such as 45s".to_owned())?;
    let seconds = seconds * factor;
    if range.contains(&seconds) { Ok(seconds) } else { Err(otherwise.to_owned()) }
}

/// A number of things, at least 1.
pub(super) fn parse_count(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|count| *count > 0).ok_or_else(|| "write a whole number, at least 1".to_owned())
}

/// A share of at least 0 and below 1: `3%` or `0.03`.
fn parse_share(text: &str) -> Result<f64, String> {
    let percent = text.strip_suffix('%').map(|number| number.trim_end().parse::<f64>().map(|number| number / 100.0));
    let share = percent.unwrap_or_else(|| text.parse()).ok().filter(|share| (0.0..1.0).contains(share));
    share.ok_or_else(|| format!("'{text}' is not a share below 100 %: write one like 3% or 0.03"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit_and_a_range() {
        assert_eq!([parse_time("45s"), parse_time("45"), parse_time("1.5 min")], [Ok(45.0), Ok(45.0), Ok(90.0)]);
        for wrong in ["", "s", "45h", "nan", "inf", "1s", "2h", "-5s"] {
            assert!(parse_time(wrong).is_err(), "{wrong}");
        }
    }
}
