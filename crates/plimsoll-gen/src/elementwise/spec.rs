//! What one kernel is: all that its text depends on, and so the key under which it is cached. How many elements there are and
//! where they lie are parameters of the launch.

use plimsoll_expr::graph::Kind;
use plimsoll_expr::{DType, Graph};
use serde::{Deserialize, Serialize};

use crate::Target;
use crate::kernel::{Hints, Index};

/// How exact functions are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tier {
    /// As documented for `accurate`: f32 within 2 ulp, 16-bit results within 0.65 ulp, special values as IEEE has them.
    #[default]
    Accurate,
    /// With a documented, larger bound.
    Fast,
    /// CUDA's own f32 functions also where only 16 bits are stored: to show what they cost there, as [`Tier::Accurate`] takes
    /// shorter ones that are good to the result's rounding. In f32 both are the same.
    Full,
}

impl Tier {
    /// Every tier.
    pub const ALL: [Self; 3] = [Self::Accurate, Self::Fast, Self::Full];

    /// Its name, as users write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
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
    /// Every tensor is one run of aligned elements: whole vectors, and the rest in the same launch.
    Flat,
    /// [`Form::Flat`] from the first element on at which all tensors are aligned.
    Peel,
    /// Tensors that are never aligned together: the outputs' vectors are, and inputs are shifted into place.
    Phased,
    /// Vectors along the fastest dimension; broadcast and pitched tensors by their coordinates.
    Rows,
    /// Element by element, each by its coordinates.
    Strided,
    /// Inputs that are transposed against the outputs, by way of shared memory.
    Transpose,
    /// Inputs come as one bulk copy each into shared memory (compute capability 9.0), aligned or not; broadcast ones beside them.
    Bulk,
    /// Many small sets of tensors in one launch.
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
    /// As many as fill the device `waves` times; each loops. Of [`Form::Flat`] alone, to show what it costs.
    Stride {
        /// How often the device is filled.
        waves: u32,
    },
}

/// Whether a kernel's blocks may be in place before the kernel before it in the stream has ended, and when it lets those of the next
/// one. It waits (`griddepcontrol.wait`) before its first access to global memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dependent {
    /// An ordinary kernel.
    #[default]
    No,
    /// The next kernel may begin as soon as all blocks of this one are in place or have ended and the kernel before has, while this one's
    /// loads get under way.
    Early,
    /// The next kernel may begin when this one's stores are under way.
    Late,
    /// The next kernel may begin when this one's blocks have ended, before their stores are seen by all: what a plain launch
    /// is where the device can do it, and a dependent one where overlapping gains nothing.
    Exit,
    /// The next kernel may begin as soon as this one's blocks are in place, while they still wait for the kernel before: several
    /// small launches stand in line on the device. A next kernel that touches memory before its own wait must then leave alone what this
    /// one **or any before it** writes; those of this engine and ordinary ones touch nothing. Here too the last blocks alone say so.
    Start,
    /// [`Dependent::Early`] of this one's last blocks alone: that the others have ended counts as well, so they need not say so, which takes an
    /// H200 as long as starting another block. What a dependent launch is where nothing was measured.
    Tail,
}

impl Dependent {
    /// All.
    pub const ALL: [Self; 6] = [Self::No, Self::Early, Self::Late, Self::Exit, Self::Start, Self::Tail];

    /// As it is chosen by hand.
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

/// How a tensor that is found by coordinates goes along the fastest dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Inner {
    /// One element after the other, in aligned vectors.
    Vector,
    /// One element after the other, each by itself.
    Unit,
    /// The same element again and again.
    Splat,
    /// Any other stride.
    Any,
}

/// How a kernel finds the elements of one tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stream {
    /// Never read.
    Unused,
    /// Element i of the walk is element i of the memory, aligned to the accesses (from the head on, where there is one).
    Linear,
    /// The same, but aligned only to its element.
    Shifted,
    /// One element for all.
    Uniform,
    /// By the element's coordinates and a set of strides.
    Walked {
        /// Which set of strides; tensors with equal strides share one.
        set: u8,
        /// Along the fastest dimension.
        inner: Inner,
    },
    /// By coordinates, contiguous along the second fastest dimension: through shared memory.
    Transposed {
        /// Which set of strides.
        set: u8,
    },
}

/// All that a kernel's text depends on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KernelSpec {
    /// The expression, with plain names, raw copies as unsigned integers.
    pub graph: Graph,
    /// The kernel's shape.
    pub form: Form,
    /// How each tensor is found, inputs in order, then outputs.
    pub streams: Vec<Stream>,
    /// Elements in a row that a thread takes of each tensor at once.
    pub lanes: u32,
    /// How many such vectors of each tensor a thread has in hand at once. In [`Form::Bulk`] the iterations over a tile in shared
    /// memory, in [`Form::Transpose`] the side of a tile in vectors.
    pub unroll: u32,
    /// Threads per block.
    pub threads: u32,
    /// Cache hints.
    pub hints: Hints,
    /// [`Index::U64`]: the block's base has 64 bits, offsets inside its tile 32, so that any n will do; in forms that go by
    /// coordinates these have 64 bits. [`Index::U32`]: 32 bits throughout; the planner takes it for coordinates that fit, and on
    /// demand, to show what it saves.
    pub index: Index,
    /// How many blocks.
    pub grid: GridPolicy,
    /// How exact functions are.
    pub tier: Tier,
    /// Whether and how it overlaps with its neighbours in the stream.
    pub dependent: Dependent,
    /// While they wait for the kernel before, the first blocks ask for their inputs to come into the second-level cache. Nothing is read by
    /// it, and all writes to the device's own memory go by that cache, so it is safe whatever the kernel before writes. Inputs in memory of
    /// the host or of another device, which that one writes while the kernel before waits for it, are another matter.
    pub prefetch: bool,
    /// Elements come before the first whole tile, of which the launch tells how many.
    pub head: bool,
    /// Dimensions whose coordinates it computes; 0 for the forms that need none.
    pub rank: u32,
    /// Sets of strides.
    pub sets: u32,
    /// No vector goes across the end of a row, so the coordinates of its first element do for all.
    pub whole_rows: bool,
    /// What it is compiled for.
    pub target: Target,
}

impl KernelSpec {
    /// Elements that a block does in one iteration.
    #[must_use]
    pub fn tile(&self) -> u64 {
        u64::from(self.lanes) * u64::from(self.unroll) * u64::from(self.threads)
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

/// True where the expression is nothing but its only input, stored in a type of the same bits.
pub(super) fn is_copy(graph: &Graph) -> bool {
    matches!(graph.nodes(), [node] if matches!(node.kind, Kind::Input(_)) && node.dtype != DType::Bool
        && graph.inputs().len() == 1 && graph.outputs().len() == 1 && graph.outputs()[0].dtype == node.dtype)
}
