//! Finding the fastest plans of a device by measurement: candidates are tried cheaply, the better ones again and longer, the
//! best few interleaved, so that no lucky figure wins. The search is pure; timing is [`crate::bench`]'s.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use plimsoll_core::Fault;
use plimsoll_core::device::DeviceInfo;
use plimsoll_core::flag::Flag;
use plimsoll_core::probe::{Outcome, Request};
use plimsoll_core::record::Record;
use plimsoll_core::sample::{CachePolicy, Effort};
use plimsoll_core::series::{Point as Sampled, Series, SeriesSpec};
use plimsoll_expr::{DType, Graph, Names, ParseError, Problem, parse};
use plimsoll_gen::elementwise::{Choose, Class, Dependent, Form, Row, Table, candidates};
use plimsoll_suite::bench::{Cell, DEPENDENT, PLAIN};

use crate::bench::{Device, Point, Variant, time_hurried, types};

/// Bytes moved at which plans are sought: from what the second-level cache holds several times to twice the largest that
/// makes a difference.
pub const SIZES: [u64; 7] = [2 << 20, 8 << 20, 32 << 20, 128 << 20, 512 << 20, 2 << 30, 4 << 30];
/// Sizes at which every vector, unroll and block is tried; the others take what did well at their neighbours.
const COARSE: [u64; 3] = [2 << 20, 32 << 20, 2 << 30];
/// Sizes at which plans for cached data are sought, as far as the second-level cache holds them: smaller ones are launches' cost.
const CACHED: [u64; 2] = [24 << 20, 48 << 20];
/// How much of the time goes to each pass.
const PASSES: [f64; 3] = [0.4, 0.35, 0.25];
/// How many kernels outlive the first pass where a size has been tried itself, and of each neighbour where not; and how many
/// plans the second.
const SURVIVORS: (usize, usize, usize) = (5, 3, 3);
/// Plans as good as the best within this share: the first of them is taken, so that two runs don't choose differently by
/// chance.
const ALIKE: f64 = 0.002;

/// An expression whose class is tuned.
#[derive(Clone, Debug)]
pub struct Subject {
    /// What it is called.
    pub name: String,
    /// The expression.
    pub graph: Graph,
}

/// The expressions that stand for all others: copy, triad and a function, by the width of their types.
///
/// # Errors
/// Never for the texts that are built in.
pub fn subjects(effort: Effort) -> Result<Vec<Subject>, ParseError> {
    let usual = [
        ("x", DType::F32),
        ("x", DType::Bf16),
        ("x + 0.75*y", DType::F32),
        ("x + 0.75*y", DType::Bf16),
        ("erf(x)", DType::F32),
        ("erf(x)", DType::Bf16),
    ];
    let more = [
        ("x", DType::U8),
        ("x", DType::F64),
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

/// How launches of a contest go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    /// One after the other, on data that rotate through memory.
    Plain,
    /// Launches that may overlap, on such data.
    Dependent,
    /// One after the other, on the same data.
    Cached,
}

impl Way {
    fn launch(self) -> &'static str {
        if self == Self::Dependent { DEPENDENT } else { PLAIN }
    }

    fn cache(self) -> CachePolicy {
        if self == Self::Cached { CachePolicy::Hot } else { CachePolicy::ColdRotate }
    }

    /// Bytes moved at which plans are sought for it.
    fn sizes(self, info: &DeviceInfo) -> Vec<u64> {
        match self {
            Self::Cached => CACHED.into_iter().filter(|bytes| *bytes <= info.last_level_cache()).collect(),
            _ => SIZES.to_vec(),
        }
    }
}

/// One search: candidates for one expression at one size and way to launch.
#[derive(Clone, Debug)]
struct Contest {
    subject: usize,
    bytes: u64,
    way: Way,
    /// Those still in it, by their place among the candidates.
    left: Vec<usize>,
    /// Seconds of the last pass, for those of `left` that could be timed.
    seconds: BTreeMap<usize, f64>,
}

impl Contest {
    /// The fastest of the last pass, in the order of their places.
    fn fastest(&self, most: usize) -> Vec<usize> {
        let mut timed: Vec<usize> =
            self.left.iter().copied().filter(|place| self.seconds.contains_key(place)).collect();
        timed.sort_by(|a, b| self.seconds[a].total_cmp(&self.seconds[b]));
        timed.truncate(most);
        timed.sort_unstable();
        timed
    }

    /// The first of those that are as good as the best.
    fn winner(&self) -> Option<(usize, f64)> {
        let of = |place: &usize| self.seconds.get(place).map(|seconds| (*place, *seconds));
        let best = self.left.iter().filter_map(of).map(|(_, seconds)| seconds).min_by(f64::total_cmp)?;
        self.left.iter().filter_map(of).find(|(_, seconds)| *seconds <= best * (1.0 + ALIKE))
    }
}

/// What is timed in one go: all contests of one expression and way to launch, as (contest, candidate).
type Heat = Vec<(usize, usize)>;

/// How a heat is timed: seconds of each entry, `None` where that candidate can't be.
trait Stopwatch {
    /// `pass` from 0; the last one interleaves its entries in rounds.
    fn time(&mut self, contests: &[Contest], heat: &Heat, pass: usize) -> Result<Vec<Option<f64>>, Fault>;
}

/// Candidates by expression and way to launch.
type Choices = BTreeMap<(usize, Way), Vec<Choose>>;

/// The kernel of a candidate without what is tried only where it does well: hints, and when the next may begin.
fn kernel(choose: &Choose) -> Choose {
    Choose { hints: None, release: None, ..*choose }
}

/// True of the first candidate of each kernel.
fn is_plainest(choices: &[Choose], place: usize) -> bool {
    choices[..place].iter().all(|other| kernel(other) != kernel(&choices[place]))
}

/// First every kernel at a few sizes; then at all sizes the best of these kernels with everything else; then the best few of
/// these, interleaved.
fn search(contests: &mut [Contest], choices: &Choices, stopwatch: &mut dyn Stopwatch) -> Result<(), Fault> {
    let of = |contest: &Contest| choices.get(&(contest.subject, contest.way)).map_or(&[][..], Vec::as_slice);
    for contest in contests.iter_mut() {
        let all = of(contest);
        let plainest = (0..all.len()).filter(|place| is_plainest(all, *place));
        let coarse = contest.way == Way::Cached || COARSE.contains(&contest.bytes);
        contest.left = if coarse { plainest.collect() } else { vec![] };
    }
    pass(contests, stopwatch, 0)?;
    let first: Vec<Contest> = contests.to_vec();
    for contest in contests.iter_mut() {
        let all = of(contest);
        let kernels: Vec<Choose> = neighbours(&first, contest).iter().map(|place| kernel(&all[*place])).collect();
        contest.left = (0..all.len()).filter(|place| kernels.contains(&kernel(&all[*place]))).collect();
    }
    pass(contests, stopwatch, 1)?;
    contests.iter_mut().for_each(|contest| contest.left = contest.fastest(SURVIVORS.2));
    pass(contests, stopwatch, 2)
}

/// What did well at this size, or where it was not tried at the next smaller and the next larger one.
fn neighbours(first: &[Contest], contest: &Contest) -> Vec<usize> {
    let same = |other: &&Contest| other.subject == contest.subject && other.way == contest.way;
    let tried = || first.iter().filter(same).filter(|other| !other.seconds.is_empty());
    if let Some(own) = tried().find(|other| other.bytes == contest.bytes) {
        return own.fastest(SURVIVORS.0);
    }
    let below = tried().filter(|other| other.bytes < contest.bytes).max_by_key(|other| other.bytes);
    let above = tried().filter(|other| other.bytes > contest.bytes).min_by_key(|other| other.bytes);
    let most = if below.is_some() && above.is_some() { SURVIVORS.1 } else { SURVIVORS.0 };
    let mut all: Vec<usize> = below.into_iter().chain(above).flat_map(|other| other.fastest(most)).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Times all that are left, each expression and way to launch in one go.
fn pass(contests: &mut [Contest], stopwatch: &mut dyn Stopwatch, pass: usize) -> Result<(), Fault> {
    let mut heats: BTreeMap<(usize, Way), Heat> = BTreeMap::new();
    for (number, contest) in contests.iter_mut().enumerate() {
        contest.seconds.clear();
        let entries = contest.left.iter().map(|candidate| (number, *candidate));
        heats.entry((contest.subject, contest.way)).or_default().extend(entries);
    }
    for heat in heats.into_values() {
        let seconds = stopwatch.time(contests, &heat, pass)?;
        for ((contest, candidate), seconds) in heat.into_iter().zip(seconds) {
            contests[contest].seconds.extend(seconds.map(|seconds| (candidate, seconds)));
        }
    }
    Ok(())
}

/// One choice of the table, for people.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The expression.
    pub subject: String,
    /// Bytes moved.
    pub bytes: u64,
    /// [`PLAIN`] or [`DEPENDENT`].
    pub launch: &'static str,
    /// Where the data were.
    pub cache: CachePolicy,
    /// The plan.
    pub plan: String,
    /// B/s.
    pub bandwidth: f64,
}

/// A table and what was found on the way.
#[derive(Clone, Debug)]
pub struct Tuned {
    /// To be stored.
    pub table: Table,
    /// Each choice with its bandwidth.
    pub found: Vec<Found>,
}

/// Tunes a GPU in about `seconds`; `progress` hears the share that is done.
///
/// # Errors
/// [`Fault::Unavailable`] for a device without plans; [`Fault::Stopped`]; the device's.
pub fn tune(
    device: &mut Device,
    subjects: &[Subject],
    seconds: f64,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(f64),
) -> Result<Tuned, Fault> {
    let planned = device.planned()?;
    let source = format!("measured on {}", device.info().name);
    let dependent = device.dependent_launch();
    let ways = [Way::Plain, Way::Dependent, Way::Cached].into_iter().filter(|way| dependent || *way != Way::Dependent);
    let choices = |subject: &Subject, way| candidates(&subject.graph, &planned, way == Way::Dependent);
    let mut all = Choices::new();
    let mut contests = Vec::new();
    for (number, subject) in subjects.iter().enumerate() {
        for way in ways.clone() {
            let sizes = way.sizes(device.info()).into_iter().filter(|bytes| fits(subject, *bytes, device.info()));
            let contest = |bytes| Contest { subject: number, bytes, way, left: vec![], seconds: BTreeMap::new() };
            contests.extend(sizes.map(contest));
            all.insert((number, way), choices(subject, way));
        }
    }
    let mut stopwatch =
        OnDevice { device, subjects, choices: &all, seconds, stop, progress, done: 0.0, begin: Instant::now() };
    search(&mut contests, &all, &mut stopwatch)?;
    Ok(tuned(source, subjects, &all, &contests))
}

/// Whether its operands leave room on the device: each rotates through at least its own size twice.
fn fits(subject: &Subject, bytes: u64, info: &DeviceInfo) -> bool {
    let tensors = (subject.graph.inputs().len() + subject.graph.outputs().len()) as u64;
    let window = info.cold_window().max(2 * bytes / tensors.max(1));
    window.saturating_mul(tensors).saturating_add(2 * bytes) < info.memory_free / 10 * 9
}

fn tuned(source: String, subjects: &[Subject], choices: &Choices, contests: &[Contest]) -> Tuned {
    let mut tuned = Tuned { table: Table { source, rows: Vec::new() }, found: Vec::new() };
    for (number, contest) in contests.iter().enumerate() {
        let Some((candidate, seconds)) = contest.winner() else { continue };
        let Some(choose) = choices.get(&(contest.subject, contest.way)).and_then(|all| all.get(candidate)) else {
            continue;
        };
        // Sizes in between belong to the nearer one, by ratio; beyond the largest all are its, but for the cache, which ends.
        let next = contests.get(number + 1).filter(|next| next.bytes > contest.bytes && next.way == contest.way);
        let last = if contest.way == Way::Cached { contest.bytes / 3 * 4 } else { u64::MAX };
        let most_bytes = next.map_or(last, |next| (contest.bytes as f64 * next.bytes as f64).sqrt() as u64);
        let subject = &subjects[contest.subject];
        tuned.table.rows.push(row(Class::of(&subject.graph), most_bytes, contest.way, choose));
        tuned.found.push(Found {
            subject: subject.name.clone(),
            bytes: contest.bytes,
            launch: contest.way.launch(),
            cache: contest.way.cache(),
            plan: Variant(*choose).to_string(),
            bandwidth: contest.bytes as f64 / seconds,
        });
    }
    tuned
}

fn row(class: Class, most_bytes: u64, way: Way, choose: &Choose) -> Row {
    let dependent = way == Way::Dependent;
    Row {
        class,
        most_bytes,
        dependent,
        cached: way == Way::Cached,
        form: choose.form.unwrap_or(Form::Flat),
        vector: choose.vector.unwrap_or(16),
        unroll: choose.unroll.unwrap_or(1),
        threads: choose.threads.unwrap_or(128),
        hints: choose.hints.unwrap_or_default().bits(),
        release: choose.release.unwrap_or(if dependent { Dependent::Early } else { Dependent::No }),
    }
}

/// Heats timed on a device.
struct OnDevice<'a> {
    device: &'a mut Device,
    subjects: &'a [Subject],
    choices: &'a Choices,
    seconds: f64,
    stop: &'a AtomicBool,
    progress: &'a mut dyn FnMut(f64),
    /// Share of all that is done.
    done: f64,
    begin: Instant,
}

impl OnDevice<'_> {
    fn point(&self, contest: &Contest, candidate: usize) -> Result<Point, Fault> {
        let subject = &self.subjects[contest.subject];
        let invalid = |why: &dyn std::fmt::Display| Fault::Invalid(why.to_string());
        let per_element = plimsoll_expr::Cost::of(&subject.graph).traffic.total().max(1);
        let elements = (contest.bytes / per_element).max(1);
        let problem = Problem::flat(&subject.graph, elements, &[]).map_err(|error| invalid(&error))?;
        let choose = self.choices[&(contest.subject, contest.way)][candidate];
        let widest = subject.graph.inputs().iter().map(|input| input.dtype.bytes());
        let widest = widest.chain(subject.graph.outputs().iter().map(|output| output.dtype.bytes())).max();
        let cell = Cell {
            expression: subject.name.clone(),
            types: types(&subject.graph),
            shape: "flat".to_owned(),
            launch: contest.way.launch(),
            plan: Variant(choose).to_string(),
            bytes: elements * widest.unwrap_or(1),
            cache: contest.way.cache(),
            traffic: problem.traffic(),
            ceiling: None,
        };
        Ok(Point { cell, problem: Arc::new(problem), variant: Variant(choose) })
    }
}

impl Stopwatch for OnDevice<'_> {
    fn time(&mut self, contests: &[Contest], heat: &Heat, pass: usize) -> Result<Vec<Option<f64>>, Fault> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(Fault::Stopped);
        }
        let points = heat.iter().map(|(contest, candidate)| self.point(&contests[*contest], *candidate));
        let points = points.collect::<Result<Vec<_>, Fault>>()?;
        // Each heat has its share of the pass by its number of expressions and launches, and of what earlier ones left.
        let heats = self.choices.len().max(1) as f64;
        let share = PASSES[pass] / heats;
        let left = (self.seconds - self.begin.elapsed().as_secs_f64()).max(0.0);
        let seconds = left * share / (1.0 - self.done).max(share);
        let effort = if pass + 1 == PASSES.len() { Effort::Standard } else { Effort::Quick };
        let request = Request { effort, seed: 1, ..Request::default() };
        let mut records: Vec<Record> = Vec::new();
        let outcome = time_hurried(self.device, &points, (seconds, pass > 0), &request, &mut records, self.stop)?;
        self.done += share;
        (self.progress)(self.done.min(1.0));
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
    use plimsoll_gen::kernel::Hints;

    /// Times made up of a truth and of noise that shrinks from pass to pass. The truth favours a vector of 8 bytes at small and
    /// of 16 at large sizes, two accesses, and both hints.
    struct Noisy {
        choices: Choices,
        timed: [usize; 3],
        state: u64,
    }

    impl Stopwatch for Noisy {
        fn time(&mut self, contests: &[Contest], heat: &Heat, pass: usize) -> Result<Vec<Option<f64>>, Fault> {
            self.timed[pass] += heat.len();
            let noise = [0.03, 0.02, 0.001][pass];
            let seconds = heat.iter().map(|(number, candidate)| {
                self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let random = (self.state >> 40) as f64 / (1_u64 << 24) as f64;
                let contest = &contests[*number];
                let choose = &self.choices[&(contest.subject, contest.way)][*candidate];
                let best = if contest.bytes < 64 << 20 { 8.0_f64 } else { 16.0 };
                let vector = (f64::from(choose.vector.unwrap_or(1)) / best).log2().abs();
                let unroll = (f64::from(choose.unroll.unwrap_or(1)) / 2.0).log2().abs();
                let hints = f64::from(3 - choose.hints.unwrap_or_default().bits());
                let truth = 1.0 + 0.1 * vector + 0.1 * unroll + 0.02 * hints;
                // One kernel can't be run at all.
                (choose.unroll != Some(8)).then_some(truth * (1.0 + noise * random))
            });
            Ok(seconds.collect())
        }
    }

    fn choices() -> Choices {
        let mut all = Vec::new();
        for (vector, unroll) in [4, 8, 16].into_iter().flat_map(|vector| [1, 2, 4, 8].map(|unroll| (vector, unroll))) {
            for (load_no_allocate, store_streaming) in [(false, false), (true, false), (false, true), (true, true)] {
                let hints = Some(Hints { load_no_allocate, store_streaming });
                let (vector, unroll) = (Some(vector), Some(unroll));
                all.push(Choose { vector, unroll, hints, ..Choose::default() });
            }
        }
        [Way::Plain, Way::Dependent, Way::Cached].map(|way| ((0, way), all.clone())).into()
    }

    fn contests() -> Vec<Contest> {
        let at = |way, sizes: &[u64]| -> Vec<Contest> {
            let contest = |&bytes| Contest { subject: 0, bytes, way, left: vec![], seconds: BTreeMap::new() };
            sizes.iter().map(contest).collect()
        };
        [at(Way::Plain, &SIZES), at(Way::Dependent, &SIZES), at(Way::Cached, &CACHED)].concat()
    }

    #[test]
    fn the_best_candidate_wins_everywhere_although_cheap_figures_are_noisy() {
        let (choices, mut contests) = (choices(), contests());
        let mut noisy = Noisy { choices: choices.clone(), timed: [0; 3], state: 1 };
        search(&mut contests, &choices, &mut noisy).unwrap();
        for contest in &contests {
            let (winner, _) = contest.winner().unwrap();
            let choose = choices[&(0, contest.way)][winner];
            let vector = if contest.bytes < 64 << 20 { 8 } else { 16 };
            let found = (choose.vector, choose.unroll, choose.hints.map(Hints::bits));
            assert_eq!(found, (Some(vector), Some(2), Some(3)), "{contest:?}");
        }
        let sizes = 2 * SIZES.len() + CACHED.len();
        let all = sizes * choices[&(0, Way::Plain)].len();
        assert_eq!(noisy.timed[0], (2 * COARSE.len() + CACHED.len()) * 12, "each kernel once, at the coarse sizes");
        assert!(noisy.timed[1] < all * 2 / 3 && noisy.timed[2] == sizes * SURVIVORS.2, "{:?}", noisy.timed);
    }

    #[test]
    fn of_plans_that_are_alike_the_first_is_taken() {
        let mut contest = contests().remove(0);
        contest.left = vec![0, 1, 2];
        contest.seconds = [(0, 1.01), (1, 1.0015), (2, 1.0)].into();
        assert_eq!(contest.winner(), Some((1, 1.0015)));
    }

    #[test]
    fn what_cannot_be_timed_never_wins() {
        let mut contest = contests().remove(0);
        contest.left = vec![0, 1, 2];
        contest.seconds = [(1, 2.0)].into();
        assert_eq!((contest.fastest(8), contest.winner()), (vec![1], Some((1, 2.0))));
        contest.seconds.clear();
        assert_eq!((contest.fastest(8), contest.winner()), (vec![], None));
    }

    #[test]
    fn rows_meet_half_way_between_sizes_and_the_last_has_no_end() {
        let graph = parse("x", &Names::all(DType::F32)).unwrap();
        let subjects = [Subject { name: "x".to_owned(), graph }];
        let mut contests: Vec<Contest> =
            contests().into_iter().filter(|c| c.way == Way::Cached || COARSE.contains(&c.bytes)).collect();
        contests.iter_mut().for_each(|contest| (contest.left, contest.seconds) = (vec![0], [(0, 1.0)].into()));
        let choices = [Way::Plain, Way::Dependent, Way::Cached]
            .map(|way| ((0, way), vec![Choose { vector: Some(8), ..Choose::default() }]));
        let tuned = tuned("here".to_owned(), &subjects, &choices.into(), &contests);
        let most: Vec<u64> = tuned.table.rows.iter().map(|row| row.most_bytes).collect();
        assert_eq!(most[..6], [1 << 23, 1 << 28, u64::MAX, 1 << 23, 1 << 28, u64::MAX]);
        assert!(most[6] > CACHED[0] && most[6] < CACHED[1] && most[7] == 64 << 20, "{most:?}");
        assert_eq!(tuned.table.rows.iter().filter(|row| row.cached).count(), 2);
        assert!(tuned.table.rows.iter().all(|row| row.vector == 8));
        assert_eq!(Table::from_json(&tuned.table.to_json()).unwrap(), tuned.table);
    }
}
