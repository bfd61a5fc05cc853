//! Chooses the kernel for an expression on given tensors, with reasons. No side effects; tested without a GPU.

mod alternatives;
pub(super) mod batch;
mod bulk;
mod candidates;
mod coordinates;
mod cost;
mod dense;
mod division;
mod fold;
mod indexing;
pub mod joined;
mod reasons;
mod residency;
mod runs;
mod shape;
mod shared;
mod shear;
mod stacked;
mod tensors;
mod tile_size;
mod tiles;
mod tuning;

use plimsoll_core::model::Prediction;
use plimsoll_core::unit::Unit;
use plimsoll_expr::{Builder, DType, ExprError, Graph, LayoutError};

use self::shape::{Case, Shape};
use self::tensors::{Tensor, Tensors};
use self::tuning::Tuning;
use super::accuracy::meaning;
use super::geometry::{Geometry, geometry};
use super::spec::{Dependent, Form, GridPolicy, KernelSpec, Tier, element_bytes, is_copy};
use super::table::{Class, Table};
use super::weight::Weight;
use crate::Target;
use crate::kernel::{Hints, Index};

pub use alternatives::{Alternative, MOST_ALTERNATIVES, alternatives};
pub use batch::{BatchPlan, Sets, plan_batch};
pub use candidates::candidates;
pub use indexing::{Access, Indexing};

/// Most resident blocks per SM of any device.
pub(crate) const MOST_RESIDENT: u32 = 32;

/// Most resident blocks per SM by compute capability times ten (CUDA C++ Programming Guide, technical specifications per compute
/// capability).
const fn most_resident(capability: u32) -> u32 {
    match capability {
        75 | 86 | 87 => 16,
        89 | 110..130 => 24,
        _ => MOST_RESIDENT,
    }
}

/// The properties of a device that a plan depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Device {
    /// The compilation target.
    pub target: Target,
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Most resident threads per SM.
    pub threads_per_multiprocessor: u32,
    /// Size of L2, bytes.
    pub l2_bytes: u64,
}

impl Device {
    /// Most resident blocks of this many threads per SM, as limited by threads and by the number of blocks.
    #[must_use]
    pub fn resident(&self, threads: u32) -> u32 {
        (self.threads_per_multiprocessor / threads.max(1)).clamp(1, most_resident(self.target.capability))
    }

    /// Most resident blocks of this many threads on the whole device.
    #[must_use]
    pub fn wave(&self, threads: u32) -> u64 {
        u64::from(self.multiprocessors.max(1)) * u64::from(self.resident(threads))
    }
}

/// The choices that a user or a sweep forces; the planner makes the others.
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
    /// Accuracy of functions.
    pub tier: Tier,
    /// The launch may overlap with its neighbours in the stream.
    pub dependent: bool,
    /// The tensors' data are in L2, for example because the previous kernel has just written them.
    pub cached: bool,
    /// When the next kernel may begin. Plain launches allow [`Dependent::No`] and [`Dependent::Exit`], `dependent` ones all
    /// except [`Dependent::No`].
    pub release: Option<Dependent>,
    /// Blocks prefetch their inputs into L2 while they wait for the previous kernel. The default for short `dependent` launches
    /// whose data aren't `cached`.
    pub prefetch: Option<bool>,
    /// Blocks that must fit on an SM at once, so that the compiler may use the registers of fewer; 0 leaves it to the compiler.
    pub resident: Option<u32>,
}

/// One choice with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// The choice: `form`, `vector`, `unroll`, `threads`, `hints`, `index`, `grid`, `resident`, `dependent`, `prefetch`,
    /// `table`; `time` is the model's prediction for the whole plan.
    pub what: &'static str,
    /// The chosen value.
    pub chosen: String,
    /// Why.
    pub why: String,
}

/// A kernel for given tensors, with everything its launches need except addresses and scalars.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The kernel.
    pub spec: KernelSpec,
    /// Every choice with its reason.
    pub reasons: Vec<Reason>,
    /// Number of elements computed.
    pub elements: u64,
    /// Blocks, threads, shared memory.
    pub(super) geometry: Geometry,
    /// Required addresses modulo `alignment`.
    pub(super) phases: Vec<u32>,
    /// Bytes, a power of two.
    pub(super) alignment: u32,
    /// Number of scalars.
    pub(super) scalars: usize,
    /// The words of the parameter block after addresses and scalars.
    pub(super) form_words: Vec<u64>,
}

impl Plan {
    /// Blocks, threads and shared memory.
    #[must_use]
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// The same plan with the model's prediction added to its reasons. The prediction doesn't affect any choice: without a
    /// measured table, plans chosen by predicted times were no better than those of the rule (docs/model.md).
    #[must_use]
    pub fn with_prediction(mut self, prediction: &Prediction) -> Self {
        let chosen = prediction.total.map_or("unknown".to_owned(), |total| Unit::Second.format(total.value));
        let limiter = prediction.limiter.map_or("an unknown limiter".to_owned(), |kind| kind.to_string());
        self.reasons.push(Reason {
            what: "time",
            chosen,
            why: format!("predicted by the model, limited by {limiter}"),
        });
        self
    }
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// No elements.
    #[error("there are no elements, so there is nothing to launch")]
    Empty,
    /// Incompatible tensors.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// Wrong number of tensors or scalars.
    #[error("got {} tensors and {} scalars, but the expression has {tensors} and {scalars}", given.0, given.1)]
    Count {
        /// Inputs and outputs of the expression.
        tensors: usize,
        /// Scalars of the expression.
        scalars: usize,
        /// Tensors and scalars passed.
        given: (usize, usize),
    },
    /// An address that isn't a multiple of its element's size.
    #[error("tensor {tensor} starts at {start:#x}, which is not a multiple of its element size of {bytes} bytes")]
    Misaligned {
        /// Index among inputs, then outputs.
        tensor: usize,
        /// Its address.
        start: u64,
        /// Bytes of an element.
        bytes: u32,
    },
    /// An address with another alignment than planned.
    #[error("tensor {tensor} starts at {start:#x}, which is not {phase} modulo {alignment} as planned: plan again")]
    Phase {
        /// Index among inputs, then outputs.
        tensor: usize,
        /// Its address.
        start: u64,
        /// The planned address modulo `alignment`.
        phase: u32,
        /// Bytes.
        alignment: u32,
    },
    /// A forced choice that is impossible for this expression, these tensors or this device.
    #[error("{what} {chosen} is not possible: {why}")]
    Choice {
        /// Which choice.
        what: &'static str,
        /// The forced value.
        chosen: String,
        /// Why it is impossible.
        why: String,
    },
    /// More parameters than a launch can take.
    #[error(
        "the kernel needs {words} words of parameters, but at most {} fit: use fewer tensors or dimensions",
        super::MOST_WORDS
    )]
    Words {
        /// Words needed.
        words: usize,
    },
    /// More sets of tensors than one launch can find.
    #[error("{sets} sets of tensors, but one launch takes at most {most}: use several batches")]
    Sets {
        /// Sets passed.
        sets: usize,
        /// Most sets per launch.
        most: usize,
    },
    /// More blocks than a grid may have.
    #[error("{blocks} blocks, but a grid has at most 2^31 - 1: use wider vectors or larger blocks")]
    Blocks {
        /// Blocks needed.
        blocks: u64,
    },
}

/// Plans the kernel for `graph` on the tensors of `indexing`.
///
/// # Errors
/// If there are no elements, the tensors don't match the expression, or a forced choice is impossible.
pub fn plan(
    graph: &Graph,
    indexing: &Indexing,
    device: &Device,
    table: &Table,
    choose: &Choose,
) -> Result<Plan, PlanError> {
    Prepared::new(graph, indexing, (device, table), choose.tier)?.plan(choose)
}

/// An expression on given tensors and a device, ready to be planned with any choices of one tier.
struct Prepared<'a> {
    graph: Graph,
    indexing: &'a Indexing,
    tensors: Tensors,
    device: &'a Device,
    table: &'a Table,
    class: Option<(Class, Weight)>,
}

impl<'a> Prepared<'a> {
    /// Checks the tensors.
    fn new(
        graph: &Graph,
        indexing: &'a Indexing,
        (device, table): (&'a Device, &'a Table),
        tier: Tier,
    ) -> Result<Self, PlanError> {
        let graph = meaning(graph, tier).with_plain_names().with_raw_copies();
        let expected = graph.inputs().len() + graph.outputs().len();
        if indexing.accesses.len() != expected {
            let scalars = graph.scalars().len();
            return Err(PlanError::Count { tensors: expected, scalars, given: (indexing.accesses.len(), scalars) });
        }
        indexing.check(&element_bytes(&graph))?;
        let tensors = Tensors::new(&graph, indexing);
        if tensors.elements == 0 {
            return Err(PlanError::Empty);
        }
        let class = Tuning::classify(&graph, table, tier);
        Ok(Self { graph, indexing, tensors, device, table, class })
    }

    fn plan(&self, choose: &Choose) -> Result<Plan, PlanError> {
        let Self { graph, indexing, tensors, device, table, class } = self;
        let try_plan = |takes_bulk| -> Result<_, PlanError> {
            let tuning = Tuning::new(graph, tensors, device, (table, *class), choose, takes_bulk)?;
            let (graph, tensors) = narrowed(graph.clone(), tensors.clone(), tuning.vector);
            let shape = Shape::new(Case { graph: &graph, tensors: &tensors, device, tuning: &tuning, choose });
            Ok((graph, tuning, shape))
        };
        let (graph, tuning, shape) = match try_plan(true)? {
            // Tuning for bulk copies doesn't suit other forms, so if its tile is impossible, tune again without them.
            (_, tuning, Err(PlanError::Choice { .. })) if choose.form.is_none() && tuning.form == Form::Bulk => {
                try_plan(false)?
            }
            planned => planned,
        };
        finish(graph, indexing, device, choose, tuning, shape?)
    }
}

/// Turns a contiguous copy whose accesses are narrower than its elements into a copy of more, narrower elements.
fn narrowed(graph: Graph, tensors: Tensors, vector: u32) -> (Graph, Tensors) {
    let bytes = tensors.narrowest();
    if vector >= bytes || !is_copy(&graph) || !tensors.flat() || tensors.moving().count() < 2 {
        return (graph, tensors);
    }
    let dtype = match vector {
        1 => DType::U8,
        2 => DType::U16,
        _ => DType::U32,
    };
    let Ok(copy) = copy_of(dtype) else { return (graph, tensors) };
    let times = u64::from(bytes / vector);
    let elements = tensors.elements * times;
    let all = tensors.all.into_iter().map(|tensor| Tensor { bytes: vector, strides: vec![1], ..tensor }).collect();
    (copy, Tensors { all, extents: vec![elements], elements })
}

/// `y0 = x0`.
fn copy_of(dtype: DType) -> Result<Graph, ExprError> {
    let mut builder = Builder::new();
    let x = builder.input("x0", dtype)?;
    builder.output("y0", x, None)?;
    builder.finish()
}

/// Builds the plan from its shape.
fn finish(
    graph: Graph,
    indexing: &Indexing,
    device: &Device,
    choose: &Choose,
    tuning: Tuning,
    mut shape: Shape,
) -> Result<Plan, PlanError> {
    let grid = choose.grid.unwrap_or_default();
    if grid != GridPolicy::Cover && !matches!(shape.form, Form::Flat | Form::Peel | Form::Phased) {
        let why = format!("{} kernels have no loop over tiles", shape.form.name());
        return Err(tuning::refused("grid", "stride", &why));
    }
    let (index, why) = choose_index(choose, &shape)?;
    let scalars = graph.scalars().len();
    let may_choose = choose.dependent && choose.release.is_none();
    let dependent = match tuning.dependent {
        _ if device.target.capability < 90 => Dependent::No,
        _ if may_choose
            && gains_nothing_from_overlap(&Tensors::new(&graph, indexing), &shape, device, tuning.heavy) =>
        {
            Dependent::Exit
        }
        chosen => chosen,
    };
    let first_wave = choose_prefetch(choose, &tuning, &shape, device)?.then(|| device.wave(shape.threads));
    // After the three words that all forms with a prefetch begin with.
    if let Some(first_wave) = first_wave {
        shape.words.insert(3, first_wave);
    }
    let words = indexing.accesses.len() + scalars + shape.words.len();
    if words > super::MOST_WORDS {
        return Err(PlanError::Words { words });
    }
    let (why_form, form_words) = (std::mem::take(&mut shape.why), std::mem::take(&mut shape.words));
    let blocks = shape.blocks;
    let mut spec = KernelSpec {
        hints: choose.hints.unwrap_or_else(|| tuning.hints_of_form(shape.form)),
        grid,
        tier: choose.tier,
        dependent,
        prefetch: first_wave.is_some(),
        ..shape.into_kernel(graph, index, device.target)
    };
    spec.resident = match choose.resident {
        Some(forced) => residency::check_forced(forced, spec.threads, device)?,
        None if tuning.measured => 0,
        None => residency::resident(&spec, blocks, device),
    };
    let geometry = geometry(&spec, blocks, device)?;
    let reasons = reasons::explain_plan(&spec, geometry.blocks, choose, tuning.reasons, [&why_form, &why], first_wave);
    Ok(Plan {
        elements: indexing.elements(),
        geometry,
        phases: indexing.accesses.iter().map(|access| access.phase).collect(),
        alignment: indexing::ALIGNMENT,
        scalars,
        form_words,
        reasons,
        spec,
    })
}

/// Whether a launch that isn't flat should not overlap the next one: it is large, or the device has hardly room for the blocks of two.
///
/// Tiles: if all of one launch fit at once, SMs that get more blocks than others hold up the rest (12 MiB took an H200 7.1 µs instead of
/// 5.5). By coordinates, it matters for vectors that cross the ends of rows, of several inputs from memory: with four and five blocks per
/// SM, three shapes took 2.9, 3.4 and 3.4 µs overlapped, and 2.5, 3.2 and 3.1 without. Three with one input took 2.7, 3.0 and 3.1 µs
/// overlapped, and 3.1, 3.0 and 3.4 without. There, heavy work also takes longer on SMs that get more blocks than others, unless the blocks of
/// one launch leave hardly any room: with 3.9, 4.5, 5.4 and 7.2 blocks per SM, four expressions took 5.9, 4.5, 4.8 and 3.1 µs overlapped, and 5.2, 3.8, 4.3 and 3.4
/// without.
fn gains_nothing_from_overlap(tensors: &Tensors, shape: &Shape, device: &Device, heavy: bool) -> bool {
    let room = device.wave(shape.threads);
    let large = tuning::is_large(tensors, device);
    let crowded = shape.blocks > room * 3 / 8;
    let unbalanced = heavy && tuning::unbalances(shape.blocks, room);
    match shape.form {
        Form::Rows => large || crowded && !shape.whole_rows && tensors.streamed_inputs() > 1 || unbalanced,
        Form::Strided => large || unbalanced,
        Form::Transpose => large || crowded && shape.blocks <= room,
        _ => false,
    }
}

/// Whether blocks prefetch their inputs while they wait.
fn choose_prefetch(choose: &Choose, tuning: &Tuning, shape: &Shape, device: &Device) -> Result<bool, PlanError> {
    let no = |why| if choose.prefetch == Some(true) { Err(tuning::refused("prefetch", "yes", why)) } else { Ok(false) };
    if device.target.capability < 90 {
        return no("it needs compute capability 9.0");
    }
    if tuning.dependent == Dependent::No {
        return no("the blocks of an ordinary launch have nothing to wait for");
    }
    if !shape.takes_prefetch() {
        return no("a block's part of some input is not contiguous and aligned");
    }
    Ok(tuning.prefetch)
}

fn choose_index(choose: &Choose, shape: &Shape) -> Result<(Index, String), PlanError> {
    let by_coordinates = shape.rank > 0;
    match choose.index {
        Some(Index::U32) if !shape.small => {
            Err(tuning::refused("index", "32", "indices or offsets don't fit into 31 bits"))
        }
        Some(index) => Ok((index, "requested".to_owned())),
        None if by_coordinates && shape.small => {
            Ok((Index::U32, "all indices and offsets fit, and divisions are shorter".to_owned()))
        }
        None => Ok((Index::U64, "for the base of a block; offsets inside its tile have 32".to_owned())),
    }
}

#[cfg(test)]
mod tests;
