//! The properties of a launch that determine its time.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Traffic;

/// How consecutive launches are issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LaunchForm {
    /// Consecutive nodes of a graph.
    Graph,
    /// Graph nodes with programmatic edges: a kernel may begin before the previous one has ended.
    GraphDependent,
    /// The same, but a kernel begins when the blocks of the previous one have ended, and waits for its results.
    GraphExit,
    /// One call per launch into a stream.
    Stream,
    /// One call per launch into a stream, with programmatic serialization.
    StreamDependent,
}

impl LaunchForm {
    /// Every form.
    pub const ALL: [Self; 5] =
        [Self::Graph, Self::GraphDependent, Self::GraphExit, Self::Stream, Self::StreamDependent];

    /// Its name, the same as the mode's name in the `launch` probe.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Graph => "graph",
            Self::GraphDependent => "graph, dependent",
            Self::GraphExit => "graph, exit",
            Self::Stream => "stream",
            Self::StreamDependent => "stream, dependent",
        }
    }
}

impl fmt::Display for LaunchForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Where the data is before a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cache {
    /// In memory, because it was last used long ago.
    Cold,
    /// Wherever the previous launch, over the same bytes, left it.
    Hot,
}

/// An execution resource that instructions compete for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pipe {
    /// The scheduler's slot: every instruction takes one.
    Issue,
    /// Single-precision and packed half-precision arithmetic.
    Fma,
    /// Integers, logic, comparisons, selections, minima and maxima.
    Alu,
    /// Special functions.
    Mufu,
    /// Double precision.
    Fp64,
    /// Loads and stores.
    Lsu,
    /// Conversions in the special-function unit: between integers and floats, and to and from f64.
    Conversion,
}

impl Pipe {
    /// Every pipe.
    pub const ALL: [Self; 7] = [Self::Issue, Self::Fma, Self::Alu, Self::Mufu, Self::Fp64, Self::Lsu, Self::Conversion];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Issue => "issue",
            Self::Fma => "fma",
            Self::Alu => "alu",
            Self::Mufu => "mufu",
            Self::Fp64 => "fp64",
            Self::Lsu => "lsu",
            Self::Conversion => "conversion",
        }
    }
}

impl fmt::Display for Pipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One launch of a kernel. Counts are for the whole launch unless stated otherwise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Description {
    /// Bytes that must move.
    pub traffic: Traffic,
    /// Distinct bytes that repeated launches touch: determines what stays in L2 when hot.
    pub footprint: u64,
    /// Where the data is before the launch.
    pub cache: Cache,
    /// How it is launched.
    pub launch: LaunchForm,
    /// Blocks prefetch their data while they wait for the previous kernel, so the first round trip goes to L2 only.
    #[serde(default)]
    pub prefetched: bool,
    /// Blocks of the grid.
    pub blocks: u64,
    /// Blocks that signal that the next kernel may begin (`griddepcontrol.launch_dependents`). The signals keep the block
    /// scheduler busy: on an H200 a signalling block takes 1.20 to 1.22 ns, twice as long as starting an empty one.
    #[serde(default)]
    pub signals: u64,
    /// Threads per block.
    pub threads: u32,
    /// Blocks resident on one SM at once.
    pub resident: u32,
    /// Bytes of loads that one thread has in flight at once.
    pub in_flight: u32,
    /// Warp instructions by pipe; [`Pipe::Issue`] counts all.
    pub instructions: BTreeMap<Pipe, f64>,
    /// Cycles of one warp's arithmetic alone, one instruction after the other.
    pub serial_cycles: f64,
}

impl Description {
    /// The share of blocks on the busiest of `multiprocessors` SMs: at least 1 / multiprocessors.
    #[must_use]
    pub(super) fn busiest_share(&self, multiprocessors: f64) -> f64 {
        if self.blocks == 0 {
            return 0.0;
        }
        let blocks = self.blocks as f64;
        (blocks / multiprocessors).ceil() / blocks
    }

    /// Bytes of loads in flight at once if all `multiprocessors` SMs are full of such blocks, however few blocks there are.
    #[must_use]
    pub(super) fn max_in_flight(&self, multiprocessors: f64) -> f64 {
        multiprocessors * f64::from(self.resident) * f64::from(self.threads) * f64::from(self.in_flight)
    }
}
