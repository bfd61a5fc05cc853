//! The `bench` command on a GPU: times the user's expressions over sizes, in graphs of launches that rotate through memory.
//! The parent module turns expressions into kernels; `plimsoll_suite::bench` interprets the figures.

mod arrays;
mod check;

use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use plimsoll_core::Fault;
use plimsoll_core::flag::Flags;
use plimsoll_core::probe::{Case, Depth, Probe, ProbeSpec, Request, Session, Sweep};
use plimsoll_core::sample::{CachePolicy, Work};
use plimsoll_expr::{Graph, Problem};
use plimsoll_gen::elementwise::{Choose, Form, KernelSpec, PlanError, Table};
use plimsoll_suite::bench::{CEILING, Cell, DEPENDENT, SPEC, series};

use self::arrays::Arrays;
use self::check::{Outputs, Sample};
use super::{BoundExpression, Elementwise, Engine, Error, Expression, Operand, Operands};
use crate::checker::Checker;
use crate::load::Load;
use crate::trust::CHECKS;
use crate::{Gpu, Need, Span};

/// Most launches of a rotation.
const MOST_WINDOWS: u64 = 8192;
/// Alignment of windows, bytes.
const GRAIN: u64 = 4096;
/// Elements per sampled window that are checked against the oracle.
const SAMPLES: u64 = 48;
/// Number of sampled windows.
const SAMPLED_WINDOWS: u64 = 2;
/// Number of windows that are compared completely.
const COMPARED_WINDOWS: u64 = 8;

/// One point.
#[derive(Clone, Debug)]
pub struct Point {
    /// Its place in the results.
    pub cell: Cell,
    /// The expression, its shapes and its scalars.
    pub problem: Arc<Problem>,
    /// Forced choices of the plan. The cell decides whether launches are dependent.
    pub choose: Choose,
}

/// The points that the user requested.
#[derive(Debug)]
pub struct Bench {
    points: Vec<Point>,
    /// Tuned plans; those shipped for the device if `None`.
    table: Option<Table>,
    /// Seconds for all points together; the spec's time for each point if `None`.
    seconds: Option<f64>,
    checked: bool,
    /// Points that no kernel supports, with the reasons.
    left_out: Mutex<Vec<String>>,
}

impl Bench {
    /// Points with a table of tuned plans, or with the plans shipped for the device.
    #[must_use]
    pub fn new(points: Vec<Point>, table: Option<Table>) -> Self {
        Self { points, table, seconds: None, checked: true, left_out: Mutex::default() }
    }

    /// Limits the time for all points together, and checks results only if `checked`: for a first pass over many plans, of which
    /// only the better ones are timed again.
    #[must_use]
    pub fn with_budget(mut self, seconds: f64, checked: bool) -> Self {
        (self.seconds, self.checked) = (Some(seconds), checked);
        self
    }

    /// Points that were left out because no kernel supports the forced choices, each with the reason.
    #[must_use]
    pub fn left_out(&self) -> Vec<String> {
        self.left_out.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl<G: Elementwise> Probe<G> for Bench {
    fn spec(&self) -> &'static ProbeSpec {
        &SPEC
    }

    fn needs(&self) -> &'static [Need] {
        &[Need::Graphs]
    }

    fn check_device(&self, device: &G::Device) -> Result<(), Fault> {
        if self.points.iter().any(|point| point.cell.launch == DEPENDENT) {
            G::capabilities(device).dependent_graphs.clone()?;
        }
        Ok(())
    }

    fn points(&self, _: &G::Device, _: &Request) -> usize {
        self.points.len()
    }

    fn run(&self, session: &mut Session<'_, G>) -> Result<(), Fault> {
        let window = session.info().cold_window();
        let engine = match &self.table {
            Some(table) => Engine::with_table(session.device, table.clone()),
            None => Engine::new(session.device),
        }?;
        let mut bench = Running::<G>::new(session.device, engine, window, session.request.seed)?;
        bench.reserve(&self.points);
        bench.compile_ahead(&self.points, session.stop_signal());
        let mut refused = None;
        for cache in [CachePolicy::ColdRotate, CachePolicy::Hot] {
            let mut points = Vec::new();
            for point in self.points.iter().filter(|point| point.cell.cache == cache) {
                if session.is_stopped() {
                    return Err(Fault::Stopped);
                }
                match bench.prepare(point) {
                    Err(Error::Plan(why)) => {
                        let what = format!("{} {}: {why}", point.cell.expression, point.cell.plan);
                        self.left_out.lock().unwrap_or_else(PoisonError::into_inner).push(what);
                        refused.get_or_insert(Fault::Invalid(why.to_string()));
                    }
                    // The sweep records each point that doesn't fit into memory.
                    Ok(()) | Err(Error::Fault(Fault::OutOfMemory { .. })) => points.push(point),
                    Err(error) => return Err(error.into()),
                }
            }
            if points.is_empty() {
                continue;
            }
            refused = None;
            let share = self.seconds.map_or(points.len() as f64, |seconds| seconds / session.budget());
            let sweep = Sweep { series: series(cache), points: &points, share, flags: Flags::NONE };
            session.sweep(sweep, |point| point.cell.coordinates(), |_, point| bench.load(point, self.checked))?;
        }
        refused.map_or(Ok(()), Err)
    }

    fn verify(&self, _: &mut G::Device, _: Depth, _: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        Ok(())
    }
}

/// State shared by all points.
struct Running<G: Elementwise> {
    engine: Engine<G>,
    expressions: HashMap<Graph, Rc<Expression<G>>>,
    arrays: Arrays<G>,
    /// Outputs of the reference kernels.
    scratch: Arrays<G>,
    checker: Rc<Checker<G>>,
    blocker: Option<Arc<G::Blocker>>,
    window: u64,
}

impl<G: Elementwise> Running<G> {
    fn new(device: &G::Device, engine: Engine<G>, window: u64, seed: u64) -> Result<Self, Fault> {
        let stream = G::stream(device);
        let (arrays, scratch) = (Arrays::new(stream, seed), Arrays::new(stream, seed));
        let (checker, blocker) = (Checker::new(device, CHECKS)?, G::blocker(device).cloned());
        Ok(Self { engine, expressions: HashMap::new(), arrays, scratch, checker, blocker, window })
    }

    /// Allocates memory for the largest point, so that the smaller ones use the same. If it doesn't fit, each point allocates its
    /// own.
    fn reserve(&mut self, points: &[Point]) {
        let mut most: Vec<u64> = Vec::new();
        for point in points {
            let needs = Layouts::new(point, self.window).bytes();
            most.resize(most.len().max(needs.len()), 0);
            most.iter_mut().zip(needs).for_each(|(most, need)| *most = need.max(*most));
        }
        // A failure is reported for each point that needs the memory.
        let _ = self.arrays.ensure(&most);
    }

    fn expression(&mut self, graph: &Graph) -> Result<Rc<Expression<G>>, Error> {
        if let Some(known) = self.expressions.get(graph) {
            return Ok(Rc::clone(known));
        }
        let expression = Rc::new(self.engine.expression(graph)?);
        self.expressions.insert(graph.clone(), Rc::clone(&expression));
        Ok(expression)
    }

    /// Compiles the kernels of all points in parallel: one after another, hundreds of plans would take longer than their launches.
    fn compile_ahead(&mut self, points: &[Point], stop: &AtomicBool) {
        let predict = |point: &Point| -> Result<Option<KernelSpec>, Error> {
            let layouts = Layouts { windows: 1, ..Layouts::new(point, self.window) };
            self.arrays.ensure(&layouts.bytes())?;
            let (inputs, outputs) = operands(&point.problem, &layouts.set(&self.arrays, 0)?)?;
            Ok(self.expression(point.problem.graph())?.predict_kernel(&inputs, &outputs, &choices(point)))
        };
        // Points that can't be planned are reported when they run.
        let specs: HashSet<KernelSpec> = points.iter().map(predict).filter_map(Result::ok).flatten().collect();
        if specs.len() > 1 {
            self.engine.compile_ahead(&specs.into_iter().collect::<Vec<_>>(), stop);
        }
    }

    /// Plans and compiles a point, so that neither is part of its time.
    fn prepare(&mut self, point: &Point) -> Result<(), Error> {
        let layouts = Layouts { windows: 1, ..Layouts::new(point, self.window) };
        self.arrays.ensure(&layouts.bytes())?;
        let expression = self.expression(point.problem.graph())?;
        bind(&expression, point, &layouts.set(&self.arrays, 0)?, &choices(point)).map(drop)
    }

    /// Fills inputs, poisons outputs, and builds one point's workload.
    fn load(&mut self, point: &Point, checked: bool) -> Result<Load<G>, Fault> {
        let layouts = Layouts::new(point, self.window);
        self.arrays.ensure(&layouts.bytes())?;
        let refill = self.arrays.fill(&point.problem)?;
        let expression = self.expression(point.problem.graph())?;
        let sets =
            (0..layouts.windows).map(|window| layouts.set(&self.arrays, window)).collect::<Result<Vec<_>, _>>()?;
        let launch = |set: &Set| {
            let bound = bind(&expression, point, set, &choices(point))?;
            Ok((bound.launch()?, bound.overlaps()))
        };
        let launches = sets.iter().map(launch).collect::<Result<Vec<_>, Fault>>()?;
        let (launches, overlaps): (Vec<_>, Vec<_>) = launches.into_iter().unzip();
        layouts
            .outputs
            .iter()
            .filter(|array| **array >= layouts.inputs)
            .try_for_each(|array| self.arrays.poison(*array))?;
        let check = if checked { Some(self.check(&layouts, &expression, point, &sets)?) } else { None };
        let touched = if point.cell.cache.is_cold() { layouts.windows.saturating_mul(point.cell.bytes) } else { 0 };
        let work = Work { traffic: point.cell.traffic, window: touched, ..Work::default() };
        let overlap = overlaps.into_iter().all(|overlaps| overlaps);
        let mut load = Load::<G>::graph(self.arrays.stream(), launches, overlap, work)?;
        if let Some(blocker) = &self.blocker {
            load = load.with_blocker(blocker);
        }
        if let Some(ceiling) = point.cell.ceiling {
            load = load.with_extra(CEILING, ceiling);
        }
        if layouts.is_in_place() {
            // Launches read the outputs of earlier ones, so inputs are refilled or values would grow without bound.
            load = load.with_prepare(move |stream| refill.run(stream));
        }
        Ok(match check {
            Some(check) => load.with_unjudged(&check.unjudged).with_check(move |stream| check.run(stream)),
            None => load,
        })
    }

    /// Prepares the checks of the outputs: single elements against the oracle, and whole windows against the simplest kernel of the
    /// same expression. In place, a fresh launch is checked, because the timed launches have overwritten their inputs.
    fn check(
        &mut self,
        layouts: &Layouts,
        expression: &Expression<G>,
        point: &Point,
        sets: &[Set],
    ) -> Result<Outputs<G>, Fault> {
        let mut outputs = Outputs::new(&self.checker, &point.problem, point.choose.tier);
        if layouts.is_in_place() {
            let again = bind(expression, point, &sets[0], &choices(point))?;
            outputs.again = Some((self.arrays.fill(&point.problem)?, again));
        }
        for window in spread_indices(layouts.windows, if outputs.again.is_some() { 1 } else { SAMPLED_WINDOWS }) {
            outputs.samples.extend(layouts.samples(&self.arrays, &point.problem, window));
        }
        let bytes: Vec<u64> = layouts.outputs.iter().map(|array| layouts.sizes[*array]).collect();
        if outputs.again.is_some() || self.scratch.ensure(&bytes).is_err() {
            return Ok(outputs);
        }
        // Not every plan can be forced; then only the samples are checked.
        let plainest = Choose { form: Some(Form::Strided), tier: point.choose.tier, ..Choose::default() };
        let spans = bytes.iter().enumerate().map(|(place, bytes)| self.scratch.part(place, 0, *bytes));
        let spans: Vec<Span> = spans.collect::<Result<_, _>>()?;
        for window in spread_indices(layouts.windows, COMPARED_WINDOWS) {
            let Some(set) = usize::try_from(window).ok().and_then(|window| sets.get(window)) else { continue };
            let naive = Set { inputs: set.inputs.clone(), outputs: spans.clone() };
            if let Ok(naive) = bind(expression, point, &naive, &plainest) {
                outputs.compared.push((naive, spans.clone(), set.outputs.clone()));
            }
        }
        Ok(outputs)
    }
}

/// A point's forced choices, with its kind of launch and whether its data are in the cache.
fn choices(point: &Point) -> Choose {
    Choose { dependent: point.cell.launch == DEPENDENT, cached: !point.cell.cache.is_cold(), ..point.choose }
}

/// At most `most` of `count` indices, including the first and the last.
fn spread_indices(count: u64, most: u64) -> Vec<u64> {
    let most = most.min(count);
    let mut places: Vec<u64> = (0..most).map(|i| i * (count - 1) / (most - 1).max(1)).collect();
    places.dedup();
    places
}

/// Spans of the inputs and outputs of one launch; an output in place has the span of its input.
#[derive(Clone, Debug)]
struct Set {
    inputs: Vec<Span>,
    outputs: Vec<Span>,
}

fn bind<G: Elementwise>(
    expression: &Expression<G>,
    point: &Point,
    set: &Set,
    choose: &Choose,
) -> Result<BoundExpression<G>, Error> {
    let (inputs, outputs) = operands(&point.problem, set)?;
    expression.bind(&inputs, &outputs, point.problem.scalars(), choose)
}

/// Inputs and outputs of one launch as operands.
fn operands<G: Elementwise>(problem: &Problem, set: &Set) -> Result<Operands<G>, Error> {
    let graph = problem.graph();
    let inputs = graph.inputs().iter().zip(problem.inputs()).zip(&set.inputs);
    let inputs: Vec<Operand<G>> =
        inputs.map(|((input, layout), span)| Operand::new(*span, input.dtype, layout.clone())).collect();
    let mut outputs = Vec::with_capacity(set.outputs.len());
    for (place, (output, span)) in graph.outputs().iter().zip(&set.outputs).enumerate() {
        let layout = problem.output(place).map_err(PlanError::from)?;
        outputs.push(Operand::new(*span, output.dtype, layout));
    }
    Ok((inputs, outputs))
}

/// Sizes of a point's operands, and the number of their copies (windows). Arrays are those of the inputs, then those of the outputs
/// that are not in place.
#[derive(Clone, Debug)]
struct Layouts {
    /// Bytes of each array per window.
    sizes: Vec<u64>,
    /// The array of each output.
    outputs: Vec<usize>,
    inputs: usize,
    windows: u64,
}

impl Layouts {
    fn new(point: &Point, window: u64) -> Self {
        let problem = &point.problem;
        let inputs = problem.inputs().len();
        let mut sizes: Vec<u64> = (0..inputs).map(|slot| problem.input_bytes(slot)).collect();
        let mut outputs = Vec::new();
        for (place, output) in problem.graph().outputs().iter().enumerate() {
            match output.in_place {
                Some(slot) => outputs.push(slot as usize),
                None => {
                    outputs.push(sizes.len());
                    sizes.push(problem.output_bytes(place));
                }
            }
        }
        let largest = sizes.iter().copied().max().unwrap_or(0).max(1);
        // At least two, as in other benchmarks that rotate through memory.
        let windows = window.div_ceil(largest).clamp(2, MOST_WINDOWS);
        let windows = if point.cell.cache.is_cold() { windows } else { 1 };
        Self { sizes, outputs, inputs, windows }
    }

    fn is_in_place(&self) -> bool {
        self.outputs.iter().any(|array| *array < self.inputs)
    }

    /// Distance between windows of an array, bytes.
    fn pitch(&self, array: usize) -> u64 {
        self.sizes[array].checked_next_multiple_of(GRAIN).unwrap_or(u64::MAX)
    }

    /// Bytes of each array.
    fn bytes(&self) -> Vec<u64> {
        (0..self.sizes.len()).map(|array| self.pitch(array).saturating_mul(self.windows)).collect()
    }

    fn set<G: Gpu>(&self, arrays: &Arrays<G>, window: u64) -> Result<Set, Fault> {
        let span = |array: usize| arrays.part(array, self.pitch(array) * window, self.sizes[array]);
        let inputs = (0..self.inputs).map(span).collect::<Result<_, _>>()?;
        let outputs = self.outputs.iter().map(|array| span(*array)).collect::<Result<_, _>>()?;
        Ok(Set { inputs, outputs })
    }

    /// Single elements of a window, including the first and the last.
    fn samples<G: Gpu>(&self, arrays: &Arrays<G>, problem: &Problem, window: u64) -> Vec<Sample> {
        let sample = |place: u64| {
            let element = |array: usize, offset: u64, bytes: u64| {
                arrays.part(array, self.pitch(array) * window + offset * bytes, bytes).ok()
            };
            let offsets = problem.offsets(place)?;
            let inputs = problem.graph().inputs().iter().zip(offsets).enumerate();
            let inputs = inputs.map(|(array, (input, offset))| element(array, offset, input.dtype.bytes()));
            let coordinates = problem.coordinates(place)?;
            let outputs = problem.graph().outputs().iter().zip(&self.outputs).enumerate();
            let outputs = outputs.map(|(number, (output, array))| {
                let offset = problem.output(number).ok()?.offset_of(&coordinates)?;
                element(*array, offset, output.dtype.bytes())
            });
            Some(Sample { place, inputs: inputs.collect::<Option<_>>()?, outputs: outputs.collect::<Option<_>>()? })
        };
        spread_indices(problem.elements(), SAMPLES).into_iter().filter_map(sample).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::Traffic;
    use plimsoll_expr::{DType, Names, parse};

    fn point(text: &str, elements: u64, cache: CachePolicy) -> Point {
        let graph = parse(text, &Names::with_default(DType::F32)).unwrap();
        let problem = Arc::new(Problem::flat(&graph, elements, &[]).unwrap());
        let cell = Cell { cache, ..Cell::flat(text, "f32", 4 * elements, Traffic::default()) };
        Point { cell, problem, choose: Choose::default() }
    }

    #[test]
    fn operands_rotate_through_the_window_and_at_least_twice() {
        let layouts = |elements| Layouts::new(&point("x + y", elements, CachePolicy::ColdRotate), 512 << 20);
        assert_eq!((layouts(1 << 18).windows, layouts(1 << 18).bytes()), (512, vec![512 << 20; 3]));
        assert_eq!(layouts(1 << 29).windows, 2);
        assert_eq!(layouts(1).windows, MOST_WINDOWS);
        assert_eq!(Layouts::new(&point("x", 1 << 18, CachePolicy::Hot), 512 << 20).windows, 1);
    }

    #[test]
    fn an_output_in_place_shares_the_array_of_its_input() {
        let layouts = Layouts::new(&point("y = x + y", 1 << 18, CachePolicy::ColdRotate), 512 << 20);
        assert_eq!((layouts.sizes.len(), layouts.outputs.clone(), layouts.is_in_place()), (2, vec![1], true));
        assert!(!Layouts::new(&point("x + y", 8, CachePolicy::Hot), 0).is_in_place());
    }

    #[test]
    fn windows_are_aligned_for_any_size() {
        let layouts = Layouts::new(&point("x", 1025, CachePolicy::ColdRotate), 1 << 20);
        assert_eq!((layouts.sizes[0], layouts.pitch(0)), (4100, 8192));
    }

    #[test]
    fn spread_includes_the_first_and_the_last() {
        assert_eq!(spread_indices(10, 4), [0, 3, 6, 9]);
        assert_eq!((spread_indices(1, 64), spread_indices(2, 16), spread_indices(0, 5)), (vec![0], vec![0, 1], vec![]));
    }
}
