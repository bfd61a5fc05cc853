//! What every kernel states of itself: where its source is, what it moves, how much of it is in flight, and its grid.
//!
//! One file per probe builds the descriptions; [`unit()`] joins one source with the entry points wanted of it, so that a
//! probe compiles as one unit. Compiling, launching and timing are `plimsoll-cuda`'s; what the figures mean is
//! `plimsoll-suite`'s.

pub mod atomics;
pub mod chain;
pub mod check;
pub mod choice;
pub mod clock;
pub mod cluster;
pub mod copy;
pub mod dispatch;
pub mod footprint;
pub mod gather;
mod grid;
pub mod incore;
pub mod l1;
pub mod l2;
pub mod lab;
pub mod latency;
pub mod launch;
pub mod loaded_latency;
pub mod mix;
pub mod roofline;
pub mod stream;
pub mod strides;
pub mod sync;
pub mod tensor;
pub mod topology;
pub mod uniformity;

use plimsoll_core::{Fault, Traffic};

pub use grid::{Geometry, Grid, Machine};

use crate::Target;

/// Files that the sources include, by the name that they use: the compiler gets them as text.
pub const HEADERS: [(&str, &str); 10] = [
    ("device.h", include_str!("../../kernels/device.h")),
    ("sync.h", include_str!("../../kernels/sync.h")),
    ("clocks.h", include_str!("../../kernels/clocks.h")),
    ("chain.h", include_str!("../../kernels/chain.h")),
    ("walk.h", include_str!("../../kernels/walk.h")),
    ("span.h", include_str!("../../kernels/span.h")),
    ("wgmma.h", include_str!("../../kernels/wgmma.h")),
    ("tti_block.h", include_str!("../../kernels/lab/tti_block.h")),
    ("pic_blocks.h", include_str!("../../kernels/lab/pic_blocks.h")),
    ("tti_check.h", include_str!("../../kernels/lab/tti_check.h")),
];

/// A source file: one per probe, one that checks them, and one for the device's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    /// `stream.cu`
    Stream,
    /// `mix.cu`
    Mix,
    /// `copy.cu`
    Copy,
    /// `launch.cu`
    Launch,
    /// `dispatch.cu`
    Dispatch,
    /// `latency.cu`
    Latency,
    /// `footprint.cu`
    Footprint,
    /// `topology.cu`
    Topology,
    /// `uniformity.cu`
    Uniformity,
    /// `loaded_latency.cu`
    LoadedLatency,
    /// `sync.cu`
    Sync,
    /// `cluster.cu`
    Cluster,
    /// `gather.cu`
    Gather,
    /// `atomics.cu`
    Atomics,
    /// `l1.cu`
    L1,
    /// `l2.cu`
    L2,
    /// `strides.cu`
    Strides,
    /// `incore.cu`
    Incore,
    /// `roofline.cu`
    Roofline,
    /// `tensor.cu`
    Tensor,
    /// `lab/rtm.cu`
    Rtm,
    /// `lab/tti.cu`
    Tti,
    /// `lab/pic.cu`
    Pic,
    /// `check.cu`
    Check,
    /// `clock.cu`
    Clock,
}

impl Source {
    /// Every source.
    pub const ALL: [Self; 25] = [
        Self::Stream,
        Self::Mix,
        Self::Copy,
        Self::Launch,
        Self::Dispatch,
        Self::Latency,
        Self::Footprint,
        Self::Topology,
        Self::Uniformity,
        Self::LoadedLatency,
        Self::Sync,
        Self::Cluster,
        Self::Gather,
        Self::Atomics,
        Self::L1,
        Self::L2,
        Self::Strides,
        Self::Incore,
        Self::Roofline,
        Self::Tensor,
        Self::Rtm,
        Self::Tti,
        Self::Pic,
        Self::Check,
        Self::Clock,
    ];

    /// The probe's name, which is the file's without its ending.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Stream => "stream",
            Self::Mix => "mix",
            Self::Copy => "copy",
            Self::Launch => "launch",
            Self::Dispatch => "dispatch",
            Self::Latency => "latency",
            Self::Footprint => "footprint",
            Self::Topology => "topology",
            Self::Uniformity => "uniformity",
            Self::LoadedLatency => "loaded-latency",
            Self::Sync => "sync",
            Self::Cluster => "cluster",
            Self::Gather => "gather",
            Self::Atomics => "atomics",
            Self::L1 => "l1",
            Self::L2 => "l2",
            Self::Strides => "strides",
            Self::Incore => "incore",
            Self::Roofline => "roofline",
            Self::Tensor => "tensor",
            Self::Rtm => "rtm",
            Self::Tti => "tti",
            Self::Pic => "pic",
            Self::Check => "check",
            Self::Clock => "clock",
        }
    }

    /// The file's text. By itself it has no entry point: [`unit()`] adds them.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Stream => include_str!("../../kernels/stream.cu"),
            Self::Mix => include_str!("../../kernels/mix.cu"),
            Self::Copy => include_str!("../../kernels/copy.cu"),
            Self::Launch => include_str!("../../kernels/launch.cu"),
            Self::Dispatch => include_str!("../../kernels/dispatch.cu"),
            Self::Latency => include_str!("../../kernels/latency.cu"),
            Self::Footprint => include_str!("../../kernels/footprint.cu"),
            Self::Topology => include_str!("../../kernels/topology.cu"),
            Self::Uniformity => include_str!("../../kernels/uniformity.cu"),
            Self::LoadedLatency => include_str!("../../kernels/loaded_latency.cu"),
            Self::Sync => include_str!("../../kernels/sync.cu"),
            Self::Cluster => include_str!("../../kernels/cluster.cu"),
            Self::Gather => include_str!("../../kernels/gather.cu"),
            Self::Atomics => include_str!("../../kernels/atomics.cu"),
            Self::L1 => include_str!("../../kernels/l1.cu"),
            Self::L2 => include_str!("../../kernels/l2.cu"),
            Self::Strides => include_str!("../../kernels/strides.cu"),
            Self::Incore => include_str!("../../kernels/incore.cu"),
            Self::Roofline => include_str!("../../kernels/roofline.cu"),
            Self::Tensor => include_str!("../../kernels/tensor.cu"),
            Self::Rtm => include_str!("../../kernels/lab/rtm.cu"),
            Self::Tti => include_str!("../../kernels/lab/tti.cu"),
            Self::Pic => include_str!("../../kernels/lab/pic.cu"),
            Self::Check => include_str!("../../kernels/check.cu"),
            Self::Clock => include_str!("../../kernels/clock.cu"),
        }
    }

    /// Every kernel that its probe may want on this target: what is compiled as one unit and checked without a GPU.
    #[must_use]
    pub fn kernels(self, target: Target) -> Vec<KernelDesc> {
        match self {
            Self::Stream => stream::kernels(target),
            Self::Mix => mix::kernels(),
            Self::Copy => copy::kernels(),
            Self::Launch => launch::kernels(),
            Self::Dispatch => dispatch::kernels(),
            Self::Latency => latency::kernels(),
            Self::Footprint => footprint::kernels(),
            Self::Topology => topology::kernels(),
            Self::Uniformity => uniformity::kernels(),
            Self::LoadedLatency => loaded_latency::kernels(),
            Self::Sync => sync::kernels(target),
            Self::Cluster => cluster::kernels(target),
            Self::Gather => gather::kernels(),
            Self::Atomics => atomics::kernels(),
            Self::L1 => l1::kernels(),
            Self::L2 => l2::kernels(),
            Self::Strides => strides::kernels(),
            Self::Incore => incore::kernels(target),
            Self::Roofline => roofline::kernels(),
            Self::Tensor => tensor::kernels(target),
            Self::Rtm => lab::rtm::kernels(),
            Self::Tti => lab::tti::kernels(target),
            Self::Pic => lab::pic::kernels(),
            Self::Check => check::kernels(),
            Self::Clock => clock::kernels(),
        }
    }
}

/// What an array holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Element {
    /// 32 bits that nothing is computed with.
    Word,
    /// Single precision.
    F32,
    /// Double precision.
    F64,
    /// 16 bytes that nothing is computed with.
    Vector16,
}

impl Element {
    /// Size in bytes.
    #[must_use]
    pub fn bytes(self) -> u32 {
        match self {
            Self::Word | Self::F32 => 4,
            Self::F64 => 8,
            Self::Vector16 => 16,
        }
    }

    /// Its type in CUDA C++.
    #[must_use]
    pub fn c_name(self) -> &'static str {
        match self {
            Self::Word => "u32",
            Self::F32 => "float",
            Self::F64 => "double",
            Self::Vector16 => "uint4",
        }
    }

    /// Its name in those of kernels.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Word => "u32",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::Vector16 => "b128",
        }
    }
}

/// Width of a kernel's indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Index {
    /// 32 bits: n and the grid together stay below 2³².
    U32,
    /// 64 bits.
    U64,
}

/// Cache hints of a kernel's accesses; the default is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hints {
    /// `ld.global.nc.L1::no_allocate`: loads leave no line in the first-level cache.
    pub load_no_allocate: bool,
    /// `st.cs`: stored lines are the first to leave the second-level cache.
    pub store_streaming: bool,
}

impl Hints {
    /// As bits, the way `device.h` has them.
    #[must_use]
    pub fn bits(self) -> u32 {
        u32::from(self.load_no_allocate) | u32::from(self.store_streaming) << 1
    }
}

/// What a kernel leaves behind, and so how it is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Nothing.
    None,
    /// One element per element.
    Map,
    /// One exclusive or per warp, 4 bytes each, in the order of warps.
    WarpBits,
    /// One sum per warp, an element each, in the order of warps.
    WarpSums,
    /// One word per block.
    BlockMarks,
}

/// An instruction that a kernel's largest innermost loop must hold, so that what is named is what is counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    /// Its mnemonics, any of them, by how they begin: `MUFU.RCP`.
    pub mnemonics: &'static [&'static str],
    /// How many of them.
    pub count: u32,
    /// They write at least as many registers as there are independent chains.
    pub chains: u32,
}

/// Everything that is known of one kernel before it is compiled.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelDesc {
    /// The entry point.
    pub name: String,
    /// Where it is written.
    pub source: Source,
    /// The line that makes the entry point from the source's macros; empty where the source itself has it.
    pub entry: String,
    /// Parameters in order, by the names in the source.
    pub parameters: &'static [&'static str],
    /// What the arrays hold.
    pub element: Element,
    /// Arrays read.
    pub inputs: u32,
    /// Arrays written in full.
    pub outputs: u32,
    /// Bytes per access of one thread.
    pub vector_bytes: u32,
    /// Vectors of each array that a thread has in hand at once.
    pub unroll: u32,
    /// Cache hints.
    pub hints: Hints,
    /// Width of the indices.
    pub index: Index,
    /// Threads per block.
    pub threads: u32,
    /// True where the block's size is compiled in and can't be changed for a launch.
    pub threads_fixed: bool,
    /// How many blocks.
    pub grid: Grid,
    /// True where threads loop, so that any grid will do; false where the grid must cover all elements.
    pub looping: bool,
    /// True where the elements beyond the last whole vector need no thread of their own.
    pub tail_by_first_threads: bool,
    /// What it leaves behind.
    pub output: Output,
    /// Instructions that are counted, where a probe counts any.
    pub issues: Vec<Issue>,
    /// True where blocks wait for each other: launched cooperatively.
    pub cooperative: bool,
    /// True where it may begin before the kernel before it has ended (and waits for it itself).
    pub dependent: bool,
}

impl KernelDesc {
    /// A kernel that moves nothing, to be filled in by the probes' files.
    fn new(source: Source, name: String, threads: u32) -> Self {
        Self {
            name,
            source,
            entry: String::new(),
            parameters: &[],
            element: Element::Word,
            inputs: 0,
            outputs: 0,
            vector_bytes: 4,
            unroll: 1,
            hints: Hints::default(),
            index: Index::U64,
            threads,
            threads_fixed: true,
            grid: Grid::Cover,
            looping: false,
            tail_by_first_threads: false,
            output: Output::None,
            issues: Vec::new(),
            cooperative: false,
            dependent: false,
        }
    }

    /// Elements per vector.
    #[must_use]
    pub fn lanes(&self) -> u32 {
        (self.vector_bytes / self.element.bytes()).max(1)
    }

    /// Bytes that n elements must move, each array once. What a fold stores per warp is no part of it.
    #[must_use]
    pub fn traffic(&self, n: u64) -> Traffic {
        let bytes = n.saturating_mul(self.element.bytes().into());
        Traffic::new(bytes.saturating_mul(self.inputs.into()), bytes.saturating_mul(self.outputs.into()))
    }

    /// Bytes that one thread has asked memory for before it must wait: loads, or stores where there are none. With
    /// Little's law, threads × this ÷ latency bounds the bandwidth.
    #[must_use]
    pub fn bytes_in_flight(&self) -> u32 {
        let arrays = if self.inputs > 0 { self.inputs } else { self.outputs };
        arrays * self.vector_bytes * self.unroll
    }

    /// Elements that one block does in one turn.
    #[must_use]
    pub fn elements_per_block(&self) -> u64 {
        u64::from(self.threads) * u64::from(self.unroll) * u64::from(self.lanes())
    }

    /// The same kernel on another grid.
    #[must_use]
    pub fn with_grid(mut self, grid: Grid) -> Self {
        self.grid = grid;
        self
    }

    /// The same kernel in blocks of another size.
    ///
    /// # Errors
    /// [`Fault::Invalid`] where the size is compiled in, or no device has such blocks.
    pub fn with_threads(mut self, threads: u32) -> Result<Self, Fault> {
        if self.threads_fixed && threads != self.threads {
            let (name, fixed) = (&self.name, self.threads);
            return Err(Fault::Invalid(format!("{name} is compiled for blocks of {fixed} threads, not {threads}")));
        }
        if !(1..=1024).contains(&threads) {
            return Err(Fault::Invalid(format!("a block has 1 to 1024 threads, not {threads}")));
        }
        self.threads = threads;
        Ok(self)
    }
}

/// The text to compile for these kernels of one source; those of other sources are left out.
#[must_use]
pub fn unit(source: Source, kernels: &[KernelDesc]) -> String {
    let mut text = String::from(source.text());
    for kernel in kernels.iter().filter(|kernel| kernel.source == source && !kernel.entry.is_empty()) {
        text.push_str(&kernel.entry);
        text.push('\n');
    }
    text
}

/// The compiler's options beside the target. No contraction: `a·b + c` is rounded once only where the source says so, and
/// so results have one right value.
pub const OPTIONS: [&str; 2] = ["--std=c++17", "--fmad=false"];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn all() -> Vec<KernelDesc> {
        Source::ALL.iter().flat_map(|source| source.kernels(Target::plain(100))).collect()
    }

    #[test]
    fn entry_points_have_names_of_their_own() {
        let kernels = all();
        let names: BTreeSet<&str> = kernels.iter().map(|kernel| kernel.name.as_str()).collect();
        assert_eq!(names.len(), kernels.len());
    }

    #[test]
    fn an_entry_names_its_kernel_and_a_macro_of_its_source() {
        for kernel in all() {
            if kernel.entry.is_empty() {
                assert!(kernel.source.text().contains(&format!(" {}(", kernel.name)), "{}", kernel.name);
                continue;
            }
            let (used, _) = kernel.entry.split_once('(').unwrap();
            assert!(kernel.source.text().contains(&format!("#define {used}(name")), "{}", kernel.entry);
            assert!(kernel.entry.contains(&kernel.name), "{}", kernel.entry);
        }
    }

    #[test]
    fn sources_say_what_keeps_them_and_what_their_loop_is() {
        for source in Source::ALL {
            let text = source.text();
            assert!(text.starts_with(&format!("// {}: ", source.name())), "{}", source.name());
            assert!(text.contains("// What keeps it:") && text.contains("// Its loop in SASS:"), "{}", source.name());
            assert!(!text.contains("#include <"), "{} must need no header of a toolkit", source.name());
            assert!(text.lines().count() <= 160, "{}", source.name());
        }
    }

    #[test]
    fn kernels_for_older_devices_use_no_wider_access_than_they_have() {
        for kernel in Source::ALL.iter().flat_map(|source| source.kernels(Target::plain(80))) {
            assert!(kernel.source == Source::Copy || kernel.vector_bytes <= 16, "{}", kernel.name);
        }
    }
}
