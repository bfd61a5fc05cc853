//! The search for the fastest plans: which candidates are timed at which sizes in which pass, and which of them go on. It is pure; who
//! times them is a [`Stopwatch`].

use std::collections::BTreeMap;

use plimsoll_core::Fault;
use plimsoll_core::device::DeviceInfo;
use plimsoll_core::sample::CachePolicy;
use plimsoll_gen::elementwise::{Choose, Dependent};
use plimsoll_suite::bench::{DEPENDENT, PLAIN};

use super::SIZES;

/// Sizes at which every vector, unroll and block is tried; the others take what did well at their neighbours.
const COARSE: [u64; 3] = [2 << 20, 32 << 20, 2 << 30];
/// Sizes at which plans for cached data are sought, as far as the second-level cache holds them: smaller ones are launches' cost.
const CACHED: [u64; 2] = [24 << 20, 48 << 20];
/// The same for launches that may overlap, which hide most of that cost.
const CACHED_DEPENDENT: [u64; 4] = [2 << 20, 8 << 20, 24 << 20, 48 << 20];
/// How many kernels outlive the first pass where a size has been tried itself, and of each neighbour where not; and how many
/// plans the second.
const SURVIVORS: (usize, usize, usize) = (5, 3, 3);
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
}

/// One search: candidates for one expression at one size and way to launch.
#[derive(Clone, Debug)]
pub(super) struct Contest {
    pub subject: usize,
    pub bytes: u64,
    pub way: Way,
    /// Those still in it, by their place among the candidates.
    pub left: Vec<usize>,
    /// Seconds of the last pass, for those of `left` that could be timed.
    pub seconds: BTreeMap<usize, f64>,
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
    pub fn winner(&self) -> Option<(usize, f64)> {
        let of = |place: &usize| self.seconds.get(place).map(|seconds| (*place, *seconds));
        let best = self.left.iter().filter_map(of).map(|(_, seconds)| seconds).min_by(f64::total_cmp)?;
        self.left.iter().filter_map(of).find(|(_, seconds)| *seconds <= best * (1.0 + ALIKE))
    }
}

/// What is timed in one go: all contests of one expression and way to launch, as (contest, candidate).
pub(super) type Heat = Vec<(usize, usize)>;

/// How a heat is timed: seconds of each entry, `None` where that candidate can't be.
pub(super) trait Stopwatch {
    /// `pass` from 0; the last one interleaves its entries in rounds.
    fn time(&mut self, contests: &[Contest], heat: &Heat, pass: usize) -> Result<Vec<Option<f64>>, Fault>;
}

/// Candidates by expression and way to launch.
pub(super) type Choices = BTreeMap<(usize, Way), Vec<Choose>>;

/// The kernel of a candidate without what is tried only where it does well: hints, and when the next may begin, first by the word of the last
/// blocks, which small ones don't pay for. But one that leaves that to the end of its blocks stands by itself.
fn kernel(choose: &Choose) -> Choose {
    Choose { hints: None, release: choose.release.filter(|release| *release == Dependent::Exit), ..*choose }
}

/// True of the first candidate of each kernel.
fn is_plainest(choices: &[Choose], place: usize) -> bool {
    choices[..place].iter().all(|other| kernel(other) != kernel(&choices[place]))
}

/// First every kernel at a few sizes; then at all sizes the best of these kernels with everything else; then the best few of
/// these, interleaved.
pub(super) fn search(contests: &mut [Contest], choices: &Choices, stopwatch: &mut dyn Stopwatch) -> Result<(), Fault> {
    let of = |contest: &Contest| choices.get(&(contest.subject, contest.way)).map_or(&[][..], Vec::as_slice);
    for contest in contests.iter_mut() {
        let all = of(contest);
        let plainest = (0..all.len()).filter(|place| is_plainest(all, *place));
        let coarse = contest.way.is_cached() || COARSE.contains(&contest.bytes);
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
        Way::ALL.map(|way| ((0, way), all.clone())).into()
    }

    fn contests() -> Vec<Contest> {
        let at = |way, sizes: &[u64]| -> Vec<Contest> {
            let contest = |&bytes| Contest { subject: 0, bytes, way, left: vec![], seconds: BTreeMap::new() };
            sizes.iter().map(contest).collect()
        };
        let cached = [at(Way::Cached, &CACHED), at(Way::CachedDependent, &CACHED_DEPENDENT)].concat();
        [at(Way::Plain, &SIZES), at(Way::Dependent, &SIZES), cached].concat()
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
        let cached = CACHED.len() + CACHED_DEPENDENT.len();
        let sizes = 2 * SIZES.len() + cached;
        let all = sizes * choices[&(0, Way::Plain)].len();
        assert_eq!(noisy.timed[0], (2 * COARSE.len() + cached) * 12, "each kernel once, at the coarse sizes");
        assert!(noisy.timed[1] < all * 2 / 3 && noisy.timed[2] == sizes * SURVIVORS.2, "{:?}", noisy.timed);
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
}
