//! Arguments of the verbs that take expressions: bench, explain, tune and predict.

use std::path::PathBuf;

use clap::ValueEnum;
use plimsoll::bench::{DEPENDENT, Operand, PLAIN};
use plimsoll::core::sample::{CachePolicy, Effort};

use super::{DeviceArg, Format, ProfileArg, parse_effort};

const BENCH_HELP: &str = "Names are tensors unless --scalar gives them a value: \
`plimsoll bench 'a*x + y' --scalar a=0.5 --dtype bf16`. Sizes are bytes of the widest tensor. By default data are cold: they \
rotate through memory far larger than any cache. Launches follow each other in one graph.

Columns: `of ceiling` is the share of the bandwidth that `plimsoll measure stream` found for the same mix of reads and writes; \
`of peak` is the share of the theoretical bandwidth.

--format csv writes peer,op,dtype,bytes_moved,median_us,GBps, and --against reads it: `ratio` is then our bandwidth over \
that of the fastest program in the file for the same cell.";

const PREDICT_HELP: &str = "Some terms are added; others run at the same time, and the longest of these counts. docs/model.md \
explains each term and how far predictions were from measurements. Intervals follow from those of the machine's figures. If a term \
needs a figure that nobody measured or published, the figure is named and the term left out. Without the launch's own figure or a \
bandwidth there is no prediction, only a bound (≥): bytes at the published peak bandwidth, or arithmetic at the published peak rate.

Instructions are counted in the compiled kernel if NVIDIA's compiler and disassembler are found; otherwise they are estimated.";

const EXPLAIN_HELP: &str = "Shows the plan with its reasons, the predicted time term by term (docs/model.md), the time measured \
as by `bench`, the hardware counters where the device allows them, and the unexplained rest; then says what limits the expression \
and what would help. A figure that the device's profile lacks is named and its term left out: `plimsoll measure` finds it.

Without the device: `plimsoll predict EXPR --machine h200`.";

/// What the names of an expression stand for.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct ExpressionArgs {
    /// Type of the tensors, with names where they differ: bf16, or x:bf16,y:f32; default: f32
    #[arg(long, value_name = "TYPES")]
    pub dtype: Vec<String>,
    /// A run-time scalar and its value; may be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    pub scalar: Vec<String>,
    /// An input with its type and shape: x:bf16:8x3x1025x128, then :offset=N, :strides=AxB or :transposed; extents of 1
    /// are broadcast; may be repeated
    #[arg(long = "in", value_name = "NAME:TYPE:SHAPE")]
    pub inputs: Vec<Operand>,
}

/// An expression and what its names stand for.
#[derive(Debug, clap::Args)]
pub(crate) struct SubjectArgs {
    /// The expression, such as 'y = tanh(a*x + y)'; the grammar is in docs/expressions.md
    #[arg(value_name = "EXPR", allow_hyphen_values = true)]
    pub expression: String,
    #[command(flatten)]
    pub meaning: ExpressionArgs,
}

/// How an expression is named, and the caches and launches it is timed with.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct TimingArgs {
    /// Name of the expression; default: the name of its operation, else its text
    #[arg(long)]
    pub name: Option<String>,
    /// Use different data each time, rotating through memory (the default)
    #[arg(long)]
    pub cold: bool,
    /// Use the same data each time
    #[arg(long)]
    pub hot: bool,
    /// Time hot and cold data
    #[arg(long)]
    pub both: bool,
    /// Start each launch after the previous one has ended (the default)
    #[arg(long)]
    pub plain: bool,
    /// Let a launch begin before the previous one has ended (compute capability 9.0)
    #[arg(long)]
    pub dependent: bool,
}

impl TimingArgs {
    /// The cache policies to time.
    pub(crate) fn caches(&self) -> Vec<CachePolicy> {
        match (self.cold, self.hot, self.both) {
            (_, _, true) | (true, true, _) => vec![CachePolicy::ColdRotate, CachePolicy::Hot],
            (_, true, _) => vec![CachePolicy::Hot],
            _ => vec![CachePolicy::ColdRotate],
        }
    }

    /// The forms of launch to time.
    pub(crate) fn launches(&self) -> Vec<&'static str> {
        match (self.plain, self.dependent) {
            (true, true) => vec![PLAIN, DEPENDENT],
            (false, true) => vec![DEPENDENT],
            _ => vec![PLAIN],
        }
    }
}

/// How thoroughly an expression is timed, where the record goes, and what is shown.
#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    /// quick for a first look, standard for figures to compare, thorough for figures to publish
    #[arg(long, default_value = "quick", value_parser = parse_effort)]
    pub effort: Effort,
    /// Folder for the record; default: plimsoll-runs/UTC-DEVICE. Nothing is overwritten
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Seed of all random data
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    #[command(flatten)]
    pub profile: ProfileArg,
}

#[derive(Debug, clap::Args)]
#[command(after_help = BENCH_HELP)]
pub(crate) struct BenchArgs {
    #[command(flatten)]
    pub subject: SubjectArgs,
    /// Bytes of the widest tensor: a range in powers of four, or a list; default: 1MiB..2GiB as far as it fits
    #[arg(long, value_name = "SIZES", conflicts_with = "inputs")]
    pub bytes: Option<String>,
    #[command(flatten)]
    pub timing: TimingArgs,
    /// Plans to time, in every combination: vector=4,8,16 unroll=1,2; all sweeps grid, vector, unroll, index and hints
    #[arg(long, value_name = "AXIS=VALUES", num_args = 1..)]
    pub variant: Vec<String>,
    /// Instead of timing, write the raw results for every bit pattern of the one input to a file, to check accuracy
    #[arg(long, value_name = "FILE", conflicts_with_all = ["bytes", "inputs", "against", "variant"])]
    pub all_inputs: Option<PathBuf>,
    /// With --all-inputs: the first pattern
    #[arg(long, value_name = "N", default_value_t = 0, requires = "all_inputs")]
    pub first: u64,
    /// With --all-inputs: number of patterns; default: all the rest, at most 2^28
    #[arg(long, value_name = "N", requires = "all_inputs")]
    pub count: Option<u64>,
    /// With --all-inputs: replace an existing file
    #[arg(long, requires = "all_inputs")]
    pub force: bool,
    /// File with another program's figures, as --format csv writes them
    #[arg(long, value_name = "FILE")]
    pub against: Option<PathBuf>,
    #[command(flatten)]
    pub device: DeviceArg,
    #[command(flatten)]
    pub run: RunArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct TuneArgs {
    /// Expressions whose classes are tuned; default: a copy, sums, a triad, exp and erf by the width of their types
    #[arg(value_name = "EXPR")]
    pub expressions: Vec<String>,
    #[command(flatten)]
    pub meaning: ExpressionArgs,
    #[command(flatten)]
    pub device: DeviceArg,
    /// quick takes a minute, standard three to four; thorough also tunes more classes of expressions
    #[arg(long, default_value = "standard", value_parser = parse_effort)]
    pub effort: Effort,
    /// File for the plans; default: the one next to the device's profile, which `bench` reads
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Replace the file even if it holds something other than plans; a file of plans is always updated
    #[arg(long)]
    pub force: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    #[command(flatten)]
    pub profile: ProfileArg,
}

#[derive(Debug, clap::Args)]
#[command(after_help = PREDICT_HELP)]
pub(crate) struct PredictArgs {
    #[command(flatten)]
    pub subject: SubjectArgs,
    /// A machine of the catalogue (`plimsoll peak` lists them), such as h200, "A100 40GB" or V100, for a prediction, B200, MI355X or
    /// "EPYC 9654" for a bound; or a device's profile (FILE.json)
    #[arg(long, value_name = "NAME|FILE")]
    pub machine: String,
    /// Bytes of the widest tensor: a range in powers of four, or a list; default: 64KiB..2GiB
    #[arg(long, value_name = "SIZES", conflicts_with = "inputs")]
    pub bytes: Option<String>,
    /// Data come from memory (the default)
    #[arg(long, conflicts_with = "hot")]
    pub cold: bool,
    /// The same data each time, in L2 as far as they fit
    #[arg(long)]
    pub hot: bool,
    /// A launch may begin before the previous one has ended (compute capability 9.0)
    #[arg(long)]
    pub dependent: bool,
    /// How launches are submitted; default: in a graph, or in a stream if only that figure is known
    #[arg(long, value_enum)]
    pub launch: Option<PredictLaunch>,
    /// Plans to predict, in every combination: vector=4,8,16 unroll=1,2; tier=full uses CUDA's own functions
    #[arg(long, value_name = "AXIS=VALUES", num_args = 1..)]
    pub variant: Vec<String>,
    /// Estimate instruction counts instead of compiling
    #[arg(long)]
    pub estimate: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Absolute path of the compiler's library (NVRTC) or its folder; default: searched for
    #[arg(long, value_name = "PATH", conflicts_with = "estimate")]
    pub nvrtc: Option<PathBuf>,
    /// Absolute path of the disassembler (nvdisasm); default: searched for
    #[arg(long, value_name = "PATH", conflicts_with = "estimate")]
    pub nvdisasm: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
#[command(after_help = EXPLAIN_HELP)]
pub(crate) struct ExplainArgs {
    #[command(flatten)]
    pub subject: SubjectArgs,
    /// Bytes of the widest tensor: a size, a range in powers of four, or a list; default: 256MiB, or less if it doesn't fit
    #[arg(long, value_name = "SIZES", conflicts_with = "inputs")]
    pub bytes: Option<String>,
    #[command(flatten)]
    pub timing: TimingArgs,
    /// Plans to explain, in every combination: vector=4,8,16 unroll=1,2; tier=full uses CUDA's own functions
    #[arg(long, value_name = "AXIS=VALUES", num_args = 1..)]
    pub variant: Vec<String>,
    /// Estimate instruction counts for the prediction instead of reading machine code
    #[arg(long)]
    pub estimate: bool,
    /// Don't read hardware counters
    #[arg(long)]
    pub no_counters: bool,
    #[command(flatten)]
    pub device: DeviceArg,
    /// Absolute path of the disassembler (nvdisasm); default: searched for
    #[arg(long, value_name = "PATH", conflicts_with = "estimate")]
    pub nvdisasm: Option<PathBuf>,
    #[command(flatten)]
    pub run: RunArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PredictLaunch {
    /// As nodes of a graph
    Graph,
    /// One call each
    Stream,
}
