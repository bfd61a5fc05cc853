//! Which kernel an expression takes on given tensors, and why: pure, and tested without a GPU.

mod walk;

use plimsoll_expr::{Graph, LayoutError};

use super::geometry::Geometry;
use super::spec::{Dependent, Form, GridPolicy, KernelSpec, Tier};
use super::table::Table;
use crate::Target;
use crate::kernel::{Hints, Index};

pub use walk::{Access, Walk};

/// What a plan depends on of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Device {
    /// What kernels are compiled for.
    pub target: Target,
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// Most resident threads of one.
    pub threads_per_multiprocessor: u32,
    /// Size of the second-level cache, bytes.
    pub l2_bytes: u64,
    /// Most shared memory of one block without asking for more, bytes: 48 KiB everywhere.
    pub shared_per_block: u32,
}

/// What a user or a sweep forces; the rest is the planner's choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Choose {
    /// The kernel's shape.
    pub form: Option<Form>,
    /// Bytes per access of the narrowest tensor: a power of two. Less than an element is possible for pure copies.
    pub vector: Option<u32>,
    /// Accesses per tensor and thread.
    pub unroll: Option<u32>,
    /// Threads per block: a multiple of 32 up to 1024.
    pub threads: Option<u32>,
    /// Cache hints.
    pub hints: Option<Hints>,
    /// Width of the indices.
    pub index: Option<Index>,
    /// How many blocks.
    pub grid: Option<GridPolicy>,
    /// How exact functions are.
    pub tier: Tier,
    /// The launch may overlap with its neighbours in the stream.
    pub dependent: bool,
    /// When the next kernel may begin, where `dependent`; [`Dependent::No`] is taken as no choice.
    pub release: Option<Dependent>,
}

/// One choice with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// What was chosen: `form`, `vector`, `unroll`, `threads`, `hints`, `index`, `grid`, `dependent`.
    pub what: &'static str,
    /// What it became.
    pub chosen: String,
    /// Why.
    pub why: String,
}

/// A kernel for given tensors, with all that its launches need but addresses and scalars.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The kernel.
    pub spec: KernelSpec,
    /// Every choice.
    pub reasons: Vec<Reason>,
    /// Elements that are computed.
    pub elements: u64,
    /// Blocks, threads, shared memory.
    pub(super) geometry: Geometry,
    /// Addresses modulo `alignment` that the plan is for.
    pub(super) phases: Vec<u32>,
    /// Bytes.
    pub(super) alignment: u32,
    /// How many scalars.
    pub(super) scalars: usize,
    /// The parameter block behind addresses and scalars.
    pub(super) form_words: Vec<u64>,
}

impl Plan {
    /// Blocks, threads and shared memory.
    #[must_use]
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// Nothing to do.
    #[error("there are no elements, so there is no launch")]
    Empty,
    /// Tensors that don't go together.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// Not as many tensors or scalars as the expression has.
    #[error("{} tensors and {} scalars given, where the expression has {tensors} and {scalars}", given.0, given.1)]
    Count {
        /// Inputs and outputs of the expression.
        tensors: usize,
        /// Its scalars.
        scalars: usize,
        /// Tensors and scalars given.
        given: (usize, usize),
    },
    /// An address that isn't a multiple of its element's size.
    #[error("tensor {tensor} starts at {start:#x}, which is no multiple of its element's {bytes} bytes")]
    Misaligned {
        /// Place among inputs, then outputs.
        tensor: usize,
        /// Its address.
        start: u64,
        /// Bytes of an element.
        bytes: u32,
    },
    /// An address that isn't what the plan was made for.
    #[error("tensor {tensor} starts at {start:#x}, which is not {phase} modulo {alignment} as planned: plan again")]
    Phase {
        /// Place among inputs, then outputs.
        tensor: usize,
        /// Its address.
        start: u64,
        /// What it should be, modulo `alignment`.
        phase: u32,
        /// Bytes.
        alignment: u32,
    },
    /// A choice that this expression, these tensors or this device can't have.
    #[error("{what} {chosen} is not possible: {why}")]
    Choice {
        /// Which choice.
        what: &'static str,
        /// As given.
        chosen: String,
        /// Why it can't be.
        why: String,
    },
    /// More parameters than a launch can take.
    #[error(
        "the kernel needs {words} words of parameters, where {} fit: use fewer tensors or dimensions",
        super::MOST_WORDS
    )]
    Words {
        /// Words needed.
        words: usize,
    },
    /// More blocks than a grid may have.
    #[error("{blocks} blocks, where a grid has at most 2^31 - 1: use wider vectors or larger blocks")]
    Blocks {
        /// Blocks needed.
        blocks: u64,
    },
}

/// The kernel for `graph` on the tensors of `walk`.
///
/// # Errors
/// If there is nothing to do, or a choice can't be.
pub fn plan(
    _graph: &Graph,
    _walk: &Walk,
    _device: &Device,
    _table: &Table,
    _choose: &Choose,
) -> Result<Plan, PlanError> {
    Err(PlanError::Empty)
}

/// One kernel for many sets of contiguous tensors of one expression: set k has `lengths[k]` elements, and its tensors' first
/// elements are at `starts[k × tensors ..]`. [`Plan::words`] takes the addresses in the same order.
///
/// # Errors
/// As [`plan`]; [`PlanError::Words`] where the sets are too many for one launch.
pub fn plan_batch(
    _graph: &Graph,
    _lengths: &[u64],
    _starts: &[u64],
    _device: &Device,
    _table: &Table,
    _choose: &Choose,
) -> Result<Plan, PlanError> {
    Err(PlanError::Empty)
}

/// Choices for a sweep to try on contiguous, aligned tensors.
#[must_use]
pub fn candidates(_graph: &Graph, _device: &Device, _dependent: bool) -> Vec<Choose> {
    Vec::new()
}
