//! The time of a search: a deadline that includes compiling, divided among expressions, kinds of launch and passes. Pure; the caller reads
//! the clock.

use super::search::{Heat, Mode, PASSES};

/// The share of the time of each pass.
const SHARES: [f64; PASSES] = [0.35, 0.25, 0.15, 0.25];
/// Seconds that a plan takes besides its samples, before any was measured: an H200 took about 10 ms for compiling on 16 processors, for
/// building a graph of launches and for the first launch.
const FIXED: f64 = 0.012;
/// Least seconds of samples of a plan.
const SAMPLES: f64 = 0.004;
/// The share of the time that is planned: the rest is for what takes longer than expected.
const PLANNED: f64 = 0.97;
/// Passes that may leave out candidates if the time doesn't suffice: all but the last. In the third the best come first.
const THINNED: usize = PASSES - 1;
const BEST_FIRST: usize = 2;

/// The share of an expression's time for each kind of launch: cached data have fewer sizes.
const fn weight(mode: Mode) -> f64 {
    match mode {
        Mode::Plain | Mode::Dependent => 0.35,
        Mode::Cached => 0.1,
        Mode::CachedDependent => 0.2,
    }
}

/// A deadline, and what plans have taken so far. Times are seconds since the search began.
#[derive(Clone, Debug)]
pub(super) struct Budget {
    end: f64,
    /// Seconds that a plan takes besides its samples, by pass.
    fixed: [f64; PASSES],
    /// Seconds that the last complete expression took.
    last: Option<f64>,
}

/// The time of one expression and kind of launch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Slice {
    end: f64,
}

impl Budget {
    /// For a search of at most so many seconds.
    pub fn new(seconds: f64) -> Self {
        // The last pass has three rounds.
        Self { end: PLANNED * seconds, fixed: [FIXED, FIXED, FIXED, 3.0 * FIXED], last: None }
    }

    /// Whether another expression is likely to be complete before the deadline. The first one always gets a try.
    pub fn allows_another(&self, now: f64) -> bool {
        self.last.is_none_or(|last| now + last.min(self.end / 4.0) * 0.75 <= self.end)
    }

    /// Notes the time of a complete expression.
    pub fn complete(&mut self, seconds: f64) {
        self.last = Some(seconds);
    }

    /// The time of `modes[place]`: its share of what is left for an expression, of which there are `left`.
    pub fn slice(&self, now: f64, expression_begin: f64, left: usize, modes: &[Mode], place: usize) -> Slice {
        let of_expression = (self.end - expression_begin).max(0.0) / left.max(1) as f64;
        let remaining = (expression_begin + of_expression - now).max(0.0);
        let weights: f64 = modes[place..].iter().map(|mode| weight(*mode)).sum();
        Slice { end: now + remaining * weight(modes[place]) / weights.max(f64::MIN_POSITIVE) }
    }

    /// How many plans a pass has time for, and the seconds of their samples, if `wanted` plans are to be timed.
    pub fn pass(&self, now: f64, slice: Slice, pass: usize, wanted: usize) -> (usize, f64) {
        let shares: f64 = SHARES[pass..].iter().sum();
        let seconds = (slice.end - now).max(0.0) * SHARES[pass] / shares;
        let fit = (seconds / (self.fixed[pass] + SAMPLES)) as usize;
        let count = if pass < THINNED { wanted.min(fit.max(1)) } else { wanted };
        (count, (seconds - count as f64 * self.fixed[pass]).max(count as f64 * SAMPLES))
    }

    /// Learns from a pass of `count` plans that took `seconds`, with samples of at most `samples` seconds.
    pub fn learn(&mut self, pass: usize, count: usize, seconds: f64, samples: f64) {
        let fixed = ((seconds - samples) / count.max(1) as f64).clamp(FIXED / 10.0, 1.0);
        self.fixed[pass] = (self.fixed[pass] + fixed) / 2.0;
    }
}

/// At most `most` entries: every n-th, spread over all contests; or the first ones of each contest, in a pass where the best come first.
pub(super) fn thin(heat: &Heat, most: usize, pass: usize) -> Heat {
    if heat.len() <= most {
        return heat.clone();
    }
    if pass != BEST_FIRST {
        return (0..most).map(|place| heat[place * heat.len() / most]).collect();
    }
    let rank = |place: usize| heat[..place].iter().filter(|(contest, _)| *contest == heat[place].0).count();
    let mut places: Vec<usize> = (0..heat.len()).collect();
    places.sort_by_key(|place| rank(*place));
    places.truncate(most);
    places.sort_unstable();
    places.into_iter().map(|place| heat[place]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a search of expressions in which a plan takes `fixed` seconds and its samples, and returns how many were complete, and when.
    fn simulate(seconds: f64, expressions: usize, fixed: f64, wanted: [usize; PASSES]) -> (usize, f64) {
        let mut budget = Budget::new(seconds);
        let (mut now, mut done) = (0.0, 0);
        while done < expressions && budget.allows_another(now) {
            let begin = now;
            for place in 0..Mode::ALL.len() {
                let slice = budget.slice(now, begin, expressions - done, &Mode::ALL, place);
                for (pass, &wanted) in wanted.iter().enumerate() {
                    let (count, samples) = budget.pass(now, slice, pass, wanted);
                    let took = count as f64 * fixed + samples;
                    budget.learn(pass, count, took, samples);
                    now += took;
                }
            }
            budget.complete(now - begin);
            done += 1;
        }
        (done, now)
    }

    #[test]
    fn a_search_ends_in_time_whatever_a_plan_takes() {
        for fixed in [0.002, 0.01, 0.03] {
            let (done, end) = simulate(228.0, 8, fixed, [126, 300, 100, 21]);
            assert!(done == 8 && end <= 228.0, "{fixed}: {done} in {end}");
        }
        // Plans that take far longer than assumed: fewer expressions, each of them complete.
        let (done, end) = simulate(56.0, 5, 0.1, [126, 300, 100, 21]);
        assert!((1..5).contains(&done) && end <= 56.0, "{done} in {end}");
    }

    #[test]
    fn early_passes_leave_out_plans_and_late_ones_shorten_samples() {
        let budget = Budget::new(10.0);
        let slice = budget.slice(0.0, 0.0, 5, &Mode::ALL, 0);
        assert!((slice.end - 0.7 * PLANNED).abs() < 1e-9);
        let (count, samples) = budget.pass(0.0, slice, 0, 1000);
        assert!(count < 20 && samples >= count as f64 * SAMPLES);
        assert_eq!(budget.pass(0.0, slice, 3, 21).0, 21);
        assert_eq!(budget.pass(5.0, slice, 0, 1000).0, 1);
    }

    #[test]
    fn thinning_keeps_entries_of_every_contest() {
        let heat: Heat = (0..100).map(|place| (place / 25, place)).collect();
        let left = thin(&heat, 8, 0);
        assert_eq!(left.iter().map(|(contest, _)| *contest).collect::<Vec<_>>(), [0, 0, 1, 1, 2, 2, 3, 3]);
        assert_eq!(thin(&heat, 100, 0), heat);
        assert_eq!(thin(&heat, 8, 2), [(0, 0), (0, 1), (1, 25), (1, 26), (2, 50), (2, 51), (3, 75), (3, 76)]);
    }
}
