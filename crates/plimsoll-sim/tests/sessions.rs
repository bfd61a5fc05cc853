//! What a session guarantees: stopping at any moment, rounds, budgets, and the same record for the same seed.

mod common;

use common::{device, faults, header, lines, measure, measure_on, measure_until, points, probes, request_with};
use plimsoll_core::Fault;
use plimsoll_core::probe::{Outcome, Request};
use plimsoll_core::record::{Limits, Record, read};
use plimsoll_core::sample::Effort;

#[test]
fn stopping_after_any_record_keeps_earlier_points_and_a_readable_record() {
    let (_, clean) = measure("", "sync", &Request::default());
    let clean_points = points(&clean);
    for last in 1..=clean.len() {
        let (outcome, records) = measure_until(last, "", "sync");
        let kept = points(&records);
        assert_eq!(kept, clean_points[..kept.len()], "stopped after record {last}");
        if kept.len() == clean_points.len() {
            assert!(matches!(outcome, Outcome::Complete));
        } else {
            // The series' line comes first, then one line per point.
            assert_eq!(kept.len(), last - 1);
            assert!(matches!(outcome, Outcome::Faulted(Fault::Stopped)));
            assert_eq!(faults(&records), ["stopped"]);
        }
        let file = lines(std::iter::once(&header("")).chain(&records));
        let run = read(&*file, Limits::default()).unwrap();
        assert_eq!((run.damaged_lines, run.end), (0, None));
        assert_eq!(run.series.iter().map(|series| series.rows.len()).sum::<usize>(), kept.len());
    }
}

#[test]
fn a_stop_before_the_first_point_measures_nothing() {
    let stop = true.into();
    let (request, mut records) = (Request::default(), Vec::new());
    let mut run = plimsoll_core::probe::RunContext {
        request: &request,
        sink: &mut records,
        stop: &stop,
        device: 0,
        next_series: 0,
    };
    let outcome = plimsoll_core::probe::Instrument::measure(&mut device(""), "stream", &mut run).unwrap();
    assert!(matches!(outcome, Outcome::Faulted(Fault::Stopped)));
    assert!(points(&records).is_empty());
}

#[test]
fn every_round_measures_all_points_before_the_next_begins() {
    for (effort, rounds) in [(Effort::Quick, 1), (Effort::Standard, 3), (Effort::Thorough, 5)] {
        let (_, records) = measure("", "stream", &request_with(effort));
        let points = points(&records);
        for series in [0, 1, 2] {
            let of_series: Vec<_> = points.iter().filter(|point| point.series == series).collect();
            let each = of_series.len() / rounds;
            assert!(each > 1 && each * rounds == of_series.len());
            for (i, point) in of_series.iter().enumerate() {
                assert_eq!(point.round as usize, i / each);
                assert_eq!(point.at, of_series[i % each].at);
            }
        }
        // A series is complete before the next begins, because the next may depend on it.
        assert!(points.is_sorted_by_key(|point| point.series));
    }
}

#[test]
fn a_probe_exceeds_its_budget_by_at_most_one_point() {
    for spec in plimsoll_sim::PROBES.iter().map(|probe| probe.spec()) {
        for effort in [Effort::Quick, Effort::Standard] {
            // So noisy that no point ever converges.
            let (outcome, records) = measure("noise=0.4", spec.name, &request_with(effort));
            assert!(matches!(outcome, Outcome::Complete));
            let walls: Vec<f64> = points(&records).iter().map(|point| point.evidence.wall).collect();
            let (spent, longest) = (walls.iter().sum::<f64>(), walls.iter().copied().fold(0.0, f64::max));
            let budget = spec.budget(effort);
            assert!(spent <= budget + longest, "{} took {spent} s of {budget} s", spec.name);
        }
    }
}

#[test]
fn records_depend_only_on_the_seed() {
    let record = |scenario: &str| {
        let (mut bench, mut records) = (device(scenario), Vec::new());
        for probe in probes() {
            measure_on(&mut bench, probe, &Request::default(), &mut records);
        }
        lines(&records)
    };
    let noisy = |seed| record(&format!("seed={seed},noise=0.01,correlated=0.5,outliers=0.02,preempt=0.01"));
    assert!(noisy(7) == noisy(7));
    assert!(noisy(7) != noisy(8));
}

#[test]
fn a_trace_records_single_launches_and_does_not_stop_early() {
    let request = Request { trace: true, ..Request::default() };
    let (_, records) = measure("", "incore", &request);
    let (_, usual) = measure("", "incore", &Request::default());
    for (traced, usual) in points(&records).iter().zip(points(&usual)) {
        assert!(traced.k == 1 && traced.samples.len() > usual.samples.len());
    }
}

#[test]
fn a_failing_sink_ends_the_probe_with_its_error() {
    struct Full(usize);
    impl plimsoll_core::record::Sink for Full {
        fn write(&mut self, _: &Record) -> Result<(), Fault> {
            let full = || Fault::Sink(std::io::ErrorKind::StorageFull.into());
            self.0 = self.0.checked_sub(1).ok_or_else(full)?;
            Ok(())
        }
    }
    for room in 0..20 {
        let (stop, request, mut sink) = (false.into(), Request::default(), Full(room));
        let mut run = plimsoll_core::probe::RunContext {
            request: &request,
            sink: &mut sink,
            stop: &stop,
            device: 0,
            next_series: 0,
        };
        let ended = plimsoll_core::probe::Instrument::measure(&mut device(""), "sync", &mut run);
        assert!(matches!(ended, Err(Fault::Sink(_))), "room for {room}: {ended:?}");
    }
}

#[test]
fn a_real_time_run_takes_at_least_the_simulated_time() {
    let before = std::time::Instant::now();
    let (_, records) = measure_until(3, "real-time=1", "sync");
    let simulated: f64 = points(&records).iter().map(|point| point.evidence.wall).sum();
    assert!(simulated > 0.0 && before.elapsed().as_secs_f64() >= simulated);
}
