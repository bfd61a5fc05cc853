//! Why an expression takes the time that it takes on a device: its plan with the reasons, what the model expects term by term,
//! what was measured, what hardware counted, and what nothing explains. How it is timed is [`crate::bench`]'s, what it should
//! cost [`crate::predict`]'s; here both are set side by side and put into words.
//!
//! ```no_run
//! use plimsoll::explain::{Explain, How};
//! use plimsoll::prelude::*;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut device = plimsoll::bench::Device::open(&"cuda:0".parse()?, &plimsoll::CudaOptions::default())?;
//! let exp = trace(|x: In<f32>| x.exp())?;
//! println!("{}", exp.explain(&mut device, 1 << 24, &How::default())?.words());
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
use plimsoll_core::stats::Interval;
use plimsoll_cuda::elementwise::{Expression, Kernel};
use plimsoll_expr::{Graph, Problem, Traced, Value};
use plimsoll_gen::elementwise::{Choose, Table};
use plimsoll_suite::bench::{Cell, DEPENDENT, Line, PLAIN, lines};
use plimsoll_suite::profile::Profile;

pub use self::subject::{Forecast, Origin, Subject};
use crate::bench::{Device, Point, Variant, measure, operation, types};
use crate::predict::Tools;
use crate::run::Plan;

/// One launch with all that is known of its time.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// Which launch.
    pub cell: Cell,
    /// What is known of the device, figure by figure with its source.
    pub machine: Machine,
    /// Where that is from.
    pub origin: Origin,
    /// The plan and what the model expects.
    pub forecast: Forecast,
    /// What was measured; `None` where it could not be.
    pub measured: Option<Line>,
    /// Why it could not be; empty where it was.
    pub unmeasured: String,
    /// What hardware counted, per launch, by the names of [`plimsoll_core::counted`].
    pub counted: BTreeMap<String, f64>,
    /// Why nothing was counted; empty where something was.
    pub uncounted: String,
}

/// What the model doesn't explain: measured less predicted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Residue {
    /// Seconds; negative where the device was faster than predicted.
    pub seconds: f64,
    /// From the ends of both intervals.
    pub interval: Interval,
    /// Of the time that was measured.
    pub share: f64,
}

impl Explanation {
    /// What is left unexplained; `None` where there is no prediction or no measurement.
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

    /// What limits it, what that costs, and what would help: a paragraph.
    #[must_use]
    pub fn words(&self) -> String {
        words::paragraph(self)
    }
}

/// What was asked of a point, in the model's terms.
fn conditions(subject: &Subject, point: &Point) -> (Choose, (Cache, LaunchForm)) {
    let dependent = point.cell.launch == DEPENDENT;
    let cache = if point.cell.cache.is_cold() { Cache::Cold } else { Cache::Hot };
    // Launches are timed as nodes of one graph.
    let launch = if dependent { LaunchForm::GraphDependent } else { LaunchForm::Graph };
    let dependent = dependent && subject.can_be_dependent();
    (Choose { dependent, cached: cache == Cache::Hot, ..point.variant.0 }, (cache, launch))
}

/// Predictions for points, each beside its own; `None` where no kernel does what was chosen by hand.
#[must_use]
pub fn forecasts(subject: &Subject, points: &[Point], tools: Option<Tools<'_>>) -> Vec<Option<Forecast>> {
    let mut forecaster = subject.forecaster(tools);
    let forecast = |point: &Point| {
        let (choose, form) = conditions(subject, point);
        forecaster.of(&point.problem, &choose, form).ok()
    };
    points.iter().map(forecast).collect()
}

/// Joins what was expected of points with what a run of [`measure`] found; points that no kernel does are left out. `uncounted`
/// says why hardware counted nothing, where it didn't.
#[must_use]
pub fn explanations(
    subject: &Subject,
    points: &[Point],
    run: &Run,
    uncounted: &str,
    tools: Option<Tools<'_>>,
) -> Vec<Explanation> {
    let measured = lines(run);
    let found = |cell: &Cell| {
        let is = |line: &&Line| line.cell.at() == cell.at() && line.cell.cache.is_cold() == cell.cache.is_cold();
        measured.iter().find(is).cloned()
    };
    let forecasts = forecasts(subject, points, tools);
    let all = points.iter().zip(forecasts).filter_map(|(point, forecast)| {
        let counted = counted(run, &point.cell);
        let uncounted = if counted.is_empty() { uncounted.to_owned() } else { String::new() };
        let measured = found(&point.cell);
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

/// What went wrong in a run, each once.
fn faults(run: &Run) -> String {
    let mut all: Vec<&str> = run.faults.iter().map(|fault| fault.what.as_str()).collect();
    all.dedup();
    all.join("; ")
}

/// What hardware counted at a point, of its first round.
fn counted(run: &Run, cell: &Cell) -> BTreeMap<String, f64> {
    let series = run.series.iter().filter(|series| series.spec.cache.is_cold() == cell.cache.is_cold());
    let row = series.flat_map(|series| &series.rows).find(|row| row.at == cell.at());
    let Some(point) = row.and_then(|row| row.points.first()) else { return BTreeMap::new() };
    let names: Vec<String> = counted::metrics().into_iter().map(|metric| metric.name.to_string()).collect();
    names.into_iter().filter_map(|name| Some((name.clone(), *point.extra.get(&name)?))).collect()
}

/// Why hardware counters can't be read here; empty where they can.
#[must_use]
pub fn uncounted(device: &Device) -> String {
    device.counters().err().map(|fault| fault.to_string()).unwrap_or_default()
}

/// How an expression is to be explained.
#[derive(Clone, Debug)]
pub struct How {
    /// What was found about the device; without it what is shipped or published of its model.
    pub profile: Option<Profile>,
    /// Plans that `plimsoll tune` found; without them those that are shipped.
    pub table: Option<Table>,
    /// Where the data is before.
    pub cache: CachePolicy,
    /// What of the plan is chosen by hand, and whether launches may overlap.
    pub choose: Choose,
    /// Effort and seed of the measurement, and whether hardware counts beside it.
    pub request: Request,
}

impl Default for How {
    fn default() -> Self {
        let request = Request { counters: true, ..Request::default() };
        Self { profile: None, table: None, cache: CachePolicy::ColdRotate, choose: Choose::default(), request }
    }
}

/// Explains a problem on a device: measures it, and sets the model beside it. Instructions are counted in machine code where
/// NVIDIA's compiler and disassembler are found.
///
/// # Errors
/// [`Fault::Invalid`] for choices that can't be; the device's.
pub fn explain(device: &mut Device, problem: &Arc<Problem>, how: &How) -> Result<Explanation, Fault> {
    let choose = Choose { dependent: false, ..how.choose };
    let graph = problem.graph();
    let inputs = (0..problem.inputs().len()).map(|slot| problem.input_bytes(slot));
    let bytes = inputs.chain((0..graph.outputs().len()).map(|place| problem.output_bytes(place))).max();
    let cell = Cell {
        expression: operation(graph).unwrap_or("expression").to_owned(),
        types: types(graph),
        shape: "flat".to_owned(),
        launch: if how.choose.dependent { DEPENDENT } else { PLAIN },
        plan: Variant(choose).to_string(),
        bytes: bytes.unwrap_or_default(),
        cache: how.cache,
        traffic: problem.traffic(),
        ceiling: None,
    };
    let point = Point { cell, problem: Arc::clone(problem), variant: Variant(choose) };
    let subject = Subject::of(device, how.profile.as_ref(), how.table.as_ref())?;
    let uncounted = if how.request.counters { uncounted(device) } else { "it was not asked for".to_owned() };
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
    let mut all = explanations(&subject, &points, &run, &uncounted, tools);
    all.pop().ok_or_else(|| Fault::Invalid("no kernel does what was chosen by hand".to_owned()))
}

/// Expressions that can be explained at a number of elements, on contiguous tensors. Run-time scalars are taken to be 1: their
/// values cost nothing.
pub trait Explain {
    /// The expression.
    fn explained(&self) -> &Graph;

    /// [`explain`] for tensors of so many elements.
    ///
    /// # Errors
    /// As there.
    fn explain(&self, device: &mut Device, elements: u64, how: &How) -> Result<Explanation, Fault> {
        let graph = self.explained();
        let ones: Vec<Value> = graph.scalars().iter().map(|scalar| scalar.dtype.cast(Value::Int(1))).collect();
        let problem = Problem::flat(graph, elements, &ones).map_err(|error| Fault::Invalid(error.to_string()))?;
        explain(device, &Arc::new(problem), how)
    }
}

impl<Args, R> Explain for Traced<Args, R> {
    fn explained(&self) -> &Graph {
        self.graph()
    }
}

impl<Args, R> Explain for Kernel<Args, R> {
    fn explained(&self) -> &Graph {
        self.expression().graph()
    }
}

impl Explain for Expression {
    fn explained(&self) -> &Graph {
        self.graph()
    }
}
