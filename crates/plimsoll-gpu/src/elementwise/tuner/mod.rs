//! Tunes the plan of one expression on tensors of given layouts: times the planner's own plan and up to eleven others in a few seconds, on
//! memory of its own, and keeps the fastest on disk.

mod contest;
mod store;

use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use plimsoll_core::Fault;
use plimsoll_core::sample::{Work, Workload as _};
use plimsoll_expr::{Layout, Space};
use plimsoll_gen::elementwise::{
    Alternative, Choose, Indexing, KernelSpec, PlanError, TunedEntry, TunedFor, alternatives, plan,
};

use self::contest::{Stopwatch, Winner, contest};
use super::arrays::{Arrays, Refill};
use super::rotation::{Layouts, Set, Subject, bind, launches};
use super::{Elementwise, Engine, Error, Expression};
use crate::load::Load;

pub use store::Store;

/// The time of a search.
const SECONDS: f64 = 3.0;
/// The share of it after which no further kernel is compiled.
const COMPILING: f64 = 0.6;
/// Shortest sample, nanoseconds: far longer than the start of a graph, and all of them long enough for the clock to rise from idle.
const SAMPLE: u64 = 2_000_000;
/// Bytes of each array that launches rotate through: as `bench` does.
const LEAST_WINDOW: u64 = 512 << 20;
const WINDOW_OF_L2: u64 = 5;
/// Seed of the data.
const SEED: u64 = 1;

/// Tunes plans on a stream of a device. It keeps its memory from one search to the next.
pub struct Tuner<G: Elementwise> {
    engine: Engine<G>,
    arrays: Arrays<G>,
    blocker: Option<Arc<G::Blocker>>,
    window: u64,
    seconds: f64,
    store: Option<Store>,
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct Tuned {
    /// The choices that lead to the fastest plan, or those of the request if no other plan is clearly faster.
    pub choose: Choose,
    /// Whether another plan than the planner's own is the fastest.
    pub is_other: bool,
    /// Seconds of a launch by the planner's own plan, and by the fastest; `None` if the search ended before it was decided.
    pub seconds: Option<(f64, f64)>,
    /// Number of plans that were considered; 0 for a stored result.
    pub plans: usize,
    /// Whether the result was found on disk.
    pub is_stored: bool,
    /// What went wrong, if anything did: the search ended early, or the result can't be stored.
    pub notes: Vec<String>,
}

impl Tuned {
    /// The planner's own plan, because tuning wasn't possible.
    pub(super) fn untuned(base: &Choose, note: String) -> Self {
        let notes = vec![note];
        Self { choose: *base, is_other: false, seconds: None, plans: 0, is_stored: false, notes }
    }
}

impl<G: Elementwise> Tuner<G> {
    /// A tuner for an engine's device, in one of its streams, which must not be recording.
    #[must_use]
    pub fn new(engine: &Engine<G>, stream: &Arc<G::Stream>) -> Self {
        let window = engine.device().l2_bytes.saturating_mul(WINDOW_OF_L2).max(LEAST_WINDOW);
        let arrays = Arrays::new(stream, SEED);
        Self { engine: engine.clone(), arrays, blocker: None, window, seconds: SECONDS, store: None }
    }

    /// Keeps results in a folder, and uses those that it has.
    #[must_use]
    pub fn with_store(self, store: Option<Store>) -> Self {
        Self { store, ..self }
    }

    /// Blocks the device while a sample is queued, so that samples exclude the host's share.
    #[must_use]
    pub fn with_blocker(self, blocker: Option<Arc<G::Blocker>>) -> Self {
        Self { blocker, ..self }
    }

    /// Rotates through so many bytes of each array instead of 512 MiB or five times L2.
    #[must_use]
    pub fn with_window(self, window: u64) -> Self {
        Self { window, ..self }
    }

    /// Searches for this long instead of three seconds. A kernel that is being compiled and a sample that was begun end first.
    #[must_use]
    pub fn with_seconds(self, seconds: f64) -> Self {
        Self { seconds, ..self }
    }

    /// Finds the fastest plan for an expression with the choices of `base`: those that it forces stay. Data are in the cache if `base` says
    /// so, else they rotate through memory. If `stop` is set, or memory or time doesn't suffice, the result is the planner's own plan with
    /// a note, and nothing is stored.
    ///
    /// # Errors
    /// There is no plan for `base`; faults of the device.
    pub fn tune(&mut self, subject: &Subject, base: &Choose, stop: &AtomicBool) -> Result<Tuned, Error> {
        let begin = Instant::now();
        let indexing = indexing(subject)?;
        let graph = subject.problem.graph();
        let plans = alternatives(graph, &indexing, self.engine.device(), self.engine.table(), base)?;
        // The key has no forced choices.
        let free =
            Choose { tier: base.tier, dependent: base.dependent, cached: base.cached, ..Choose::default() } == *base;
        let untuned = &plans[0].plan.spec;
        let tuned_for = free.then(|| TunedFor::new(self.engine.name(), graph, &indexing, untuned, base));
        let mut notes = Vec::new();
        if let (Some(store), Some(tuned_for)) = (&self.store, &tuned_for) {
            match self.stored(store, tuned_for, subject, &indexing, base) {
                Ok(Some(tuned)) => return Ok(tuned),
                Ok(None) => {}
                Err(note) => notes.push(note),
            }
        }
        let count = plans.len();
        let found = match self.search(subject, plans, base, (begin, stop)) {
            Ok(Some((winner, choose))) => Ok((winner, choose)),
            Ok(None) => Err("the time was over before every plan was timed".to_owned()),
            Err(Error::Fault(Fault::Stopped)) => Err("tuning was stopped".to_owned()),
            Err(Error::Fault(fault @ Fault::OutOfMemory { .. })) => Err(format!("tuning needs more memory: {fault}")),
            Err(error) => return Err(error),
        };
        let (winner, choose) = match found {
            Ok(found) => found,
            Err(why) => {
                let mut tuned = Tuned::untuned(base, format!("{why}; the untuned plan is used"));
                tuned.notes.splice(0..0, notes);
                return Ok(tuned);
            }
        };
        let seconds = (winner.untuned_seconds, winner.seconds);
        if let (Some(store), Some(tuned_for)) = (&self.store, tuned_for)
            && let Err(error) = store.save(&TunedEntry::new(tuned_for, &choose, seconds))
        {
            notes.push(format!("the tuned plan is not kept in {}: {error}", store.folder().display()));
        }
        Ok(Tuned { choose, is_other: winner.plan > 0, seconds: Some(seconds), plans: count, is_stored: false, notes })
    }

    /// The stored result, if it still leads to a plan.
    fn stored(
        &self,
        store: &Store,
        tuned_for: &TunedFor,
        subject: &Subject,
        indexing: &Indexing,
        base: &Choose,
    ) -> Result<Option<Tuned>, String> {
        let Some(entry) = store.load(tuned_for)? else { return Ok(None) };
        let choose = entry.choose(base);
        let (device, table) = (self.engine.device(), self.engine.table());
        plan(subject.problem.graph(), indexing, device, table, &choose)
            .map_err(|why| format!("the stored plan is not used: {why}"))?;
        let seconds = Some((entry.untuned_seconds, entry.seconds));
        Ok(Some(Tuned { choose, is_other: choose != *base, seconds, plans: 0, is_stored: true, notes: Vec::new() }))
    }

    /// Times the plans. `None` if the time was over before a decision.
    fn search(
        &mut self,
        subject: &Subject,
        mut plans: Vec<Alternative>,
        base: &Choose,
        (begin, stop): (Instant, &AtomicBool),
    ) -> Result<Option<(Winner, Choose)>, Error> {
        let seconds = |share: f64| begin + Duration::from_secs_f64((self.seconds * share).max(0.0));
        let (compile_until, end) = (seconds(COMPILING), seconds(1.0));
        let layouts = Layouts::new(subject, base.cached, self.window);
        self.arrays.ensure(&layouts.bytes())?;
        let compiled = self.compile(&plans, compile_until, stop)?;
        plans.truncate(compiled);
        let refill = self.arrays.fill(&subject.problem)?;
        let sets = (0..layouts.windows).map(|window| layouts.set(&self.arrays, window)).collect::<Result<_, _>>()?;
        let refill = layouts.is_in_place().then(|| Arc::new(refill));
        let loads = plans.iter().map(|_| None).collect();
        let expression = self.engine.expression(subject.problem.graph())?;
        let mut timing = Timing {
            tuner: self,
            expression,
            subject,
            sets,
            refill,
            plans: &plans,
            loads,
            count: 0,
            compile_until,
            end,
            stop,
        };
        let winner = contest(plans.len(), &mut timing)?;
        Ok(winner.map(|winner| (winner, plans[winner.plan].choose)))
    }

    /// Compiles the kernels of plans on all processors until the time is over; how many were compiled.
    fn compile(&self, plans: &[Alternative], until: Instant, stop: &AtomicBool) -> Result<usize, Fault> {
        let specs: Vec<KernelSpec> = plans.iter().map(|plan| plan.plan.spec.clone()).collect();
        let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
        let mut compiled = 0;
        for part in specs.chunks(processors) {
            if stop.load(Ordering::Relaxed) {
                return Err(Fault::Stopped);
            }
            if compiled > 0 && Instant::now() >= until {
                break;
            }
            self.engine.compile_ahead(part, stop);
            compiled += part.len();
        }
        Ok(compiled)
    }
}

/// The tensors of a launch, whose windows are aligned to more than plans depend on.
fn indexing(subject: &Subject) -> Result<Indexing, Error> {
    let graph = subject.problem.graph();
    let layouts: Vec<Layout> = subject.problem.inputs().iter().chain(&subject.outputs).cloned().collect();
    let shape = subject.outputs.first().map_or(subject.problem.shape(), Layout::shape);
    let space = Space::with_shape(shape, &layouts).map_err(PlanError::from)?;
    let inputs = graph.inputs().iter().map(|input| input.dtype);
    let dtypes = inputs.chain(graph.outputs().iter().map(|output| output.dtype));
    let starts: Vec<u64> =
        layouts.iter().zip(dtypes).map(|(layout, dtype)| layout.offset().wrapping_mul(dtype.bytes())).collect();
    Ok(Indexing::new(graph, &space, &starts)?)
}

/// Times the plans of one search.
struct Timing<'t, G: Elementwise> {
    tuner: &'t Tuner<G>,
    expression: Expression<G>,
    subject: &'t Subject,
    sets: Vec<Set>,
    /// Restores the inputs before a sample if launches overwrite them.
    refill: Option<Arc<Refill<G>>>,
    plans: &'t [Alternative],
    /// The workload of each plan that was timed.
    loads: Vec<Option<Load<G>>>,
    /// Launches of a sample, the same for all plans; 0 before the first sample.
    count: u32,
    compile_until: Instant,
    end: Instant,
    stop: &'t AtomicBool,
}

impl<G: Elementwise> Timing<'_, G> {
    /// The workload of a plan, and a sample that isn't counted.
    fn load(&mut self, plan: usize) -> Result<Load<G>, Error> {
        let choose = &self.plans[plan].choose;
        let (launches, overlap) = launches(&self.sets, |set| bind(&self.expression, self.subject, set, choose))?;
        let stream = self.tuner.arrays.stream();
        let mut load = Load::<G>::graph(stream, launches, overlap, Work::default())?;
        if let Some(blocker) = &self.tuner.blocker {
            load = load.with_blocker(blocker);
        }
        if let Some(refill) = &self.refill {
            let refill = Arc::clone(refill);
            load = load.with_prepare(move |stream| refill.run(stream));
        }
        let batch = load.batch();
        if self.count == 0 {
            let cycle = batch.cycle.max(1);
            sample(&mut load, cycle)?;
            let times = u64::from(batch.max / cycle).max(1);
            let wanted = SAMPLE.div_ceil(sample(&mut load, cycle)?.max(1));
            self.count = cycle * u32::try_from(wanted.clamp(1, times)).unwrap_or(1);
        }
        sample(&mut load, self.count)?;
        Ok(load)
    }
}

/// Nanoseconds of one sample of `count` launches.
fn sample<G: Elementwise>(load: &mut Load<G>, count: u32) -> Result<u64, Fault> {
    let mut nanoseconds = [0];
    load.prepare(count)?;
    load.sample(count, &mut nanoseconds)?;
    Ok(nanoseconds[0])
}

impl<G: Elementwise> Stopwatch for Timing<'_, G> {
    fn time(&mut self, plan: usize) -> Result<Option<f64>, Fault> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(Fault::Stopped);
        }
        if self.loads[plan].is_none() {
            // Without a cache of kernels nothing was compiled ahead.
            if plan > 0 && Instant::now() >= self.compile_until {
                return Ok(None);
            }
            match self.load(plan) {
                Ok(load) => self.loads[plan] = Some(load),
                // The backend lacks kernels of this form, or the compiler refuses this one.
                Err(Error::Plan(_) | Error::Fault(Fault::Unavailable { .. })) if plan > 0 => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
        let Some(load) = &mut self.loads[plan] else { return Ok(None) };
        let nanoseconds = sample(load, self.count)?;
        Ok((nanoseconds > 0).then(|| nanoseconds as f64 * 1e-9 / f64::from(self.count)))
    }

    fn is_over(&self) -> bool {
        Instant::now() >= self.end
    }
}
