//! What every kernel states of itself: where its source is, what it moves, how much of it is in flight, and its grid.
//!
//! One file per probe builds the descriptions; [`unit()`] joins one source with the entry points wanted of it, so that a
//! probe compiles as one unit. Compiling, launching and timing are `plimsoll-cuda`'s; what the figures mean is
//! `plimsoll-probes`'.

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
pub use op::Op;
pub use parameter::{Access, Align, Array, Extent, Kind, Number, Parameter, takes};
pub use source::{Data, HEADERS, Source, ToSpirv};

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

impl Index {
    /// Its type in CUDA C++, and its name in those of kernels.
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
    /// `ld.global.nc.L1::no_allocate`: loads leave no line in the first-level cache. Bulk copies never do; they
    /// take `L2::evict_last` by it: what they read stays in the second level until a kernel's last tiles.
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

/// What the accesses to memory in a kernel's hot part are held to in its machine code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessRule {
    /// Nothing: its description doesn't tell them.
    Unchecked,
    /// They are those of its arrays, as wide as its vectors; nothing where it has no arrays or waits for the whole grid.
    Stated,
    /// One chain of [`HOPS`](chain::HOPS) loads of 8 bytes, each from where the one before it leads.
    Chain,
    /// Its inputs come by bulk copies, and nothing else is loaded.
    BulkCopies,
    /// There are none: the kernel does nothing at all.
    DoesNothing,
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
    pub source: &'static Source,
    /// The line that makes the entry point from the source's macros; empty where the source itself has it.
    pub entry: String,
    /// Parameters in order, as the source has them.
    pub parameters: &'static [Parameter],
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
    /// What its accesses are held to.
    pub access_rule: AccessRule,
    /// True where its machine code may keep registers or tables in local memory.
    pub local_memory: bool,
    /// What choices call it: [`choice`]; empty where that is the second word of its name.
    pub does: &'static str,
}

impl KernelDesc {
    /// A kernel that moves nothing, to be filled in by the probes' files.
    #[must_use]
    pub fn new(source: &'static Source, name: String, threads: u32) -> Self {
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

    /// Elements that one block does in one iteration.
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

/// The sources that every GPU backend needs: what checks results, and what counts the device's clock.
pub static SHARED: [&Source; 2] = [&check::SOURCE, &clock::SOURCE];

/// The text to compile for these kernels of one source; those of other sources are left out.
#[must_use]
pub fn unit(source: &Source, kernels: &[KernelDesc]) -> String {
    let mut text = String::from(source.text());
    for kernel in kernels.iter().filter(|kernel| *kernel.source == *source && !kernel.entry.is_empty()) {
        text.push_str(&kernel.entry);
        text.push('\n');
    }
    text
}

/// The compiler's options beside the target. No contraction: `a·b + c` is rounded once only where the source says so, and
/// so results have one right value.
pub const OPTIONS: [&str; 2] = ["--std=c++17", "--fmad=false"];
