//! Chooses a kernel's form for given tensors, and computes the parameters that the form needs.

use plimsoll_expr::Graph;

use super::tuning::refused;
use super::{Choose, Device, PlanError, Tensors, Tuning, bulk, coordinates, runs, tiles};
use crate::Target;
use crate::elementwise::KernelSpec;
use crate::elementwise::spec::{Dependent, Form, GridPolicy, Stream, Tier};
use crate::kernel::{Hints, Index};

/// What a kernel's shape depends on.
#[derive(Clone, Copy)]
pub struct Case<'a> {
    pub graph: &'a Graph,
    pub tensors: &'a Tensors,
    pub device: &'a Device,
    pub tuning: &'a Tuning,
    pub choose: &'a Choose,
}

/// A form and everything that follows from the tensors.
#[derive(Clone, Debug)]
pub struct Shape {
    /// The form.
    pub form: Form,
    /// The reason for the form.
    pub why: String,
    /// How each tensor is addressed.
    pub streams: Vec<Stream>,
    /// Consecutive elements that a thread accesses at once.
    pub lanes: u32,
    /// Number of such vectors per thread.
    pub unroll: u32,
    /// Rows of a tile that passes through shared memory, else 0.
    pub rows: u32,
    /// Whether the tensors' rows and columns are whole numbers of such tiles.
    pub fits: [bool; 2],
    /// Elements by which rows of such tiles begin earlier at most, plus one; else 0.
    pub shear: u32,
    /// Columns of such a tile whose vectors cross the ends of rows, else 0.
    pub joined: u32,
    /// Elements along the faster dimension of such tiles' rows and columns, if these are two dimensions each, or 0.
    pub folds: [u32; 2],
    /// Threads per block.
    pub threads: u32,
    /// Elements precede the first whole tile.
    pub head: bool,
    /// Number of dimensions whose coordinates are computed.
    pub rank: u32,
    /// Number of sets of strides.
    pub sets: u32,
    /// No vector crosses the end of a row.
    pub whole_rows: bool,
    /// Few vectors cross the end of a row, and a function is applied to what is the same along rows.
    pub rare_turns: bool,
    /// If a thread's vectors are in the same columns of several rows, for each tensor whether it is an input whose rows are all the same; else
    /// empty.
    pub same_rows: Vec<bool>,
    /// Every index and offset fits into 31 bits; in tiles through shared memory, every stride.
    pub small: bool,
    /// Blocks that cover the elements.
    pub blocks: u64,
    /// The words of the form.
    pub words: Vec<u64>,
}

impl Shape {
    /// A shape of one element per thread without tensors, dimensions, tiles in shared memory, blocks and words.
    pub fn new_empty(form: Form, why: String) -> Self {
        Self {
            form,
            why,
            streams: Vec::new(),
            lanes: 1,
            unroll: 1,
            rows: 0,
            fits: [false; 2],
            shear: 0,
            joined: 0,
            folds: [0; 2],
            threads: 0,
            head: false,
            rank: 0,
            sets: 0,
            whole_rows: false,
            rare_turns: false,
            same_rows: Vec::new(),
            small: false,
            blocks: 0,
            words: Vec::new(),
        }
    }

    /// An ordinary kernel of this shape without hints.
    pub fn into_kernel(self, graph: Graph, index: Index, target: Target) -> KernelSpec {
        KernelSpec {
            graph,
            form: self.form,
            streams: self.streams,
            lanes: self.lanes,
            unroll: self.unroll,
            rows: self.rows,
            fits: self.fits,
            shear: self.shear,
            joined: self.joined,
            folds: self.folds,
            threads: self.threads,
            resident: 0,
            hints: Hints::default(),
            index,
            grid: GridPolicy::Cover,
            tier: Tier::default(),
            dependent: Dependent::No,
            prefetch: false,
            head: self.head,
            rank: self.rank,
            sets: self.sets,
            whole_rows: self.whole_rows,
            rare_turns: self.rare_turns,
            same_rows: self.same_rows,
            batched: None,
            target,
        }
    }
}

/// Most bytes of inputs that a thread holds at once: half of its registers.
const MOST_HELD: u32 = 512;
/// Most operations unrolled for one thread, so that compiling doesn't take seconds.
const MOST_STATEMENTS: usize = 4096;

/// Most elements per thread whose operations are unrolled.
pub fn most_statements(graph: &Graph) -> u32 {
    // A body with more nodes is a function, called once per element.
    let statements = if graph.nodes().len() > 512 { 256 } else { graph.nodes().len() };
    (MOST_STATEMENTS / statements.max(1)) as u32
}

/// Most elements that a thread holds at once.
pub fn most_elements(graph: &Graph, tensors: &Tensors) -> u32 {
    let held: u32 = tensors.moving().filter(|tensor| !tensor.output).map(|tensor| tensor.bytes.max(2)).sum();
    (MOST_HELD / held.max(1)).min(most_statements(graph)).max(1)
}

/// Lanes and vectors as tuned, as far as registers and the compiler allow.
pub fn lanes_and_unroll(graph: &Graph, tensors: &Tensors, tuning: &Tuning, choose: &Choose) -> (u32, u32) {
    let most = most_elements(graph, tensors);
    let mut lanes = (tuning.vector / tensors.narrowest()).max(1);
    if choose.vector.is_none() {
        while lanes > most {
            lanes /= 2;
        }
    }
    let mut unroll = tuning.unroll;
    if choose.unroll.is_none() {
        unroll = unroll.min(most / lanes).max(1);
    }
    (lanes, unroll)
}

/// Most vectors per thread, and most bytes that it reads, by which a launch is made to fit on the device at once.
const MOST_AT_ONCE: u32 = 4;
const MOST_READ: u32 = 64;

/// Vectors per thread: so many that all blocks fit on the device at once, if at most four suffice for that. It is for launches without overlap,
/// with one input from memory and no heavy work.
///
/// Blocks of a second wave begin late and are few: with 1.2, 1.6 and 1.9 waves, `x*2` of f32 took an H200 3.88, 4.64 and 5.25 µs, and
/// 3.71, 4.37 and 4.85 with two vectors per thread; 6,000,000 bytes to bf16 took 5.72 µs in 1.4 waves and 5.14 with four. Where the launch
/// still doesn't fit, more vectors gain nothing (3,000,000 f32: 6.96 µs in 2.8 waves and 7.13 in 1.4), nor with several inputs
/// (`silu(x)*y` of 1,500,000 f32: 5.44 and 5.65).
pub fn unroll_at_once(case: &Case<'_>, lanes: u32, unroll: u32) -> u32 {
    let Case { graph, tensors, device, tuning, choose } = case;
    let overlaps = !matches!(tuning.dependent, Dependent::No | Dependent::Exit);
    if overlaps || choose.unroll.is_some() || tuning.heavy || tensors.streamed_inputs() != 1 {
        return unroll;
    }
    let inputs = tensors.moving().filter(|tensor| !tensor.output && !tensors.comes_from_cache(tensor));
    let read = inputs.map(|tensor| tensor.bytes).sum::<u32>().max(1) * lanes;
    let most = MOST_AT_ONCE.min(MOST_READ / read).min(most_elements(graph, tensors) / lanes);
    let at_once = device.wave(tuning.threads) * u64::from(tuning.threads * lanes);
    let mut candidates =
        std::iter::successors(Some(unroll), |unroll| Some(unroll * 2)).take_while(|unroll| *unroll <= most);
    candidates.find(|unroll| tensors.elements <= at_once * u64::from(*unroll)).unwrap_or(unroll)
}

impl Shape {
    /// Whether the form can prefetch its inputs: a block's tile is contiguous and aligned in every input that isn't broadcast.
    pub fn takes_prefetch(&self) -> bool {
        matches!(self.form, Form::Flat | Form::Peel | Form::Bulk) && !self.streams.contains(&Stream::Shifted)
    }

    /// Chooses the form for these tensors.
    ///
    /// # Errors
    /// If a forced form isn't possible.
    pub fn new(case: Case<'_>) -> Result<Self, PlanError> {
        let Case { graph, tensors, device, tuning, choose } = case;
        let coordinates = graph.least_rank() > 0 && tensors.extents.len() > 1;
        let flat = tensors.flat() && !coordinates;
        let transposed = || tiles::transpose(graph, tensors, device, choose, tuning.heavy);
        let direct = || match flat {
            true => runs::shape(case),
            false => coordinates::shape(case, None),
        };
        match choose.form {
            Some(Form::Batch) => Err(refused("form", "batch", "it is for many sets of tensors")),
            Some(form @ (Form::Rows | Form::Strided)) => coordinates::shape(case, Some(form)),
            Some(Form::Transpose) => transposed()
                .ok_or_else(|| refused("form", "transpose", "no input is transposed relative to the outputs")),
            Some(Form::Bulk) if coordinates => Err(refused("form", "bulk", "the expression uses coordinates")),
            Some(Form::Bulk) => bulk::shape(case),
            Some(form) if !flat => Err(refused("form", form.name(), "a tensor is broadcast, pitched or strided")),
            Some(form) => {
                let shape = runs::shape(case)?;
                let why = format!("the addresses require {}", shape.form.name());
                if shape.form == form { Ok(shape) } else { Err(refused("form", form.name(), &why)) }
            }
            None => match (!flat).then(transposed).flatten() {
                Some(shape) => Ok(shape),
                None if tuning.form == Form::Bulk && !coordinates => bulk::shape(case),
                None => direct(),
            },
        }
    }
}
