//! Derives what to expect of a model from several cards of it: a prediction interval for the figure of a further card, and the
//! spread from run to run.

use plimsoll_core::stats::{Interval, median, student_t_quantile};
use serde::{Deserialize, Serialize};

/// The runs of one card: its figures, in any order.
pub type Card = Vec<f64>;

/// Probability with which a further healthy card lies in the interval.
pub const COVERAGE: f64 = 0.99;
/// Relative standard deviation from card to card that is assumed while fewer than [`FEWEST`] cards were measured.
pub const ASSUMED_SPREAD: f64 = 0.02;
/// Least relative half-width of the interval: figures repeat within it on an idle machine.
pub const NARROWEST: f64 = crate::verdict::MARGIN;
/// The number of cards from which on their own spread is used.
pub const FEWEST: usize = 4;
/// A gap between cards separates two groups where it is this many times the largest other gap and the spread from run to run.
const SEPARATION: f64 = 4.0;
/// Degrees of freedom from which on the measured spread from run to run is used alone.
const ENOUGH_REPEATS: usize = 3;

/// What is known of a figure of one model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Derived {
    /// The median card.
    pub typical: f64,
    /// The range of a further healthy card.
    #[serde(rename = "expected")]
    pub interval: Interval,
    /// Relative standard deviation from card to card; `None` for fewer than two cards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub card_spread: Option<f64>,
    /// Relative standard deviation from run to run on one card; `None` where no card was measured often enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_spread: Option<f64>,
    /// Ranges of the groups into which the cards fall; empty where they form one group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<Interval>,
}

/// Derives the figure of a model from its cards, each with at least one finite positive run. `spread` is the declared spread from run
/// to run. `None` without cards.
///
/// The interval is that of the logarithms, mean ± t·s·√(1 + 1/n) with Student's t for n cards (Whitmore, 'Prediction limits for a
/// univariate normal observation', The American Statistician 40, 1986), and on each side at least three spreads from run
/// to run and [`NARROWEST`] wide.
#[must_use]
pub fn derive(cards: &[Card], spread: f64) -> Option<Derived> {
    let mut logs: Vec<f64> = cards.iter().map(|runs| median(runs.clone()).ln()).collect();
    if logs.is_empty() || logs.iter().any(|log| !log.is_finite()) {
        return None;
    }
    logs.sort_unstable_by(f64::total_cmp);
    let n = logs.len() as f64;
    let mean = logs.iter().sum::<f64>() / n;
    let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let card_spread = (logs.len() > 1).then(|| variance.sqrt());
    let run_spread = spread_between_runs(cards);
    let least = run_spread.unwrap_or(spread);
    let (s, t) = if logs.len() < FEWEST {
        (card_spread.unwrap_or(0.0).max(ASSUMED_SPREAD), student_t_quantile(0.5 + COVERAGE / 2.0, 1e6))
    } else {
        (variance.sqrt(), student_t_quantile(0.5 + COVERAGE / 2.0, n - 1.0))
    };
    let half = (t * s * (1.0 + 1.0 / n).sqrt()).max(3.0 * least).max(NARROWEST);
    Some(Derived {
        typical: median(logs.iter().map(|log| log.exp()).collect()),
        interval: Interval { lo: (mean - half).exp(), hi: (mean + half).exp() },
        card_spread,
        run_spread,
        groups: find_groups(&logs, least),
    })
}

/// The pooled relative standard deviation of cards that were measured several times.
fn spread_between_runs(cards: &[Card]) -> Option<f64> {
    let freedom: usize = cards.iter().map(|runs| runs.len() - 1).sum();
    let squares = |runs: &Card| {
        let logs: Vec<f64> = runs.iter().map(|run| run.ln()).collect();
        let mean = logs.iter().sum::<f64>() / logs.len() as f64;
        logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>()
    };
    let sum: f64 = cards.iter().map(squares).sum();
    (freedom >= ENOUGH_REPEATS).then(|| (sum / freedom as f64).sqrt())
}

/// Two groups where one gap between sorted cards is far larger than all others and than the spread from run to run, and each side
/// has at least two cards.
fn find_groups(logs: &[f64], run_spread: f64) -> Vec<Interval> {
    let mut gaps: Vec<(f64, usize)> = logs.windows(2).enumerate().map(|(i, pair)| (pair[1] - pair[0], i + 1)).collect();
    gaps.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
    let [(largest, at), (second, _), ..] = gaps[..] else { return Vec::new() };
    if largest < SEPARATION * second.max(run_spread) || at < 2 || at > logs.len() - 2 {
        return Vec::new();
    }
    let range = |part: &[f64]| Interval { lo: part[0].exp(), hi: part[part.len() - 1].exp() };
    vec![range(&logs[..at]), range(&logs[at..])]
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::stats::Rng;

    fn draw(rng: &mut Rng, cards: usize, card_spread: f64, runs: usize, run_spread: f64) -> Vec<Card> {
        let card = |rng: &mut Rng| {
            let own = card_spread * rng.normal();
            (0..runs).map(|_| 100.0 * (own + run_spread * rng.normal()).exp()).collect()
        };
        (0..cards).map(|_| card(rng)).collect()
    }

    #[test]
    fn a_further_card_lies_in_the_interval_as_often_as_promised() {
        let mut rng = Rng::new(24);
        let mut inside = 0;
        for _ in 0..2000 {
            let known = derive(&draw(&mut rng, 6, 0.01, 1, 0.0), 0.0001).unwrap();
            inside += usize::from(known.interval.contains(100.0 * (0.01 * rng.normal()).exp()));
        }
        // 99 % of 2,000 with a binomial standard deviation of 4.4.
        assert!((1960..=1998).contains(&inside), "{inside}");
    }

    #[test]
    fn spreads_are_separated_into_runs_and_cards() {
        let known = derive(&draw(&mut Rng::new(7), 200, 0.01, 4, 0.002), 0.1).unwrap();
        assert!((known.run_spread.unwrap() / 0.002 - 1.0).abs() < 0.15, "{known:?}");
        assert!((known.card_spread.unwrap() / 0.01 - 1.0).abs() < 0.2, "{known:?}");
        assert!((known.typical / 100.0 - 1.0).abs() < 0.003);
    }

    #[test]
    fn few_cards_get_a_wide_interval_and_no_card_none() {
        let one = derive(&[vec![100.0]], 0.001).unwrap();
        assert!(one.interval.lo < 94.0 && one.interval.hi > 106.0 && one.card_spread.is_none());
        assert_eq!(derive(&[], 0.001), None);
        assert_eq!(derive(&[vec![f64::NAN]], 0.001), None);
        assert_eq!(derive(&[vec![-1.0]], 0.001), None);
    }

    #[test]
    fn two_groups_are_found_only_where_a_gap_separates_them() {
        let cards = |values: &[f64]| -> Vec<Card> { values.iter().map(|value| vec![*value]).collect() };
        let two = derive(&cards(&[4.59, 4.592, 4.593, 4.67, 4.669]), 0.001).unwrap();
        assert_eq!(two.groups.len(), 2);
        assert!(two.groups[0].hi < 4.6 && two.groups[1].lo > 4.66);
        assert!(derive(&cards(&[4.59, 4.61, 4.63, 4.65, 4.67]), 0.001).unwrap().groups.is_empty());
        assert!(derive(&cards(&[4.59, 4.592, 4.67]), 0.001).unwrap().groups.is_empty(), "a single card is no group");
    }
}
