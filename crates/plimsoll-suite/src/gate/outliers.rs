//! Which of several machines' figures stands out.

use plimsoll_core::stats::median;

/// Differences within this share never stand out.
const LEAST: f64 = 0.02;
/// How many standard deviations of the others a figure must be away from them.
const FAR: f64 = 4.0;
/// The standard deviation of a normal distribution, in median absolute deviations.
const NORMAL: f64 = 1.4826;

/// For each figure, whether it stands out from all others: its distance from their median is above 2 %, above four times their robust
/// standard deviation, and above four times the usual `spread` from run to run. Needs at least three figures; missing ones are `None`.
#[must_use]
pub fn find_outliers(values: &[Option<f64>], spread: f64) -> Vec<bool> {
    let logs: Vec<Option<f64>> = values.iter().map(|value| value.filter(|value| *value > 0.0).map(f64::ln)).collect();
    let is_outlier = |place: usize| {
        let Some(own) = logs[place] else { return false };
        let others = logs.iter().enumerate().filter(|(other, _)| *other != place);
        let others: Vec<f64> = others.filter_map(|(_, log)| *log).collect();
        if others.len() < 2 {
            return false;
        }
        let middle = median(others.clone());
        let deviation = NORMAL * median(others.iter().map(|log| (log - middle).abs()).collect());
        (own - middle).abs() > LEAST.max(FAR * deviation.max(spread))
    };
    (0..values.len()).map(is_outlier).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(values: &[f64], spread: f64) -> Vec<usize> {
        let values: Vec<Option<f64>> = values.iter().map(|value| Some(*value)).collect();
        let found = find_outliers(&values, spread);
        (0..found.len()).filter(|place| found[*place]).collect()
    }

    #[test]
    fn only_the_figure_that_stands_out_is_marked() {
        assert_eq!(find(&[4.59, 4.60, 4.20, 4.61], 0.003), [2]);
        assert_eq!(find(&[4.59, 4.60, 4.20, 4.61], 0.05), [0; 0], "within the usual spread");
        assert_eq!(find(&[1.0, 1.1, 1.2, 1.3], 0.003), [0; 0], "they all differ");
        assert_eq!(find(&[4.59, 4.0], 0.003), [0; 0], "of two, neither stands out");
    }

    #[test]
    fn missing_figures_are_skipped() {
        assert_eq!(find_outliers(&[None, Some(1.0), Some(1.0), Some(2.0)], 0.0), [false, false, false, true]);
        assert_eq!(find_outliers(&[Some(0.0), Some(1.0)], 0.0), [false, false]);
    }
}
