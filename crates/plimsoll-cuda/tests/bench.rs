//! The `bench` command with the fake driver: points that are measured, left out or recorded as faults. Kernels of the fake driver
//! do nothing, which the checks of results must find.

mod common;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use common::Fake;
use plimsoll_core::flag::Flag;
use plimsoll_core::probe::{Outcome, Request, RunContext};
use plimsoll_core::record::Record;
use plimsoll_core::sample::CachePolicy;
use plimsoll_core::series::Point as Sampled;
use plimsoll_cuda::Options;
use plimsoll_cuda::bench::{Bench, Covers, Point, span_of_sets};
use plimsoll_expr::{DType, Names, Problem, parse};
use plimsoll_gen::elementwise::{Choose, Form};
use plimsoll_suite::bench::{CEILING, Cell, HOST};

fn point(text: &str, elements: u64, choose: Choose) -> Point {
    let graph = parse(text, &Names::with_default(DType::F32)).unwrap();
    let problem = Arc::new(Problem::flat(&graph, elements, &[]).unwrap());
    let cell = Cell {
        plan: format!("{choose:?}"),
        cache: CachePolicy::Hot,
        ceiling: Some(1e12),
        ..Cell::flat(text, "f32", 4 * elements, problem.traffic())
    };
    Point { cell, problem, choose, covers: Covers::default() }
}

/// Runs `bench` and returns the measured points, the texts of faults, and the outcome.
fn measured(probe: &Bench) -> (Vec<Sampled>, Vec<String>, Outcome) {
    let fake = Fake::new();
    let options = Options { compiler: Some(Arc::new(common::AnyCompiler)), ..fake.options() };
    let mut device =
        plimsoll_cuda::open_with(&fake.driver().unwrap(), 0, &options, plimsoll_probes::cuda_probes()).unwrap();
    let (request, stop, mut records) = (Request::default(), AtomicBool::new(false), Vec::new());
    let mut run = RunContext { request: &request, sink: &mut records, stop: &stop, device: 0, next_series: 0 };
    let outcome = device.measure_with(probe, &mut run).unwrap();
    let (mut points, mut faults) = (Vec::new(), Vec::new());
    for record in records {
        match record {
            Record::Point(point) => points.push(point),
            Record::Fault(fault) => faults.push(fault.what),
            _ => {}
        }
    }
    (points, faults, outcome)
}

#[test]
fn every_point_is_measured_and_a_kernel_that_does_nothing_is_detected() {
    for text in ["x + 1", "x = x + 1", "x + 0.75*y"] {
        let points = [1 << 16, 1 << 18].map(|elements| point(text, elements, Choose::default()));
        let (points, faults, outcome) = measured(&Bench::new(points.to_vec(), None));
        assert!(matches!(outcome, Outcome::Complete), "{text}: {outcome:?}");
        assert_eq!(points.len(), 2, "{text}: {faults:?}");
        assert!(points.iter().all(|point| point.flags.contains(Flag::VerifyFail)), "{text}: {points:?}");
        assert!(faults.iter().all(|fault| fault.contains("element")), "{text}: {faults:?}");
        assert_eq!(points[0].extra.get(CEILING), Some(&1e12));
    }
}

#[test]
fn batches_are_checked_and_have_the_time_of_the_host() {
    for (text, lengths) in [("x + 1", vec![4096; 4]), ("x = x + 1", vec![777; 300])] {
        let spanned = point(text, span_of_sets(&lengths), Choose::default());
        let batch = Point { covers: Covers::Sets(lengths.into()), ..spanned.clone() };
        let flat = Point { covers: Covers::Once, ..spanned };
        let (points, faults, outcome) = measured(&Bench::new(vec![flat, batch], None));
        assert!(matches!(outcome, Outcome::Complete), "{text}: {outcome:?} {faults:?}");
        assert_eq!(points.len(), 2, "{text}: {faults:?}");
        assert!(points.iter().all(|point| point.flags.contains(Flag::VerifyFail)), "{text}: {points:?}");
        assert!(points.iter().all(|point| point.extra.get(HOST).is_some_and(|host| *host > 0.0)), "{points:?}");
    }
}

#[test]
fn points_without_a_kernel_are_left_out_and_the_others_are_measured() {
    let transposed = Choose { form: Some(Form::Transpose), ..Choose::default() };
    let probe = Bench::new(vec![point("x", 1 << 16, transposed), point("x", 1 << 16, Choose::default())], None);
    let (points, faults, outcome) = measured(&probe);
    assert!(matches!(outcome, Outcome::Complete), "{outcome:?} {faults:?}");
    assert_eq!(points.len(), 1);
    let left_out = probe.left_out();
    assert!(left_out.len() == 1 && left_out[0].contains("transpose"), "{left_out:?}");
}

#[test]
fn a_size_beyond_the_memory_is_a_fault_and_the_others_are_measured() {
    let probe = Bench::new(vec![point("x", 1 << 16, Choose::default()), point("x", 1 << 50, Choose::default())], None);
    let (points, faults, outcome) = measured(&probe);
    assert!(matches!(outcome, Outcome::Complete), "{outcome:?} {faults:?}");
    assert_eq!(points.len(), 1);
    assert!(faults.iter().any(|fault| fault.contains("memory")), "{faults:?}");
}
