//! What may be typed. Meanings that need a machine (is there such a device, such a probe) are the verbs' to check.

mod expression;

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};
use plimsoll::core::sample::Effort;
use plimsoll::core::unit::{ByteSize, Frequency};
use plimsoll::sass::{Choice, Target};
use plimsoll::suite::machines::MemoryType;

pub(crate) use expression::{BenchArgs, ExplainArgs, ExpressionArgs, PredictArgs, PredictLaunch, TuneArgs};

/// Measure what this machine can truly do: bandwidth, latency, caches, arithmetic.
#[derive(Debug, Parser)]
#[command(name = "plimsoll", version, disable_help_subcommand = true, after_help = EXIT_CODES)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub verb: Verb,
}

const EXIT_CODES: &str = "Exit codes: 0 ok; 1 a check or comparison failed; 2 wrong usage or bad input; 3 device or \
library unavailable or lost; 4 inconclusive or incomparable; 129, 130 or 143 interrupted, with what was \
measured kept.

First steps: `plimsoll measure` measures this machine and writes a report; `plimsoll list` shows what is measured.";

const MEASURE_HELP: &str = "A probe that fails costs itself only: the others go on, and its points so far are kept. \
The exit code is 1 where a result was wrong, 3 where a device was lost or of all could not be opened, a probe ended in an internal error or nothing could \
be measured, and 2 where a size can't be measured as stated or the record could not be written.

Without a choice every group but `lab` is run: its experiments answer questions of kernel engineers, each with advice for \
this device, and take minutes; `--group lab` runs them.

What is found is kept in the device's profile, for `plimsoll peak` and the verbs that predict. A figure with a flag that \
throws doubt on it never replaces one without, and runs with --bytes, --trace or --concurrent add nothing.

The first Ctrl-C, SIGTERM or SIGHUP ends the run and keeps what was measured; the second exits at once.

A simulated device, for trying the tool and for scripts: `--device sim`, or with a scenario such as \
`--device sim:seed=7,noise=0.01,lost-after=40`. It measures nothing real and says so.";

const SASS_HELP: &str = "Counts are per iteration of the hot loop and per thread, or per thread where a kernel has no \
loop. Of one kernel alone the instructions are told by class too, and JSON tells them of all.

Needs NVIDIA's compiler and disassembler and neither a GPU nor a driver: `pip install nvidia-cuda-nvrtc \
nvidia-cuda-nvdisasm` brings them; --cubin needs the disassembler alone.";

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Every device with its peaks and what it can do, each 'yes' or the reason why not
    Devices(DevicesArgs),
    /// Every probe: its group, devices, points, seconds and a sentence
    List(ListArgs),
    /// Run probes, write a record, print the summary and write a report
    Measure(MeasureArgs),
    /// Time an elementwise expression over sizes, beside what memory can do
    Bench(BenchArgs),
    /// Why an elementwise expression takes its time: plan, prediction, measurement, and what is left over
    Explain(ExplainArgs),
    /// What an elementwise expression should cost on a machine that need not be here, term by term
    Predict(PredictArgs),
    /// Find the fastest plans of a GPU's elementwise kernels and keep them
    Tune(TuneArgs),
    /// Check every kernel on this device against a naive oracle
    Verify(VerifyArgs),
    /// Machine code of GPU kernels: instructions and bytes per iteration, on any machine
    Sass(SassArgs),
    /// Theoretical peak of a device, of a known machine, or of memory by type, bus width and clock
    Peak(PeakArgs),
    /// A report from records: HTML, SVG, tables
    Report(ReportArgs),
    /// Same, faster, slower or ambiguous, for each figure of two runs
    Compare(CompareArgs),
    /// What is missing on this machine, and the command that brings it
    Doctor(DoctorArgs),
    /// JSON Schema of one line of a record
    Schema,
    /// Completions for a shell
    Completions(CompletionsArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct DeviceArg {
    /// cpu, cuda:N, vulkan:N or all; the first CUDA device by default, else the CPU
    #[arg(long, value_name = "DEVICE", default_value = "default", hide_default_value = true)]
    pub device: String,
    /// Compile GPU kernels anew and keep none
    #[arg(long)]
    pub no_cache: bool,
    /// The compiler's library for GPU kernels, or its folder, by absolute path; found by itself by default
    #[arg(long, value_name = "PATH")]
    pub nvrtc: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DevicesArgs {
    #[command(flatten)]
    pub profile: ProfileArg,
    /// List Vulkan devices alone, without opening them
    #[arg(long)]
    pub vulkan: bool,
    /// How to print them
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    pub device: DeviceArg,
    /// What points and seconds are told for: quick, standard or thorough
    #[arg(long, default_value = "quick", value_parser = effort)]
    pub effort: Effort,
    /// How to print them
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
    #[arg(long, default_value = "quick", value_parser = effort)]
    pub effort: Effort,
    /// Folder for the record and the report; plimsoll-runs/UTC-DEVICE by default. Nothing is overwritten
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Size to use instead of a probe's own, such as 64MiB
    #[arg(long, value_name = "SIZE", value_parser = some_bytes)]
    pub bytes: Option<ByteSize>,
    /// Seed of all random data and orders
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// How to print the results
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Record every launch from the very first, without warming up
    #[arg(long)]
    pub trace: bool,
    /// Read hardware counters beside the times where they can be read
    #[arg(long)]
    pub counters: bool,
    /// All devices at once instead of one after the other
    #[arg(long)]
    pub concurrent: bool,
    /// Write no HTML report
    #[arg(long)]
    pub no_report: bool,
    #[command(flatten)]
    pub profile: ProfileArg,
    /// Leave the profile as it is
    #[arg(long, conflicts_with = "profile")]
    pub no_profile: bool,
}

#[derive(Debug, Default, clap::Args)]
pub(crate) struct ProfileArg {
    /// What is known of the device: a file, or a folder with one for each; by default what PLIMSOLL_PROFILE names, else
    /// plimsoll/profiles in the user's data folder
    #[arg(long, value_name = "FILE")]
    pub profile: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ProbeChoice {
    /// Probes to run, by name; all by default, and of `measure` all but those of the group lab
    #[arg(value_name = "PROBE")]
    pub probes: Vec<String>,
    /// Probes of a group, such as bandwidth or lab; may be repeated
    #[arg(long, value_name = "GROUP")]
    pub group: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    pub choice: ProbeChoice,
    #[command(flatten)]
    pub device: DeviceArg,
    /// Only the awkward small sizes
    #[arg(long, conflicts_with = "exhaustive")]
    pub small: bool,
    /// Every size up to some thousand as well
    #[arg(long)]
    pub exhaustive: bool,
    /// How long a GPU may take for an answer before it is taken for lost: more where a sanitizer slows its kernels
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
    /// Plans of an expression by hand, side by side: vector=4,8,16 unroll=1,2 is every combination
    #[arg(long, value_name = "AXIS=VALUES", num_args = 1.., conflicts_with_all = ["kernel", "cubin"])]
    pub variant: Vec<String>,
    /// An expression's kernel that may begin before the one before it has ended
    #[arg(long, conflicts_with_all = ["kernel", "cubin"])]
    pub dependent: bool,
    /// A probe, such as copy, for all its kernels; or one kernel by its own name
    #[arg(long, value_name = "PROBE", group = "what")]
    pub kernel: Option<String>,
    /// A cubin, whoever compiled it
    #[arg(long, value_name = "FILE", group = "what")]
    pub cubin: Option<PathBuf>,
    /// One function of the cubin, by its name; all by default
    #[arg(long, value_name = "NAME", requires = "cubin", conflicts_with_all = ["kernel", "expression"])]
    pub function: Option<String>,
    /// What to compile for, such as sm_80; by default the first CUDA device's, else sm_90
    #[arg(long, conflicts_with = "cubin")]
    pub arch: Option<Target>,
    /// Kernels to set side by side, such as index=32,64 vector=1,2,4, in this order
    #[arg(long, value_name = "AXIS=VALUES", num_args = 1.., conflicts_with = "cubin")]
    pub compare: Vec<Choice>,
    /// How to print them
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// The compiler's library, or its folder, by absolute path; found by itself by default
    #[arg(long, value_name = "PATH", conflicts_with = "cubin")]
    pub nvrtc: Option<PathBuf>,
    /// The disassembler, by absolute path; found by itself by default
    #[arg(long, value_name = "PATH")]
    pub nvdisasm: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct PeakArgs {
    /// A device (cpu) or a machine of the catalogue ("A100 80GB"); all of both by default
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
    /// Everything that was found about it: its profile, or of a machine that isn't here what is shipped
    #[arg(long, requires = "name")]
    pub measured: bool,
    #[command(flatten)]
    pub profile: ProfileArg,
    /// How to print them
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ReportArgs {
    /// Folders of runs, or their run.jsonl
    #[arg(value_name = "RUN", required = true)]
    pub runs: Vec<PathBuf>,
    /// File to write, or for SVG a folder; stdout by default, where the format is text
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// By default what the file's ending says, else a table
    #[arg(long, value_enum)]
    pub format: Option<ReportFormat>,
    /// Replace files that are there; never the runs that are read
    #[arg(long, requires = "output")]
    pub force: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CompareArgs {
    /// The run to compare with
    pub base: PathBuf,
    /// The run to judge
    pub new: PathBuf,
    /// Compare although this differs; may be repeated
    #[arg(long, value_enum)]
    pub across: Vec<AcrossWhat>,
    /// List the figures that are the same too; the table only counts them
    #[arg(long)]
    pub all: bool,
    /// How to print the comparison
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DoctorArgs {
    /// Exit with 3 where this is missing: cpu, cuda, or a capability by its name
    #[arg(long, value_name = "WHAT")]
    pub require: Vec<String>,
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
    /// For pages
    Markdown,
}

/// What a report can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportFormat {
    /// One self-contained page
    Html,
    /// One picture per series
    Svg,
    /// One row per point
    Csv,
    /// Tables for pages
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

/// What may differ between compared runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AcrossWhat {
    /// The driver's or kernel's version
    Driver,
    /// plimsoll's version
    Version,
}

fn effort(text: &str) -> Result<Effort, String> {
    text.parse()
}

fn some_bytes(text: &str) -> Result<ByteSize, String> {
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
    fn only_these_verbs_stand_at_the_top() {
        let command = Args::command();
        let verbs: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
        let expected = [
            "devices",
            "list",
            "measure",
            "bench",
            "explain",
            "predict",
            "tune",
            "verify",
            "sass",
            "peak",
            "report",
            "compare",
            "doctor",
            "schema",
            "completions",
        ];
        assert_eq!(verbs, expected);
    }
}
