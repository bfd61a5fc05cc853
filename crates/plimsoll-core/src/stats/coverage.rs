//! Coverage of the engine's intervals, tested as users see them: the interval reported when the rule stops, so that the
//! effect of checking repeatedly until the interval is narrow is included.
//!
//! Coverage in per cent of a nominal 95 % interval (10,000 replications each, 1,000 in the last column; ± 0.25 % requested,
//! 30 to 4,096 samples), by the noise's standard deviation relative to the median, with the mean n at the stop in brackets:
//!
//! | trace                 | 0.1 %     | 0.4 %      | 0.6 %      | 1 %         | 2 %         |
//! | ---                   | ---       | ---        | ---        | ---         | ---         |
//! | normal                | 98.8 (33) | 98.5 (38)  | 96.9 (61)  | 95.8 (143)  | 94.7 (504)  |
//! | lognormal, 2 % spikes | 98.8 (33) | 98.4 (39)  | 97.2 (63)  | 95.8 (148)  | 95.9 (528)  |
//! | Student t₃            | 98.7 (33) | 98.2 (42)  | 96.8 (71)  | 96.2 (168)  | 96.6 (602)  |
//! | ticks of 0.7 σ        | 100 (33)  | 100 (53)   | 100 (53)   | 100 (132)   | 100 (131)   |
//! | drift of σ in 200     | 98.7 (33) | 98.4 (38)  | 97.0 (61)  | 96.0 (154)  | 99.8 (4011) |
//! | AR(1), φ = 0.2        | 97.8 (33) | 96.9 (47)  | 95.7 (79)  | 96.0 (195)  | 95.6 (687)  |
//! | AR(1), φ = 0.5        | 98.0 (33) | 96.7 (77)  | 96.0 (139) | 95.9 (329)  | 94.9 (1148) |
//! | AR(1), φ = 0.8        | 97.5 (34) | 94.8 (184) | 94.9 (345) | 95.2 (837)  | 94.4 (2964) |
//! | AR(1), φ = 0.9        | 92.7 (33) | 92.0 (348) | 93.6 (682) | 94.9 (1679) | 95.4 (4087) |
//! | AR(1) under white noise | 83.3 (33) | 77.4 (44) | 69.8 (79) | 66.5 (212)  | 65.9 (818)  |
//!
//! With at least 20 samples instead of 30, as in each of the three rounds of a standard run, coverage in the first two columns is
//! 98.6 and 98.0 (normal), 97.4 and 96.6 (φ = 0.2), 96.2 and 94.9 (φ = 0.5), 95.0 and 94.3 (φ = 0.8), 85.8 and 90.8 (φ = 0.9).
//!
//! The textbook ranks need no correction for repeated checks, because rounding them outwards compensates. φ = 0.8 needs
//! `CAUTION`: without it, coverage at 0.4 % noise is 86 %. The last line, a slow wander of 0.5 σ with φ = 0.95 under
//! independent noise of σ, can't be seen by an estimate from lag 1 and is not promised: the spread between rounds shows it.

use super::{Rng, Scratch, StopRule, estimate};

/// A source of samples around 1: maps the random generator, its own state and the index to a sample.
type Trace = fn(&mut Rng, &mut f64, usize) -> f64;

/// The smaller coverage of the two least numbers of samples that policies request.
fn coverage(sets: u32, trace: Trace, truth: fn(usize) -> f64) -> f64 {
    [20, 30].map(|least| coverage_from(least, sets, trace, truth)).into_iter().fold(1.0, f64::min)
}

/// Share of `sets` whose interval, when the rule stops, contains the true median; `truth` maps the n at the stop to it.
fn coverage_from(least: usize, sets: u32, trace: Trace, truth: fn(usize) -> f64) -> f64 {
    let mut rng = Rng::new(2024);
    let mut scratch = Scratch::new();
    let mut x = Vec::new();
    let covered = (0..sets).filter(|_| {
        let mut rule = StopRule::new(least, 0.0025);
        let mut state = rng.normal();
        x.clear();
        let last = loop {
            for i in x.len()..rule.next_check(x.len()) {
                x.push(trace(&mut rng, &mut state, i));
            }
            let current = estimate(&x, &mut scratch);
            if rule.check(&current, 0.0) {
                break current;
            }
        };
        last.interval.contains(truth(x.len()))
    });
    covered.count() as f64 / f64::from(sets)
}

fn assert_covers(name: &str, coverage: f64) {
    assert!(coverage >= 0.93, "{name}: {coverage}");
}

fn autoregressive(rng: &mut Rng, state: &mut f64, phi: f64) -> f64 {
    *state = phi * *state + (1.0 - phi * phi).sqrt() * rng.normal();
    *state
}

#[test]
fn normal_noise_is_covered() {
    assert_covers("σ = 0.1 %", coverage(2000, |r, _, _| 1.0 + 0.001 * r.normal(), |_| 1.0));
    assert_covers("σ = 0.6 %", coverage(2000, |r, _, _| 1.0 + 0.006 * r.normal(), |_| 1.0));
}

#[test]
fn noise_that_takes_hundreds_of_samples_is_covered() {
    assert_covers("σ = 2 %", coverage(500, |r, _, _| 1.0 + 0.02 * r.normal(), |_| 1.0));
}

#[test]
fn heavy_tails_and_spikes_are_covered() {
    let t3: Trace = |r, _, _| {
        let chi: f64 = (0..3).map(|_| r.normal().powi(2)).sum();
        1.0 + 0.006 * r.normal() / (chi / 3.0).sqrt()
    };
    assert_covers("Student t3", coverage(2000, t3, |_| 1.0));
    let spiky: Trace = |r, _, _| {
        let x = (0.006 * r.normal()).exp();
        if r.uniform() < 0.02 { x * (1.5 + 5.0 * r.uniform()) } else { x }
    };
    // All spikes are above, so the median of the mixture is the 0.5/0.98 quantile of the rest.
    assert_covers("lognormal and spikes", coverage(2000, spiky, |_| (0.006 * 0.025_582f64).exp()));
}

#[test]
fn wide_lognormal_noise_with_spikes_is_covered() {
    // σ = 5 % would take some 3,000 samples to reach ± 0.25 %. Noise and truth are divided by four, which asks for ± 1 %.
    let spiky: Trace = |r, _, _| {
        let x = 0.05 * r.normal() + if r.uniform() < 0.02 { 0.4 + r.uniform() } else { 0.0 };
        1.0 + (x.exp() - 1.0) / 4.0
    };
    assert_covers("σ = 5 %", coverage(1000, spiky, |_| 1.0 + ((0.05 * 0.025_582f64).exp() - 1.0) / 4.0));
}

#[test]
fn quantised_samples_are_covered() {
    let ticks: Trace = |r, _, _| 1.0 + (1.0 / 0.7 * r.normal()).round() * 0.7 * 0.004;
    assert_covers("ticks of 0.7 σ", coverage(2000, ticks, |_| 1.0));
}

#[test]
fn a_drifting_median_is_covered() {
    // The truth is the median of the samples' distribution: symmetric noise about the middle of the drift.
    let drift: Trace = |r, _, i| 1.0 + 0.006 * r.normal() + 0.006 * i as f64 / 200.0;
    assert_covers("0.6 % per 200 samples", coverage(2000, drift, |n| 1.0 + 0.006 * (n - 1) as f64 / 400.0));
}

#[test]
fn autocorrelated_samples_are_covered() {
    assert_covers("φ = 0.5, quiet", coverage(2000, |r, s, _| 1.0 + 0.001 * autoregressive(r, s, 0.5), |_| 1.0));
    assert_covers("φ = 0.5", coverage(2000, |r, s, _| 1.0 + 0.004 * autoregressive(r, s, 0.5), |_| 1.0));
}

#[test]
fn strongly_autocorrelated_samples_are_covered() {
    assert_covers("φ = 0.8, quiet", coverage(2000, |r, s, _| 1.0 + 0.001 * autoregressive(r, s, 0.8), |_| 1.0));
    assert_covers("φ = 0.8", coverage(2000, |r, s, _| 1.0 + 0.004 * autoregressive(r, s, 0.8), |_| 1.0));
}
