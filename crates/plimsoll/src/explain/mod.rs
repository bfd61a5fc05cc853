//! Explains the time of an expression on a device: the plan with its reasons, the model's prediction term by term, the
//! measurement, the hardware counts, and the unexplained rest. [`crate::bench`] measures, [`crate::predict`] predicts; this module
//! compares both and puts the result into words.
//!
//! ```no_run
//! use plimsoll::explain::{Explain, ExplainOptions};
//! use plimsoll::prelude::*;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut device = plimsoll::bench::Device::open(&"cuda:0".parse()?, &plimsoll::CudaOptions::default())?;
//! let exp = trace(|x: In<f32>| x.exp())?;
//! println!("{}", exp.explain(&mut device, 1 << 24, &ExplainOptions::default())?.words());
//! # Ok(())
//! # }
//! ```

mod subject;
#[cfg(test)]
mod tests;
mod words;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use plimsoll_core::Fault;
use plimsoll_core::counted;
use plimsoll_core::model::{Cache, LaunchForm, Machine};
use plimsoll_core::probe::Request;
use plimsoll_core::record::{Record, Run};
use plimsoll_core::sample::CachePolicy;
use plimsoll_core::series::Value as Coordinate;
use plimsoll_core::stats::Interval;
use plimsoll_cuda::elementwise::{Expression, Kernel};
use plimsoll_expr::{Graph, Problem, Traced, Value};
use plimsoll_gen::elementwise::{Choose, Table};
use plimsoll_suite::bench::{Cell, DEPENDENT, Line, PLAIN, lines};
use plimsoll_suite::profile::Profile;

pub use self::subject::{CustomKernel, Fact, Forecast, Origin, Subject};
use crate::bench::{Covers, Device, Point, Variant, measure, operation, types};
use crate::predict::Tools;
use crate::run::Plan;

/// One launch and everything known about its time.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The launch.
    pub cell: Cell,
    /// The figures known about the device, each with its source.
    pub machine: Machine,
    /// The origin of these figures.
    pub origin: Origin,
    /// The plan and the model's prediction.
    pub forecast: Forecast,
    /// The measurement; `None` if there is none.
    pub measured: Option<Line>,
    /// Why there is no measurement; empty if there is one.
    pub unmeasured: String,
    /// Hardware counts per launch, by the names in [`plimsoll_core::counted`].
    pub counted: BTreeMap<String, f64>,
    /// Why nothing was counted; empty if something was.
    pub uncounted: String,
}

/// The time that the model doesn't explain: measured minus predicted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Residue {
    /// Seconds; negative if the device was faster than predicted.
    pub seconds: f64,
    /// The interval, from the ends of both intervals.
    pub interval: Interval,
    /// The share of the measured time.
    pub share: f64,
}

impl Explanation {
    /// The unexplained time; `None` without a prediction or a measurement.
    #[must_use]
    pub fn residue(&self) -> Option<Residue> {
        let (measured, predicted) = (self.measured.as_ref()?.time, self.forecast.prediction.total?);
        let seconds = measured.value - predicted.value;
        let interval = Interval {
            lo: measured.interval.lo - predicted.interval.hi,
            hi: measured.interval.hi - predicted.interval.lo,
        };
        Some(Residue { seconds, interval, share: seconds / measured.value })
    }

    /// A paragraph in plain words: what limits the launch, what that costs, and what would help.
    #[must_use]
    pub fn words(&self) -> String {
        words::build_paragraph(self)
    }
}

/// The conditions of a point, in the model's terms.
fn model_conditions(subject: &Subject, point: &Point) -> (Choose, (Cache, LaunchForm)) {
    let dependent = point.cell.launch == DEPENDENT;
    let cache = if point.cell.cache.is_cold() { Cache::Cold } else { Cache::Hot };
    // Launches are timed as nodes of one graph.
    let launch = if dependent { LaunchForm::GraphDependent } else { LaunchForm::Graph };
    let dependent = dependent && subject.supports_dependent_launch();
    (Choose { dependent, cached: cache == Cache::Hot, ..point.variant.0 }, (cache, launch))
}

/// Predictions for points, in the same order; `None` if no kernel can do what was chosen by hand.
#[must_use]
pub fn forecasts(subject: &Subject, points: &[Point], tools: Option<Tools<'_>>) -> Vec<Option<Forecast>> {
    let mut forecaster = subject.forecaster(tools);
    let forecast = |point: &Point| {
        let (choose, form) = model_conditions(subject, point);
        forecaster.predict(&point.problem, &choose, form).ok()
    };
    points.iter().map(forecast).collect()
}

/// Combines the predictions for points with the results of a run of [`measure`]. Points that no kernel can run are left out.
/// `uncounted` is the reason if the hardware counted nothing.
#[must_use]
pub fn explanations(
    subject: &Subject,
    points: &[Point],
    run: &Run,
    uncounted: &str,
    tools: Option<Tools<'_>>,
) -> Vec<Explanation> {
    let measured = lines(run);
    let find_line = |cell: &Cell| {
        let matches = |line: &&Line| {
            line.cell.coordinates() == cell.coordinates() && line.cell.cache.is_cold() == cell.cache.is_cold()
        };
        measured.iter().find(matches).cloned()
    };
    let forecasts = forecasts(subject, points, tools);
    let all = points.iter().zip(forecasts).filter_map(|(point, forecast)| {
        let counted = counts_at(run, &point.cell.coordinates(), point.cell.cache.is_cold());
        let uncounted = if counted.is_empty() { uncounted.to_owned() } else { String::new() };
        let measured = find_line(&point.cell);
        let faults = if measured.is_none() { faults(run) } else { String::new() };
        Some(Explanation {
            cell: point.cell.clone(),
            machine: subject.machine().clone(),
            origin: subject.origin(),
            forecast: forecast?,
            measured,
            unmeasured: faults,
            counted,
            uncounted,
        })
    });
    all.collect()
}

/// The faults of a run, without repetitions.
pub(crate) fn faults(run: &Run) -> String {
    let mut all: Vec<&str> = run.faults.iter().map(|fault| fault.what.as_str()).collect();
    all.dedup();
    all.join("; ")
}

/// The hardware counts at a point, from its first round.
pub(crate) fn counts_at(run: &Run, at: &[Coordinate], cold: bool) -> BTreeMap<String, f64> {
    let series = run.series.iter().filter(|series| series.spec.cache.is_cold() == cold);
    let row = series.flat_map(|series| &series.rows).find(|row| row.at == at);
    let Some(point) = row.and_then(|row| row.points.first()) else { return BTreeMap::new() };
    let names: Vec<String> = counted::metrics().into_iter().map(|metric| metric.name.to_string()).collect();
    names.into_iter().filter_map(|name| Some((name.clone(), *point.extra.get(&name)?))).collect()
}

/// Why hardware counters can't be read; empty if they can.
#[must_use]
pub fn counters_error(device: &Device) -> String {
    device.counters().err().map(|fault| fault.to_string()).unwrap_or_default()
}

/// Options for [`explain`].
#[derive(Clone, Debug)]
pub struct ExplainOptions {
    /// The device's profile; without it, the shipped or published figures for its model are used.
    pub profile: Option<Profile>,
    /// Plans from `plimsoll tune`; without them, the shipped plans are used.
    pub table: Option<Table>,
    /// Whether the data is cached before a launch.
    pub cache: CachePolicy,
    /// Choices by hand in the plan, and whether launches may overlap.
    pub choose: Choose,
    /// Effort and seed of the measurement, and whether to read hardware counters.
    pub request: Request,
}

impl Default for ExplainOptions {
    fn default() -> Self {
        let request = Request { counters: true, ..Request::default() };
        Self { profile: None, table: None, cache: CachePolicy::ColdRotate, choose: Choose::default(), request }
    }
}

/// Explains a problem on a device: measures it and compares it with the model. Instructions are counted in machine code if
/// NVIDIA's compiler and disassembler are found.
///
/// # Errors
/// [`Fault::Invalid`] for impossible choices.
pub fn explain(device: &mut Device, problem: &Arc<Problem>, how: &ExplainOptions) -> Result<Explanation, Fault> {
    let choose = Choose { dependent: false, ..how.choose };
    let graph = problem.graph();
    let inputs = (0..problem.inputs().len()).map(|slot| problem.input_bytes(slot));
    let bytes = inputs.chain((0..graph.outputs().len()).map(|place| problem.output_bytes(place))).max();
    let name = operation(graph).unwrap_or("expression");
    let cell = Cell {
        launch: if how.choose.dependent { DEPENDENT } else { PLAIN },
        plan: Variant(choose).to_string(),
        cache: how.cache,
        ..Cell::flat(name, types(graph), bytes.unwrap_or_default(), problem.traffic())
    };
    let point = Point { cell, problem: Arc::clone(problem), variant: Variant(choose), covers: Covers::default() };
    let subject = Subject::from_device(device, how.profile.as_ref(), how.table.as_ref())?;
    let uncounted = if how.request.counters { counters_error(device) } else { "it was not asked for".to_owned() };
    let plan = Plan { request: how.request.clone(), ..Plan::default() };
    let mut records: Vec<Record> = Vec::new();
    let points = [point];
    let ended = measure(device, &points, how.table.as_ref(), &plan, &mut records, &AtomicBool::new(false))?;
    if let Some(why) = ended.left_out.into_iter().next() {
        return Err(Fault::Invalid(why));
    }
    let run = Run::from_records(records).ok_or_else(|| Fault::Invalid("the run left no record".to_owned()))?;
    let nvrtc = plimsoll_cuda::nvrtc::Nvrtc::find(None, None).ok();
    let disassembler = plimsoll_cuda::disassembler::Disassembler::find(None).ok();
    let tools = nvrtc.as_ref().zip(disassembler.as_ref()).map(|(nvrtc, disassembler)| Tools { nvrtc, disassembler });
    let mut explained = explanations(&subject, &points, &run, &uncounted, tools);
    explained.pop().ok_or_else(|| Fault::Invalid("no kernel can do what was chosen by hand".to_owned()))
}

/// Expressions that can be explained for a number of elements in contiguous tensors. Run-time scalars are set to 1, as their
/// values don't affect the time.
pub trait Explain {
    /// The expression.
    fn expression_graph(&self) -> &Graph;

    /// Calls [`explain`] for tensors of `elements` elements.
    ///
    /// # Errors
    /// As for [`explain`].
    fn explain(&self, device: &mut Device, elements: u64, how: &ExplainOptions) -> Result<Explanation, Fault> {
        let graph = self.expression_graph();
        let ones: Vec<Value> = graph.scalars().iter().map(|scalar| scalar.dtype.cast(Value::Int(1))).collect();
        let problem = Problem::flat(graph, elements, &ones).map_err(|error| Fault::Invalid(error.to_string()))?;
        explain(device, &Arc::new(problem), how)
    }
}

impl<Args, R> Explain for Traced<Args, R> {
    fn expression_graph(&self) -> &Graph {
        self.graph()
    }
}

impl<Args, R> Explain for Kernel<Args, R> {
    fn expression_graph(&self) -> &Graph {
        self.expression().graph()
    }
}

impl Explain for Expression {
    fn expression_graph(&self) -> &Graph {
        self.graph()
    }
}
