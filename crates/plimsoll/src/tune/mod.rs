//! Finds the fastest plans for a device by measurement: all candidates are timed briefly, the better ones again and longer, and
//! the best few interleaved, so that no lucky measurement wins. The search itself is pure; [`crate::bench`] does the timing.

mod budget;
mod search;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use plimsoll_core::Fault;
use plimsoll_core::device::DeviceInfo;
use plimsoll_core::probe::{Outcome, Request};
use plimsoll_core::record::Record;
use plimsoll_core::sample::{CachePolicy, Effort};
use plimsoll_core::series::{Point as Sampled, Series, SeriesSpec};
use plimsoll_expr::{DType, Graph, Names, ParseError, Problem, parse};
use plimsoll_gen::elementwise::{
    Choose, Class, Dependent, Device as PlanningDevice, Form, Row, Table, Tier, candidates,
};
use plimsoll_suite::bench::Cell;

use self::budget::{Budget, Slice, thin};
use self::search::{Contest, Heat, Mode, PASSES, Stopwatch, search};
use crate::bench::{Covers, Device, Point, Variant, time_within, types};

/// Bytes moved for which plans are searched: from a fraction of L2 to twice the largest size that makes a difference.
pub const SIZES: [u64; 7] = [2 << 20, 8 << 20, 32 << 20, 128 << 20, 512 << 20, 2 << 30, 4 << 30];

/// An expression that represents its class in tuning.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The name.
    pub name: String,
    /// The expression.
    pub graph: Graph,
}

/// How many of the expressions every run but a quick one tunes.
const USUAL: usize = 8;

/// The expressions that represent all others, the most valuable first, as the time may end before the last: arithmetic on two inputs and on
/// one, a copy, a short function and a long one, for several type widths.
///
/// # Errors
/// Never: the texts are built in and valid.
pub fn subjects(effort: Effort) -> Result<Vec<Subject>, ParseError> {
    let all = [
        ("x + 0.75*y", DType::Bf16),
        ("x + 0.75", DType::Bf16),
        ("x", DType::Bf16),
        ("x + 0.75*y", DType::F32),
        ("x + 0.75", DType::F32),
        ("exp(x)", DType::Bf16),
        ("erf(x)", DType::Bf16),
        ("erf(x)", DType::F32),
        // Only in a thorough run.
        ("exp(x)", DType::F32),
        ("~x", DType::U8),
        ("x + 0.75", DType::F64),
        ("tanh(0.5*x + y)", DType::F32),
        ("tanh(0.5*x + y)", DType::Bf16),
        ("in x: bf16, y: f32; d: bf16 = x * y", DType::F32),
    ];
    let tuned = if effort == Effort::Thorough { &all[..] } else { &all[..USUAL] };
    // A quick run has about a minute, enough for the most common type.
    let quick = |(_, dtype): &&(&str, DType)| effort != Effort::Quick || *dtype == DType::Bf16;
    let subject = |(text, dtype): &(&str, DType)| {
        let graph = parse(text, &Names::with_default(*dtype))?;
        Ok(Subject { name: format!("{text}, {}", types(&graph)), graph })
    };
    tuned.iter().filter(quick).map(subject).collect()
}

/// One choice in the table, for display.
#[derive(Clone, Debug, PartialEq)]
pub struct TunedPlan {
    /// The expression.
    pub subject: String,
    /// Bytes moved.
    pub bytes: u64,
    /// [`PLAIN`](plimsoll_suite::bench::PLAIN) or [`DEPENDENT`](plimsoll_suite::bench::DEPENDENT).
    pub launch: &'static str,
    /// Whether the data was cached.
    pub cache: CachePolicy,
    /// The plan.
    pub plan: String,
    /// Bandwidth in B/s.
    pub bandwidth: f64,
}

/// The result of tuning.
#[derive(Debug)]
pub struct TuneResult {
    /// The table to store.
    pub table: Table,
    /// Each choice with its bandwidth.
    pub found: Vec<TunedPlan>,
    /// Expressions that were not tuned, because the time was over.
    pub left_out: Vec<String>,
    /// The fault that ended it early, if any. The results are then those of the expressions finished before.
    pub ended: Option<Fault>,
}

/// Tunes a GPU in at most `seconds`, compiling included, one expression after the other. Each is complete or left out: first candidates
/// are thinned out to what the time allows, and expressions that can't be complete in time are not begun, or dropped at the deadline.
/// `progress` is called with the finished share.
///
/// # Errors
/// [`Fault::Unavailable`] for a device without plans; [`Fault::Stopped`] or a device fault if it occurs before anything is found.
pub fn tune(
    device: &mut Device,
    subjects: &[Subject],
    seconds: f64,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(f64),
) -> Result<TuneResult, Fault> {
    let begin = Instant::now();
    let planned = device.planning_device()?;
    let mut tuned = TuneResult { table: Table::default(), found: vec![], left_out: vec![], ended: None };
    tuned.table.source = format!("measured on {}", device.info().name);
    let dependent = device.supports_dependent_launch();
    let modes: Vec<Mode> = Mode::ALL.into_iter().filter(|mode| dependent || !mode.is_dependent()).collect();
    let mut budget = Budget::new(seconds);
    let deadline = begin + Duration::from_secs_f64(seconds.max(0.0));
    let names = |subjects: &[Subject]| subjects.iter().map(|subject| subject.name.clone()).collect();
    for (place, subject) in subjects.iter().enumerate() {
        let since = begin.elapsed().as_secs_f64();
        if !budget.allows_another(since) {
            tuned.left_out = names(&subjects[place..]);
            break;
        }
        let mut clock = Clock { begin, budget: &mut budget, seconds, progress: &mut *progress };
        let left = subjects.len() - place;
        let searched = stop_at(deadline, stop, |stop| {
            search_all(device, (subject, &planned), &modes, (&mut clock, since, left), stop)
        });
        // The deadline's signal is set a little after the user's.
        let stopped = if stop.load(Ordering::Relaxed) { Err(Fault::Stopped) } else { Ok(()) };
        match stopped.and(searched) {
            Ok(finished) => finished.iter().for_each(|(choices, contests)| tuned.add(subject, choices, contests)),
            // Rows for only some launch modes would replace the shipped rows of the whole class, so they are dropped.
            Err(Fault::Stopped) if !stop.load(Ordering::Relaxed) => {
                tuned.left_out = names(&subjects[place..]);
                break;
            }
            Err(fault) if !tuned.found.is_empty() => {
                tuned.ended = Some(fault);
                return Ok(tuned);
            }
            Err(fault) => return Err(fault),
        }
        budget.complete(begin.elapsed().as_secs_f64() - since);
    }
    progress(1.0);
    Ok(tuned)
}

/// The contests of each launch mode, with the choices that compete.
type Finished = Vec<(Vec<Choose>, Vec<Contest>)>;

/// Searches the plans of one expression for all launch modes.
fn search_all(
    device: &mut Device,
    (subject, planned): (&Subject, &PlanningDevice),
    modes: &[Mode],
    (clock, since, left): (&mut Clock<'_>, f64, usize),
    stop: &AtomicBool,
) -> Result<Finished, Fault> {
    let mut finished = Vec::new();
    for (place, &mode) in modes.iter().enumerate() {
        let choices = candidates(&subject.graph, planned, mode.is_dependent());
        let sizes = mode.sizes(device.info()).into_iter().filter(|bytes| fits(subject, *bytes, device.info()));
        let mut contests: Vec<Contest> = sizes.map(|bytes| Contest::new(mode, bytes)).collect();
        let slice = clock.budget.slice(clock.now(), since, left, modes, place);
        let mut stopwatch = OnDevice { device, subject, choices: &choices, stop, clock, slice };
        search(&mut contests, &choices, &mut stopwatch)?;
        finished.push((choices, contests));
    }
    Ok(finished)
}

/// How often the deadline is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// Runs a task with a signal that is set at the deadline, or when `stop` is.
fn stop_at<T>(deadline: Instant, stop: &AtomicBool, task: impl FnOnce(&AtomicBool) -> T) -> T {
    /// Ends the watch even if the task panics.
    struct Done<'a>(&'a AtomicBool);
    impl Drop for Done<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let (ends, is_done) = (AtomicBool::new(false), AtomicBool::new(false));
    let watch = || {
        while !is_done.load(Ordering::Relaxed) {
            if stop.load(Ordering::Relaxed) || Instant::now() >= deadline {
                ends.store(true, Ordering::Relaxed);
            }
            std::thread::sleep(LOOK);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(watch);
        let _done = Done(&is_done);
        task(&ends)
    })
}

/// Whether the operands fit on the device, where each rotates through at least twice its own size.
fn fits(subject: &Subject, bytes: u64, info: &DeviceInfo) -> bool {
    let tensors = (subject.graph.inputs().len() + subject.graph.outputs().len()) as u64;
    let window = info.cold_window().max(2 * bytes / tensors.max(1));
    window.saturating_mul(tensors).saturating_add(2 * bytes) < info.memory_free / 10 * 9
}

impl TuneResult {
    /// Adds the winners for one expression and launch mode.
    fn add(&mut self, subject: &Subject, choices: &[Choose], contests: &[Contest]) {
        for (number, contest) in contests.iter().enumerate() {
            let Some((candidate, seconds)) = contest.winner() else { continue };
            let choose = &choices[candidate];
            // A size in between belongs to the nearer tuned size, by ratio. Larger sizes than the last all belong to it, except for
            // cached data, as the cache is limited.
            let last = if contest.mode.is_cached() { contest.bytes / 3 * 4 } else { u64::MAX };
            let between = |next: &Contest| (contest.bytes as f64 * next.bytes as f64).sqrt() as u64;
            let most_bytes = contests.get(number + 1).map_or(last, between);
            self.table.rows.push(row(
                Class::from_graph(&subject.graph, Tier::Accurate),
                most_bytes,
                contest.mode,
                choose,
            ));
            self.found.push(TunedPlan {
                subject: subject.name.clone(),
                bytes: contest.bytes,
                launch: contest.mode.launch(),
                cache: contest.mode.cache(),
                plan: Variant(*choose).to_string(),
                bandwidth: contest.bytes as f64 / seconds,
            });
        }
    }
}

fn row(class: Class, most_bytes: u64, mode: Mode, choose: &Choose) -> Row {
    let dependent = mode.is_dependent();
    Row {
        class,
        most_bytes,
        dependent,
        cached: mode.is_cached(),
        form: choose.form.unwrap_or(Form::Flat),
        vector: choose.vector.unwrap_or(16),
        unroll: choose.unroll.unwrap_or(1),
        threads: choose.threads.unwrap_or(128),
        hints: choose.hints.unwrap_or_default().bits(),
        release: choose.release.unwrap_or(if dependent { Dependent::Tail } else { Dependent::No }),
    }
}

/// The time of a search, and who hears of its progress.
struct Clock<'a> {
    begin: Instant,
    budget: &'a mut Budget,
    /// Seconds of the whole search.
    seconds: f64,
    progress: &'a mut dyn FnMut(f64),
}

impl Clock<'_> {
    /// Seconds since the search began.
    fn now(&self) -> f64 {
        self.begin.elapsed().as_secs_f64()
    }
}

/// Times the heats of one expression and launch mode on a device.
struct OnDevice<'a, 'c> {
    device: &'a mut Device,
    subject: &'a Subject,
    choices: &'a [Choose],
    stop: &'a AtomicBool,
    clock: &'a mut Clock<'c>,
    slice: Slice,
}

impl OnDevice<'_, '_> {
    fn point(&self, contest: &Contest, candidate: usize) -> Result<Point, Fault> {
        let subject = self.subject;
        let invalid = |why: &dyn std::fmt::Display| Fault::Invalid(why.to_string());
        let per_element = plimsoll_expr::Cost::from_graph(&subject.graph).traffic.total().max(1);
        let elements = (contest.bytes / per_element).max(1);
        let problem = Problem::flat(&subject.graph, elements, &[]).map_err(|error| invalid(&error))?;
        let variant = Variant(self.choices[candidate]);
        let widest = subject.graph.inputs().iter().map(|input| input.dtype.bytes());
        let widest = widest.chain(subject.graph.outputs().iter().map(|output| output.dtype.bytes())).max();
        let bytes = elements * widest.unwrap_or(1);
        let cell = Cell {
            launch: contest.mode.launch(),
            plan: variant.to_string(),
            cache: contest.mode.cache(),
            ..Cell::flat(&subject.name, types(&subject.graph), bytes, problem.traffic())
        };
        Ok(Point { cell, problem: Arc::new(problem), variant, covers: Covers::default() })
    }
}

impl Stopwatch for OnDevice<'_, '_> {
    fn time(&mut self, contests: &[Contest], heat: &Heat, pass: usize) -> Result<Vec<Option<f64>>, Fault> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(Fault::Stopped);
        }
        let begin = self.clock.now();
        let (count, samples) = self.clock.budget.pass(begin, self.slice, pass, heat.len());
        let timed = thin(heat, count, pass);
        let points = timed.iter().map(|(contest, candidate)| self.point(&contests[*contest], *candidate));
        let points = points.collect::<Result<Vec<_>, Fault>>()?;
        let last = pass + 1 == PASSES;
        let effort = if last { Effort::Standard } else { Effort::Quick };
        let request = Request { effort, seed: 1, ..Request::default() };
        let mut records: Vec<Record> = Vec::new();
        // Results are only checked in the last pass, whose winners are stored.
        let outcome = time_within(self.device, &points, (samples, last), &request, &mut records, self.stop)?;
        let now = self.clock.now();
        self.clock.budget.learn(pass, timed.len(), now - begin, samples);
        (self.clock.progress)((now / self.clock.seconds.max(f64::MIN_POSITIVE)).min(1.0));
        match outcome {
            Outcome::Complete => {}
            Outcome::Faulted(Fault::Invalid(_)) => return Ok(vec![None; heat.len()]),
            Outcome::Faulted(fault) => return Err(fault),
        }
        let seconds = seconds_by_position(records);
        let places = points.iter().map(|point| format!("{:?}", point.cell.coordinates()));
        let seconds: BTreeMap<(usize, usize), f64> =
            timed.iter().zip(places).filter_map(|(entry, place)| Some((*entry, *seconds.get(&place)?))).collect();
        Ok(heat.iter().map(|entry| seconds.get(entry).copied()).collect())
    }
}

/// The seconds of each point, by its coordinates. Points whose results were wrong or not checked are left out.
fn seconds_by_position(records: Vec<Record>) -> BTreeMap<String, f64> {
    let (mut specs, mut points): (Vec<SeriesSpec>, Vec<Sampled>) = Default::default();
    for record in records {
        match record {
            Record::Series(spec) => specs.push(spec),
            Record::Point(point) if !point.flags.is_unverified() => points.push(point),
            _ => {}
        }
    }
    let series = specs.into_iter().map(|spec| Series::new(spec, points.iter().cloned()));
    series.flat_map(|series| series.rows).map(|row| (format!("{:?}", row.at), row.time.value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_meet_half_way_between_sizes_and_the_last_has_no_limit() {
        let graph = parse("x", &Names::with_default(DType::F32)).unwrap();
        let subject = Subject { name: "x".to_owned(), graph };
        let choices = [Choose { vector: Some(8), ..Choose::default() }];
        let sizes = [2 << 20, 32 << 20, 2 << 30];
        let cached = [24 << 20, 48 << 20];
        let mut tuned = TuneResult { table: Table::default(), found: vec![], left_out: vec![], ended: None };
        for (mode, sizes) in [
            (Mode::Plain, &sizes[..]),
            (Mode::Dependent, &sizes),
            (Mode::Cached, &cached),
            (Mode::CachedDependent, &cached),
        ] {
            let contest_with_winner =
                |&bytes| Contest { left: vec![0], seconds: [(0, 1.0)].into(), ..Contest::new(mode, bytes) };
            tuned.add(&subject, &choices, &sizes.iter().map(contest_with_winner).collect::<Vec<_>>());
        }
        let most_bytes: Vec<u64> = tuned.table.rows.iter().map(|row| row.most_bytes).collect();
        assert_eq!(most_bytes[..6], [1 << 23, 1 << 28, u64::MAX, 1 << 23, 1 << 28, u64::MAX]);
        assert!(most_bytes[6] > cached[0] && most_bytes[6] < cached[1] && most_bytes[7] == 64 << 20, "{most_bytes:?}");
        assert_eq!(most_bytes[6..8], most_bytes[8..]);
        assert_eq!(tuned.table.rows.iter().filter(|row| row.cached && row.dependent).count(), 2);
        assert_eq!(tuned.table.rows.iter().filter(|row| row.cached).count(), 4);
        assert!(tuned.table.rows.iter().all(|row| row.vector == 8));
        assert_eq!(Table::from_json(&tuned.table.to_json()).unwrap(), tuned.table);
    }
}
