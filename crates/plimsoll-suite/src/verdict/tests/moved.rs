//! Comparisons across a clock that moved, and what they say of figures that remain ambiguous.

use plimsoll_core::Traffic;
use plimsoll_core::series::{Quantity, Series};

use super::*;

/// How a row's time follows the clock: seconds ∝ clock^−share. 0: memory sets the pace; 1: the core; between: both.
#[derive(Clone, Copy)]
struct Place {
    share: f64,
    /// New clock over base clock.
    moved: f64,
    /// New time over base time at equal clocks.
    slower: f64,
}

const UNMOVED: Place = Place { share: 0.0, moved: 1.0, slower: 1.0 };

/// The two runs of a machine whose clock differs between them as `places` say.
fn runs(made: &Made, of: Quantity, places: &[Place], seed: u64) -> (Run, Run) {
    let times: Vec<f64> = places.iter().map(|place| 1e-3 * place.slower * place.moved.powf(-place.share)).collect();
    let mut base = made.run(&vec![1e-3; places.len()], 2 * seed);
    let mut new = made.run(&times, 2 * seed + 1);
    let still = vec![1.0; places.len()];
    let moved: Vec<f64> = places.iter().map(|place| place.moved).collect();
    for (run, moved) in [(&mut base, still), (&mut new, moved)] {
        let series = &run.series[0];
        let mut spec = series.spec.clone();
        spec.metrics = vec![metric("figure", Unit::One, of)];
        let mut points = Vec::new();
        for (row, moved) in series.rows.iter().zip(moved) {
            points.extend(row.points.iter().cloned().map(|mut point| {
                point.evidence.clock_hz = point.evidence.clock_hz.map(|hertz| hertz * moved);
                point.work.operations = 1e6;
                point.work.traffic = Traffic::new(1 << 20, 1 << 20);
                point
            }));
        }
        run.series[0] = Series::new(spec, points);
    }
    (base, new)
}

fn words_of(made: &Made, of: Quantity, place: Place) -> (Verdict, String) {
    let (base, new) = runs(made, of, &[place], 7);
    let row = compare(&base, &new, Across::default()).rows.remove(0);
    (row.verdict, row.explained_by())
}

/// Seconds, a rate, and both kinds of figures in cycles.
const QUANTITIES: [Quantity; 4] =
    [Quantity::Time, Quantity::Bandwidth, Quantity::CyclesPerOperation, Quantity::BytesPerCycle];

#[test]
fn a_moved_clock_alone_is_hardly_ever_faster_or_slower_whatever_the_figure_depends_on() {
    let mut rng = Rng::new(1);
    // The clock of a random half of the figures moves by 5 %, up or down. What isn't the clock's doing is just within the
    // margin, where false alarms are most frequent.
    let mut place = || Place {
        share: [0.0, 0.5, 1.0][rng.below(3) as usize],
        moved: [1.0, 1.0, 1.05, 1.0 / 1.05][rng.below(4) as usize],
        slower: 1.0 + MARGIN,
    };
    let mut wrong = Vec::new();
    for (rounds, between) in [(3, 0.008), (1, 0.002)] {
        let made = Made { rounds, between, ..PLAIN };
        for of in QUANTITIES {
            let failed = (0..50).filter(|&seed| {
                let places: Vec<Place> = (0..40).map(|_| place()).collect();
                let (base, new) = runs(&made, of, &places, seed);
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
fn a_real_slowdown_at_the_same_clock_is_found_among_figures_whose_clock_moved() {
    let mut places = vec![Place { share: 0.5, moved: 1.05, ..UNMOVED }; 20];
    places.extend(vec![Place { slower: 1.05, ..UNMOVED }; 20]);
    let (mut found, mut false_alarms) = (0, 0);
    for seed in 0..20 {
        let (base, new) = runs(&PLAIN, Quantity::Time, &places, seed);
        let all = verdicts(&base, &new);
        found += all[20..].iter().filter(|&&verdict| verdict == Verdict::Slower).count();
        false_alarms += all[..20].iter().filter(|&&verdict| verdict != Verdict::Ambiguous).count();
    }
    assert!(found >= 360, "{found} of 400 real slowdowns");
    assert_eq!(false_alarms, 0);
}

#[test]
fn a_slowdown_greater_than_the_clock_explains_is_slower_in_every_unit() {
    for of in QUANTITIES {
        for (share, moved) in [(0.0, 1.03), (1.0, 1.03), (0.0, 0.97), (1.0, 0.97)] {
            let place = |slower| Place { share, moved, slower };
            assert_eq!(words_of(&PLAIN, of, place(1.2)), (Verdict::Slower, String::new()), "{of:?} {share} {moved}");
            assert_eq!(words_of(&PLAIN, of, place(0.8)), (Verdict::Faster, String::new()), "{of:?} {share} {moved}");
            let unknown = (Verdict::Ambiguous, format!("clock 3.00 → {:.2} GHz", 3.0 * moved));
            assert_eq!(words_of(&PLAIN, of, place(1.0)), unknown, "{of:?} {share} {moved}");
        }
    }
}

#[test]
fn the_interval_spans_the_figure_as_measured_and_at_the_same_clock() {
    let (base, new) = runs(&PLAIN, Quantity::Time, &[Place { share: 1.0, moved: 1.05, slower: 1.0 }], 3);
    let row = compare(&base, &new, Across::default()).rows.remove(0);
    assert!(row.interval.contains(1.0) && row.interval.contains(1.0 / 1.05), "{row:?}");
    assert!((row.ratio - 1.0 / 1.05).abs() < 0.005, "{row:?}");
    let (was, is) = row.clocks.unwrap();
    assert!((was - 3e9).abs() < 1.0 && (is - 3.15e9).abs() < 1.0);
}

#[test]
fn a_figure_of_the_workloads_own_is_judged_as_it_is() {
    let (mut base, mut new) = runs(&PLAIN, Quantity::Extra, &[Place { moved: 1.05, ..UNMOVED }], 3);
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
fn every_ambiguous_figure_says_why_and_the_causes_are_counted() {
    let flagged = |flags: &[Flag], between: f64| Made { flags: flags.iter().copied().collect(), between, ..PLAIN };
    let moved = Place { moved: 1.03, ..UNMOVED };
    let (verdict, words) = words_of(&flagged(&[], 0.03), Quantity::Time, UNMOVED);
    assert_eq!(verdict, Verdict::Ambiguous);
    assert!(words.starts_with("interval ±") && words.ends_with(" %, 3 rounds"), "{words}");
    let wide = flagged(&[Flag::Budget, Flag::Outliers, Flag::SmtShared], 0.03);
    assert_eq!(words_of(&wide, Quantity::Time, UNMOVED).1, "OUTLIERS, BUDGET");
    assert_eq!(words_of(&wide, Quantity::Time, moved).1, "OUTLIERS, BUDGET, clock 3.00 → 3.09 GHz");
    let doubtful = flagged(&[Flag::Steal, Flag::Quantized], 0.03);
    assert_eq!(words_of(&doubtful, Quantity::Time, UNMOVED).1, "QUANTIZED, STEAL");

    let (base, new) = runs(&wide, Quantity::Time, &[moved, UNMOVED, UNMOVED], 7);
    let comparison = compare(&base, &new, Across::default());
    assert_eq!(comparison.counts.ambiguous, 3);
    assert_eq!(comparison.causes(), [("BUDGET", 3), ("OUTLIERS", 3), ("clock", 1)]);
}

#[test]
fn a_figure_is_ambiguous_exactly_where_it_has_a_cause() {
    let mut rng = Rng::new(5);
    for seed in 0..100 {
        let mut between = |lo: f64, hi: f64| lo + (hi - lo) * rng.uniform();
        let made = Made { between: between(0.0, 0.02), ..PLAIN };
        let place = Place { share: between(0.0, 1.0), moved: between(0.95, 1.05), slower: between(0.9, 1.1) };
        let (base, new) = runs(&made, Quantity::Time, &[place, UNMOVED], seed);
        for row in compare(&base, &new, Across::default()).rows {
            assert_eq!(row.verdict == Verdict::Ambiguous, !row.causes.is_empty(), "{row:?}");
            assert!(row.interval.lo <= row.ratio && row.ratio <= row.interval.hi, "{row:?}");
        }
    }
}
