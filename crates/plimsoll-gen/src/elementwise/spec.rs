//! The specification of a kernel: everything its text depends on, and so the key for caching it. The number of elements and
//! the addresses are parameters of the launch.

use plimsoll_expr::graph::Kind;
use plimsoll_expr::{DType, Graph};
use serde::{Deserialize, Serialize};

use crate::Target;
use crate::kernel::{Hints, Index};

/// Accuracy of functions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tier {
    /// [`Tier::Accurate`], but a product and a sum are rounded one after the other, and every quotient as in f32: these have the bits
    /// of a CPU, operation by operation.
    Exact,
    /// As documented for `accurate`: f32 within 2 ulp, 16-bit results within 0.65 ulp, special values per IEEE 754. A product that is
    /// only used by a sum is fused with it.
    #[default]
    Accurate,
    /// With a documented, larger bound.
    Fast,
    /// CUDA's f32 functions even for 16-bit results, to show what they cost; there [`Tier::Accurate`] uses shorter functions,
    /// just accurate enough for the result's rounding. In f32 both are the same.
    Full,
}

impl Tier {
    /// Every tier.
    pub const ALL: [Self; 4] = [Self::Exact, Self::Accurate, Self::Fast, Self::Full];

    /// Its name, as users write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Accurate => "accurate",
            Self::Fast => "fast",
            Self::Full => "full",
        }
    }
}

/// The shape of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// Every tensor is contiguous and aligned: whole vectors, and the remainder in the same launch.
    Flat,
    /// [`Form::Flat`], starting at the first element at which all tensors are aligned.
    Peel,
    /// The tensors are never aligned together: the outputs' vectors are aligned, and inputs are shifted into place.
    Phased,
    /// Vectors along the fastest dimension; broadcast and pitched tensors are indexed by coordinates.
    Rows,
    /// Element by element, each indexed by its coordinates.
    Strided,
    /// Inputs that are transposed relative to the outputs, through shared memory.
    Transpose,
    /// One bulk copy per input into shared memory (compute capability 9.0), aligned or not; broadcast inputs are loaded
    /// directly.
    Bulk,
    /// Many sets of tensors in one launch.
    Batch,
}

impl Form {
    /// Every form.
    pub const ALL: [Self; 8] =
        [Self::Flat, Self::Peel, Self::Phased, Self::Rows, Self::Strided, Self::Transpose, Self::Bulk, Self::Batch];

    /// Its name, as users write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Flat => "flat",
            Self::Peel => "peel",
            Self::Phased => "phased",
            Self::Rows => "rows",
            Self::Strided => "strided",
            Self::Transpose => "transpose",
            Self::Bulk => "bulk",
            Self::Batch => "batch",
        }
    }
}

/// How many blocks a launch has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GridPolicy {
    /// As many as cover the elements once, in block order.
    #[default]
    Cover,
    /// As many as fill the device `waves` times; each block loops. Only for [`Form::Flat`], [`Form::Peel`] and
    /// [`Form::Phased`], to show what it costs.
    Stride {
        /// How many times the device is filled.
        waves: u32,
    },
}

/// Whether a kernel's blocks may become resident before the previous kernel in the stream has ended, and when this kernel
/// allows the same to the next one. It waits (`griddepcontrol.wait`) before its first access to global memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dependent {
    /// An ordinary kernel.
    #[default]
    No,
    /// The next kernel may begin once the previous kernel has ended and all blocks of this one are resident or have ended:
    /// each block signals before its loads complete.
    Early,
    /// The next kernel may begin when this one's stores have been issued.
    Late,
    /// The next kernel may begin when this one's blocks have ended, before their stores are visible to all. The default for
    /// plain launches if the device supports it, and for dependent ones if overlapping gains nothing.
    Exit,
    /// The next kernel may begin as soon as this one's blocks are resident, while they still wait for the previous kernel, so
    /// that several small launches queue up on the device. A next kernel that accesses memory before its own wait must then
    /// not touch what this kernel **or any earlier one** writes; kernels of this engine and ordinary ones access nothing
    /// before. As in [`Dependent::Tail`], only the last blocks signal.
    Start,
    /// [`Dependent::Early`], but only the last blocks signal. The others count when they end and need not signal, which on an
    /// H200 takes as long as starting another block. The default for dependent launches without measurements.
    Tail,
}

impl Dependent {
    /// Every variant.
    pub const ALL: [Self; 6] = [Self::No, Self::Early, Self::Late, Self::Exit, Self::Start, Self::Tail];

    /// Its name, as users write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::No => "none",
            Self::Early => "early",
            Self::Late => "late",
            Self::Exit => "exit",
            Self::Start => "start",
            Self::Tail => "tail",
        }
    }
}

/// How a tensor indexed by coordinates is accessed along the fastest dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Inner {
    /// Consecutive elements, in aligned vectors.
    Vector,
    /// Consecutive elements at any distance from an aligned vector: the aligned accesses that contain them are loaded and shifted.
    Shifted,
    /// The same where the row holds the next vector too, else one at a time, because vectors cross the ends of rows.
    ShiftedOrUnit,
    /// Consecutive elements, one at a time.
    Unit,
    /// The same element for all.
    Splat,
    /// This many elements apart: vectors of that many times the elements are loaded, and every so many-th is taken.
    Spaced(u8),
    /// Any other stride.
    Any,
}

/// How a kernel addresses the elements of one tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stream {
    /// Never read.
    Unused,
    /// Element i is the i-th in memory, aligned to the accesses (after the head, if there is one).
    Linear,
    /// The same, but aligned only to its element.
    Shifted,
    /// One element for all.
    Uniform,
    /// By the element's coordinates and a set of strides.
    Indexed {
        /// Which set of strides; tensors with equal strides share one.
        set: u8,
        /// Along the fastest dimension.
        inner: Inner,
    },
    /// By coordinates, contiguous along the second fastest dimension: through shared memory.
    Transposed {
        /// Which set of strides.
        set: u8,
        /// Consecutive elements that a thread loads at once.
        line: u8,
    },
    /// The same, and a tile is one piece of memory: its lines are whole and follow each other without gaps.
    Dense {
        /// Which set of strides.
        set: u8,
        /// Consecutive elements that a thread loads at once, of one line or several.
        vector: u8,
    },
}

/// Everything that a kernel's text depends on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KernelSpec {
    /// The expression, with plain names; plain copies use unsigned integers.
    pub graph: Graph,
    /// The kernel's shape.
    pub form: Form,
    /// How each tensor is addressed, inputs in order, then outputs.
    pub streams: Vec<Stream>,
    /// Consecutive elements of each tensor that a thread accesses at once.
    pub lanes: u32,
    /// Number of such vectors of each tensor that a thread holds at once. In [`Form::Bulk`] the iterations over a tile in shared
    /// memory, in [`Form::Transpose`] the vectors in a row of a tile, unless rows are joined.
    pub unroll: u32,
    /// Rows of a tile in [`Form::Transpose`], else 0.
    pub rows: u32,
    /// In [`Form::Transpose`], whether the tensors' rows and columns are whole numbers of tiles.
    pub fits: [bool; 2],
    /// In [`Form::Transpose`], if the outputs' rows don't begin at whole sectors: each row of a tile begins where the first output's address is a
    /// multiple of this many elements, less than as many before the tile. A power of two and a multiple of `lanes`, or 0.
    pub shear: u32,
    /// In [`Form::Transpose`], if a tile has whole rows of the outputs that follow each other without gaps, and vectors cross their ends: the
    /// elements of a row, else 0.
    pub joined: u32,
    /// In [`Form::Transpose`], if a tile's rows or columns are along two dimensions of the tensors, elements along the faster one, else 0.
    pub folds: [u32; 2],
    /// Threads per block.
    pub threads: u32,
    /// Blocks that must fit on an SM at once: the compiler may use the registers of fewer. 0 leaves it to the compiler.
    pub resident: u32,
    /// Cache hints.
    pub hints: Hints,
    /// [`Index::U64`]: the block's base has 64 bits and offsets inside its tile have 32, so that any n works; in forms that
    /// use coordinates, these have 64 bits. [`Index::U32`]: 32 bits throughout; the planner uses it if coordinates fit, and
    /// on request, to show what it saves.
    pub index: Index,
    /// How many blocks.
    pub grid: GridPolicy,
    /// Accuracy of functions.
    pub tier: Tier,
    /// Whether and how it overlaps with its neighbours in the stream.
    pub dependent: Dependent,
    /// While they wait for the previous kernel, the first blocks prefetch their inputs into L2. A prefetch reads nothing, and
    /// all writes to the device's memory go through L2, so it is safe whatever the previous kernel writes. It is not safe for
    /// inputs in memory of the host or of another device that are written while the previous kernel waits for them.
    pub prefetch: bool,
    /// Elements precede the first whole tile; the launch passes their number.
    pub head: bool,
    /// Dimensions whose coordinates it computes; 0 for forms that need none.
    pub rank: u32,
    /// Number of sets of strides.
    pub sets: u32,
    /// No vector crosses the end of a row, so the coordinates of its first element determine those of all.
    pub whole_rows: bool,
    /// Few vectors cross the end of a row; the others compute once what depends on the row alone.
    pub rare_turns: bool,
    /// If a thread's vectors are in the same columns of several rows, for each tensor whether it is an input whose rows are all the same; else
    /// empty.
    pub same_rows: Vec<bool>,
    /// What only [`Form::Batch`] has.
    pub batched: Option<Batched>,
    /// The compilation target.
    pub target: Target,
}

/// What the text of a [`Form::Batch`] depends on besides the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Batched {
    /// The table of sets is in the device's memory; else it is in the parameter block.
    pub table_in_memory: bool,
    /// Words of the parameter block.
    pub words: u32,
    /// The type of the flag with which a launch writes nothing, if there is one.
    pub skip: Option<DType>,
}

impl KernelSpec {
    /// Elements that a block processes in one iteration.
    #[must_use]
    pub fn tile(&self) -> u64 {
        u64::from(self.lanes) * u64::from(self.unroll) * u64::from(self.threads)
    }

    /// Columns of a tile in [`Form::Transpose`].
    #[must_use]
    pub fn columns(&self) -> u32 {
        if self.joined > 0 { self.joined } else { self.unroll * self.lanes }
    }

    /// Vectors of a tile in [`Form::Transpose`].
    #[must_use]
    pub fn vectors_in_tile(&self) -> u32 {
        self.rows * self.columns() / self.lanes
    }

    /// Vectors of a tensor that a thread accesses at once: one of an input whose rows are all the same, if it has those of several rows.
    #[must_use]
    pub fn vectors(&self, tensor: usize) -> u32 {
        if self.same_rows.get(tensor) == Some(&true) { 1 } else { self.unroll }
    }

    /// Bytes of an element of each tensor, inputs in order, then outputs.
    #[must_use]
    pub fn element_bytes(&self) -> Vec<u32> {
        element_bytes(&self.graph)
    }
}

/// Bytes of an element of each tensor, inputs in order, then outputs.
pub(super) fn element_bytes(graph: &Graph) -> Vec<u32> {
    let inputs = graph.inputs().iter().map(|input| input.dtype);
    inputs.chain(graph.outputs().iter().map(|output| output.dtype)).map(|dtype| dtype.bytes() as u32).collect()
}

/// True if the expression only copies its single input to a single output of the same type.
pub(super) fn is_copy(graph: &Graph) -> bool {
    matches!(graph.nodes(), [node] if matches!(node.kind, Kind::Input(_)) && node.dtype != DType::Bool
        && graph.inputs().len() == 1 && graph.outputs().len() == 1 && graph.outputs()[0].dtype == node.dtype)
}
