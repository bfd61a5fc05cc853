//! The arguments of `soak`.

use std::path::PathBuf;

use super::judging::parse_duration;
use super::{DeviceArg, Format};

const SOAK_HELP: &str = "One kernel runs over and over in windows; each has its rate, clock, power, temperature, throttle reasons, and a check that \
the last launch left the bits of the first. The longer the run, the longer the windows: there are at most 240. \
Ctrl-C and SIGTERM end it early and keep the record, the summary and the report.

The exit code is 1 if a result was wrong, and 3 if the device was lost or can't run it.";

#[derive(Debug, clap::Args)]
#[command(after_help = SOAK_HELP)]
pub(crate) struct SoakArgs {
    #[command(flatten)]
    pub device: DeviceArg,
    /// How long the load runs, from 20s to 24h, such as 5min or 2h
    #[arg(long, value_name = "TIME", default_value = "5min", value_parser = parse_soak)]
    pub duration: f64,
    /// Folder for the record and the report; default: plimsoll-runs/UTC-DEVICE. Nothing is overwritten
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Seed of all random data and orders
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Load all devices at once instead of one after the other
    #[arg(long)]
    pub concurrent: bool,
    /// Write no HTML report
    #[arg(long)]
    pub no_report: bool,
    /// Leave the plots out of the printed table
    #[arg(long)]
    pub no_plots: bool,
    /// Print only results, warnings and errors: no progress, notes and names of files
    #[arg(long)]
    pub quiet: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

fn parse_soak(text: &str) -> Result<f64, String> {
    parse_duration(text, 20.0..=86_400.0, "a soak takes from 20s to 24h")
}
