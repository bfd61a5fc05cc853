//! Comparisons of runs with different clocks, and the causes that they give for ambiguous figures.

use plimsoll_core::Traffic;
use plimsoll_core::series::{Quantity, Series};

use super::*;

/// How a row's time depends on the clock: seconds ∝ clock^−share. 0: memory limits the speed; 1: the core does; between: both.
#[derive(Clone, Copy)]
struct Change {
    share: f64,
    /// New clock divided by base clock.
    clock: f64,
    /// New time divided by base time at equal clocks.
    slower: f64,
}

const UNCHANGED: Change = Change { share: 0.0, clock: 1.0, slower: 1.0 };

/// Two runs of one machine that differ as `changes` say, one row for each.
fn build_runs(spec: &RunSpec, quantity: Quantity, changes: &[Change], seed: u64) -> (Run, Run) {
    let times: Vec<f64> =
        changes.iter().map(|change| 1e-3 * change.slower * change.clock.powf(-change.share)).collect();
    let mut base = spec.run(&vec![1e-3; changes.len()], 2 * seed);
    let mut new = spec.run(&times, 2 * seed + 1);
    let same_clocks = vec![1.0; changes.len()];
    let new_clocks: Vec<f64> = changes.iter().map(|change| change.clock).collect();
    for (run, clocks) in [(&mut base, same_clocks), (&mut new, new_clocks)] {
        let series = &run.series[0];
        let mut series_spec = series.spec.clone();
        series_spec.metrics = vec![metric("figure", Unit::One, quantity)];
        let mut points = Vec::new();
        for (row, clock) in series.rows.iter().zip(clocks) {
            points.extend(row.points.iter().cloned().map(|mut point| {
                point.evidence.clock_hz = point.evidence.clock_hz.map(|hertz| hertz * clock);
                point.work.operations = 1e6;
                point.work.traffic = Traffic::new(1 << 20, 1 << 20);
                point
            }));
        }
        run.series[0] = Series::new(series_spec, points);
    }
    (base, new)
}

/// The verdict on one change, and its explanation.
fn verdict_and_causes(spec: &RunSpec, quantity: Quantity, change: Change) -> (Verdict, String) {
    let (base, new) = build_runs(spec, quantity, &[change], 7);
    let row = compare(&base, &new, Across::default()).rows.remove(0);
    (row.verdict, row.explained_by())
}

/// Seconds, a rate, and both kinds of figures in cycles.
const QUANTITIES: [Quantity; 4] =
    [Quantity::Time, Quantity::Bandwidth, Quantity::CyclesPerOperation, Quantity::BytesPerCycle];

#[test]
fn changed_clock_alone_is_hardly_ever_faster_or_slower() {
    let mut rng = Rng::new(1);
    // The clock of a random half of the figures changes by 5 %, up or down. The remaining slowdown is exactly the margin, where
    // false alarms are most frequent.
    let mut change = || Change {
        share: [0.0, 0.5, 1.0][rng.below(3) as usize],
        clock: [1.0, 1.0, 1.05, 1.0 / 1.05][rng.below(4) as usize],
        slower: 1.0 + MARGIN,
    };
    let mut wrong = Vec::new();
    for (rounds, between) in [(3, 0.008), (1, 0.002)] {
        let spec = RunSpec { rounds, between, ..PLAIN };
        for quantity in QUANTITIES {
            let failed = (0..50).filter(|&seed| {
                let changes: Vec<Change> = (0..40).map(|_| change()).collect();
                let (base, new) = build_runs(&spec, quantity, &changes, seed);
                let all = verdicts(&base, &new);
                assert_eq!(all.len(), 40);
                all.iter().any(|verdict| matches!(verdict, Verdict::Slower | Verdict::Faster))
            });
            wrong.push(failed.count());
        }
    }
    assert!(wrong.iter().sum::<usize>() <= 20, "{wrong:?} of 50 comparisons each");
}

#[test]
fn real_slowdown_at_the_same_clock_is_found_among_figures_with_changed_clocks() {
    let mut changes = vec![Change { share: 0.5, clock: 1.05, ..UNCHANGED }; 20];
    changes.extend(vec![Change { slower: 1.05, ..UNCHANGED }; 20]);
    let (mut found, mut false_alarms) = (0, 0);
    for seed in 0..20 {
        let (base, new) = build_runs(&PLAIN, Quantity::Time, &changes, seed);
        let all = verdicts(&base, &new);
        found += all[20..].iter().filter(|&&verdict| verdict == Verdict::Slower).count();
        false_alarms += all[..20].iter().filter(|&&verdict| verdict != Verdict::Ambiguous).count();
    }
    assert!(found >= 360, "{found} of 400 real slowdowns");
    assert_eq!(false_alarms, 0);
}

#[test]
fn slowdown_beyond_the_clocks_effect_is_slower_in_every_unit() {
    for quantity in QUANTITIES {
        for (share, clock) in [(0.0, 1.03), (1.0, 1.03), (0.0, 0.97), (1.0, 0.97)] {
            let change = |slower| Change { share, clock, slower };
            assert_eq!(
                verdict_and_causes(&PLAIN, quantity, change(1.2)),
                (Verdict::Slower, String::new()),
                "{quantity:?} {share} {clock}"
            );
            assert_eq!(
                verdict_and_causes(&PLAIN, quantity, change(0.8)),
                (Verdict::Faster, String::new()),
                "{quantity:?} {share} {clock}"
            );
            let unknown = (Verdict::Ambiguous, format!("clock 3.00 → {:.2} GHz", 3.0 * clock));
            assert_eq!(verdict_and_causes(&PLAIN, quantity, change(1.0)), unknown, "{quantity:?} {share} {clock}");
        }
    }
}

#[test]
fn interval_spans_the_ratio_as_measured_and_at_equal_clocks() {
    let (base, new) = build_runs(&PLAIN, Quantity::Time, &[Change { share: 1.0, clock: 1.05, slower: 1.0 }], 3);
    let row = compare(&base, &new, Across::default()).rows.remove(0);
    assert!(row.interval.contains(1.0) && row.interval.contains(1.0 / 1.05), "{row:?}");
    assert!((row.ratio - 1.0 / 1.05).abs() < 0.005, "{row:?}");
    let (was, is) = row.clocks.unwrap();
    assert!((was - 3e9).abs() < 1.0 && (is - 3.15e9).abs() < 1.0);
}

#[test]
fn figure_measured_by_the_workload_ignores_the_clock() {
    let (mut base, mut new) = build_runs(&PLAIN, Quantity::Extra, &[Change { clock: 1.05, ..UNCHANGED }], 3);
    for (run, value) in [(&mut base, 40.0), (&mut new, 40.01)] {
        let series = &run.series[0];
        let (mut spec, mut points) = (series.spec.clone(), series.rows[0].points.clone());
        spec.metrics[0].unit = Unit::BytePerSecond;
        points.iter_mut().for_each(|point| point.extra = [("figure".into(), value)].into());
        run.series[0] = Series::new(spec, points);
    }
    assert_eq!(verdicts(&base, &new), [Verdict::Same]);
}

#[test]
fn every_ambiguous_figure_has_causes_and_they_are_counted() {
    let flagged = |flags: &[Flag], between: f64| RunSpec { flags: flags.iter().copied().collect(), between, ..PLAIN };
    let changed = Change { clock: 1.03, ..UNCHANGED };
    let (verdict, words) = verdict_and_causes(&flagged(&[], 0.03), Quantity::Time, UNCHANGED);
    assert_eq!(verdict, Verdict::Ambiguous);
    assert!(words.starts_with("interval ±") && words.ends_with(" %, 3 rounds"), "{words}");
    let wide = flagged(&[Flag::Budget, Flag::Outliers, Flag::SmtShared], 0.03);
    assert_eq!(verdict_and_causes(&wide, Quantity::Time, UNCHANGED).1, "OUTLIERS, BUDGET");
    assert_eq!(verdict_and_causes(&wide, Quantity::Time, changed).1, "OUTLIERS, BUDGET, clock 3.00 → 3.09 GHz");
    let doubtful = flagged(&[Flag::Steal, Flag::Quantized], 0.03);
    assert_eq!(verdict_and_causes(&doubtful, Quantity::Time, UNCHANGED).1, "QUANTIZED, STEAL");

    let (base, new) = build_runs(&wide, Quantity::Time, &[changed, UNCHANGED, UNCHANGED], 7);
    let comparison = compare(&base, &new, Across::default());
    assert_eq!(comparison.counts.ambiguous, 3);
    assert_eq!(comparison.count_causes(), [("BUDGET", 3), ("OUTLIERS", 3), ("clock", 1)]);
}

#[test]
fn figure_is_ambiguous_exactly_where_it_has_a_cause() {
    let mut rng = Rng::new(5);
    for seed in 0..100 {
        let mut between = |lo: f64, hi: f64| lo + (hi - lo) * rng.uniform();
        let spec = RunSpec { between: between(0.0, 0.02), ..PLAIN };
        let change = Change { share: between(0.0, 1.0), clock: between(0.95, 1.05), slower: between(0.9, 1.1) };
        let (base, new) = build_runs(&spec, Quantity::Time, &[change, UNCHANGED], seed);
        for row in compare(&base, &new, Across::default()).rows {
            assert_eq!(row.verdict == Verdict::Ambiguous, !row.causes.is_empty(), "{row:?}");
            assert!(row.interval.lo <= row.ratio && row.ratio <= row.interval.hi, "{row:?}");
        }
    }
}
