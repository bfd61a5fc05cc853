//! Finding the fastest plans of a device by measurement: candidates are tried cheaply, the better ones again and longer, the
//! best few interleaved, so that no lucky figure wins. The search is pure; timing is [`crate::bench`]'s.

mod search;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use plimsoll_core::Fault;
use plimsoll_core::device::DeviceInfo;
use plimsoll_core::flag::Flag;
use plimsoll_core::probe::{Outcome, Request};
use plimsoll_core::record::Record;
use plimsoll_core::sample::{CachePolicy, Effort};
use plimsoll_core::series::{Point as Sampled, Series, SeriesSpec};
use plimsoll_expr::{DType, Graph, Names, ParseError, Problem, parse};
use plimsoll_gen::elementwise::{Choose, Class, Dependent, Form, Row, Table, candidates};
use plimsoll_suite::bench::Cell;

use self::search::{Contest, Heat, Stopwatch, Way, search};
use crate::bench::{Device, Point, Variant, time_hurried, types};

/// Bytes moved at which plans are sought: from what the second-level cache holds several times to twice the largest that
/// makes a difference.
pub const SIZES: [u64; 7] = [2 << 20, 8 << 20, 32 << 20, 128 << 20, 512 << 20, 2 << 30, 4 << 30];
/// How much of the time goes to each pass.
const PASSES: [f64; search::PASSES] = [0.35, 0.25, 0.15, 0.25];

/// An expression whose class is tuned.
#[derive(Clone, Debug)]
pub struct Subject {
    /// What it is called.
    pub name: String,
    /// The expression.
    pub graph: Graph,
}

/// The expressions that stand for all others: a copy, arithmetic on one and on two inputs, a short function and a long one, by the
/// width of their types.
///
/// # Errors
/// Never for the texts that are built in.
pub fn subjects(effort: Effort) -> Result<Vec<Subject>, ParseError> {
    let usual = [
        ("x", DType::Bf16),
        ("x + 0.75", DType::F32),
        ("x + 0.75", DType::Bf16),
        ("x + 0.75*y", DType::F32),
        ("x + 0.75*y", DType::Bf16),
        ("exp(x)", DType::Bf16),
        ("erf(x)", DType::F32),
        ("erf(x)", DType::Bf16),
    ];
    let more = [
        ("exp(x)", DType::F32),
        ("~x", DType::U8),
        ("x + 0.75", DType::F64),
        ("tanh(0.5*x + y)", DType::F32),
        ("tanh(0.5*x + y)", DType::Bf16),
        ("in x: bf16, y: f32; d: bf16 = x * y", DType::F32),
    ];
    let more = if effort == Effort::Thorough { &more[..] } else { &[] };
    // In a minute there is time for the types that are used most.
    let quick = |(_, dtype): &&(&str, DType)| effort != Effort::Quick || *dtype == DType::Bf16;
    let subject = |(text, dtype): &(&str, DType)| {
        let graph = parse(text, &Names::all(*dtype))?;
        Ok(Subject { name: format!("{text}, {}", types(&graph)), graph })
    };
    usual.iter().filter(quick).chain(more).map(subject).collect()
}

/// One choice of the table, for people.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The expression.
    pub subject: String,
    /// Bytes moved.
    pub bytes: u64,
    /// [`PLAIN`](plimsoll_suite::bench::PLAIN) or [`DEPENDENT`](plimsoll_suite::bench::DEPENDENT).
    pub launch: &'static str,
    /// Where the data were.
    pub cache: CachePolicy,
    /// The plan.
    pub plan: String,
    /// B/s.
    pub bandwidth: f64,
}

/// A table and what was found on the way.
#[derive(Debug)]
pub struct Tuned {
    /// To be stored.
    pub table: Table,
    /// Each choice with its bandwidth.
    pub found: Vec<Found>,
    /// What ended it before its end, if anything did: what is here is of the expressions that were done by then.
    pub ended: Option<Fault>,
}

/// Tunes a GPU in about `seconds`, one expression after the other; `progress` hears the share that is done.
///
/// # Errors
/// [`Fault::Unavailable`] for a device without plans; [`Fault::Stopped`], and what the device says, before anything is found.
pub fn tune(
    device: &mut Device,
    subjects: &[Subject],
    seconds: f64,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(f64),
) -> Result<Tuned, Fault> {
    let planned = device.planned()?;
    let mut tuned = Tuned { table: Table::default(), found: Vec::new(), ended: None };
    tuned.table.source = format!("measured on {}", device.info().name);
    let dependent = device.dependent_launch();
    let ways: Vec<Way> = Way::ALL.into_iter().filter(|way| dependent || !way.is_dependent()).collect();
    let share = 1.0 / (subjects.len() * ways.len()).max(1) as f64;
    let mut time = Time { seconds: seconds * share, share, done: 0.0 };
    for subject in subjects {
        let mut all = Vec::new();
        for &way in &ways {
            let choices = candidates(&subject.graph, &planned, way.is_dependent());
            let sizes = way.sizes(device.info()).into_iter().filter(|bytes| fits(subject, *bytes, device.info()));
            let mut contests: Vec<Contest> = sizes.map(|bytes| Contest::new(way, bytes)).collect();
            let mut stopwatch =
                OnDevice { device, subject, choices: &choices, stop, progress: &mut *progress, time: &mut time };
            match search(&mut contests, &choices, &mut stopwatch) {
                Ok(()) => {}
                // Without those of its other launches they would take the place of a whole class.
                Err(fault) if !tuned.found.is_empty() => return Ok(Tuned { ended: Some(fault), ..tuned }),
                Err(fault) => return Err(fault),
            }
            all.push((choices, contests));
        }
        all.iter().for_each(|(choices, contests)| tuned.add(subject, choices, contests));
    }
    Ok(tuned)
}

/// Whether its operands leave room on the device: each rotates through at least its own size twice.
fn fits(subject: &Subject, bytes: u64, info: &DeviceInfo) -> bool {
    let tensors = (subject.graph.inputs().len() + subject.graph.outputs().len()) as u64;
    let window = info.cold_window().max(2 * bytes / tensors.max(1));
    window.saturating_mul(tensors).saturating_add(2 * bytes) < info.memory_free / 10 * 9
}

impl Tuned {
    /// With what was found for one expression and way to launch.
    fn add(&mut self, subject: &Subject, choices: &[Choose], contests: &[Contest]) {
        for (number, contest) in contests.iter().enumerate() {
            let Some((candidate, seconds)) = contest.winner() else { continue };
            let choose = &choices[candidate];
            // Sizes in between belong to the nearer one, by ratio; beyond the largest all are its, but for the cache, which ends.
            let last = if contest.way.is_cached() { contest.bytes / 3 * 4 } else { u64::MAX };
            let between = |next: &Contest| (contest.bytes as f64 * next.bytes as f64).sqrt() as u64;
            let most_bytes = contests.get(number + 1).map_or(last, between);
            self.table.rows.push(row(Class::of(&subject.graph), most_bytes, contest.way, choose));
            self.found.push(Found {
                subject: subject.name.clone(),
                bytes: contest.bytes,
                launch: contest.way.launch(),
                cache: contest.way.cache(),
                plan: Variant(*choose).to_string(),
                bandwidth: contest.bytes as f64 / seconds,
            });
        }
    }
}

fn row(class: Class, most_bytes: u64, way: Way, choose: &Choose) -> Row {
    let dependent = way.is_dependent();
    Row {
        class,
        most_bytes,
        dependent,
        cached: way.is_cached(),
        form: choose.form.unwrap_or(Form::Flat),
        vector: choose.vector.unwrap_or(16),
        unroll: choose.unroll.unwrap_or(1),
        threads: choose.threads.unwrap_or(128),
        hints: choose.hints.unwrap_or_default().bits(),
        release: choose.release.unwrap_or(if dependent { Dependent::Tail } else { Dependent::No }),
    }
}

/// What a whole search has of it, beside compiling.
struct Time {
    /// Seconds of an expression and way to launch.
    seconds: f64,
    /// Share of all that this is.
    share: f64,
    /// What is done, from 0 to 1.
    done: f64,
}

/// Heats of one expression and way to launch, timed on a device.
struct OnDevice<'a> {
    device: &'a mut Device,
    subject: &'a Subject,
    choices: &'a [Choose],
    stop: &'a AtomicBool,
    progress: &'a mut dyn FnMut(f64),
    time: &'a mut Time,
}

impl OnDevice<'_> {
    fn point(&self, contest: &Contest, candidate: usize) -> Result<Point, Fault> {
        let subject = self.subject;
        let invalid = |why: &dyn std::fmt::Display| Fault::Invalid(why.to_string());
        let per_element = plimsoll_expr::Cost::of(&subject.graph).traffic.total().max(1);
        let elements = (contest.bytes / per_element).max(1);
        let problem = Problem::flat(&subject.graph, elements, &[]).map_err(|error| invalid(&error))?;
        let variant = Variant(self.choices[candidate]);
        let widest = subject.graph.inputs().iter().map(|input| input.dtype.bytes());
        let widest = widest.chain(subject.graph.outputs().iter().map(|output| output.dtype.bytes())).max();
        let cell = Cell {
            expression: subject.name.clone(),
            types: types(&subject.graph),
            shape: "flat".to_owned(),
            launch: contest.way.launch(),
            plan: variant.to_string(),
            bytes: elements * widest.unwrap_or(1),
            cache: contest.way.cache(),
            traffic: problem.traffic(),
            ceiling: None,
        };
        Ok(Point { cell, problem: Arc::new(problem), variant })
    }
}

impl Stopwatch for OnDevice<'_> {
    fn time(&mut self, contests: &[Contest], heat: &Heat, pass: usize) -> Result<Vec<Option<f64>>, Fault> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(Fault::Stopped);
        }
        let points = heat.iter().map(|(contest, candidate)| self.point(&contests[*contest], *candidate));
        let points = points.collect::<Result<Vec<_>, Fault>>()?;
        let last = pass + 1 == PASSES.len();
        let effort = if last { Effort::Standard } else { Effort::Quick };
        let request = Request { effort, seed: 1, ..Request::default() };
        let mut records: Vec<Record> = Vec::new();
        // Only what may be stored is held to other results.
        let hurry = (PASSES[pass] * self.time.seconds, last);
        let outcome = time_hurried(self.device, &points, hurry, &request, &mut records, self.stop)?;
        self.time.done += PASSES[pass] * self.time.share;
        (self.progress)(self.time.done.min(1.0));
        match outcome {
            Outcome::Complete => {}
            Outcome::Faulted(Fault::Invalid(_)) => return Ok(vec![None; heat.len()]),
            Outcome::Faulted(fault) => return Err(fault),
        }
        let seconds = by_place(records);
        Ok(points.iter().map(|point| seconds.get(&format!("{:?}", point.cell.at())).copied()).collect())
    }
}

/// Seconds of every point by its coordinates; those with wrong results are left out.
fn by_place(records: Vec<Record>) -> BTreeMap<String, f64> {
    let (mut specs, mut points): (Vec<SeriesSpec>, Vec<Sampled>) = Default::default();
    for record in records {
        match record {
            Record::Series(spec) => specs.push(spec),
            Record::Point(point) if !point.flags.contains(Flag::VerifyFail) => points.push(point),
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
    fn rows_meet_half_way_between_sizes_and_the_last_has_no_end() {
        let graph = parse("x", &Names::all(DType::F32)).unwrap();
        let subject = Subject { name: "x".to_owned(), graph };
        let choices = [Choose { vector: Some(8), ..Choose::default() }];
        let sizes = [2 << 20, 32 << 20, 2 << 30];
        let cached = [24 << 20, 48 << 20];
        let mut tuned = Tuned { table: Table::default(), found: vec![], ended: None };
        for (way, sizes) in [
            (Way::Plain, &sizes[..]),
            (Way::Dependent, &sizes),
            (Way::Cached, &cached),
            (Way::CachedDependent, &cached),
        ] {
            let won = |&bytes| Contest { left: vec![0], seconds: [(0, 1.0)].into(), ..Contest::new(way, bytes) };
            tuned.add(&subject, &choices, &sizes.iter().map(won).collect::<Vec<_>>());
        }
        let most: Vec<u64> = tuned.table.rows.iter().map(|row| row.most_bytes).collect();
        assert_eq!(most[..6], [1 << 23, 1 << 28, u64::MAX, 1 << 23, 1 << 28, u64::MAX]);
        assert!(most[6] > cached[0] && most[6] < cached[1] && most[7] == 64 << 20, "{most:?}");
        assert_eq!(most[6..8], most[8..]);
        assert_eq!(tuned.table.rows.iter().filter(|row| row.cached && row.dependent).count(), 2);
        assert_eq!(tuned.table.rows.iter().filter(|row| row.cached).count(), 4);
        assert!(tuned.table.rows.iter().all(|row| row.vector == 8));
        assert_eq!(Table::from_json(&tuned.table.to_json()).unwrap(), tuned.table);
    }
}
