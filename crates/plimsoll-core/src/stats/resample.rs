//! Bootstrap of the median over rounds: how far the figure would move if the whole measurement were done again.
//! For comparisons after the measurement; it allocates.

use super::{Rng, Scratch, estimate, median_sorted};

/// Fills `out` with bootstrap draws of ln(median) of samples taken in `rounds` (each in order, positive).
/// Two figures compare by the differences of their draws, whose quantiles are an interval of the ln of their ratio.
/// All 0 where there is no sample.
///
/// Rounds are resampled first, then samples within each (Davison & Hinkley, Bootstrap Methods, 3.8), because the spread
/// between rounds is part of the error. Of R rounds R − 1 are drawn, or the spread of so few would come out too small
/// by (R − 1)/R (McCarthy & Snowden 1985); one round alone shows no spread between rounds. A round of correlated
/// samples is drawn in moving blocks (Künsch 1989).
pub fn bootstrap_log_medians(rounds: &[&[f64]], rng: &mut Rng, out: &mut [f64]) {
    let mut scratch = Scratch::new();
    let rounds: Vec<(&[f64], usize)> =
        rounds.iter().filter(|r| !r.is_empty()).map(|r| (*r, block_length(r, &mut scratch))).collect();
    let drawn = rounds.len().saturating_sub(1).max(1);
    let mut sample = Vec::new();
    for slot in out {
        sample.clear();
        for _ in 0..drawn {
            if let Some(&(round, block)) = rounds.get(rng.below(rounds.len() as u64) as usize) {
                draw_blocks(round, block, rng, &mut sample);
            }
        }
        sample.sort_unstable_by(f64::total_cmp);
        *slot = if sample.is_empty() { 0.0 } else { median_sorted(&sample).ln() };
    }
}

/// Standard error of ln(median), by `draws` draws of [`bootstrap_log_medians`]: a relative error, 0.001 being 0.1 %.
/// 0 where there are fewer than two draws.
#[must_use]
pub fn bootstrap_median_se(rounds: &[&[f64]], draws: usize, rng: &mut Rng) -> f64 {
    if draws < 2 {
        return 0.0;
    }
    let mut logs = vec![0.0; draws];
    bootstrap_log_medians(rounds, rng, &mut logs);
    let mean = logs.iter().sum::<f64>() / draws as f64;
    (logs.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (draws - 1) as f64).sqrt()
}

/// Block length that Carlstein (Ann. Stat. 14, 1986) finds best for AR(1) samples, (√6·φ/(1 − φ²))^⅔·n^⅓; 1 where they
/// do not count as correlated.
fn block_length(round: &[f64], scratch: &mut Scratch) -> usize {
    let estimate = estimate(round, scratch);
    if !estimate.correlated {
        return 1;
    }
    let phi = estimate.lag1.min(0.99);
    let length = (6f64.sqrt() * phi / (1.0 - phi * phi)).powf(2.0 / 3.0) * (round.len() as f64).cbrt();
    (length.ceil() as usize).clamp(1, round.len())
}

/// Appends as many samples as `round` has, in blocks that start anywhere they fit.
fn draw_blocks(round: &[f64], block: usize, rng: &mut Rng, sample: &mut Vec<f64>) {
    let mut left = round.len();
    while left > 0 {
        let start = rng.below((round.len() - block + 1) as u64) as usize;
        let take = block.min(left);
        sample.extend_from_slice(&round[start..start + take]);
        left -= take;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mean of the estimated errors, and the true one: the spread of ln(median) over fresh measurements.
    fn estimated_and_true(rounds: usize, between: f64, phi: f64) -> (f64, f64) {
        let mut rng = Rng::new(3);
        let (mut estimated, mut logs) = (0.0, Vec::new());
        let mut scratch = Scratch::new();
        for _ in 0..120 {
            let data: Vec<Vec<f64>> = (0..rounds)
                .map(|_| {
                    let offset = between * rng.normal();
                    let mut state = rng.normal();
                    (0..80)
                        .map(|_| {
                            state = phi * state + (1.0 - phi * phi).sqrt() * rng.normal();
                            1.0 + offset + 0.01 * state
                        })
                        .collect()
                })
                .collect();
            let slices: Vec<&[f64]> = data.iter().map(Vec::as_slice).collect();
            estimated += bootstrap_median_se(&slices, 60, &mut rng) / 120.0;
            logs.push(estimate(&data.concat(), &mut scratch).median.ln());
        }
        let mean = logs.iter().sum::<f64>() / 120.0;
        (estimated, (logs.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 119.0).sqrt())
    }

    #[test]
    fn the_error_of_independent_samples_is_found() {
        let (estimated, truth) = estimated_and_true(1, 0.0, 0.0);
        assert!((0.8..1.3).contains(&(estimated / truth)), "{estimated} {truth}");
    }

    #[test]
    fn correlation_is_not_taken_for_precision() {
        let (estimated, truth) = estimated_and_true(1, 0.0, 0.7);
        assert!((0.65..1.3).contains(&(estimated / truth)), "{estimated} {truth}");
    }

    #[test]
    fn the_spread_between_rounds_is_part_of_the_error() {
        let (estimated, truth) = estimated_and_true(4, 0.02, 0.0);
        assert!((0.75..1.4).contains(&(estimated / truth)), "{estimated} {truth}");
    }

    #[test]
    fn the_same_seed_gives_the_same_draws() {
        let go = || {
            let mut out = [0.0; 20];
            bootstrap_log_medians(&[&[1.0, 2.0, 3.0], &[2.0, 2.5]], &mut Rng::new(9), &mut out);
            out
        };
        assert_eq!(go(), go());
    }

    #[test]
    fn no_samples_or_draws_give_zero() {
        let mut rng = Rng::new(1);
        assert_eq!(bootstrap_median_se(&[], 10, &mut rng), 0.0);
        assert_eq!(bootstrap_median_se(&[&[]], 10, &mut rng), 0.0);
        assert_eq!(bootstrap_median_se(&[&[1.0]], 1, &mut rng), 0.0);
        assert_eq!(bootstrap_median_se(&[&[1.0, 1.0]], 10, &mut rng), 0.0);
    }
}
