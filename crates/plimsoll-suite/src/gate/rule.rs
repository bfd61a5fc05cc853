//! The rule: one figure of two runs, its known spread from run to run, and what follows. Pure arithmetic.

use plimsoll_core::headline::Better;
use plimsoll_core::stats::{Interval, student_t_quantile};

use super::Verdict;

/// The probability that a comparison of two runs of one unchanged device finds any figure worse.
pub const FALSE_ALARM: f64 = 0.005;
/// Degrees of freedom that the usual spread gets.
const KNOWN: f64 = 30.0;
/// Its weight, in degrees of freedom, against what the rounds of the two runs show: from records of the model, and as declared for
/// devices of any model. A standard run has three rounds, so two degrees of freedom.
const WEIGHTS: [f64; 2] = [30.0, 4.0];
/// Runs so noisy that a loss of this share could hide in them don't show that a figure is the same.
const HIDDEN: f64 = 0.2;
/// Probability that the true ratio lies outside the interval shown.
const OUTSIDE: f64 = 0.05;

/// A figure of one run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Side {
    /// The figure, positive.
    pub value: f64,
    /// Squared standard error of its logarithm, from the rounds of this run.
    pub variance: f64,
    /// Degrees of freedom of `variance`.
    pub freedom: f64,
}

/// What the rule needs besides the two figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms {
    /// The direction in which the figure improves.
    pub better: Better,
    /// Its usual spread from run to run, as a relative standard deviation.
    pub spread: f64,
    /// The spread is known from records of the device's model.
    pub spread_is_measured: bool,
    /// The least difference that matters, as a share: 0.01.
    pub least: f64,
    /// The number of figures that decide the comparison.
    pub figures: usize,
    /// Something other than the device disturbed one of the runs.
    pub disturbed: bool,
}

/// What the rule says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judgement {
    /// New ÷ base.
    pub ratio: f64,
    /// 95 % interval of the ratio for this figure alone, if both runs were repeated.
    pub interval: Interval,
    /// The smallest loss that counts as worse, as a share.
    pub threshold: f64,
    /// The verdict.
    pub verdict: Verdict,
}

impl Side {
    /// A figure of which only its 95 % interval is known.
    #[must_use]
    pub fn from_interval(value: f64, interval: Interval) -> Self {
        let width = (interval.hi / interval.lo).ln();
        let error = if width.is_finite() && width > 0.0 { width / (2.0 * 1.96) } else { 0.0 };
        Self { value, variance: error * error, freedom: KNOWN }
    }
}

/// Judges one figure.
///
/// Two runs of an unchanged device differ by their usual spread, so the variance of the log ratio is twice the squared spread. Where
/// the rounds of a run vary more than that, the variance is moderated by theirs. The figure is worse where the loss is at least `least`,
/// and larger than chance makes it with probability [`FALSE_ALARM`] in any of all `figures` (Bonferroni). Where the loss is larger than
/// the usual spread explains, but not than these runs' own noise, or where something disturbed them, it is unclear; so it is where that
/// noise could hide a loss of a fifth.
///
/// The rounds alone would not do: three rounds estimate a variance so badly that only losses above 20 % could be told from chance, and
/// rounds that differ in the same way in every run (the first one is cooler) do not make the run any less repeatable.
#[must_use]
pub fn judge(base: &Side, new: &Side, terms: &Terms) -> Judgement {
    let ratio = new.value / base.value;
    let gain = terms.better.ratio(new.value, base.value).ln();
    let usual = Error { variance: 2.0 * terms.spread * terms.spread, freedom: KNOWN };
    let whole = usual.moderated_by(base, new, WEIGHTS[usize::from(!terms.spread_is_measured)]);
    let chance = FALSE_ALARM / terms.figures.max(1) as f64;
    let least = -(-terms.least).ln_1p();
    let usual_limit = least.max(usual.quantile(1.0 - chance));
    let limit = usual_limit.max(whole.quantile(1.0 - chance));
    let threshold = -(-limit).exp_m1();
    let half = whole.quantile(1.0 - OUTSIDE / 2.0);
    let verdict = if -gain >= usual_limit {
        if -gain >= limit && !terms.disturbed { Verdict::Worse } else { Verdict::Unclear }
    } else if gain >= limit {
        Verdict::Better
    } else if gain != 0.0 && limit > usual_limit && threshold > HIDDEN {
        // Only a run and itself have exactly equal figures.
        Verdict::Unclear
    } else {
        Verdict::Same
    };
    let interval = Interval { lo: ratio * (-half).exp(), hi: ratio * half.exp() };
    Judgement { ratio, interval, threshold, verdict }
}

/// The variance of the log ratio of two runs, with its degrees of freedom.
#[derive(Clone, Copy)]
struct Error {
    variance: f64,
    freedom: f64,
}

impl Error {
    /// Takes what the rounds of the two runs show into account, in proportion to their degrees of freedom, where it is more than
    /// usual (a moderated variance: Smyth, Statistical Applications in Genetics 3, 2004).
    fn moderated_by(self, base: &Side, new: &Side, weight: f64) -> Self {
        let noisier = [base, new].into_iter().filter(|side| 2.0 * side.variance > self.variance);
        noisier.fold(self, |known, side| {
            let weight = if known.freedom == self.freedom { weight } else { known.freedom };
            let freedom = weight + side.freedom;
            let variance = (weight * known.variance + side.freedom * 2.0 * side.variance) / freedom;
            Self { variance, freedom }
        })
    }

    fn quantile(self, p: f64) -> f64 {
        self.variance.sqrt() * student_t_quantile(p, self.freedom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::stats::Rng;

    const FIGURES: usize = 10;

    fn terms(spread: f64) -> Terms {
        Terms {
            better: Better::More,
            spread,
            spread_is_measured: true,
            least: 0.01,
            figures: FIGURES,
            disturbed: false,
        }
    }

    /// A run: `rounds` rounds that vary by `noise`, around a value that itself varies; runs vary by `spread` in all.
    fn draw(rng: &mut Rng, value: f64, spread: f64, noise: f64, rounds: usize) -> Side {
        let rest = (spread * spread - noise * noise / rounds as f64).max(0.0).sqrt();
        let own = value.ln() + rest * rng.normal();
        let logs: Vec<f64> = (0..rounds).map(|_| own + noise * rng.normal()).collect();
        let mean = logs.iter().sum::<f64>() / rounds as f64;
        let squares: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
        let freedom = (rounds - 1) as f64;
        Side { value: mean.exp(), variance: squares / freedom / rounds as f64, freedom }
    }

    /// The share of comparisons of ten figures, one of them changed by `factor`, that find any of them worse.
    fn alarms(seed: u64, factor: f64, spread: f64, noise: f64) -> f64 {
        let (mut rng, mut alarms, pairs) = (Rng::new(seed), 0, 800);
        for _ in 0..pairs {
            let is_worse = |place: usize, rng: &mut Rng| {
                let base = draw(rng, 100.0, spread, noise, 3);
                let new = draw(rng, if place == 0 { 100.0 * factor } else { 100.0 }, spread, noise, 3);
                judge(&base, &new, &terms(spread)).verdict == Verdict::Worse
            };
            alarms += usize::from((0..FIGURES).filter(|place| is_worse(*place, &mut rng)).count() > 0);
        }
        alarms as f64 / f64::from(pairs)
    }

    #[test]
    fn an_unchanged_device_is_hardly_ever_called_worse() {
        for (spread, noise) in [(0.0005, 0.0005), (0.003, 0.0), (0.003, 0.005), (0.01, 0.003), (0.02, 0.03)] {
            let share = alarms(1, 1.0, spread, noise);
            assert!(share <= 0.01, "{share} with a spread of {spread} and noise of {noise}");
        }
    }

    #[test]
    fn a_loss_of_three_percent_is_found_where_the_spread_allows_it() {
        for (spread, noise) in [(0.0005, 0.0005), (0.002, 0.002), (0.003, 0.001)] {
            let share = alarms(2, 0.97, spread, noise);
            assert!(share >= 0.99, "{share} with a spread of {spread} and noise of {noise}");
        }
        assert!(alarms(3, 0.97, 0.02, 0.01) < 0.1, "a loss within the spread is not a finding");
    }

    #[test]
    fn a_difference_below_the_least_never_counts() {
        let exact = |value: f64| Side { value, variance: 0.0, freedom: 2.0 };
        let verdict = |new: f64, least: f64| judge(&exact(100.0), &exact(new), &Terms { least, ..terms(0.0) }).verdict;
        assert_eq!(verdict(99.1, 0.01), Verdict::Same);
        assert_eq!(verdict(98.9, 0.01), Verdict::Worse);
        assert_eq!(verdict(98.9, 0.03), Verdict::Same);
        assert_eq!(verdict(101.5, 0.01), Verdict::Better);
        let less = Terms { better: Better::Less, ..terms(0.0) };
        assert_eq!(judge(&exact(100.0), &exact(102.0), &less).verdict, Verdict::Worse);
        assert_eq!(judge(&exact(100.0), &exact(98.0), &less).verdict, Verdict::Better);
    }

    #[test]
    fn a_loss_in_a_noisy_or_disturbed_run_is_unclear() {
        let side = |value: f64, error: f64| Side { value, variance: error * error, freedom: 2.0 };
        let noisy = judge(&side(100.0, 0.0001), &side(95.0, 0.06), &terms(0.001));
        assert_eq!(noisy.verdict, Verdict::Unclear);
        assert!(noisy.threshold > 0.05, "{noisy:?}");
        let guessed = Terms { spread_is_measured: false, ..terms(0.001) };
        let noisy = judge(&side(100.0, 0.0001), &side(95.0, 0.015), &guessed);
        assert_eq!(noisy.verdict, Verdict::Unclear, "a declared spread weighs less than one from records: {noisy:?}");
        let disturbed = Terms { disturbed: true, ..terms(0.001) };
        assert_eq!(judge(&side(100.0, 0.0), &side(95.0, 0.0), &disturbed).verdict, Verdict::Unclear);
        assert_eq!(judge(&side(100.0, 0.0), &side(99.9, 0.03), &terms(0.001)).verdict, Verdict::Same);
        let hopeless = judge(&side(100.0, 0.0), &side(150.0, 0.3), &guessed);
        assert!(hopeless.verdict == Verdict::Unclear && hopeless.threshold > 0.5, "{hopeless:?}");
    }

    #[test]
    fn an_interval_stands_for_rounds_where_none_are_known() {
        let side = Side::from_interval(100.0, Interval { lo: 98.04, hi: 102.0 });
        assert!((side.variance.sqrt() - 0.0101).abs() < 1e-4, "{side:?}");
        assert_eq!(Side::from_interval(100.0, Interval { lo: 100.0, hi: 100.0 }).variance, 0.0);
        assert_eq!(Side::from_interval(100.0, Interval { lo: -1.0, hi: 100.0 }).variance, 0.0);
    }
}
