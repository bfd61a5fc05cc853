//! What one launch does, as far as its cost goes.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Traffic;

/// How launches follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LaunchForm {
    /// Nodes of a graph, one after the other.
    Graph,
    /// The same with programmatic edges, so that a kernel begins before the one before it has ended.
    GraphDependent,
    /// The same, but each begins when the blocks of the one before it have ended, and waits for its results.
    GraphExit,
    /// One call per launch into a stream.
    Stream,
    /// The same with programmatic serialization.
    StreamDependent,
}

impl LaunchForm {
    /// Every form.
    pub const ALL: [Self; 5] =
        [Self::Graph, Self::GraphDependent, Self::GraphExit, Self::Stream, Self::StreamDependent];

    /// Its name, which is the `launch` probe's name of the mode.
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
    /// In memory: whatever is read was last touched long ago.
    Cold,
    /// Wherever the launch before this one, over the same bytes, has left it.
    Hot,
}

/// What instructions compete for.
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
    /// Conversions that the special-function unit does: between integers and floats, and to and from f64.
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

/// One launch of a kernel. Counts are of the whole launch unless said otherwise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Description {
    /// Bytes that must move.
    pub traffic: Traffic,
    /// Distinct bytes that launches go over again and again: it decides what stays in the second level when hot.
    pub footprint: u64,
    /// Where the data is before.
    pub cache: Cache,
    /// How it is launched.
    pub launch: LaunchForm,
    /// Blocks ask for their data while they wait for the kernel before, so the first round trip ends in the second level.
    #[serde(default)]
    pub prefetched: bool,
    /// Blocks of the grid.
    pub blocks: u64,
    /// Blocks that say that the next kernel may begin (`griddepcontrol.launch_dependents`). Who starts blocks hears them, too: on an H200
    /// one that says so takes 1.20 to 1.22 ns, twice what starting an empty one takes.
    #[serde(default)]
    pub signals: u64,
    /// Threads per block.
    pub threads: u32,
    /// Blocks that one multiprocessor holds at once.
    pub resident: u32,
    /// Bytes of loads that one thread has in flight at once.
    pub in_flight: u32,
    /// Warp instructions by pipe; [`Pipe::Issue`] counts all.
    pub instructions: BTreeMap<Pipe, f64>,
    /// Cycles that one warp's arithmetic takes by itself, one instruction after the other.
    pub serial_cycles: f64,
}

impl Description {
    /// The share of blocks that the busiest multiprocessor gets, of `multiprocessors`: at least 1 / multiprocessors.
    #[must_use]
    pub(super) fn busiest_share(&self, multiprocessors: f64) -> f64 {
        if self.blocks == 0 {
            return 0.0;
        }
        let blocks = self.blocks as f64;
        (blocks / multiprocessors).ceil() / blocks
    }

    /// Bytes of loads that `multiprocessors` full of such blocks have in flight at once, however few blocks there are.
    #[must_use]
    pub(super) fn room(&self, multiprocessors: f64) -> f64 {
        multiprocessors * f64::from(self.resident) * f64::from(self.threads) * f64::from(self.in_flight)
    }
}
