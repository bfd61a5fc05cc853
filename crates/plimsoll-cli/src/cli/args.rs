//! The syntax of the command line. The verbs check what needs a machine: whether a device or a probe exists.

mod expression;
mod fleet;
mod judging;
mod soak;

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};
use plimsoll::core::sample::Effort;
use plimsoll::core::unit::{ByteSize, Frequency};
use plimsoll::sass::{Choice, Target};
use plimsoll::suite::machines::MemoryType;

pub(crate) use fleet::{CollectArgs, CollectFormat};
pub(crate) use judging::{AcrossWhat, CheckArgs, CompareArgs, FleetArgs, RunsArgs, RunsPlace};
pub(crate) use soak::SoakArgs;

pub(crate) use expression::{
    BenchArgs, ExplainArgs, ExpressionArgs, OwnKernelArgs, PredictArgs, PredictLaunch, TuneArgs,
};

/// Measure what this machine can truly do: bandwidth, latency, caches, arithmetic.
#[derive(Debug, Parser)]
#[command(name = "plimsoll", version, disable_help_subcommand = true, after_help = EXIT_CODES)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub verb: Verb,
}

const EXIT_CODES: &str = "Exit codes: 0 ok; 1 a check or comparison failed; 2 wrong usage or bad input; 3 device or \
library unavailable or lost; 4 inconclusive or incomparable; 129, 130 or 143 interrupted (what was \
measured is kept).

First steps: `plimsoll measure` measures this machine and writes a report; `plimsoll list` shows what is measured.";

const MEASURE_HELP: &str = "A probe that fails doesn't stop the others, and the points it measured are kept. The exit code is 1 if \
a result was wrong; 3 if a device was lost, a device of `--device all` could not be opened, a probe ended in an internal error or \
nothing could be measured; 2 if a size can't be measured as given or the record could not be written.

Without PROBE or --group, every group except `lab` runs. The lab's experiments answer questions of kernel engineers, each with \
advice for this device, and take minutes; `--group lab` runs them.

Findings are kept in the device's profile, for `plimsoll peak`, `bench`, `explain` and `predict`. A figure with a flag that casts \
doubt on it never replaces one without. Runs with --bytes, --trace or --concurrent add nothing to the profile.

Progress goes to stderr: a bar on a terminal, else a line per probe as it ends, with its points over all rounds and its seconds.

The first Ctrl-C, SIGTERM or SIGHUP ends the run and keeps what was measured; the second exits at once.

For trying the tool and for scripts there is a simulated device: `--device sim`, or with a scenario such as \
`--device sim:seed=7,noise=0.01,lost-after=40`. It measures nothing real, and its output says so.";

const SASS_HELP: &str = "Counts are per iteration of the hot loop and per thread, or per thread if a kernel has no \
loop. For a single kernel, instructions are also listed by class; JSON lists them for every kernel.

Needs NVIDIA's compiler and disassembler, but no GPU and no driver: `pip install nvidia-cuda-nvrtc nvidia-cuda-nvdisasm` \
installs both. --cubin needs only the disassembler.";

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Say on one screen whether a device is what it should be, in at most a minute
    Check(CheckArgs),
    /// List the devices with their peaks and capabilities, each 'yes' or the reason why not
    Devices(DevicesArgs),
    /// List the probes with their group, devices, points, seconds and purpose
    List(ListArgs),
    /// Run probes, write a record, print the summary and write a report
    Measure(MeasureArgs),
    /// Load a device for minutes to hours near its power limit: when it settles, at what, and whether its results stay the same
    Soak(SoakArgs),
    /// Time an elementwise expression over a range of sizes, next to what memory can do
    Bench(BenchArgs),
    /// Explain the time of an elementwise expression or of your own kernel: prediction, measurement, unexplained rest
    Explain(ExplainArgs),
    /// Predict the time of an elementwise expression, term by term, on this or another machine
    Predict(PredictArgs),
    /// Find the fastest plans of a GPU's elementwise kernels and store them
    Tune(TuneArgs),
    /// Check every kernel on this device against a naive oracle
    Verify(VerifyArgs),
    /// Count instructions and bytes per iteration in the machine code of GPU kernels; needs no GPU
    Sass(SassArgs),
    /// Show the theoretical peak of a device, of a known machine, or of memory by type, bus width and clock
    Peak(PeakArgs),
    /// Turn records into a report: HTML, SVG or tables
    Report(ReportArgs),
    /// Compare two runs by their headline figures; exit code 1 if one is worse
    Compare(CompareArgs),
    /// Judge many devices, each measured by `check --fleet`: which are slow, broken, missing or unlike the others
    Collect(CollectArgs),
    /// List what was measured here, newest first, or store a run as a baseline
    Runs(RunsArgs),
    /// Show what is missing on this machine and how to get it
    Doctor(DoctorArgs),
    /// Print the JSON Schema of one line of a record
    Schema,
    /// Print completions for a shell
    Completions(CompletionsArgs),
}

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct DeviceArg {
    /// 0 (the GPU of that number), gpu (every GPU), cuda (the first CUDA device), cuda:N, cuda:0,2, vulkan:N, cpu, all, or a
    /// device's name or UUID or a part of it (H200, GPU-0803); default: the first CUDA device, else the CPU
    #[arg(long, value_name = "DEVICE", default_value = "default", hide_default_value = true)]
    pub device: String,
    /// Compile GPU kernels without reading or writing the cache
    #[arg(long)]
    pub no_cache: bool,
    /// Absolute path of the GPU compiler's library (NVRTC) or its folder; default: searched for
    #[arg(long, value_name = "PATH")]
    pub nvrtc: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DevicesArgs {
    #[command(flatten)]
    pub profile: ProfileArg,
    /// List only Vulkan devices, without opening them
    #[arg(long)]
    pub vulkan: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    pub device: DeviceArg,
    /// Effort for which points and seconds are shown: quick, standard or thorough
    #[arg(long, default_value = "quick", value_parser = parse_effort)]
    pub effort: Effort,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

#[derive(Debug, clap::Args)]
#[command(after_help = MEASURE_HELP)]
pub(crate) struct MeasureArgs {
    #[command(flatten)]
    pub choice: ProbeChoice,
    #[command(flatten)]
    pub device: DeviceArg,
    /// quick for a first look, standard for figures to compare, thorough for figures to publish
    #[arg(long, default_value = "quick", value_parser = parse_effort)]
    pub effort: Effort,
    /// Folder for the record and the report; default: plimsoll-runs/UTC-DEVICE. Nothing is overwritten
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Size to use instead of a probe's own, such as 64MiB
    #[arg(long, value_name = "SIZE", value_parser = parse_nonzero_size)]
    pub bytes: Option<ByteSize>,
    /// Seed of all random data and orders
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Record every launch from the very first, without warming up
    #[arg(long, conflicts_with = "fleet")]
    pub trace: bool,
    /// Also read hardware counters, where the device allows it
    #[arg(long)]
    pub counters: bool,
    /// Measure all devices at once instead of one after the other
    #[arg(long)]
    pub concurrent: bool,
    /// Write no HTML report
    #[arg(long)]
    pub no_report: bool,
    /// Print every finding and plot, not only the verdict and the headlines
    #[arg(long)]
    pub all: bool,
    /// In the table, show only the N headlines that matter most, and how many are left out
    #[arg(long, value_name = "N", value_parser = judging::parse_count, conflicts_with_all = ["all", "format"])]
    pub top: Option<usize>,
    /// Leave the plots out of the printed table
    #[arg(long)]
    pub no_plots: bool,
    /// Print only results, warnings and errors: no progress, notes and names of files
    #[arg(long)]
    pub quiet: bool,
    #[command(flatten)]
    pub profile: ProfileArg,
    /// Leave the profile unchanged
    #[arg(long, conflicts_with = "profile")]
    pub no_profile: bool,
    #[command(flatten)]
    pub fleet: FleetArgs,
    /// Seconds for each probe instead of its own
    #[arg(skip)]
    pub seconds: Option<f64>,
}

#[derive(Debug, Default, clap::Args)]
pub(crate) struct ProfileArg {
    /// The device's profile: a file, or a folder with one file per device; default: PLIMSOLL_PROFILE, else plimsoll/profiles
    /// in the user's data folder
    #[arg(long, value_name = "FILE")]
    pub profile: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ProbeChoice {
    /// Probes to run, by name; default: all, except that `measure` leaves out the group lab
    #[arg(value_name = "PROBE")]
    pub probes: Vec<String>,
    /// Run the probes of a group, such as bandwidth or lab; may be repeated
    #[arg(long, value_name = "GROUP")]
    pub group: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    pub choice: ProbeChoice,
    #[command(flatten)]
    pub device: DeviceArg,
    /// Check only awkward small sizes
    #[arg(long, conflicts_with = "exhaustive")]
    pub small: bool,
    /// Also check every size up to some thousand
    #[arg(long)]
    pub exhaustive: bool,
    /// How long a GPU may take to answer before it counts as lost; raise it under a sanitizer, which slows kernels
    #[arg(long, value_name = "SECONDS", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub deadline: u32,
}

#[derive(Debug, clap::Args)]
#[command(after_help = SASS_HELP, override_usage = "plimsoll sass <EXPR|--kernel <PROBE>|--cubin <FILE>> [OPTIONS]")]
#[command(group = clap::ArgGroup::new("what"))]
pub(crate) struct SassArgs {
    /// An elementwise expression, such as 'a*x + y', planned for tensors of 256 MiB
    #[arg(value_name = "EXPR", group = "what")]
    pub expression: Option<String>,
    #[command(flatten)]
    pub meaning: ExpressionArgs,
    /// Plans of the expression to show side by side, in every combination: vector=4,8,16 unroll=1,2
    #[arg(long, value_name = "AXIS=VALUES", num_args = 1.., conflicts_with_all = ["kernel", "cubin"])]
    pub variant: Vec<String>,
    /// Compile the expression for dependent launches, which may begin before the previous launch has ended
    #[arg(long, conflicts_with_all = ["kernel", "cubin"])]
    pub dependent: bool,
    /// A probe, such as copy, for all its kernels; or the name of one kernel
    #[arg(long, value_name = "PROBE", group = "what")]
    pub kernel: Option<String>,
    /// A cubin from any compiler
    #[arg(long, value_name = "FILE", group = "what")]
    pub cubin: Option<PathBuf>,
    /// One function of the cubin, by name; default: all
    #[arg(long, value_name = "NAME", requires = "cubin", conflicts_with_all = ["kernel", "expression"])]
    pub function: Option<String>,
    /// Architecture to compile for, such as sm_80; default: that of the first CUDA device, else sm_90
    #[arg(long, conflicts_with = "cubin")]
    pub arch: Option<Target>,
    /// Kernels to show side by side, in this order, such as index=32,64 vector=1,2,4
    #[arg(long, value_name = "AXIS=VALUES", num_args = 1.., conflicts_with = "cubin")]
    pub compare: Vec<Choice>,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Absolute path of the compiler's library (NVRTC) or its folder; default: searched for
    #[arg(long, value_name = "PATH", conflicts_with = "cubin")]
    pub nvrtc: Option<PathBuf>,
    /// Absolute path of the disassembler (nvdisasm); default: searched for
    #[arg(long, value_name = "PATH")]
    pub nvdisasm: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct PeakArgs {
    /// A device, named as for `--device`, or a machine of the catalogue ("A100 80GB"); default: all of both
    #[arg(value_name = "DEVICE|NAME", conflicts_with_all = ["memory", "bus_width", "clock"])]
    pub name: Option<String>,
    /// Type of memory, such as HBM2E
    #[arg(long, value_name = "TYPE", requires = "bus_width", requires = "clock")]
    pub memory: Option<MemoryType>,
    /// Width of the memory bus in bits
    #[arg(long, value_name = "BITS", requires = "memory", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub bus_width: Option<u32>,
    /// Memory clock, such as 1.512GHz
    #[arg(long, value_name = "CLOCK", requires = "memory")]
    pub clock: Option<Frequency>,
    /// Show every finding about it: those of its profile, or the shipped ones for a machine of the catalogue
    #[arg(long, requires = "name")]
    pub measured: bool,
    #[command(flatten)]
    pub profile: ProfileArg,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ReportArgs {
    /// Folders of runs, their run.jsonl, or last, last~1, …
    #[arg(value_name = "RUN", required = true)]
    pub runs: Vec<PathBuf>,
    #[command(flatten)]
    pub place: RunsPlace,
    /// File to write, or a folder for SVG; default: stdout, for every other format
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Format of the report; default: by the file's ending, else a table
    #[arg(long, value_enum)]
    pub format: Option<ReportFormat>,
    /// Print every finding and plot in the table, not only the verdict and the headlines; of several runs, not only their headlines
    /// side by side
    #[arg(long)]
    pub all: bool,
    /// Show only these probes: a list with commas; may be repeated
    #[arg(long, value_name = "PROBE", value_delimiter = ',')]
    pub probe: Vec<String>,
    /// In the table of one run, show only the N headlines that matter most, and how many are left out
    #[arg(long, value_name = "N", value_parser = judging::parse_count, conflicts_with = "all")]
    pub top: Option<usize>,
    /// Replace existing files, but never the runs that are read
    #[arg(long, requires = "output")]
    pub force: bool,
}

/// Where `last` looks for runs.
#[derive(Debug, clap::Args)]
pub(crate) struct DoctorArgs {
    /// Exit with 3 if this is missing: cpu, cuda, or the name of a capability or part
    #[arg(long, value_name = "WHAT")]
    pub require: Vec<String>,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub shell: clap_complete::Shell,
}

/// How results are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    #[default]
    Table,
    /// For programs
    Json,
    /// For spreadsheets
    Csv,
    /// For documents
    Markdown,
}

/// The formats of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportFormat {
    /// One self-contained web page
    Html,
    /// One picture per series
    Svg,
    /// One row per point
    Csv,
    /// Tables for documents
    Markdown,
    /// For programs
    Json,
    /// For people
    Table,
}

impl From<Format> for ReportFormat {
    fn from(format: Format) -> Self {
        match format {
            Format::Table => Self::Table,
            Format::Json => Self::Json,
            Format::Csv => Self::Csv,
            Format::Markdown => Self::Markdown,
        }
    }
}

fn parse_effort(text: &str) -> Result<Effort, String> {
    text.parse()
}

fn parse_nonzero_size(text: &str) -> Result<ByteSize, String> {
    match text.parse::<ByteSize>() {
        Ok(ByteSize(0)) => Err("nothing can be measured on 0 bytes".to_owned()),
        Ok(size) => Ok(size),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn top_level_subcommands_are_exactly_these() {
        let command = Args::command();
        let verbs: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
        let expected = [
            "check",
            "devices",
            "list",
            "measure",
            "soak",
            "bench",
            "explain",
            "predict",
            "tune",
            "verify",
            "sass",
            "peak",
            "report",
            "compare",
            "collect",
            "runs",
            "doctor",
            "schema",
            "completions",
        ];
        assert_eq!(verbs, expected);
    }
}
