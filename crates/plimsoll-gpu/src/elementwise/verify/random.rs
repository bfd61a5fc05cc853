//! Random typed expressions whose results are exactly defined, over sizes and layouts that use every form of kernel.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use plimsoll_core::Fault;
use plimsoll_core::probe::{Case, Depth};
use plimsoll_core::stats::Rng;
use plimsoll_expr::function::mix;
use plimsoll_expr::graph::Kind;
use plimsoll_expr::op::Binary;
use plimsoll_expr::oracle::{Element, Precision, evaluate};
use plimsoll_expr::random::{self, Expressions, Operations};
use plimsoll_expr::{DType, Graph, Layout, LayoutError, Names, Node, Space, Value, parse};
use plimsoll_gen::elementwise::accuracy::{is_exact, meaning};
use plimsoll_gen::elementwise::body::catalogue::{integer_idioms, small_extremes};
use plimsoll_gen::elementwise::{Choose, Form, KernelSpec, Plan, Tier};
use plimsoll_gen::kernel::{Hints, Index};

use super::arena::{SEED, Tensor};
use crate::elementwise::{Elementwise, Engine, Error, Expression, Operand};

/// Tensors of up to this many elements are checked completely; of larger ones the first, the last and some between.
const CHECK_ALL: u64 = 1100;
/// About how many between.
const SAMPLES: u64 = 400;

/// Number of expressions drawn before their tensors.
const DRAWN: usize = 8;
/// Kernels are compiled together for at least this many cases: one kernel in a hundred takes a hundred times as long as the others
/// (many quotients of f64 in one thread), and in small groups everything else would wait for it.
const PREPARED: usize = 640;

/// Checks random expressions, each on tensors of several kinds.
pub(super) fn run<G: Elementwise>(
    stream: &Arc<G::Stream>,
    engine: &Engine<G>,
    depth: Depth,
    report: &mut dyn FnMut(Case),
) -> Result<(), Fault> {
    let expressions = match depth {
        Depth::Small => 6,
        Depth::Usual => 80,
        Depth::Exhaustive => 600,
    };
    let mut rng = Rng::new(SEED);
    let exact = Expressions { operations: Operations::Exact, ..Expressions::default() };
    let mut drawn = 0..expressions;
    let mut prepared = Vec::new();
    while !drawn.is_empty() {
        let some: Vec<(usize, Graph)> = drawn
            .by_ref()
            .take(DRAWN)
            .filter_map(|number| random::graph(&exact, &mut rng).map(|graph| (number, graph)))
            .collect();
        prepared.extend(prepare(stream, engine, (&some, &Tensors::ALL), &choices, &mut rng)?);
        if prepared.len() >= PREPARED {
            check(engine, &std::mem::take(&mut prepared), report)?;
        }
    }
    // Large enough that extreme values of every type occur many times.
    let fixed: Vec<(usize, Graph)> = fixed_expressions().into_iter().map(|graph| (ALWAYS, graph)).collect();
    prepared.extend(prepare(stream, engine, (&fixed, &[Tensors::Flat]), &|_, _, _| vec![Choose::default()], &mut rng)?);
    let by_column = prepare(stream, engine, (&of_columns(), &[Tensors::Columns]), &several_rows, &mut rng)?;
    let mut planned = Vec::new();
    for case in &by_column {
        planned.extend(case.bench.kernels(&case.choices)?);
    }
    if planned.iter().any(|spec| spec.same_rows.is_empty()) {
        return Err(Fault::Invalid("a kernel that should have the same columns of several rows doesn't".to_owned()));
    }
    prepared.extend(by_column);
    check(engine, &prepared, report)
}

/// Expressions of a column, a matrix and a row that mostly compute with the row.
fn of_columns() -> Vec<(usize, Graph)> {
    let roots = (0..12).fold("abs(c) + 1".to_owned(), |of, _| format!("sqrt({of})"));
    let text = |dtype| format!("in a: {dtype}, b: {dtype}, c: {dtype}\ny: {dtype} = a*b - {roots}");
    let graphs = ["f32", "bf16"].into_iter().flat_map(|dtype| parse(&text(dtype), &Names::default()));
    graphs.flat_map(|graph| (0..3).map(move |number| (number, graph.clone()))).collect()
}

/// Forces a thread to have the same columns of 2, 3 and 4 rows.
fn several_rows(_: &Graph, number: usize, _: Tensors) -> Vec<Choose> {
    let index = number.is_multiple_of(2).then_some(Index::U64);
    [2, 3, 4].map(|unroll| Choose { unroll: Some(unroll), index, ..Choose::default() }).into()
}

/// The number of every fixed expression, which selects 4,099 elements.
const ALWAYS: usize = 7;

/// Expressions that random draws rarely contain: integer idioms that a compiler might take for an absolute value, comparisons of the
/// minimum and maximum of small integers, floored divisions of one type by itself, and quotients near whole numbers of any size.
fn fixed_expressions() -> Vec<Graph> {
    let mut graphs: Vec<Graph> =
        integer_idioms().into_iter().chain(small_extremes()).map(|entry| entry.graph).collect();
    for dtype in DType::ALL.into_iter().filter(|dtype| *dtype != DType::Bool) {
        let other = match dtype {
            _ if dtype.is_int() => "p = pow(a, b)",
            DType::F64 => "in n: i64, k: i8\np = (a*(n >> abs(k))) // a\ns = (a*(n >> abs(k))) % a",
            _ => "in n: i32, k: i8\np = (a*(n >> abs(k))) // a\ns = (a*(n >> abs(k))) % a",
        };
        let text = format!("in a: {dtype}, b: {dtype}\nq = a // b\nr = a % b\n{other}");
        graphs.extend(parse(&text, &Names::default()));
    }
    graphs
}

/// An expression on tensors, and the choices to try.
struct Prepared<G: Elementwise> {
    kind: Tensors,
    choices: Vec<Choose>,
    bench: Bench<G>,
}

/// Prepares numbered expressions on tensors of the given kinds.
fn prepare<G: Elementwise>(
    stream: &Arc<G::Stream>,
    engine: &Engine<G>,
    (graphs, kinds): (&[(usize, Graph)], &[Tensors]),
    choices: &dyn Fn(&Graph, usize, Tensors) -> Vec<Choose>,
    rng: &mut Rng,
) -> Result<Vec<Prepared<G>>, Fault> {
    let mut prepared = Vec::new();
    for (number, graph) in graphs {
        let expression = Rc::new(engine.expression(graph)?);
        for &kind in kinds {
            let Some(shape) = kind.shape(rng, *number, graph.least_rank()) else { continue };
            let bench = Bench::new(stream, &expression, kind, &shape, rng)?;
            prepared.push(Prepared { kind, choices: choices(graph, *number, kind), bench });
        }
    }
    Ok(prepared)
}

/// Compiles all kernels, the slowest first, and runs every case.
fn check<G: Elementwise>(
    engine: &Engine<G>,
    prepared: &[Prepared<G>],
    report: &mut dyn FnMut(Case),
) -> Result<(), Fault> {
    let mut specs = HashSet::new();
    for Prepared { choices, bench, .. } in prepared {
        specs.extend(bench.kernels(choices)?);
    }
    let mut specs: Vec<KernelSpec> = specs.into_iter().collect();
    specs.sort_by_cached_key(|spec| Reverse(compile_cost(spec)));
    engine.compile_ahead(&specs, &AtomicBool::new(false));
    for Prepared { kind, choices, bench } in prepared {
        for choose in choices {
            if let Some((on, wrong)) = bench.run_case(choose)? {
                let kernel = format!("{kind:?} of {}", bench.expression.graph().to_string().trim().replace('\n', "; "));
                report(Case { kernel, on, wrong });
            }
        }
    }
    Ok(())
}

/// Estimated cost of compiling a kernel: operations per thread, weighted by type; floored quotients of floats are by far the
/// slowest.
fn compile_cost(spec: &KernelSpec) -> u64 {
    let cost = |node: &Node| match (node.kind, node.dtype.carrier()) {
        (Kind::Binary(Binary::FloorDiv | Binary::Rem, _), DType::F64) => 100,
        (Kind::Binary(Binary::FloorDiv | Binary::Rem, _), DType::F32) => 10,
        _ => 1,
    };
    let operations: u64 = spec.graph.nodes().iter().map(cost).sum();
    operations * u64::from(spec.lanes * spec.unroll)
}

/// Layouts of the tensors of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tensors {
    /// One dimension, aligned.
    Flat,
    /// One dimension, all with the same offset.
    Peeled,
    /// One dimension, each with another offset.
    Shifted,
    /// Rows, with inputs broadcast along or across them.
    Rows,
    /// A matrix with some inputs transposed.
    Transposed,
    /// Aligned rows: the first input is a column, the third a row.
    Columns,
    /// Three dimensions, which some inputs have in the opposite order.
    Reversed,
    /// Anything.
    Any,
}

impl Tensors {
    const ALL: [Self; 7] =
        [Self::Flat, Self::Peeled, Self::Shifted, Self::Rows, Self::Transposed, Self::Reversed, Self::Any];

    /// A shape; `None` if the expression needs more dimensions.
    fn shape(self, rng: &mut Rng, number: usize, rank: usize) -> Option<Vec<u64>> {
        const SIZES: [u64; 12] = [1, 31, 32, 33, 97, 255, 1025, 4099, 8191, 65_537, 1009, 0];
        const ROWS: [[u64; 2]; 13] = [
            [37, 1025],
            [3, 7],
            [129, 64],
            [1024, 33],
            [2, 4099],
            [65, 96],
            [17, 95],
            [40, 2093],
            // Dense lines.
            [22, 1000],
            [13, 4096],
            // Joined rows.
            [300, 51],
            [97, 245],
            [1040, 5],
        ];
        // Short sides, which tiles fold with the middle one.
        const REVERSED: [[u64; 3]; 8] = [
            [131, 43, 8],
            [8, 43, 132],
            [40, 401, 7],
            [3, 50, 257],
            [33, 61, 5],
            [6, 35, 4],
            [70, 35, 36],
            [64, 64, 2],
        ];
        let shape = match self {
            Self::Columns => [[129, 64], [65, 96], [36, 2048]][number % 3].to_vec(),
            Self::Reversed => REVERSED[number % REVERSED.len()].to_vec(),
            Self::Flat | Self::Peeled | Self::Shifted => vec![SIZES[(number + self as usize) % SIZES.len()]],
            Self::Rows | Self::Transposed => ROWS[(number + self as usize) % ROWS.len()].to_vec(),
            Self::Any => random::shape(rng),
        };
        (rank <= shape.len()).then_some(shape)
    }

    /// The layout of a tensor of a case; with `whole`, no two elements share memory.
    fn layout(self, shape: &[u64], place: u64, whole: bool, rng: &mut Rng) -> Result<Layout, LayoutError> {
        let plain = Layout::contiguous(shape)?;
        match self {
            Self::Flat => Ok(plain),
            Self::Peeled => plain.offset_by(3),
            Self::Shifted => plain.offset_by(mix(place) % 17),
            Self::Rows if whole => plain.offset_by(place % 2),
            Self::Rows => match place % 4 {
                0 => Layout::contiguous(&[shape[0], 1]),
                1 => Ok(plain),
                2 => Layout::contiguous(&shape[1..]),
                // Rows with gaps.
                _ => Layout::strided(shape, &[shape[1] as i64 + 3, 1], 1),
            },
            Self::Transposed if place.is_multiple_of(2) => Ok(Layout::contiguous(&[shape[1], shape[0]])?.transposed()),
            Self::Columns if place == 0 => Layout::contiguous(&[shape[0], 1]),
            Self::Columns if place == 2 => Layout::contiguous(&shape[1..]),
            Self::Reversed if place.is_multiple_of(2) => {
                let [a, b, c] = [0, 1, 2].map(|d| shape.get(d).copied().unwrap_or(1));
                Layout::contiguous(&[c, b, a])?.permuted(&[2, 1, 0])
            }
            Self::Transposed | Self::Columns | Self::Reversed => Ok(plain),
            Self::Any => {
                let fits = |layout: &Layout| !whole || (layout.shape() == shape && !layout.may_overlap_itself());
                let drawn = (0..8).filter_map(|_| random::layout(shape, rng));
                Ok(drawn.into_iter().find(fits).unwrap_or(plain))
            }
        }
    }
}

/// Choices to force, rotating with `number`: none, each form, bulk copies, each tier, dependent launches with and without prefetch
/// of their inputs, wide and narrow vectors with occasional 64-bit indices, and every hint.
fn choices(graph: &Graph, number: usize, kind: Tensors) -> Vec<Choose> {
    let rotation = number + kind as usize;
    let exact = |tier: Tier| is_exact(&meaning(graph, tier), tier);
    let tier = if !rotation.is_multiple_of(3) && exact(Tier::Accurate) { Tier::Accurate } else { Tier::Exact };
    let prefetch = (rotation % 4 == 3).then_some(false);
    let plain = Choose { dependent: rotation % 2 == 1, prefetch, tier, ..Choose::default() };
    let forms = Form::ALL.into_iter().filter(|form| *form != Form::Batch);
    let hints = Hints { load_no_allocate: rotation / 4 % 2 == 1, store_streaming: rotation / 8 % 2 == 1 };
    let form = forms.cycle().nth(rotation).map(|form| Choose { form: Some(form), hints: Some(hints), ..plain });
    let narrow = Choose {
        vector: Some([4, 8, 16, 32][rotation % 4]),
        unroll: Some([1, 2, 4, 8][rotation / 4 % 4]),
        threads: Some([64, 128, 256, 512][rotation / 2 % 4]),
        index: rotation.is_multiple_of(3).then_some(Index::U64),
        ..plain
    };
    // With tiles small enough that there are several.
    let bulk = Choose {
        form: Some(Form::Bulk),
        vector: Some([4, 2, 8, 16][rotation / 2 % 4]),
        unroll: Some([3, 8, 2, 1][rotation % 4]),
        threads: Some([32, 64, 96][rotation % 3]),
        hints: Some(hints),
        ..plain
    };
    let tier = if rotation.is_multiple_of(3) {
        Some(Choose { tier: Tier::Full, ..plain })
    } else {
        exact(Tier::Fast).then_some(Choose { tier: Tier::Fast, ..plain })
    };
    // Whatever the number of tiles: those of long rows between sectors are sheared.
    let sides = Choose { unroll: Some([16, 8, 4, 32][number % 4]), index: narrow.index, ..plain };
    // The same for short rows, which are joined.
    let tiles = Choose { form: Some(Form::Transpose), index: narrow.index, ..plain };
    let [sides, tiles] = [sides, tiles].map(|choose| (kind == Tensors::Transposed).then_some(choose));
    [Some(plain), form, Some(narrow), Some(bulk), sides, tiles, tier].into_iter().flatten().collect()
}

/// The tensors and scalars of one expression.
struct Bench<G: Elementwise> {
    stream: Arc<G::Stream>,
    expression: Rc<Expression<G>>,
    /// Inputs, then the outputs that aren't in place.
    tensors: Vec<Tensor<G>>,
    scalars: Vec<Value>,
    space: Space,
    shape: Vec<u64>,
}

impl<G: Elementwise> Bench<G> {
    fn new(
        stream: &Arc<G::Stream>,
        expression: &Rc<Expression<G>>,
        kind: Tensors,
        shape: &[u64],
        rng: &mut Rng,
    ) -> Result<Self, Fault> {
        let graph = expression.graph();
        let invalid = |error: LayoutError| Fault::Invalid(error.to_string());
        let mut tensors = Vec::new();
        for (slot, input) in (0..).zip(graph.inputs()) {
            let whole = graph.outputs().iter().any(|output| output.in_place == Some(slot));
            let layout = kind.layout(shape, slot.into(), whole, rng).map_err(invalid)?;
            tensors.push(Tensor::new(stream, input.dtype, layout, Some(rng))?);
        }
        for (place, output) in (0..).zip(graph.outputs()).filter(|(_, output)| output.in_place.is_none()) {
            let layout = kind.layout(shape, 101 + 2 * place, true, rng).map_err(invalid)?;
            tensors.push(Tensor::new(stream, output.dtype, layout, None)?);
        }
        let scalars = graph.scalars().iter().map(|scalar| random::value(scalar.dtype, rng)).collect();
        let layouts: Vec<Layout> = tensors.iter().map(|tensor| tensor.layout.clone()).collect();
        let space = Space::with_shape(shape, &layouts).map_err(invalid)?;
        let (stream, expression) = (Arc::clone(stream), Rc::clone(expression));
        Ok(Self { stream, expression, tensors, scalars, space, shape: shape.to_vec() })
    }

    /// The index of each output's tensor in [`Bench::tensors`].
    fn places(&self) -> Vec<usize> {
        let graph = self.expression.graph();
        let mut own = graph.inputs().len()..;
        let place = |slot: Option<u32>| slot.map_or_else(|| own.next().unwrap_or(0), |slot| slot as usize);
        graph.outputs().iter().map(|output| output.in_place).map(place).collect()
    }

    /// Inputs and outputs as the expression takes them.
    fn operands(&self) -> Result<[Vec<Operand<G>>; 2], Fault> {
        let all = self.tensors.iter().map(Tensor::operand).collect::<Result<Vec<_>, _>>()?;
        let outputs = self.places().into_iter().map(|place| all[place].clone()).collect();
        Ok([all[..self.expression.graph().inputs().len()].to_vec(), outputs])
    }

    /// The kernels that its cases will launch.
    fn kernels(&self, choices: &[Choose]) -> Result<Vec<KernelSpec>, Fault> {
        let [inputs, outputs] = self.operands()?;
        Ok(choices.iter().filter_map(|choose| self.expression.predict_kernel(&inputs, &outputs, choose)).collect())
    }

    /// Runs it once with these choices. Returns a description and the error (empty if none), or `None` if no kernel supports them.
    fn run_case(&self, choose: &Choose) -> Result<Option<(String, String)>, Fault> {
        let [inputs, outputs] = self.operands()?;
        let bound = match self.expression.bind(&inputs, &outputs, &self.scalars, choose) {
            Ok(bound) => bound,
            Err(Error::Plan(_)) if choose.form.is_some() || choose.vector.is_some() => return Ok(None),
            Err(error @ Error::Fault(_)) if ends_the_device(&error) => return Err(error.into()),
            Err(error) => return Ok(Some((format!("{:?}", self.shape), error.to_string()))),
        };
        self.tensors.iter().try_for_each(Tensor::restore)?;
        bound.enqueue(&self.stream)?;
        G::wait(&self.stream)?;
        let on = format!("{:?}, {}", self.shape, bound.plan().map_or_else(|_| "nothing".to_owned(), describe));
        Ok(Some((on, self.compare(choose.tier)?)))
    }

    /// Describes the first wrong byte or element; empty if all are right.
    fn compare(&self, tier: Tier) -> Result<String, Fault> {
        let now = self.tensors.iter().map(Tensor::download).collect::<Result<Vec<_>, _>>()?;
        let graph = &meaning(self.expression.graph(), tier);
        let places = self.places();
        let offsets: Vec<Vec<u64>> = (0..self.tensors.len()).map(|tensor| self.space.offsets(tensor)).collect();
        for (tensor, now) in now.iter().enumerate() {
            let written = if places.contains(&tensor) { &offsets[tensor][..] } else { &[] };
            if let Some(byte) = now.find_stray_write(written) {
                return Ok(format!(
                    "byte {byte} of tensor {tensor} was written, but belongs to no element of an output"
                ));
            }
        }
        let count = self.space.elements();
        for (place, coordinates) in (0_u64..).zip(self.space.coordinates()) {
            let picked = count <= CHECK_ALL || place < 64 || place + 64 >= count || mix(place) % count < SAMPLES;
            if !picked {
                continue;
            }
            let index = place as usize;
            let input = |slot: usize| self.tensors[slot].element(offsets[slot][index]);
            let inputs: Vec<Value> = (0..graph.inputs().len()).filter_map(input).collect();
            let element = Element { inputs: &inputs, scalars: &self.scalars, coordinates: &coordinates, place };
            let right =
                evaluate(graph, element, Precision::Carried).map_err(|error| Fault::Invalid(error.to_string()))?;
            for ((output, right), &tensor) in graph.outputs().iter().zip(right).zip(&places) {
                let found = now[tensor].element(offsets[tensor][index]);
                if !found.is_some_and(|found| found.is_same(right)) {
                    return Ok(format!(
                        "element {place} of {} is {found:?}, not {right:?}, for {inputs:?} and {:?}",
                        output.name, self.scalars
                    ));
                }
            }
        }
        Ok(String::new())
    }
}

/// Whether nothing more can be checked on the device.
fn ends_the_device(error: &Error) -> bool {
    matches!(error, Error::Fault(fault) if fault.ends_the_device())
}

/// Describes a plan in a few words.
fn describe(plan: &Plan) -> String {
    let spec = &plan.spec;
    format!(
        "{} lanes {} unroll {} threads {} {:?} {:?}",
        spec.form.name(),
        spec.lanes,
        spec.unroll,
        spec.threads,
        spec.tier,
        spec.dependent
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_expressions_contain_all_divisions_and_integer_idioms() {
        let graphs = fixed_expressions();
        assert_eq!(graphs.len(), integer_idioms().len() + small_extremes().len() + DType::ALL.len() - 1);
        let has = |op: Binary, float: bool| {
            let is = |node: &plimsoll_expr::Node| matches!(node.kind, Kind::Binary(binary, _) if binary == op);
            graphs.iter().any(|graph| graph.nodes().iter().any(|node| is(node) && node.dtype.is_float() == float))
        };
        for (op, float) in [
            (Binary::FloorDiv, true),
            (Binary::Rem, true),
            (Binary::FloorDiv, false),
            (Binary::Rem, false),
            (Binary::Pow, false),
        ] {
            assert!(has(op, float), "{op:?} {float}");
        }
    }
}
