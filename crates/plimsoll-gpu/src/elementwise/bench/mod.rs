//! The `bench` command on a GPU: times the user's expressions over sizes, in graphs of launches that rotate through memory.
//! The parent module turns expressions into kernels; `plimsoll_suite::bench` interprets the figures.

mod check;
mod sets;

use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use plimsoll_core::Fault;
use plimsoll_core::flag::Flags;
use plimsoll_core::probe::{Case, Depth, Probe, ProbeSpec, Request, Session, Sweep};
use plimsoll_core::sample::{CachePolicy, Work};
use plimsoll_expr::{Graph, Problem};
use plimsoll_gen::elementwise::{Choose, Form, KernelSpec, Table};
use plimsoll_suite::bench::{CEILING, Cell, DEPENDENT, HOST, SPEC, series};

use self::check::{Outputs, Sample};
use self::sets::{bind_sets, host_time, places_in_sets};
use super::arrays::Arrays;
use super::rotation::{Layouts, Set, Subject, bind, launches, operands};
use super::{BoundExpression, Elementwise, Engine, Error, Expression};
use crate::checker::Checker;
use crate::load::Load;
use crate::trust::CHECKS;
use crate::{Gpu, Need, Span};

pub use self::sets::{Covers, span_of_sets};

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
    /// What a launch computes.
    pub covers: Covers,
}

impl Point {
    fn layouts(&self, subject: &Subject, window: u64) -> Layouts {
        let layouts = Layouts::new(subject, !self.cell.cache.is_cold(), window);
        if self.covers == Covers::Rotating { layouts } else { layouts.in_fewest_windows(window) }
    }
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
            let Ok(subject) = Subject::new(&point.problem) else { continue };
            let needs = point.layouts(&subject, self.window).bytes();
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
            let subject = Subject::new(&point.problem)?;
            let layouts = Layouts { windows: 1, ..point.layouts(&subject, self.window) };
            self.arrays.ensure(&layouts.bytes())?;
            let (inputs, outputs) = operands(&subject, &layouts.set(&self.arrays, 0)?)?;
            Ok(self.expression(point.problem.graph())?.predict_kernel(&inputs, &outputs, &choices(point)))
        };
        // Points that can't be planned are reported when they run.
        let alone = points.iter().filter(|point| !matches!(point.covers, Covers::Sets(_)));
        let specs: HashSet<KernelSpec> = alone.map(predict).filter_map(Result::ok).flatten().collect();
        if specs.len() > 1 {
            self.engine.compile_ahead(&specs.into_iter().collect::<Vec<_>>(), stop);
        }
    }

    /// Plans and compiles a point, so that neither is part of its time.
    fn prepare(&mut self, point: &Point) -> Result<(), Error> {
        let subject = Subject::new(&point.problem)?;
        let layouts = Layouts { windows: 1, ..point.layouts(&subject, self.window) };
        self.arrays.ensure(&layouts.bytes())?;
        let expression = self.expression(point.problem.graph())?;
        self.bind(&expression, (point, &subject), &layouts.set(&self.arrays, 0)?).map(drop)
    }

    /// Fills inputs, poisons outputs, and builds one point's workload.
    fn load(&mut self, point: &Point, checked: bool) -> Result<Load<G>, Fault> {
        let subject = Subject::new(&point.problem)?;
        let layouts = point.layouts(&subject, self.window);
        self.arrays.ensure(&layouts.bytes())?;
        let refill = self.arrays.fill(&point.problem)?;
        let expression = self.expression(point.problem.graph())?;
        let sets =
            (0..layouts.windows).map(|window| layouts.set(&self.arrays, window)).collect::<Result<Vec<_>, _>>()?;
        let (launches, overlap) = launches(&sets, |set| self.bind(&expression, (point, &subject), set))?;
        let host = match point.covers {
            Covers::Rotating => None,
            Covers::Once | Covers::Sets(_) => {
                Some(host_time(&self.bind(&expression, (point, &subject), &sets[0])?, self.arrays.stream())?)
            }
        };
        layouts
            .outputs
            .iter()
            .filter(|array| **array >= layouts.inputs)
            .try_for_each(|array| self.arrays.poison(*array))?;
        let check = if checked { Some(self.check(&layouts, &expression, (point, &subject), &sets)?) } else { None };
        let touched = if point.cell.cache.is_cold() { layouts.windows.saturating_mul(point.cell.bytes) } else { 0 };
        let work = Work { traffic: point.cell.traffic, window: touched, ..Work::default() };
        let mut load = Load::<G>::graph(self.arrays.stream(), launches, overlap, work)?;
        if let Some(blocker) = &self.blocker {
            load = load.with_blocker(blocker);
        }
        if let Some(ceiling) = point.cell.ceiling {
            load = load.with_extra(CEILING, ceiling);
        }
        if let Some(host) = host {
            load = load.with_extra(HOST, host);
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

    /// Binds a point's expression to one window.
    fn bind(
        &self,
        expression: &Expression<G>,
        (point, subject): (&Point, &Subject),
        set: &Set,
    ) -> Result<BoundExpression<G>, Error> {
        match &point.covers {
            Covers::Sets(lengths) => {
                bind_sets(expression, (subject, &choices(point)), set, (lengths, self.arrays.stream()))
            }
            Covers::Rotating | Covers::Once => bind(expression, subject, set, &choices(point)),
        }
    }

    /// Prepares the checks of the outputs: single elements against the oracle, and whole windows against the simplest kernel of the
    /// same expression. In place, a fresh launch is checked, because the timed launches have overwritten their inputs.
    fn check(
        &mut self,
        layouts: &Layouts,
        expression: &Expression<G>,
        (point, subject): (&Point, &Subject),
        sets: &[Set],
    ) -> Result<Outputs<G>, Fault> {
        let mut outputs = Outputs::new(&self.checker, &point.problem, point.choose.tier);
        if layouts.is_in_place() {
            let again = self.bind(expression, (point, subject), &sets[0])?;
            outputs.again = Some((self.arrays.fill(&point.problem)?, again));
        }
        for window in spread_indices(layouts.windows, if outputs.again.is_some() { 1 } else { SAMPLED_WINDOWS }) {
            outputs.samples.extend(layouts.samples(&self.arrays, point, window));
        }
        let bytes: Vec<u64> = layouts.outputs.iter().map(|array| layouts.sizes[*array]).collect();
        let gaps = matches!(point.covers, Covers::Sets(_));
        if outputs.again.is_some() || gaps || self.scratch.ensure(&bytes).is_err() {
            return Ok(outputs);
        }
        // Not every plan can be forced; then only the samples are checked.
        let plainest = Choose { form: Some(Form::Strided), tier: point.choose.tier, ..Choose::default() };
        let spans = bytes.iter().enumerate().map(|(place, bytes)| self.scratch.part(place, 0, *bytes));
        let spans: Vec<Span> = spans.collect::<Result<_, _>>()?;
        for window in spread_indices(layouts.windows, COMPARED_WINDOWS) {
            let Some(set) = usize::try_from(window).ok().and_then(|window| sets.get(window)) else { continue };
            let naive = Set { inputs: set.inputs.clone(), outputs: spans.clone() };
            if let Ok(naive) = bind(expression, subject, &naive, &plainest) {
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

impl Layouts {
    /// Single elements of a window, including the first and the last.
    fn samples<G: Gpu>(&self, arrays: &Arrays<G>, point: &Point, window: u64) -> Vec<Sample> {
        let problem = &point.problem;
        // A sample's place is that in its set.
        let sample = |(start, own): (u64, u64)| {
            let place = start + own;
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
            let (inputs, outputs) = (inputs.collect::<Option<_>>()?, outputs.collect::<Option<_>>()?);
            Some(Sample { place: own, inputs, outputs })
        };
        let whole = [problem.elements()];
        let lengths = if let Covers::Sets(lengths) = &point.covers { &lengths[..] } else { &whole };
        places_in_sets(lengths, SAMPLES).into_iter().filter_map(sample).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::spread_indices;

    #[test]
    fn spread_includes_the_first_and_the_last() {
        assert_eq!(spread_indices(10, 4), [0, 3, 6, 9]);
        assert_eq!((spread_indices(1, 64), spread_indices(2, 16), spread_indices(0, 5)), (vec![0], vec![0, 1], vec![]));
    }
}
