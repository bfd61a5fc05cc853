//! What may be typed after the verbs of expressions: bench, explain, tune and predict.

use std::path::PathBuf;

use clap::ValueEnum;
use plimsoll::bench::{DEPENDENT, Operand, PLAIN};
use plimsoll::core::sample::{CachePolicy, Effort};

use super::{DeviceArg, Format, ProfileArg, effort};

const BENCH_HELP: &str = "Names are tensors unless --scalar gives them a value: `plimsoll bench 'a*x + y' --scalar a=0.5 --dtype bf16`. \
Sizes are bytes of the widest tensor. Cold data rotate through memory far larger than any cache, which is the default; \
launches follow each other in one graph.

What the columns say: `of ceiling` is the share of the bandwidth that `plimsoll measure stream` found for the same mix of \
reads and writes, `of peak` that of the theoretical bandwidth.

--format csv writes peer,op,dtype,bytes_moved,median_us,GBps, and --against reads it: then `ratio` is our bandwidth over \
that of the fastest program of the file in the same cell.";

const PREDICT_HELP: &str = "The time is the sum of the terms that are added and of what runs at the same time, of which the \
longest decides: docs/model.md says how each is found and how far predictions were from measurements. Intervals come from those of \
the machine's figures. A figure that nobody measured or published is named, and what it is for is left out.

The kernel is compiled and its instructions are counted where NVIDIA's compiler and disassembler are found; else counts are \
rough.";

const EXPLAIN_HELP: &str = "The plan with its reasons, what the model expects term by term (docs/model.md), what was measured as \
`bench` measures it, what the hardware counted where it may be asked, and what is left unexplained; then in words what limits and \
what would help. A term whose figure the device's profile lacks is named and left out: `plimsoll measure` finds them.

Without the device: `plimsoll predict EXPR --machine h200`.";

/// What the names of an expression stand for.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct ExpressionArgs {
    /// Type of the tensors, by name where they differ: bf16, or x:bf16,y:f32; f32 by default
    #[arg(long, value_name = "TYPES")]
    pub dtype: Vec<String>,
    /// A name that is a run-time scalar, and its value; may be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    pub scalar: Vec<String>,
    /// An input with its type and shape: x:bf16:8x3x1025x128, then :offset=N, :strides=AxB or :transposed; extents of 1
    /// are broadcast; may be repeated
    #[arg(long = "in", value_name = "NAME:TYPE:SHAPE")]
    pub inputs: Vec<Operand>,
}

/// What is timed of an expression.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct TimingArgs {
    /// What to call the expression; by default its operation's name, else its text
    #[arg(long)]
    pub name: Option<String>,
    /// Data that rotate through memory; the default
    #[arg(long)]
    pub cold: bool,
    /// The same data each time
    #[arg(long)]
    pub hot: bool,
    /// Hot and cold beside each other
    #[arg(long)]
    pub both: bool,
    /// Launches that follow each other; the default
    #[arg(long)]
    pub plain: bool,
    /// Launches that may begin before the one before has ended (compute capability 9.0)
    #[arg(long)]
    pub dependent: bool,
}

impl TimingArgs {
    /// What caches hold before a launch.
    pub(crate) fn caches(&self) -> Vec<CachePolicy> {
        match (self.cold, self.hot, self.both) {
            (_, _, true) | (true, true, _) => vec![CachePolicy::ColdRotate, CachePolicy::Hot],
            (_, true, _) => vec![CachePolicy::Hot],
            _ => vec![CachePolicy::ColdRotate],
        }
    }

    /// How launches follow each other.
    pub(crate) fn launches(&self) -> Vec<&'static str> {
        match (self.plain, self.dependent) {
            (true, true) => vec![PLAIN, DEPENDENT],
            (false, true) => vec![DEPENDENT],
            _ => vec![PLAIN],
        }
    }
}

/// How well an expression is timed, and where that is written.
#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    /// quick for a first look, standard for figures to compare, thorough for figures to publish
    #[arg(long, default_value = "quick", value_parser = effort)]
    pub effort: Effort,
    /// Folder for the record; plimsoll-runs/UTC-DEVICE by default. Nothing is overwritten
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Seed of all random data
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
}

#[derive(Debug, clap::Args)]
#[command(after_help = BENCH_HELP)]
pub(crate) struct BenchArgs {
    /// The expression, such as 'y = tanh(a*x + y)'; the grammar is in docs/expressions.md
    #[arg(value_name = "EXPR", allow_hyphen_values = true)]
    pub expression: String,
    #[command(flatten)]
    pub meaning: ExpressionArgs,
    /// Bytes of the widest tensor: a range in powers of four, or a list; 1MiB..2GiB as far as it fits by default
    #[arg(long, value_name = "SIZES", conflicts_with = "inputs")]
    pub bytes: Option<String>,
    #[command(flatten)]
    pub timing: TimingArgs,
    /// Plans by hand: vector=4,8,16 unroll=1,2 is every combination; all sweeps grid, vector, unroll, index and hints
    #[arg(long, value_name = "AXIS=VALUES", num_args = 1..)]
    pub variant: Vec<String>,
    /// Time nothing: write the results for every bit pattern of the one input to a file, raw, for who compares accuracies
    #[arg(long, value_name = "FILE", conflicts_with_all = ["bytes", "inputs", "against", "variant"])]
    pub all_inputs: Option<PathBuf>,
    /// With --all-inputs: the first pattern
    #[arg(long, value_name = "N", default_value_t = 0, requires = "all_inputs")]
    pub first: u64,
    /// With --all-inputs: how many patterns, all or 2^28 by default
    #[arg(long, value_name = "N", requires = "all_inputs")]
    pub count: Option<u64>,
    /// With --all-inputs: replace the file if it is there
    #[arg(long, requires = "all_inputs")]
    pub force: bool,
    /// Another program's figures in the form of --format csv
    #[arg(long, value_name = "FILE")]
    pub against: Option<PathBuf>,
    #[command(flatten)]
    pub device: DeviceArg,
    #[command(flatten)]
    pub run: RunArgs,
    /// How to print the results
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    #[command(flatten)]
    pub profile: ProfileArg,
}

#[derive(Debug, clap::Args)]
pub(crate) struct TuneArgs {
    /// Expressions whose classes are tuned; by default a copy, sums, a triad, exp and erf by the width of their types
    #[arg(value_name = "EXPR")]
    pub expressions: Vec<String>,
    #[command(flatten)]
    pub meaning: ExpressionArgs,
    #[command(flatten)]
    pub device: DeviceArg,
    /// quick takes a minute, standard three to four, thorough more classes of expressions
    #[arg(long, default_value = "standard", value_parser = effort)]
    pub effort: Effort,
    /// File for the plans instead of the one beside the device's profile, which `bench` reads
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Replace the file for the plans even if it holds something else; plans that it holds are kept up to date anyway
    #[arg(long)]
    pub force: bool,
    /// How to print them
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    #[command(flatten)]
    pub profile: ProfileArg,
}

#[derive(Debug, clap::Args)]
#[command(after_help = PREDICT_HELP)]
pub(crate) struct PredictArgs {
    /// The expression, such as 'y = tanh(a*x + y)'; the grammar is in docs/expressions.md
    #[arg(value_name = "EXPR", allow_hyphen_values = true)]
    pub expression: String,
    #[command(flatten)]
    pub meaning: ExpressionArgs,
    /// A machine of the catalogue: h200, "A100 40GB", "H100 SXM", L4, A10, V100; or a device's profile, a file that ends in .json
    #[arg(long, value_name = "NAME|FILE")]
    pub machine: String,
    /// Bytes of the widest tensor: a range in powers of four, or a list; 64KiB..2GiB by default
    #[arg(long, value_name = "SIZES", conflicts_with = "inputs")]
    pub bytes: Option<String>,
    /// Data that comes from memory; the default
    #[arg(long, conflicts_with = "hot")]
    pub cold: bool,
    /// The same data each time, in the second level as far as it holds them
    #[arg(long)]
    pub hot: bool,
    /// Launches that may begin before the one before has ended (compute capability 9.0)
    #[arg(long)]
    pub dependent: bool,
    /// How launches follow each other; by default in a graph, or in a stream where only that is known
    #[arg(long, value_enum)]
    pub launch: Option<PredictLaunch>,
    /// Plans by hand, each predicted: tier=full for CUDA's own functions, vector=4,8,16 unroll=1,2 for every combination
    #[arg(long, value_name = "AXIS=VALUES", num_args = 1..)]
    pub variant: Vec<String>,
    /// Rough counts of instructions, without compiling
    #[arg(long)]
    pub estimate: bool,
    /// How to print it
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// The compiler's library, or its folder, by absolute path; found by itself by default
    #[arg(long, value_name = "PATH", conflicts_with = "estimate")]
    pub nvrtc: Option<PathBuf>,
    /// The disassembler, by absolute path; found by itself by default
    #[arg(long, value_name = "PATH", conflicts_with = "estimate")]
    pub nvdisasm: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
#[command(after_help = EXPLAIN_HELP)]
pub(crate) struct ExplainArgs {
    /// The expression, such as 'y = tanh(a*x + y)'; the grammar is in docs/expressions.md
    #[arg(value_name = "EXPR", allow_hyphen_values = true)]
    pub expression: String,
    #[command(flatten)]
    pub meaning: ExpressionArgs,
    /// Bytes of the widest tensor: a size, a range in powers of four, or a list; 256MiB as far as it fits by default
    #[arg(long, value_name = "SIZES", conflicts_with = "inputs")]
    pub bytes: Option<String>,
    #[command(flatten)]
    pub timing: TimingArgs,
    /// Plans by hand: tier=full for CUDA's own functions, vector=4,8,16 unroll=1,2 for every combination
    #[arg(long, value_name = "AXIS=VALUES", num_args = 1..)]
    pub variant: Vec<String>,
    /// Rough counts of instructions, without compiling for them
    #[arg(long)]
    pub estimate: bool,
    /// Leave the hardware's counters alone
    #[arg(long)]
    pub no_counters: bool,
    #[command(flatten)]
    pub device: DeviceArg,
    /// The disassembler, by absolute path; found by itself by default
    #[arg(long, value_name = "PATH", conflicts_with = "estimate")]
    pub nvdisasm: Option<PathBuf>,
    #[command(flatten)]
    pub run: RunArgs,
    /// How to print it
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    #[command(flatten)]
    pub profile: ProfileArg,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PredictLaunch {
    /// As nodes of a graph
    Graph,
    /// One call each
    Stream,
}
