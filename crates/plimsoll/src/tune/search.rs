//! The search for the fastest plans of one expression and launch mode: which candidates are timed at which sizes in which pass,
//! and which of them continue. The search is pure; a [`Stopwatch`] does the timing.
//!
//! The first pass tries only a few candidates. With all combinations of block and tile sizes at three sizes, a search for which
//! four minutes were planned was unfinished after 410 s on an H200, as each plan has a fixed cost besides its launches.

use std::collections::BTreeMap;

use plimsoll_core::Fault;
use plimsoll_core::device::DeviceInfo;
use plimsoll_core::sample::CachePolicy;
use plimsoll_gen::elementwise::{Choose, Dependent, Form};
use plimsoll_suite::bench::{DEPENDENT, PLAIN};

use super::SIZES;

/// The number of passes of a search.
pub(super) const PASSES: usize = 4;
/// Sizes at which kernels are tried first. Other sizes take the best kernels of the neighbouring sizes.
const COARSE: [u64; 3] = [2 << 20, 32 << 20, 2 << 30];
/// Sizes for plans on cached data, if they fit into L2. At smaller sizes the launch dominates.
const CACHED: [u64; 2] = [24 << 20, 48 << 20];
/// The same for launches that may overlap, which hide most of the launch cost.
const CACHED_DEPENDENT: [u64; 4] = [2 << 20, 8 << 20, 24 << 20, 48 << 20];
/// Bytes moved from which plans with [`Dependent::Exit`] are tried, which let the next launch begin when their blocks end. Below
/// this size overlapping gains more.
const EXIT_FROM: u64 = 256 << 20;
/// The number of kernels that survive the first pass at a tried size, the number taken from each neighbour of an untried size, and
/// the number of plans that survive the second and the third pass.
const SURVIVORS: (usize, usize, usize) = (3, 2, 3);
/// Plans within this share of the best time count as equal. The first of them is chosen, so that two runs don't differ by chance.
const EQUAL_SHARE: f64 = 0.002;

/// The launch mode and cache state of a contest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mode {
    /// Launches one after the other, on data that rotates through memory.
    Plain,
    /// Launches that may overlap, on data that rotates through memory.
    Dependent,
    /// Launches one after the other, on the same data.
    Cached,
    /// Launches that may overlap, on the same data.
    CachedDependent,
}

impl Mode {
    pub const ALL: [Self; 4] = [Self::Plain, Self::Dependent, Self::Cached, Self::CachedDependent];

    pub fn is_dependent(self) -> bool {
        matches!(self, Self::Dependent | Self::CachedDependent)
    }

    pub fn is_cached(self) -> bool {
        matches!(self, Self::Cached | Self::CachedDependent)
    }

    pub fn launch(self) -> &'static str {
        if self.is_dependent() { DEPENDENT } else { PLAIN }
    }

    pub fn cache(self) -> CachePolicy {
        if self.is_cached() { CachePolicy::Hot } else { CachePolicy::ColdRotate }
    }

    /// Bytes moved for which plans are searched.
    pub fn sizes(self, info: &DeviceInfo) -> Vec<u64> {
        let all = match self {
            Self::Cached => &CACHED[..],
            Self::CachedDependent => &CACHED_DEPENDENT[..],
            Self::Plain | Self::Dependent => &SIZES[..],
        };
        all.iter().copied().filter(|bytes| !self.is_cached() || *bytes <= info.last_level_cache()).collect()
    }

    /// Whether kernels are tried first at `sizes[place]`. For cached data this is every second size, beginning with the largest.
    /// Otherwise it is the sizes in [`COARSE`], and the largest size if some of these don't fit.
    fn is_coarse(self, sizes: &[u64], place: usize) -> bool {
        let from_last = sizes.len() - 1 - place;
        let largest = from_last == 0 && COARSE.iter().any(|coarse| *coarse > sizes[place]);
        if self.is_cached() { from_last.is_multiple_of(2) } else { COARSE.contains(&sizes[place]) || largest }
    }
}

/// The candidates at one size.
#[derive(Clone, Debug)]
pub(super) struct Contest {
    pub bytes: u64,
    pub mode: Mode,
    /// Remaining candidates, by index.
    pub left: Vec<usize>,
    /// Seconds in the last pass, for each of `left` that could be timed.
    pub seconds: BTreeMap<usize, f64>,
}

impl Contest {
    pub fn new(mode: Mode, bytes: u64) -> Self {
        Self { bytes, mode, left: Vec::new(), seconds: BTreeMap::new() }
    }

    /// Whether a candidate is worth trying at this size.
    fn accepts(&self, choose: &Choose) -> bool {
        choose.release != Some(Dependent::Exit) || self.bytes >= EXIT_FROM
    }

    /// The fastest candidates of the last pass, in order of their indices.
    fn fastest(&self, most: usize) -> Vec<usize> {
        let mut timed: Vec<usize> =
            self.left.iter().copied().filter(|place| self.seconds.contains_key(place)).collect();
        timed.sort_by(|a, b| self.seconds[a].total_cmp(&self.seconds[b]));
        timed.truncate(most);
        timed.sort_unstable();
        timed
    }

    /// The first candidate that counts as equal to the best, with its seconds.
    pub fn winner(&self) -> Option<(usize, f64)> {
        let timed = |place: &usize| self.seconds.get(place).map(|seconds| (*place, *seconds));
        let best = self.left.iter().filter_map(timed).map(|(_, seconds)| seconds).min_by(f64::total_cmp)?;
        self.left.iter().filter_map(timed).find(|(_, seconds)| *seconds <= best * (1.0 + EQUAL_SHARE))
    }
}

/// The entries that are timed together in a pass, as (contest, candidate).
pub(super) type Heat = Vec<(usize, usize)>;

/// Times a heat: seconds of each entry, `None` if the candidate can't be timed.
pub(super) trait Stopwatch {
    /// `pass` counts from 0; the last pass interleaves its entries in rounds.
    fn time(&mut self, contests: &[Contest], heat: &Heat, pass: usize) -> Result<Vec<Option<f64>>, Fault>;
}

/// The kernel of a candidate, without the choices that are only tried for good kernels: cache hints, and when the next launch may
/// begin. [`Dependent::Exit`] is kept, as it makes a different kernel.
fn kernel(choose: &Choose) -> Choose {
    Choose { hints: None, release: choose.release.filter(|release| *release == Dependent::Exit), ..*choose }
}

/// Whether the candidate is the first one of its kernel.
fn is_first_of_kernel(choices: &[Choose], place: usize) -> bool {
    choices[..place].iter().all(|other| kernel(other) != kernel(&choices[place]))
}

/// Whether a kernel represents similar ones: two block sizes, and every third tile size of bulk copies.
fn is_representative(choices: &[Choose], place: usize) -> bool {
    let own = &choices[place];
    let tiles = || {
        let is_similar =
            |other: &&Choose| (other.form, other.vector, other.threads) == (own.form, own.vector, own.threads);
        let mut tiles: Vec<_> = choices.iter().filter(is_similar).map(|other| other.unroll).collect();
        tiles.sort_unstable();
        tiles.dedup();
        tiles
    };
    let is_chosen_tile =
        |tiles: &[Option<u32>]| tiles.len() < 2 || tiles.iter().skip(1).step_by(3).any(|tile| *tile == own.unroll);
    own.threads.is_none_or(|threads| [128, 256].contains(&threads))
        && (own.form != Some(Form::Bulk) || is_chosen_tile(&tiles()))
}

/// Candidates like this one with other block sizes, or with somewhat more or less work per block.
fn siblings(choices: &[Choose], place: usize) -> impl Iterator<Item = usize> + '_ {
    let own = &choices[place];
    let [unroll, threads] = [own.unroll, own.threads].map(|choice| choice.unwrap_or(1));
    let is_near = move |other: &Choose| {
        let [other_unroll, other_threads] = [other.unroll, other.threads].map(|choice| choice.unwrap_or(1));
        match own.form {
            Some(Form::Bulk) => unroll.abs_diff(other_unroll) <= 1,
            _ => {
                let is_neighbour = other_unroll == 2 * unroll || 2 * other_unroll == unroll;
                other_unroll == unroll || (other_threads == threads && is_neighbour)
            }
        }
    };
    let is_similar = |other: &Choose| {
        (other.form, other.vector, other.hints, other.release) == (own.form, own.vector, own.hints, own.release)
    };
    (0..choices.len()).filter(move |other| is_similar(&choices[*other]) && is_near(&choices[*other]))
}

/// Runs the four passes: representative kernels at a few sizes; at all sizes the best of these with all other choices; candidates
/// like the best with other block and tile sizes; and the best few, interleaved.
pub(super) fn search(contests: &mut [Contest], choices: &[Choose], stopwatch: &mut dyn Stopwatch) -> Result<(), Fault> {
    let coarse = |place: &usize| is_first_of_kernel(choices, *place) && is_representative(choices, *place);
    let coarse: Vec<usize> = (0..choices.len()).filter(coarse).collect();
    let sizes: Vec<u64> = contests.iter().map(|contest| contest.bytes).collect();
    for (place, contest) in contests.iter_mut().enumerate() {
        let taken = coarse.iter().copied().filter(|place| contest.accepts(&choices[*place])).collect();
        contest.left = if contest.mode.is_coarse(&sizes, place) { taken } else { vec![] };
    }
    run_pass(contests, stopwatch, 0)?;
    let first: Vec<Contest> = contests.to_vec();
    for contest in contests.iter_mut() {
        let kernels: Vec<Choose> = best_nearby(&first, contest).iter().map(|place| kernel(&choices[*place])).collect();
        let taken = |place: &usize| contest.accepts(&choices[*place]) && kernels.contains(&kernel(&choices[*place]));
        contest.left = (0..choices.len()).filter(taken).collect();
    }
    run_pass(contests, stopwatch, 1)?;
    for contest in contests.iter_mut() {
        // The best first: the stopwatch may leave out the rest.
        let mut left = contest.fastest(SURVIVORS.2);
        let others = contest.fastest(1).into_iter().flat_map(|place| siblings(choices, place));
        left.extend(others.filter(|place| !left.contains(place)).collect::<Vec<_>>());
        contest.left = left;
    }
    run_pass(contests, stopwatch, 2)?;
    contests.iter_mut().for_each(|contest| contest.left = contest.fastest(SURVIVORS.2));
    run_pass(contests, stopwatch, 3)
}

/// The best candidates of the first pass at this size, or, if it was not tried, at the next smaller and the next larger one.
fn best_nearby(first: &[Contest], contest: &Contest) -> Vec<usize> {
    let tried = || first.iter().filter(|other| !other.seconds.is_empty());
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

/// Times all remaining candidates together.
fn run_pass(contests: &mut [Contest], stopwatch: &mut dyn Stopwatch, pass: usize) -> Result<(), Fault> {
    contests.iter_mut().for_each(|contest| contest.seconds.clear());
    let entries =
        |(number, contest): (usize, &Contest)| contest.left.iter().map(move |left| (number, *left)).collect::<Heat>();
    let heat: Heat = contests.iter().enumerate().flat_map(entries).collect();
    let seconds = stopwatch.time(contests, &heat, pass)?;
    for ((contest, candidate), seconds) in heat.into_iter().zip(seconds) {
        contests[contest].seconds.extend(seconds.map(|seconds| (candidate, seconds)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use plimsoll_expr::{DType, Names, parse};
    use plimsoll_gen::Target;
    use plimsoll_gen::elementwise::{Device, candidates};
    use plimsoll_gen::kernel::Hints;

    use super::*;

    /// Simulated times: true times plus noise that shrinks from pass to pass. The true times favour a vector of 8 bytes at small
    /// sizes and 16 at large ones, unroll 2, blocks of 64 threads (which the first pass never has), and both hints.
    struct Noisy {
        choices: Vec<Choose>,
        timed: [usize; PASSES],
        state: u64,
    }

    impl Stopwatch for Noisy {
        fn time(&mut self, contests: &[Contest], heat: &Heat, pass: usize) -> Result<Vec<Option<f64>>, Fault> {
            self.timed[pass] += heat.len();
            let noise = [0.03, 0.02, 0.02, 0.001][pass];
            let seconds = heat.iter().map(|(number, candidate)| {
                self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let random = (self.state >> 40) as f64 / (1_u64 << 24) as f64;
                let contest = &contests[*number];
                let choose = &self.choices[*candidate];
                let best = if contest.bytes < 64 << 20 { 8.0_f64 } else { 16.0 };
                let vector = (f64::from(choose.vector.unwrap_or(1)) / best).log2().abs();
                let unroll = (f64::from(choose.unroll.unwrap_or(1)) / 2.0).log2().abs();
                let threads = (f64::from(choose.threads.unwrap_or(1)) / 64.0).log2().abs();
                let hints = f64::from(3 - choose.hints.unwrap_or_default().bits());
                let truth = 1.0 + 0.1 * vector + 0.1 * unroll + 0.05 * threads + 0.02 * hints;
                // Kernels with unroll 8 can't run.
                (choose.unroll != Some(8)).then_some(truth * (1.0 + noise * random))
            });
            Ok(seconds.collect())
        }
    }

    fn choices() -> Vec<Choose> {
        let mut all = Vec::new();
        for (vector, unroll) in [4, 8, 16].into_iter().flat_map(|vector| [1, 2, 4, 8].map(|unroll| (vector, unroll))) {
            for (load_no_allocate, store_streaming) in [(false, false), (true, false), (false, true), (true, true)] {
                let hints = Some(Hints { load_no_allocate, store_streaming });
                for threads in [64, 128] {
                    let [vector, unroll, threads] = [vector, unroll, threads].map(Some);
                    all.push(Choose { vector, unroll, threads, hints, ..Choose::default() });
                }
            }
        }
        all
    }

    fn contests(mode: Mode) -> Vec<Contest> {
        let all = match mode {
            Mode::Cached => &CACHED[..],
            Mode::CachedDependent => &CACHED_DEPENDENT[..],
            Mode::Plain | Mode::Dependent => &SIZES[..],
        };
        all.iter().map(|bytes| Contest::new(mode, *bytes)).collect()
    }

    #[test]
    fn the_best_candidate_wins_at_every_size_despite_noise() {
        let choices = choices();
        for mode in Mode::ALL {
            let mut contests = contests(mode);
            let mut noisy = Noisy { choices: choices.clone(), timed: [0; PASSES], state: 1 };
            search(&mut contests, &choices, &mut noisy).unwrap();
            for contest in &contests {
                let (winner, _) = contest.winner().unwrap();
                let vector = if contest.bytes < 64 << 20 { 8 } else { 16 };
                let found = choices[winner];
                let all = (found.vector, found.unroll, found.threads, found.hints.map(Hints::bits));
                assert_eq!(all, (Some(vector), Some(2), Some(64), Some(3)), "{contest:?}");
            }
            let coarse = if mode.is_cached() { contests.len() / 2 } else { COARSE.len() };
            assert_eq!(noisy.timed[0], coarse * 12, "each kernel once, at the coarse sizes");
            assert!(noisy.timed[1] < contests.len() * choices.len() * 2 / 3, "{:?}", noisy.timed);
            assert_eq!(noisy.timed[3], contests.len() * SURVIVORS.2);
        }
    }

    #[test]
    fn less_than_a_third_of_the_kernels_represent_nearly_all() {
        let graph = parse("x + 1", &Names::with_default(DType::Bf16)).unwrap();
        let device = Device {
            target: Target::plain(90),
            multiprocessors: 132,
            threads_per_multiprocessor: 2048,
            l2_bytes: 60 << 20,
        };
        let choices = candidates(&graph, &device, false);
        let kernels = (0..choices.len()).filter(|place| is_first_of_kernel(&choices, *place));
        let (coarse, others): (Vec<usize>, Vec<usize>) = kernels.partition(|place| is_representative(&choices, *place));
        assert!(2 * coarse.len() < others.len(), "{} and {}", coarse.len(), others.len());
        for form in [Form::Flat, Form::Bulk] {
            for vector in [4, 8, 16] {
                let is =
                    |place: &&usize| (choices[**place].form, choices[**place].vector) == (Some(form), Some(vector));
                assert!(coarse.iter().any(|place| is(&place)), "{form:?} {vector}");
            }
        }
        // Almost every kernel is similar to a representative one.
        let reached: BTreeSet<usize> = coarse.iter().flat_map(|place| siblings(&choices, *place)).collect();
        let missed = others.iter().filter(|place| !reached.contains(place)).count();
        assert!(20 * missed < others.len(), "{missed} of {}", others.len());
        assert!(coarse.iter().all(|place| siblings(&choices, *place).any(|other| other == *place)));
        assert!((0..choices.len()).all(|place| siblings(&choices, place).count() <= 16));
    }

    #[test]
    fn the_largest_size_that_fits_is_tried_first() {
        let coarse = |mode: Mode, sizes: &[u64]| -> Vec<bool> {
            (0..sizes.len()).map(|place| mode.is_coarse(sizes, place)).collect()
        };
        assert_eq!(coarse(Mode::Plain, &SIZES), [true, false, true, false, false, true, false]);
        assert_eq!(coarse(Mode::Dependent, &SIZES[..5]), [true, false, true, false, true]);
        assert_eq!(coarse(Mode::Cached, &CACHED[..1]), [true]);
        assert_eq!(coarse(Mode::CachedDependent, &CACHED_DEPENDENT), [false, true, false, true]);
    }

    #[test]
    fn small_launches_are_not_tried_with_dependent_exit() {
        let exit = Choose { release: Some(Dependent::Exit), ..Choose::default() };
        let accepts = |bytes| Contest::new(Mode::Dependent, bytes).accepts(&exit);
        assert!(!accepts(128 << 20) && accepts(512 << 20) && Contest::new(Mode::Plain, 1).accepts(&Choose::default()));
    }

    #[test]
    fn the_first_pass_tries_each_kernel_with_and_without_exit() {
        let choose = |release, unroll| Choose { release: Some(release), unroll: Some(unroll), ..Choose::default() };
        let releases = [Dependent::Tail, Dependent::Exit, Dependent::Early, Dependent::Late];
        let all: Vec<Choose> =
            releases.into_iter().flat_map(|release| [choose(release, 1), choose(release, 2)]).collect();
        let first: Vec<usize> = (0..all.len()).filter(|place| is_first_of_kernel(&all, *place)).collect();
        assert_eq!(first, [0, 1, 2, 3]);
    }

    #[test]
    fn the_first_of_equal_plans_is_chosen() {
        let mut contest = contests(Mode::Plain).remove(0);
        contest.left = vec![0, 1, 2];
        contest.seconds = [(0, 1.01), (1, 1.0015), (2, 1.0)].into();
        assert_eq!(contest.winner(), Some((1, 1.0015)));
    }

    #[test]
    fn candidates_that_cannot_be_timed_never_win() {
        let mut contest = contests(Mode::Plain).remove(0);
        contest.left = vec![0, 1, 2];
        contest.seconds = [(1, 2.0)].into();
        assert_eq!((contest.fastest(8), contest.winner()), (vec![1], Some((1, 2.0))));
        contest.seconds.clear();
        assert_eq!((contest.fastest(8), contest.winner()), (vec![], None));
    }
}
