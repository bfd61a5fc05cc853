//! The properties of a launch that determine its time.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Traffic, names};

names! {
    /// How consecutive launches are issued. The names are those of the modes in the `launch` probe.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum LaunchForm {
        /// Consecutive nodes of a graph.
        Graph = "graph",
        /// Graph nodes with programmatic edges: a kernel may begin before the previous one has ended.
        GraphDependent = "graph, dependent",
        /// The same, but a kernel begins when the blocks of the previous one have ended, and waits for its results.
        GraphExit = "graph, exit",
        /// One call per launch into a stream.
        Stream = "stream",
        /// One call per launch into a stream, with programmatic serialization.
        StreamDependent = "stream, dependent",
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

names! {
    /// An execution resource that instructions compete for.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Pipe {
        /// The scheduler's slot: every instruction takes one.
        Issue = "issue",
        /// Single-precision and packed half-precision arithmetic.
        Fma = "fma",
        /// Integers, logic, comparisons, selections, minima and maxima.
        Alu = "alu",
        /// Special functions.
        Mufu = "mufu",
        /// Double precision.
        Fp64 = "fp64",
        /// Loads and stores.
        Lsu = "lsu",
        /// Conversions in the special-function unit: between integers and floats, and to and from f64.
        Conversion = "conversion",
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
