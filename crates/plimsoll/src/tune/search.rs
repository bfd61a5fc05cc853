//! The search for the fastest plans of one expression and way to launch: which candidates are timed at which sizes in which pass, and which of
//! them go on. It is pure; who times them is a [`Stopwatch`].
//!
//! What is tried first is thin: with blocks and tiles in all combinations at three sizes a search wasn't done after 410 s on an H200 where it promised
//! four minutes, as every plan takes some time by itself, whatever its launches take.

use std::collections::BTreeMap;

use plimsoll_core::Fault;
use plimsoll_core::device::DeviceInfo;
use plimsoll_core::sample::CachePolicy;
use plimsoll_gen::elementwise::{Choose, Dependent, Form};
use plimsoll_suite::bench::{DEPENDENT, PLAIN};

use super::SIZES;

/// Passes of a search.
pub(super) const PASSES: usize = 4;
/// Sizes at which kernels are tried first; the others take what did well at their neighbours.
const COARSE: [u64; 3] = [2 << 20, 32 << 20, 2 << 30];
/// Sizes at which plans for cached data are sought, as far as the second-level cache holds them: smaller ones are launches' cost.
const CACHED: [u64; 2] = [24 << 20, 48 << 20];
/// The same for launches that may overlap, which hide most of that cost.
const CACHED_DEPENDENT: [u64; 4] = [2 << 20, 8 << 20, 24 << 20, 48 << 20];
/// Bytes moved from which launches are tried that leave the beginning of the next to the end of their blocks: below, overlapping gains more.
const EXIT_FROM: u64 = 256 << 20;
/// How many kernels outlive the first pass where a size has been tried itself, and of each neighbour where not; and how many
/// plans the second and the third.
const SURVIVORS: (usize, usize, usize) = (3, 2, 3);
/// Plans as good as the best within this share: the first of them is taken, so that two runs don't choose differently by
/// chance.
const ALIKE: f64 = 0.002;

/// How launches of a contest go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Way {
    /// One after the other, on data that rotate through memory.
    Plain,
    /// Launches that may overlap, on such data.
    Dependent,
    /// One after the other, on the same data.
    Cached,
    /// Launches that may overlap, on the same data.
    CachedDependent,
}

impl Way {
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

    /// Bytes moved at which plans are sought for it.
    pub fn sizes(self, info: &DeviceInfo) -> Vec<u64> {
        let all = match self {
            Self::Cached => &CACHED[..],
            Self::CachedDependent => &CACHED_DEPENDENT[..],
            Self::Plain | Self::Dependent => &SIZES[..],
        };
        all.iter().copied().filter(|bytes| !self.is_cached() || *bytes <= info.last_level_cache()).collect()
    }

    /// Whether kernels are tried first at the size of this place among `sizes`: of cached data at every second one, from the largest on; otherwise
    /// at the largest that there is too, if some of these don't fit.
    fn is_coarse(self, sizes: &[u64], place: usize) -> bool {
        let from_last = sizes.len() - 1 - place;
        let largest = from_last == 0 && COARSE.iter().any(|coarse| *coarse > sizes[place]);
        if self.is_cached() { from_last.is_multiple_of(2) } else { COARSE.contains(&sizes[place]) || largest }
    }
}

/// Candidates at one size.
#[derive(Clone, Debug)]
pub(super) struct Contest {
    pub bytes: u64,
    pub way: Way,
    /// Those still in it, by their place among the candidates.
    pub left: Vec<usize>,
    /// Seconds of the last pass, for those of `left` that could be timed.
    pub seconds: BTreeMap<usize, f64>,
}

impl Contest {
    pub fn new(way: Way, bytes: u64) -> Self {
        Self { bytes, way, left: Vec::new(), seconds: BTreeMap::new() }
    }

    /// Whether a candidate is worth its time here.
    fn takes(&self, choose: &Choose) -> bool {
        choose.release != Some(Dependent::Exit) || self.bytes >= EXIT_FROM
    }

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
    pub fn winner(&self) -> Option<(usize, f64)> {
        let of = |place: &usize| self.seconds.get(place).map(|seconds| (*place, *seconds));
        let best = self.left.iter().filter_map(of).map(|(_, seconds)| seconds).min_by(f64::total_cmp)?;
        self.left.iter().filter_map(of).find(|(_, seconds)| *seconds <= best * (1.0 + ALIKE))
    }
}

/// What is timed in one go: all contests of a pass, as (contest, candidate).
pub(super) type Heat = Vec<(usize, usize)>;

/// How a heat is timed: seconds of each entry, `None` where that candidate can't be.
pub(super) trait Stopwatch {
    /// `pass` from 0; the last one interleaves its entries in rounds.
    fn time(&mut self, contests: &[Contest], heat: &Heat, pass: usize) -> Result<Vec<Option<f64>>, Fault>;
}

/// The kernel of a candidate without what is tried only where it does well: hints, and when the next may begin, first by the word of the last
/// blocks, which small ones don't pay for. But one that leaves that to the end of its blocks stands by itself.
fn kernel(choose: &Choose) -> Choose {
    Choose { hints: None, release: choose.release.filter(|release| *release == Dependent::Exit), ..*choose }
}

/// True of the first candidate of each kernel.
fn is_plainest(choices: &[Choose], place: usize) -> bool {
    choices[..place].iter().all(|other| kernel(other) != kernel(&choices[place]))
}

/// True of kernels that stand for those like them: two sizes of blocks, and of the tiles of bulk copies every third.
fn is_coarse(choices: &[Choose], place: usize) -> bool {
    let own = &choices[place];
    let tiles = || {
        let like = |other: &&Choose| (other.form, other.vector, other.threads) == (own.form, own.vector, own.threads);
        let mut tiles: Vec<_> = choices.iter().filter(like).map(|other| other.unroll).collect();
        tiles.sort_unstable();
        tiles.dedup();
        tiles
    };
    let stands =
        |tiles: &[Option<u32>]| tiles.len() < 2 || tiles.iter().skip(1).step_by(3).any(|tile| *tile == own.unroll);
    own.threads.is_none_or(|threads| [128, 256].contains(&threads))
        && (own.form != Some(Form::Bulk) || stands(&tiles()))
}

/// A candidate's like with other blocks, or somewhat more or less per block.
fn siblings(choices: &[Choose], place: usize) -> impl Iterator<Item = usize> + '_ {
    let own = &choices[place];
    let [unroll, threads] = [own.unroll, own.threads].map(|choice| choice.unwrap_or(1));
    let near = move |other: &Choose| {
        let [others, of_threads] = [other.unroll, other.threads].map(|choice| choice.unwrap_or(1));
        match own.form {
            Some(Form::Bulk) => unroll.abs_diff(others) <= 1,
            _ => others == unroll || (of_threads == threads && (others == 2 * unroll || 2 * others == unroll)),
        }
    };
    let like = |other: &Choose| {
        (other.form, other.vector, other.hints, other.release) == (own.form, own.vector, own.hints, own.release)
    };
    (0..choices.len()).filter(move |other| like(&choices[*other]) && near(&choices[*other]))
}

/// First the kernels that stand for all at a few sizes; then at all sizes the best of these with everything else; then the like of the best with other
/// blocks and tiles; then the best few, interleaved.
pub(super) fn search(contests: &mut [Contest], choices: &[Choose], stopwatch: &mut dyn Stopwatch) -> Result<(), Fault> {
    let coarse = |place: &usize| is_plainest(choices, *place) && is_coarse(choices, *place);
    let coarse: Vec<usize> = (0..choices.len()).filter(coarse).collect();
    let sizes: Vec<u64> = contests.iter().map(|contest| contest.bytes).collect();
    for (place, contest) in contests.iter_mut().enumerate() {
        let taken = coarse.iter().copied().filter(|place| contest.takes(&choices[*place])).collect();
        contest.left = if contest.way.is_coarse(&sizes, place) { taken } else { vec![] };
    }
    pass(contests, stopwatch, 0)?;
    let first: Vec<Contest> = contests.to_vec();
    for contest in contests.iter_mut() {
        let kernels: Vec<Choose> = neighbours(&first, contest).iter().map(|place| kernel(&choices[*place])).collect();
        let taken = |place: &usize| contest.takes(&choices[*place]) && kernels.contains(&kernel(&choices[*place]));
        contest.left = (0..choices.len()).filter(taken).collect();
    }
    pass(contests, stopwatch, 1)?;
    for contest in contests.iter_mut() {
        let best = contest.fastest(1).into_iter().flat_map(|place| siblings(choices, place));
        contest.left = best.chain(contest.fastest(SURVIVORS.2)).collect();
        contest.left.sort_unstable();
        contest.left.dedup();
    }
    pass(contests, stopwatch, 2)?;
    contests.iter_mut().for_each(|contest| contest.left = contest.fastest(SURVIVORS.2));
    pass(contests, stopwatch, 3)
}

/// What did well at this size, or where it was not tried at the next smaller and the next larger one.
fn neighbours(first: &[Contest], contest: &Contest) -> Vec<usize> {
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

/// Times all that are left in one go.
fn pass(contests: &mut [Contest], stopwatch: &mut dyn Stopwatch, pass: usize) -> Result<(), Fault> {
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

    /// Times made up of a truth and of noise that shrinks from pass to pass. The truth favours a vector of 8 bytes at small and
    /// of 16 at large sizes, two accesses, blocks of 64, which no first pass has, and both hints.
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
                // One kernel can't be run at all.
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

    fn contests(way: Way) -> Vec<Contest> {
        let all = match way {
            Way::Cached => &CACHED[..],
            Way::CachedDependent => &CACHED_DEPENDENT[..],
            Way::Plain | Way::Dependent => &SIZES[..],
        };
        all.iter().map(|bytes| Contest::new(way, *bytes)).collect()
    }

    #[test]
    fn the_best_candidate_wins_everywhere_although_cheap_figures_are_noisy() {
        let choices = choices();
        for way in Way::ALL {
            let mut contests = contests(way);
            let mut noisy = Noisy { choices: choices.clone(), timed: [0; PASSES], state: 1 };
            search(&mut contests, &choices, &mut noisy).unwrap();
            for contest in &contests {
                let (winner, _) = contest.winner().unwrap();
                let vector = if contest.bytes < 64 << 20 { 8 } else { 16 };
                let found = choices[winner];
                let all = (found.vector, found.unroll, found.threads, found.hints.map(Hints::bits));
                assert_eq!(all, (Some(vector), Some(2), Some(64), Some(3)), "{contest:?}");
            }
            let coarse = if way.is_cached() { contests.len() / 2 } else { COARSE.len() };
            assert_eq!(noisy.timed[0], coarse * 12, "each kernel once, at the coarse sizes");
            assert!(noisy.timed[1] < contests.len() * choices.len() * 2 / 3, "{:?}", noisy.timed);
            assert_eq!(noisy.timed[3], contests.len() * SURVIVORS.2);
        }
    }

    #[test]
    fn less_than_a_third_of_a_device_s_kernels_stand_for_nearly_all() {
        let graph = parse("x + 1", &Names::all(DType::Bf16)).unwrap();
        let device = Device {
            target: Target::plain(90),
            multiprocessors: 132,
            threads_per_multiprocessor: 2048,
            l2_bytes: 60 << 20,
        };
        let choices = candidates(&graph, &device, false);
        let kernels = (0..choices.len()).filter(|place| is_plainest(&choices, *place));
        let (coarse, others): (Vec<usize>, Vec<usize>) = kernels.partition(|place| is_coarse(&choices, *place));
        assert!(2 * coarse.len() < others.len(), "{} and {}", coarse.len(), others.len());
        for form in [Form::Flat, Form::Bulk] {
            for vector in [4, 8, 16] {
                let is =
                    |place: &&usize| (choices[**place].form, choices[**place].vector) == (Some(form), Some(vector));
                assert!(coarse.iter().any(|place| is(&place)), "{form:?} {vector}");
            }
        }
        // Hardly a kernel is like none that stands for all.
        let reached: BTreeSet<usize> = coarse.iter().flat_map(|place| siblings(&choices, *place)).collect();
        let missed = others.iter().filter(|place| !reached.contains(place)).count();
        assert!(20 * missed < others.len(), "{missed} of {}", others.len());
        assert!(coarse.iter().all(|place| siblings(&choices, *place).any(|other| other == *place)));
        assert!((0..choices.len()).all(|place| siblings(&choices, place).count() <= 16));
    }

    #[test]
    fn where_the_largest_sizes_have_no_room_the_largest_that_has_is_tried_first() {
        let coarse = |way: Way, sizes: &[u64]| -> Vec<bool> {
            (0..sizes.len()).map(|place| way.is_coarse(sizes, place)).collect()
        };
        assert_eq!(coarse(Way::Plain, &SIZES), [true, false, true, false, false, true, false]);
        assert_eq!(coarse(Way::Dependent, &SIZES[..5]), [true, false, true, false, true]);
        assert_eq!(coarse(Way::Cached, &CACHED[..1]), [true]);
        assert_eq!(coarse(Way::CachedDependent, &CACHED_DEPENDENT), [false, true, false, true]);
    }

    #[test]
    fn small_launches_are_not_tried_with_the_next_at_the_end_of_blocks() {
        let exit = Choose { release: Some(Dependent::Exit), ..Choose::default() };
        let takes = |bytes| Contest::new(Way::Dependent, bytes).takes(&exit);
        assert!(!takes(128 << 20) && takes(512 << 20) && Contest::new(Way::Plain, 1).takes(&Choose::default()));
    }

    #[test]
    fn the_first_pass_tries_each_kernel_with_a_word_of_its_blocks_and_without() {
        let of = |release, unroll| Choose { release: Some(release), unroll: Some(unroll), ..Choose::default() };
        let releases = [Dependent::Tail, Dependent::Exit, Dependent::Early, Dependent::Late];
        let all: Vec<Choose> = releases.into_iter().flat_map(|release| [of(release, 1), of(release, 2)]).collect();
        let plainest: Vec<usize> = (0..all.len()).filter(|place| is_plainest(&all, *place)).collect();
        assert_eq!(plainest, [0, 1, 2, 3]);
    }

    #[test]
    fn of_plans_that_are_alike_the_first_is_taken() {
        let mut contest = contests(Way::Plain).remove(0);
        contest.left = vec![0, 1, 2];
        contest.seconds = [(0, 1.01), (1, 1.0015), (2, 1.0)].into();
        assert_eq!(contest.winner(), Some((1, 1.0015)));
    }

    #[test]
    fn what_cannot_be_timed_never_wins() {
        let mut contest = contests(Way::Plain).remove(0);
        contest.left = vec![0, 1, 2];
        contest.seconds = [(1, 2.0)].into();
        assert_eq!((contest.fastest(8), contest.winner()), (vec![1], Some((1, 2.0))));
        contest.seconds.clear();
        assert_eq!((contest.fastest(8), contest.winner()), (vec![], None));
    }
}
