//! Descriptions of kernels: the source, the bytes moved, the bytes in flight, and the grid.
//!
//! One file per probe builds the descriptions. [`unit()`] joins a source with the entry points wanted from it.
//! `plimsoll-cuda` compiles, launches and times kernels; `plimsoll-probes` interprets the
//! results.

mod amount;
pub mod chain;
pub mod check;
pub mod choice;
pub mod clock;
mod grid;
mod op;
mod parameter;
mod source;
pub mod spirv;

use plimsoll_core::{Fault, Traffic};

pub use amount::{Amount, Bound, Setting};
pub use grid::{Geometry, Grid, Machine};
pub use op::{Op, formula};
pub use parameter::{Access, Align, Array, Extent, Kind, Number, Parameter, takes};
pub use source::{Data, HEADERS, Source, ToSpirv};

/// Element type of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Element {
    /// 32 bits that are only moved, not computed with.
    Word,
    /// Single precision.
    F32,
    /// Double precision.
    F64,
    /// 16 bytes that are only moved, not computed with.
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

    /// Its name within kernel names.
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

impl Index {
    /// Its type in CUDA C++, and its name within kernel names.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::U32 => "u32",
            Self::U64 => "u64",
        }
    }
}

/// Cache hints of a kernel's accesses; the default is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hints {
    /// `ld.global.nc.L1::no_allocate`: loads allocate no line in L1. Bulk copies never allocate in L1; for them this
    /// selects `L2::evict_last`: what they read stays in L2 until a kernel's last tiles.
    pub load_no_allocate: bool,
    /// `st.cs`: stored lines are the first to be evicted from L2.
    pub store_streaming: bool,
}

impl Hints {
    /// As bits, numbered as in `device.h`.
    #[must_use]
    pub fn bits(self) -> u32 {
        u32::from(self.load_no_allocate) | u32::from(self.store_streaming) << 1
    }
}

/// The output of a kernel, which determines how it is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Nothing.
    None,
    /// One output element per input element.
    Map,
    /// One exclusive or per warp, 4 bytes each, in warp order.
    WarpBits,
    /// One sum per warp, of the element type, in warp order.
    WarpSums,
    /// One word per block.
    BlockMarks,
}

/// What the memory accesses in the hot part of a kernel's machine code are checked against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessRule {
    /// Not checked: the description doesn't state them.
    Unchecked,
    /// The accesses to its arrays, as wide as its vectors. Not checked if it has no arrays or waits for the whole grid.
    Stated,
    /// One chain of [`HOPS`](chain::HOPS) 8-byte loads, each from the address that the previous one loaded.
    Chain,
    /// Bulk copies for the inputs, and no other loads.
    BulkCopies,
    /// None: the kernel does nothing at all.
    DoesNothing,
}

/// Instructions that a kernel's largest innermost loop must contain, so that a probe counts what it claims to count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    /// Accepted mnemonics, by prefix: `MUFU.RCP`.
    pub mnemonics: &'static [&'static str],
    /// Number of these instructions.
    pub count: u32,
    /// Independent chains: the instructions write at least as many registers.
    pub chains: u32,
}

/// Everything known about one kernel before it is compiled.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelDesc {
    /// Name of the entry point.
    pub name: String,
    /// The source file.
    pub source: &'static Source,
    /// The line that instantiates the entry point from the source's macros; empty if the source contains it.
    pub entry: String,
    /// Parameters, in the order of the source.
    pub parameters: &'static [Parameter],
    /// Element type of the arrays.
    pub element: Element,
    /// Arrays read.
    pub inputs: u32,
    /// Arrays written in full.
    pub outputs: u32,
    /// Bytes per access of one thread.
    pub vector_bytes: u32,
    /// Vectors of each array that a thread holds at once.
    pub unroll: u32,
    /// Cache hints.
    pub hints: Hints,
    /// Width of the indices.
    pub index: Index,
    /// Threads per block.
    pub threads: u32,
    /// True if the block size is compiled in and can't be changed for a launch.
    pub threads_fixed: bool,
    /// How the number of blocks is chosen.
    pub grid: Grid,
    /// True if threads loop, so that any grid works; false if the grid must cover all elements.
    pub looping: bool,
    /// True if the elements beyond the last whole vector need no extra threads.
    pub tail_by_first_threads: bool,
    /// Its output.
    pub output: Output,
    /// Instructions that the probe counts, if any.
    pub issues: Vec<Issue>,
    /// True if blocks wait for each other: needs a cooperative launch.
    pub cooperative: bool,
    /// True if it may begin before the previous kernel has ended (and waits for that kernel itself).
    pub dependent: bool,
    /// What its memory accesses are checked against.
    pub access_rule: AccessRule,
    /// True if its machine code may keep registers or tables in local memory.
    pub local_memory: bool,
    /// Its operation in a [`choice`]; if empty, the second word of its name.
    pub does: &'static str,
}

impl KernelDesc {
    /// A kernel that moves nothing: the default values for the probes' descriptions.
    #[must_use]
    pub fn new(source: &'static Source, name: impl Into<String>, threads: u32) -> Self {
        Self {
            name: name.into(),
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
            access_rule: source.access_rule(),
            local_memory: false,
            does: "",
        }
    }

    /// Elements per vector.
    #[must_use]
    pub fn lanes(&self) -> u32 {
        (self.vector_bytes / self.element.bytes()).max(1)
    }

    /// Bytes that n elements must move, each array once. Excludes the results that a fold stores per warp.
    #[must_use]
    pub fn traffic(&self, n: u64) -> Traffic {
        let bytes = n.saturating_mul(self.element.bytes().into());
        Traffic::new(bytes.saturating_mul(self.inputs.into()), bytes.saturating_mul(self.outputs.into()))
    }

    /// Bytes that one thread has in flight before it must wait: loads, or stores if it loads nothing. By Little's law,
    /// threads × this ÷ latency bounds the bandwidth.
    #[must_use]
    pub fn bytes_in_flight(&self) -> u32 {
        let arrays = if self.inputs > 0 { self.inputs } else { self.outputs };
        arrays * self.vector_bytes * self.unroll
    }

    /// Elements that one block processes in one iteration.
    #[must_use]
    pub fn elements_per_block(&self) -> u64 {
        u64::from(self.threads) * u64::from(self.unroll) * u64::from(self.lanes())
    }

    /// The same kernel with another grid policy.
    #[must_use]
    pub fn with_grid(mut self, grid: Grid) -> Self {
        self.grid = grid;
        self
    }

    /// The same kernel with another block size.
    ///
    /// # Errors
    /// [`Fault::Invalid`] if the block size is compiled in, or no device supports it.
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

/// The sources that every GPU backend needs: the result checks and the clock kernels.
pub static SHARED: [&Source; 2] = [&check::SOURCE, &clock::SOURCE];

/// The text to compile for these kernels of one source; kernels of other sources are skipped.
#[must_use]
pub fn unit(source: &Source, kernels: &[KernelDesc]) -> String {
    let mut text = String::from(source.text());
    for kernel in kernels.iter().filter(|kernel| *kernel.source == *source && !kernel.entry.is_empty()) {
        text.push_str(&kernel.entry);
        text.push('\n');
    }
    text
}

/// The compiler's options, apart from the target. No contraction: `a·b + c` is rounded once only where the source says so,
/// which gives each result exactly one correct value.
pub const OPTIONS: [&str; 2] = ["--std=c++17", "--fmad=false"];
