//! Arguments of the verbs that take expressions: bench, explain, tune and predict.

use std::path::PathBuf;

use clap::ValueEnum;
use plimsoll::bench::{DEPENDENT, Operand, PLAIN};
use plimsoll::core::sample::{CachePolicy, Effort};
use plimsoll::core::unit::ByteSize;

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

const EXPLAIN_HELP: &str = "Says what limits the expression and what would help; then shows the plan with its reasons, the predicted \
time term by term (docs/model.md), the time measured as by `bench`, the unexplained rest, and the hardware counters where the device \
allows them. A figure that the device's profile lacks is named and its term left out: `plimsoll measure` finds it.

Without the device: `plimsoll predict EXPR --machine h200`.

A kernel of your own: `plimsoll explain --cubin scale.cubin --function scale --args 'in:f32:16Mi out:f32:16Mi u32:16Mi f32:0.5' --grid \
65536 --block 256`. The code in the file runs on the device, so name only files that you trust. Arguments, separated by spaces:

  in:TYPE:COUNT        a buffer that a launch reads once
  out:TYPE:COUNT       a buffer that it writes once
  inout:TYPE:COUNT     a buffer that it reads and writes once
  scratch:TYPE:COUNT   a buffer whose bytes don't count
  ROLE:TYPE:COUNT:FILL with content: zeros, random, iota (0, 1, …) or a value
  TYPE:VALUE           a number: u32:16Mi, f32:0.5
  bytes:HEX            anything else, such as a struct, as bytes in memory

By default floats of in and inout are random and everything else is 0. \
COUNT is a number of elements (1000, 16Mi) or a size (64MiB). The machine code states how many parameters a kernel has and their sizes, \
which are checked, but no types. Results aren't checked, except that nothing is written beyond the end of a buffer.";

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
    /// Time one launch over many sets of tensors, and a flat launch of as many elements: shapes with numbers of sets, such as
    /// 4096x4096*24,4096*49, or a file with them. All tensors of a set have its shape; --in t:f32:1 makes one element for all
    #[arg(long, value_name = "SETS", conflicts_with_all = ["bytes", "all_inputs", "against", "tune"])]
    pub batch: Option<String>,
    #[command(flatten)]
    pub timing: TimingArgs,
    /// Plans to time, in every combination: vector=4,8,16 unroll=1,2; all sweeps grid, vector, unroll, index and hints
    #[arg(long, value_name = "AXIS=VALUES", num_args = 1..)]
    pub variant: Vec<String>,
    /// First time up to twelve plans for this very expression, its tensors and its launches, in three seconds each, and keep the fastest
    #[arg(long, conflicts_with = "all_inputs")]
    pub tune: bool,
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
    /// quick takes at most a minute, standard at most four; thorough, at most ten, also tunes more classes of expressions
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
#[command(after_help = EXPLAIN_HELP, override_usage = "plimsoll explain <EXPR|--cubin <FILE>|--source <FILE>> [OPTIONS]")]
#[command(group = clap::ArgGroup::new("what").required(true))]
pub(crate) struct ExplainArgs {
    /// The expression, such as 'y = tanh(a*x + y)'; the grammar is in docs/expressions.md
    #[arg(value_name = "EXPR", allow_hyphen_values = true, group = "what")]
    pub expression: Option<String>,
    #[command(flatten)]
    pub meaning: ExpressionArgs,
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
    // Last, because its heading holds for all options behind it.
    #[command(flatten)]
    pub own: OwnKernelArgs,
}

/// Options of expressions, which a kernel of your own doesn't take.
const OF_EXPRESSIONS: [&str; 8] = ["dtype", "scalar", "inputs", "bytes", "name", "plain", "dependent", "variant"];

/// A kernel of the user's own and how it is launched.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "A kernel of your own")]
#[command(group = clap::ArgGroup::new("file"))]
pub(crate) struct OwnKernelArgs {
    /// File with machine code, from any compiler; its code runs on the device
    #[arg(long, value_name = "FILE", groups = ["what", "file"], conflicts_with_all = OF_EXPRESSIONS)]
    pub cubin: Option<PathBuf>,
    /// File with CUDA C++ without headers of a toolkit, which NVRTC compiles; its code runs on the device
    #[arg(long, value_name = "FILE", groups = ["what", "file"], conflicts_with_all = OF_EXPRESSIONS)]
    pub source: Option<PathBuf>,
    /// The kernel's name; only needed if the file has several
    #[arg(long, value_name = "NAME", requires = "file")]
    pub function: Option<String>,
    /// Its arguments in order, such as 'in:f32:16Mi out:f32:16Mi u32:16Mi f32:0.5'; see below
    #[arg(long, value_name = "ARGS", requires = "file", default_value = "", hide_default_value = true)]
    pub args: String,
    /// Blocks in x, y and z
    #[arg(long, value_name = "X[,Y,Z]", requires = "file", value_parser = parse_sides)]
    pub grid: Option<Sides>,
    /// Threads per block in x, y and z
    #[arg(long, value_name = "X[,Y,Z]", requires = "file", value_parser = parse_sides)]
    pub block: Option<Sides>,
    /// Dynamic shared memory per block
    #[arg(long, value_name = "SIZE", requires = "file", default_value = "0", hide_default_value = true)]
    pub shared: ByteSize,
    /// Bytes that a launch reads; default: those of buffers marked in or inout, once
    #[arg(long, value_name = "SIZE", requires = "file")]
    pub bytes_read: Option<ByteSize>,
    /// Bytes that a launch writes; default: those of buffers marked out or inout, once
    #[arg(long, value_name = "SIZE", requires = "file")]
    pub bytes_written: Option<ByteSize>,
}

/// The extents of a grid or a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sides(pub [u32; 3]);

/// `65536`, `64,64` or `64,64,2`.
fn parse_sides(text: &str) -> Result<Sides, String> {
    let mut sides = [1; 3];
    let parts: Vec<&str> = text.split(',').collect();
    if parts.len() > sides.len() {
        return Err("write one to three numbers with commas, such as 64,64,2".to_owned());
    }
    for (side, part) in sides.iter_mut().zip(parts) {
        *side = part.trim().parse().map_err(|_| "write whole numbers, such as 65536 or 64,64,2".to_owned())?;
    }
    Ok(Sides(sides))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PredictLaunch {
    /// As nodes of a graph
    Graph,
    /// One call each
    Stream,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_and_blocks_have_one_to_three_extents() {
        assert_eq!(parse_sides("65536"), Ok(Sides([65_536, 1, 1])));
        assert_eq!(parse_sides("64, 4,2"), Ok(Sides([64, 4, 2])));
        for text in ["", "1,2,3,4", "1,,2", "-1", "1.5", "99999999999", "x"] {
            assert!(parse_sides(text).is_err(), "{text}");
        }
    }
}
