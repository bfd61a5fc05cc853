//! Tests with runs of known noise, for which the correct verdicts are known.

mod changed_clock;

use plimsoll_core::device::DeviceInfo;
use plimsoll_core::record::{Record, RunHeader};
use plimsoll_core::sample::{CachePolicy, Effort, Evidence, Figure, Work};
use plimsoll_core::series::{Draw, Point, SeriesSpec, axis, metric};
use plimsoll_core::stats::Rng;
use plimsoll_core::{Flag, Flags};

use super::*;

/// Properties of a synthetic run with one series; noise within and between rounds as shares.
struct RunSpec {
    rounds: u32,
    within: f64,
    between: f64,
    flags: Flags,
    clock_hz: f64,
    cache: CachePolicy,
    driver: &'static str,
    device: &'static str,
    tool: &'static str,
}

const PLAIN: RunSpec = RunSpec {
    rounds: 3,
    within: 0.003,
    between: 0.001,
    flags: Flags::NONE,
    clock_hz: 3e9,
    cache: CachePolicy::Hot,
    driver: "1",
    device: "Box",
    tool: "0.1.0",
};

impl RunSpec {
    /// A run with a row for each of `times`, seconds.
    fn run(&self, times: &[f64], seed: u64) -> Run {
        let mut rng = Rng::new(seed);
        let device = DeviceInfo { name: self.device.into(), driver: Some(self.driver.into()), ..DeviceInfo::default() };
        let header = RunHeader {
            schema: 1,
            tool: self.tool.into(),
            started: String::new(),
            argv: vec![],
            conditions: Default::default(),
            effort: Effort::Standard,
            seed,
            host: Default::default(),
            devices: vec![device],
        };
        let mut spec = SeriesSpec::new(
            "case",
            Figure::Throughput,
            self.cache,
            vec![axis("row", Unit::One)],
            vec![metric("time", Unit::Second, plimsoll_core::series::Quantity::Time)],
            Draw::Table,
        );
        spec.probe = "made".into();
        let mut records = vec![Record::Run(header), Record::Series(spec)];
        for round in 0..self.rounds {
            for (row, time) in times.iter().enumerate() {
                let level = time * (1.0 + self.between * rng.normal());
                let tick = 1e-9;
                let sample = |rng: &mut Rng| (level * (1.0 + self.within * rng.normal()) / tick) as u64;
                records.push(Record::Point(Point {
                    round,
                    tick,
                    evidence: Evidence { clock_hz: Some(self.clock_hz), ..Evidence::default() },
                    flags: self.flags,
                    ..Point::new(
                        vec![(row as u64).into()],
                        Work::default(),
                        (0..24).map(|_| sample(&mut rng)).collect(),
                    )
                }));
            }
        }
        Run::from_records(records).unwrap()
    }
}

fn verdicts(base: &Run, new: &Run) -> Vec<Verdict> {
    compare(base, new, Across::default()).rows.iter().map(|row| row.verdict).collect()
}

#[test]
fn repeated_run_is_hardly_ever_faster_or_slower() {
    // Noise between rounds of 0.8 %: without the margin and Holm's correction, half of all comparisons would fail.
    for (rounds, between) in [(3, 0.008), (1, 0.002)] {
        let made = RunSpec { rounds, between, ..PLAIN };
        let times = vec![1e-3; 50];
        let wrong = (0..200)
            .filter(|&seed| {
                let all = verdicts(&made.run(&times, 2 * seed), &made.run(&times, 2 * seed + 1));
                assert_eq!(all.len(), 50);
                all.iter().any(|verdict| matches!(verdict, Verdict::Slower | Verdict::Faster))
            })
            .count();
        assert!(wrong <= 10, "{wrong} of 200 comparisons with {rounds} rounds");
    }
}

#[test]
fn true_slowdown_is_slower_true_speedup_faster_and_no_change_the_same() {
    let base = PLAIN.run(&[1e-3, 1e-3, 1e-3], 1);
    let new = PLAIN.run(&[1.05e-3, 0.95e-3, 1e-3], 2);
    let comparison = compare(&base, &new, Across::default());
    let all: Vec<Verdict> = comparison.rows.iter().map(|row| row.verdict).collect();
    assert_eq!(all, [Verdict::Slower, Verdict::Faster, Verdict::Same]);
    assert_eq!(comparison.exit_code(), 1);
    let slower = &comparison.rows[0];
    assert!(slower.interval.contains(1.05) && slower.interval.lo > 1.01, "{slower:?}");
    assert_eq!(compare(&base, &base, Across::default()).exit_code(), 0);
}

#[test]
fn higher_bandwidth_is_faster() {
    let mut base = PLAIN.run(&[1e-3], 1);
    let mut new = PLAIN.run(&[0.9e-3], 2);
    for run in [&mut base, &mut new] {
        run.series[0].spec.metrics =
            vec![metric("bandwidth", Unit::BytePerSecond, plimsoll_core::series::Quantity::Bandwidth)];
        for point in &mut run.series[0].rows[0].points {
            point.work.traffic = plimsoll_core::Traffic::new(1 << 20, 1 << 20);
        }
    }
    let comparison = compare(&base, &new, Across::default());
    assert_eq!(comparison.rows[0].verdict, Verdict::Faster);
    assert!(comparison.rows[0].ratio > 1.1);
}

#[test]
fn only_flags_that_may_explain_a_difference_make_it_ambiguous() {
    let base = PLAIN.run(&[1e-3], 1);
    let throttled = RunSpec { flags: [Flag::ThrottlePower].into_iter().collect(), ..PLAIN };
    let comparison = compare(&base, &throttled.run(&[1.05e-3], 2), Across::default());
    assert_eq!(comparison.rows[0].verdict, Verdict::Ambiguous);
    assert_eq!(comparison.rows[0].explained_by(), "THROTTLE_POWER");
    assert_eq!(comparison.exit_code(), 4);
    let outliers = RunSpec { flags: [Flag::Outliers].into_iter().collect(), ..PLAIN };
    let comparison = compare(&base, &outliers.run(&[1.05e-3], 2), Across::default());
    assert_eq!(comparison.rows[0].verdict, Verdict::Slower);
    assert_eq!(comparison.rows[0].explained_by(), "");
}

#[test]
fn holms_correction_makes_a_chance_difference_among_many_ambiguous() {
    // One difference that would count by itself (p slightly below 5 %) among two hundred figures without one.
    let borderline = |&seed: &u64| {
        let made = RunSpec { between: 0.004, ..PLAIN };
        let (base, new) = (made.run(&[1e-3], 2 * seed), made.run(&[1.03e-3], 2 * seed + 1));
        let row = compare(&base, &new, Across::default()).rows.remove(0);
        row.verdict == Verdict::Slower && row.p > 0.002
    };
    let seed = (0..400).find(borderline).expect("a borderline case within 400 seeds");
    let made = RunSpec { between: 0.004, ..PLAIN };
    let (mut base, mut new) = (made.run(&[1e-3], 2 * seed), made.run(&[1.03e-3], 2 * seed + 1));
    let (others, again) = (PLAIN.run(&[1e-3; 200], 1), PLAIN.run(&[1e-3; 200], 2));
    for (run, more) in [(&mut base, others), (&mut new, again)] {
        let mut series = more.series[0].clone();
        series.spec.case = "others".into();
        run.series.push(series);
    }
    let row = compare(&base, &new, Across::default()).rows.remove(0);
    assert_eq!(row.verdict, Verdict::Ambiguous);
    assert_eq!(row.explained_by(), "chance among 201 figures");
}

#[test]
fn different_kinds_are_incomparable_and_the_reason_is_given() {
    let base = PLAIN.run(&[1e-3], 1);
    let cases = [
        (RunSpec { clock_hz: 3.4e9, ..PLAIN }, "clocks differ"),
        (RunSpec { cache: CachePolicy::ColdRotate, ..PLAIN }, "cache policies differ"),
        (RunSpec { driver: "2", ..PLAIN }, "--across driver"),
        (RunSpec { tool: "0.2.0", ..PLAIN }, "--across version"),
        (RunSpec { device: "Other", ..PLAIN }, "no device of this model"),
        (RunSpec { flags: [Flag::VerifyFail].into_iter().collect(), ..PLAIN }, "VERIFY_FAIL"),
    ];
    for (made, why) in cases {
        let comparison = compare(&base, &made.run(&[1e-3], 2), Across::default());
        assert!(comparison.rows.is_empty());
        assert!(comparison.incomparable[0].why.contains(why), "{why}: {:?}", comparison.incomparable);
        assert_eq!(comparison.exit_code(), 4);
    }
    let across = Across { driver: true, version: true };
    let other = RunSpec { driver: "2", tool: "0.2.0", ..PLAIN }.run(&[1e-3], 2);
    assert_eq!(compare(&base, &other, across).exit_code(), 0);
}

#[test]
fn rows_of_one_run_are_listed_and_an_empty_comparison_is_inconclusive() {
    let comparison = compare(&PLAIN.run(&[1e-3], 1), &PLAIN.run(&[1e-3, 2e-3], 2), Across::default());
    assert_eq!(comparison.unmatched, ["made case, row 1 (new only)"]);
    assert_eq!(comparison.exit_code(), 0);
    let empty = PLAIN.run(&[], 1);
    assert_eq!(compare(&empty, &empty, Across::default()).exit_code(), 4);
}

#[test]
fn student_quantiles_agree_with_published_tables() {
    for (freedom, want) in [(2.0, 4.303), (4.0, 2.776), (30.0, 2.042), (1e6, 1.960)] {
        let got = student_t_quantile(0.975, freedom);
        assert!((got - want).abs() < 2e-3, "{freedom}: {got}");
    }
}

/// Joins two runs: the second's devices and series follow the first's.
fn join_runs(mut first: Run, second: Run, ids: [&str; 2]) -> Run {
    first.header.devices.extend(second.header.devices);
    for (device, id) in first.header.devices.iter_mut().zip(ids) {
        device.id = id.into();
    }
    first.series.extend(second.series.into_iter().map(|mut series| {
        series.spec.device = 1;
        series
    }));
    first
}

#[test]
fn devices_are_paired_by_identity_in_any_order() {
    let (slow, fast) = (|seed| PLAIN.run(&[2e-3], seed), |seed| PLAIN.run(&[1e-3], seed));
    let base = join_runs(slow(1), fast(2), ["A", "B"]);
    let comparison = compare(&base, &join_runs(fast(3), slow(4), ["B", "A"]), Across::default());
    assert_eq!((comparison.counts.same, comparison.exit_code()), (2, 0));
    assert!(comparison.notes.is_empty());
    // One card was exchanged: the unchanged one is still paired with itself, and a note reports the exchange.
    let comparison = compare(&base, &join_runs(fast(5), slow(6), ["B", "C"]), Across::default());
    assert_eq!(comparison.counts.same, 2);
    assert!(comparison.notes[0].contains("A is compared with C"), "{:?}", comparison.notes);
    // Without identities the order decides.
    let comparison =
        compare(&join_runs(slow(1), fast(2), ["", ""]), &join_runs(slow(3), fast(4), ["", ""]), Across::default());
    assert_eq!(comparison.counts.same, 2);
}

#[test]
fn device_in_one_run_only_is_reported() {
    let two = || join_runs(PLAIN.run(&[1e-3], 1), PLAIN.run(&[1e-3], 2), ["A", "B"]);
    let mut one = PLAIN.run(&[1e-3], 3);
    one.header.devices[0].id = "B".into();
    let comparison = compare(&one, &two(), Across::default());
    assert_eq!((comparison.counts.same, comparison.unmatched), (1, vec!["Box (new only)".to_owned()]));
    let comparison = compare(&two(), &one, Across::default());
    assert_eq!(comparison.counts.same, 1);
    assert!(comparison.incomparable[0].why.contains("only 1 of this model"), "{:?}", comparison.incomparable);
}

#[test]
fn case_measured_hot_and_cold_gives_two_figures() {
    let cold = RunSpec { cache: CachePolicy::ColdRotate, ..PLAIN };
    let hot_and_cold = |hot: Run, cold: Run| {
        let mut run = hot;
        run.series.extend(cold.series);
        run
    };
    let base = hot_and_cold(PLAIN.run(&[1e-3], 1), cold.run(&[2e-3], 2));
    let new = hot_and_cold(PLAIN.run(&[1.1e-3], 3), cold.run(&[2e-3], 4));
    let comparison = compare(&base, &new, Across::default());
    let all: Vec<(String, Verdict)> = comparison.rows.iter().map(|row| (row.subject.describe(), row.verdict)).collect();
    let expected = [("made case, row 0, hot", Verdict::Slower), ("made case, row 0, cold-rotate", Verdict::Same)];
    assert_eq!(all, expected.map(|(words, verdict)| (words.to_owned(), verdict)));
    // A cold figure that the other run lacks is not compared with its hot one.
    let comparison = compare(&base, &PLAIN.run(&[1e-3], 5), Across::default());
    assert_eq!((comparison.counts.same, comparison.incomparable.len()), (1, 0));
    assert_eq!(comparison.unmatched, ["made case, row 0, cold-rotate (base only)"]);
}

#[test]
fn comparison_uses_the_reported_figures_and_converts_cycles_by_each_rounds_clock() {
    let mut base = RunSpec { rounds: 3, within: 0.0, between: 0.0, ..PLAIN }.run(&[1e-3], 1);
    let series = &mut base.series[0];
    series.spec.metrics = vec![metric("cycles", Unit::CyclePerOp, plimsoll_core::series::Quantity::CyclesPerOperation)];
    // Every round takes the same number of cycles, whatever its clock.
    for (point, clock) in series.rows[0].points.iter_mut().zip([3.0e9, 3.15e9, 3.3e9]) {
        point.work.operations = 1e6;
        point.evidence.clock_hz = Some(clock);
        let ticks = (3.0e6 / clock / 1e-9) as u64;
        point.samples.iter_mut().for_each(|sample| *sample = ticks);
    }
    let points: Vec<Point> = series.rows[0].points.clone();
    *series = plimsoll_core::series::Series::new(series.spec.clone(), points);
    let comparison = compare(&base, &base, Across::default());
    let row = &comparison.rows[0];
    let reported = base.series[0].estimate(&base.series[0].rows[0], "cycles").unwrap();
    assert_eq!((row.base, row.new), (reported.value, reported.value));
    assert!(row.interval.half_width() < 1e-4 && row.verdict == Verdict::Same, "{row:?}");
}

#[test]
fn run_compared_with_itself_is_the_same_despite_noise_and_flags() {
    let flags = [Flag::VerifyFail, Flag::ThrottlePower, Flag::Budget].into_iter().collect();
    for made in [
        RunSpec { within: 0.15, between: 0.15, ..PLAIN },
        RunSpec { rounds: 1, within: 0.15, ..PLAIN },
        RunSpec { flags, between: 0.15, ..PLAIN },
    ] {
        let run = made.run(&[1e-3, 2e-6], 7);
        let comparison = compare(&run, &run, Across::default());
        assert_eq!((comparison.counts.same, comparison.exit_code()), (2, 0), "{:?}", comparison.rows);
        assert!(comparison.rows.iter().all(|row| row.ratio == 1.0 && row.interval.half_width() == 0.0));
    }
    // A repeated measurement with this noise is ambiguous.
    let noisy = RunSpec { within: 0.15, between: 0.15, ..PLAIN };
    assert_eq!(compare(&noisy.run(&[1e-3], 7), &noisy.run(&[1e-3], 8), Across::default()).exit_code(), 4);
}
