//! Which kernel an expression takes on given tensors, and why: pure, and tested without a GPU.

mod batch;
mod bulk;
mod candidates;
mod coordinates;
mod division;
mod runs;
mod shape;
mod tensors;
mod tiles;
mod tuning;
mod walk;

use plimsoll_core::model::Prediction;
use plimsoll_core::unit::Unit;
use plimsoll_expr::{Builder, DType, ExprError, Graph, LayoutError};

use self::shape::Shape;
use self::tensors::{Tensor, Tensors};
use self::tuning::Tuning;
use super::geometry::{Geometry, geometry};
use super::spec::{Dependent, Form, GridPolicy, KernelSpec, Tier, element_bytes, is_copy};
use super::table::Table;
use crate::Target;
use crate::kernel::{Hints, Index};

pub use batch::{batch_capacity, plan_batch};
pub use candidates::candidates;
pub use walk::{Access, Walk};

/// Most resident blocks of a multiprocessor: compute capability 7.0, 8.0, 9.0 and 10.0 (CUDA C++ Programming Guide, table of compute
/// capabilities); others have fewer.
pub(crate) const MOST_RESIDENT: u32 = 32;

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
}

impl Device {
    /// Blocks of so many threads that one multiprocessor holds at once, at most: by threads alone.
    #[must_use]
    pub fn resident(&self, threads: u32) -> u32 {
        (self.threads_per_multiprocessor / threads.max(1)).clamp(1, MOST_RESIDENT)
    }

    /// The same of the whole device.
    #[must_use]
    pub fn wave(&self, threads: u32) -> u64 {
        u64::from(self.multiprocessors.max(1)) * u64::from(self.resident(threads))
    }
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
    /// The tensors' data are in the second-level cache, as where the kernel before has just written them.
    pub cached: bool,
    /// When the next kernel may begin. Plain launches have [`Dependent::No`] or [`Dependent::Exit`], `dependent` ones any but
    /// the former.
    pub release: Option<Dependent>,
    /// Blocks ask for their inputs to come into the second-level cache while they wait for the kernel before. By default those of
    /// short `dependent` launches do, whose data aren't `cached`.
    pub prefetch: Option<bool>,
}

/// One choice with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// What was chosen: `form`, `vector`, `unroll`, `threads`, `hints`, `index`, `grid`, `dependent`, `prefetch`; `time` is what the model
    /// expects of all of them.
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
    /// Bytes, a power of two.
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

    /// The same with what the model expects of it among its reasons. It chooses nothing: where no table was measured, plans chosen
    /// by predicted times were no better than those of the rule (docs/model.md).
    #[must_use]
    pub fn expecting(mut self, prediction: &Prediction) -> Self {
        let chosen = prediction.total.map_or("unknown".to_owned(), |total| Unit::Second.format(total.value));
        let limiter = prediction.limiter.map_or("nothing that is known".to_owned(), |kind| kind.to_string());
        self.reasons.push(Reason { what: "time", chosen, why: format!("as the model expects, limited by {limiter}") });
        self
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
    /// More sets of tensors than the parameters of one launch can name.
    #[error("{sets} sets of tensors, where one launch takes {most}: use several launches")]
    Sets {
        /// Sets given.
        sets: usize,
        /// Most of them.
        most: usize,
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
pub fn plan(graph: &Graph, walk: &Walk, device: &Device, table: &Table, choose: &Choose) -> Result<Plan, PlanError> {
    let graph = graph.with_plain_names().with_raw_copies();
    let expected = graph.inputs().len() + graph.outputs().len();
    if walk.accesses.len() != expected {
        let scalars = graph.scalars().len();
        return Err(PlanError::Count { tensors: expected, scalars, given: (walk.accesses.len(), scalars) });
    }
    walk.check(&element_bytes(&graph))?;
    let tensors = Tensors::new(&graph, walk);
    if tensors.elements == 0 {
        return Err(PlanError::Empty);
    }
    let with = |takes_bulk| -> Result<_, PlanError> {
        let tuning = Tuning::new(&graph, &tensors, device, table, choose, takes_bulk)?;
        let (graph, tensors) = narrowed(graph.clone(), tensors.clone(), tuning.vector);
        let shape = Shape::new(&graph, &tensors, device, &tuning, choose);
        Ok((graph, tuning, shape))
    };
    let (graph, tuning, shape) = match with(true)? {
        // What was found for bulk copies is for nothing else, so where a tile can't be had there is another plan.
        (_, tuning, Err(PlanError::Choice { .. })) if choose.form.is_none() && tuning.form == Form::Bulk => {
            with(false)?
        }
        planned => planned,
    };
    finish(graph, walk, device, choose, tuning, shape?)
}

/// A copy of runs whose accesses are to be narrower than its elements, as a copy of more and narrower ones.
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

/// The plan of a shape.
fn finish(
    graph: Graph,
    walk: &Walk,
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
    let (index, why) = index(choose, &shape)?;
    let scalars = graph.scalars().len();
    let dependent = if device.target.capability >= 90 { tuning.dependent } else { Dependent::No };
    let first_wave = prefetch(choose, &tuning, &shape, device)?.then(|| device.wave(shape.threads));
    // Behind the three words that all forms with one have.
    if let Some(first_wave) = first_wave {
        shape.words.insert(3, first_wave);
    }
    let words = walk.accesses.len() + scalars + shape.words.len();
    if shape.form != Form::Batch && words > super::MOST_WORDS {
        return Err(PlanError::Words { words });
    }
    let spec = KernelSpec {
        graph,
        form: shape.form,
        streams: shape.streams,
        lanes: shape.lanes,
        unroll: shape.unroll,
        threads: shape.threads,
        hints: tuning.hints,
        index,
        grid,
        tier: choose.tier,
        dependent,
        prefetch: first_wave.is_some(),
        head: shape.head,
        rank: shape.rank,
        sets: shape.sets,
        whole_rows: shape.whole_rows,
        target: device.target,
    };
    let geometry = geometry(&spec, shape.blocks, device)?;
    let mut reasons = vec![Reason { what: "form", chosen: shape.form.name().to_owned(), why: shape.why }];
    reasons.extend(tuning.reasons.into_iter().map(|reason| settled(reason, &spec)));
    reasons.push(Reason { what: "index", chosen: format!("{} bits", if index == Index::U32 { 32 } else { 64 }), why });
    let asked = if choose.grid.is_some() { "asked for" } else { "one-shot grids in block order are the fastest" };
    reasons.push(Reason { what: "grid", chosen: format!("{} blocks", geometry.blocks), why: asked.to_owned() });
    if let Some(first_wave) = first_wave {
        let why = "they may wait for the kernel before, and ask for their inputs meanwhile".to_owned();
        reasons.push(Reason { what: "prefetch", chosen: format!("the first {first_wave} blocks"), why });
    }
    Ok(Plan {
        elements: walk.elements(),
        geometry,
        phases: walk.accesses.iter().map(|access| access.phase).collect(),
        alignment: walk::ALIGNMENT,
        scalars,
        form_words: shape.words,
        reasons,
        spec,
    })
}

/// Whether blocks ask for their inputs while they wait.
fn prefetch(choose: &Choose, tuning: &Tuning, shape: &Shape, device: &Device) -> Result<bool, PlanError> {
    let no = |why| if choose.prefetch == Some(true) { Err(tuning::refused("prefetch", "yes", why)) } else { Ok(false) };
    if device.target.capability < 90 {
        return no("it needs compute capability 9.0");
    }
    if tuning.dependent == Dependent::No {
        return no("the blocks of an ordinary launch have nothing to wait for");
    }
    if !shape.takes_prefetch() {
        return no("a block's inputs are not one aligned run each");
    }
    Ok(tuning.prefetch)
}

/// What a tuned choice became where tensors or registers didn't allow it.
fn settled(reason: Reason, spec: &KernelSpec) -> Reason {
    let chosen = match reason.what {
        "hints" => return Reason { chosen: described(spec), ..reason },
        "vector" => format!("{} elements", spec.lanes),
        "unroll" => spec.unroll.to_string(),
        "threads" => spec.threads.to_string(),
        _ => return reason,
    };
    if reason.what == "vector" || chosen == reason.chosen {
        let why = if reason.what == "vector" { format!("{}: {}", reason.chosen, reason.why) } else { reason.why };
        return Reason { what: reason.what, chosen, why };
    }
    let why = format!("{} would be ({}), but the tensors or the registers ask for this", reason.chosen, reason.why);
    Reason { what: reason.what, chosen, why }
}

/// The hints in words. Bulk copies leave nothing in the first level anyway.
fn described(spec: &KernelSpec) -> String {
    let bulk = "what is read stays in the second level until the last tiles";
    let loads = if spec.form == Form::Bulk { bulk } else { "loads leave no line in the first level" };
    match (spec.hints.load_no_allocate, spec.hints.store_streaming) {
        (false, false) => "none".to_owned(),
        (true, false) => loads.to_owned(),
        (false, true) => "streaming stores".to_owned(),
        (true, true) => format!("{loads}, streaming stores"),
    }
}

fn index(choose: &Choose, shape: &Shape) -> Result<(Index, String), PlanError> {
    let by_coordinates = shape.rank > 0;
    match choose.index {
        Some(Index::U32) if !shape.small => {
            Err(tuning::refused("index", "32", "places or offsets don't fit into 31 bits"))
        }
        Some(index) => Ok((index, "asked for".to_owned())),
        None if by_coordinates && shape.small => {
            Ok((Index::U32, "every place and offset fits, and divisions are shorter".to_owned()))
        }
        None => Ok((Index::U64, "the base of a block; offsets inside its tile have 32".to_owned())),
    }
}

#[cfg(test)]
mod tests;
