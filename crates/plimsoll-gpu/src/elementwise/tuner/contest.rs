//! Which of several plans is the fastest: rounds of one sample each, so that drift of the clock hits all alike, in which the slower plans
//! drop out. The first plan stays to the end, because the others are compared with it. Pure; a [`Stopwatch`] does the timing.

use plimsoll_core::Fault;

/// Rounds of each stage, and how many plans enter it besides the first.
const STAGES: [(usize, usize); 3] = [(4, usize::MAX), (6, 5), (40, 2)];
/// Fewest rounds that decide.
const LEAST_ROUNDS: usize = 3;
/// A plan must be faster than the first by this share, so that equal plans don't replace it by chance.
const LEAST_GAIN: f64 = 0.004;
/// And by this many standard errors of the median ratio.
const ERRORS: f64 = 2.5;

/// Times plans.
pub(super) trait Stopwatch {
    /// Seconds of one launch of a plan, from one sample; `None` if the plan can't run.
    ///
    /// # Errors
    /// What ends the contest.
    fn time(&mut self, plan: usize) -> Result<Option<f64>, Fault>;
    /// Whether the time is over.
    fn is_over(&self) -> bool;
}

/// The result of a contest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Winner {
    /// The fastest plan; 0 if none is clearly faster than the first.
    pub plan: usize,
    /// Seconds of the first plan, the median over the last rounds.
    pub untuned_seconds: f64,
    /// Its seconds, by the median of its ratio to the first plan in the same round.
    pub seconds: f64,
}

/// Finds the fastest of `count` plans; `None` if the time is over before the first stage is.
///
/// # Errors
/// Those of the stopwatch.
pub(super) fn contest(count: usize, stopwatch: &mut impl Stopwatch) -> Result<Option<Winner>, Fault> {
    let mut left: Vec<usize> = (0..count).collect();
    let mut last: Option<Vec<Round>> = None;
    for (rounds, most) in STAGES {
        if let Some(rounds) = &last {
            left = fastest(&left, rounds, most);
        }
        if left.len() < 2 && last.is_some() {
            break;
        }
        let found = run_stage(&mut left, rounds, stopwatch)?;
        if found.len() < LEAST_ROUNDS {
            break;
        }
        last = Some(found);
    }
    Ok(last.and_then(|rounds| decide(&left, &rounds)))
}

/// The seconds of each plan in a round, by the plan's number.
type Round = Vec<Option<f64>>;

/// Runs complete rounds until there are enough or the time is over. Plans that can't run drop out.
fn run_stage(left: &mut Vec<usize>, rounds: usize, stopwatch: &mut impl Stopwatch) -> Result<Vec<Round>, Fault> {
    let size = left.iter().max().map_or(0, |last| last + 1);
    let mut all = Vec::new();
    for number in 0..rounds {
        let mut round = vec![None; size];
        let mut order = left.clone();
        // Every second round backwards, so that no plan always follows the same one.
        if number % 2 == 1 {
            order.reverse();
        }
        for plan in order {
            if stopwatch.is_over() {
                return Ok(all);
            }
            match stopwatch.time(plan)? {
                Some(seconds) => round[plan] = Some(seconds),
                None => left.retain(|other| *other != plan),
            }
        }
        all.push(round);
    }
    Ok(all)
}

/// The ratios of a plan's time to the first plan's, round by round, in ascending order.
fn ratios(plan: usize, rounds: &[Round]) -> Vec<f64> {
    let ratio = |round: &Round| Some(round.get(plan).copied()?? / round.first().copied()??);
    let mut ratios: Vec<f64> = rounds.iter().filter_map(ratio).filter(|ratio| ratio.is_finite()).collect();
    ratios.sort_by(f64::total_cmp);
    ratios
}

fn median(sorted: &[f64]) -> Option<f64> {
    let (low, high) = (sorted.get(sorted.len().checked_sub(1)? / 2)?, sorted.get(sorted.len() / 2)?);
    Some((low + high) / 2.0)
}

/// The first plan, and the fastest `most` others.
fn fastest(left: &[usize], rounds: &[Round], most: usize) -> Vec<usize> {
    let timed = |plan: &usize| Some((median(&ratios(*plan, rounds))?, *plan));
    let mut others: Vec<(f64, usize)> = left.iter().filter(|plan| **plan != 0).filter_map(timed).collect();
    others.sort_by(|a, b| a.0.total_cmp(&b.0));
    let others = others.into_iter().take(most).map(|(_, plan)| plan);
    left.iter().copied().filter(|plan| *plan == 0).chain(others).collect()
}

/// The standard error of the median of these ratios, from their median absolute deviation.
fn error(sorted: &[f64]) -> Option<f64> {
    let middle = median(sorted)?;
    let mut deviations: Vec<f64> = sorted.iter().map(|ratio| (ratio - middle).abs()).collect();
    deviations.sort_by(f64::total_cmp);
    // For a normal distribution the deviation is 1.4826 times that median, and a median's error 1.2533 times a mean's.
    Some(1.4826 * 1.2533 * median(&deviations)? / (sorted.len() as f64).sqrt())
}

/// The fastest plan that is faster than the first by more than chance.
fn decide(left: &[usize], rounds: &[Round]) -> Option<Winner> {
    let mut own: Vec<f64> = rounds.iter().filter_map(|round| round.first().copied()?).collect();
    own.sort_by(f64::total_cmp);
    let untuned_seconds = median(&own)?;
    let is_faster = |ratios: &[f64]| {
        let (Some(ratio), Some(error)) = (median(ratios), error(ratios)) else { return false };
        ratios.len() >= LEAST_ROUNDS && 1.0 - ratio > LEAST_GAIN.max(ERRORS * error)
    };
    let faster = |plan: &usize| {
        let ratios = ratios(*plan, rounds);
        (*plan != 0 && is_faster(&ratios)).then(|| Some((median(&ratios)?, *plan))).flatten()
    };
    let best = left.iter().filter_map(faster).min_by(|a, b| a.0.total_cmp(&b.0));
    let (ratio, plan) = best.unwrap_or((1.0, 0));
    Some(Winner { plan, untuned_seconds, seconds: ratio * untuned_seconds })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plans with known times, noise, a slowdown over time that hits all, and a limit on the number of samples.
    struct Known {
        seconds: Vec<Option<f64>>,
        noise: f64,
        samples: usize,
        most: usize,
        timed: Vec<usize>,
    }

    impl Known {
        fn new(seconds: &[Option<f64>], noise: f64) -> Self {
            let timed = vec![0; seconds.len()];
            Self { seconds: seconds.to_vec(), noise, samples: 0, most: usize::MAX, timed }
        }
    }

    impl Stopwatch for Known {
        fn time(&mut self, plan: usize) -> Result<Option<f64>, Fault> {
            self.samples += 1;
            self.timed[plan] += 1;
            // Numbers from -1 to 1 that look random (SplitMix64).
            let mut bits = (self.samples as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            let random = ((bits ^ bits >> 31) >> 40) as f64 / f64::from(1 << 23) - 1.0;
            let drift = 1.0 + 0.001 * self.samples as f64;
            Ok(self.seconds[plan].map(|seconds| seconds * drift * (1.0 + self.noise * random)))
        }

        fn is_over(&self) -> bool {
            self.samples >= self.most
        }
    }

    #[test]
    fn a_clearly_faster_plan_wins_in_spite_of_drift_and_slow_plans_are_timed_less() {
        let mut known = Known::new(&[1.0, 1.3, 0.97, 1.1, 1.2, 0.99, 1.5, 1.01, 1.02].map(Some), 0.005);
        let winner = contest(9, &mut known).unwrap().unwrap();
        assert_eq!(winner.plan, 2);
        assert!((winner.seconds / winner.untuned_seconds - 0.97).abs() < 0.004, "{winner:?}");
        assert!(known.timed[2] > 3 * known.timed[6] && known.timed[0] == known.timed[2], "{:?}", known.timed);
    }

    #[test]
    fn a_plan_that_is_faster_only_by_noise_does_not_win() {
        for noise in [0.0, 0.01, 0.05] {
            let winner = contest(12, &mut Known::new(&[Some(1.0); 12], noise)).unwrap().unwrap();
            assert_eq!((winner.plan, winner.seconds), (0, winner.untuned_seconds), "{noise}");
        }
    }

    #[test]
    fn plans_that_cannot_run_drop_out() {
        let mut known = Known::new(&[Some(1.0), None, Some(0.9)], 0.0);
        assert_eq!(contest(3, &mut known).unwrap().unwrap().plan, 2);
        assert_eq!(known.timed[1], 1);
        // Without the first plan there is nothing to compare with.
        assert_eq!(contest(2, &mut Known::new(&[None, Some(1.0)], 0.0)).unwrap(), None);
    }

    #[test]
    fn the_last_complete_stage_decides_if_the_time_is_over() {
        let limited = |most| {
            let mut known = Known { most, ..Known::new(&[Some(1.0), Some(0.8), Some(1.2)], 0.001) };
            (contest(3, &mut known).unwrap().map(|winner| winner.plan), known.samples)
        };
        assert_eq!(limited(8), (None, 8));
        assert_eq!(limited(10), (Some(1), 10));
        assert!(limited(1000).1 < 200);
    }

    #[test]
    fn a_fault_ends_the_contest() {
        struct Stopped;
        impl Stopwatch for Stopped {
            fn time(&mut self, _: usize) -> Result<Option<f64>, Fault> {
                Err(Fault::Stopped)
            }
            fn is_over(&self) -> bool {
                false
            }
        }
        assert!(matches!(contest(2, &mut Stopped), Err(Fault::Stopped)));
    }
}
