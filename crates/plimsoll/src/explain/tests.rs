//! Explanations of simulated launches on an H200 with its shipped profile: texts and numbers.

use plimsoll_core::Flags;
use plimsoll_core::model::{Key, Kind, Pipe};
use plimsoll_core::series::Estimate;
use plimsoll_expr::{DType, Names, parse};
use plimsoll_gen::elementwise::Tier;

use super::*;
use crate::predict::{KnownMachine, find_machine};

fn point(text: &str, dtype: DType, bytes: u64, choose: Choose) -> Point {
    let graph = parse(text, &Names::with_default(dtype)).unwrap();
    let problem = Arc::new(Problem::flat(&graph, bytes / dtype.bytes(), &[]).unwrap());
    let cell =
        Cell { plan: Variant(choose).to_string(), ..Cell::flat(text, dtype.to_string(), bytes, problem.traffic()) };
    Point { cell, problem, variant: Variant(choose), covers: Covers::default() }
}

/// The explanation of a point that took `slower` times as long as predicted.
fn explained(subject: &Subject, point: &Point, slower: f64) -> Explanation {
    let forecast = forecasts(subject, std::slice::from_ref(point), None).pop().flatten().unwrap();
    let seconds = forecast.prediction.total.map_or(1e-3, |total| total.value * slower);
    let time = Estimate { value: seconds, interval: Interval { lo: 0.999 * seconds, hi: 1.001 * seconds } };
    let rate = point.cell.traffic.total() as f64 / seconds;
    let bandwidth = Estimate { value: rate, interval: Interval { lo: rate, hi: rate } };
    let cell = point.cell.clone();
    let measured =
        Line { cell: cell.clone(), time, bandwidth, of_ceiling: None, of_peak: None, host: None, flags: Flags::NONE };
    Explanation {
        cell,
        machine: subject.machine().clone(),
        origin: subject.origin(),
        forecast,
        measured: Some(measured),
        unmeasured: String::new(),
        counted: BTreeMap::new(),
        uncounted: "a test has none".to_owned(),
    }
}

fn h200() -> KnownMachine {
    find_machine("h200").unwrap()
}

fn words(known: KnownMachine, text: &str, dtype: DType, bytes: u64) -> String {
    let subject = Subject::from_machine(known, Origin::Profile);
    explained(&subject, &point(text, dtype, bytes, Choose::default()), 1.0).words()
}

#[test]
fn the_limit_is_named_with_what_would_help() {
    let large = words(h200(), "x + 1", DType::F32, 1 << 30);
    assert!(large.contains("limited by memory bandwidth") && large.contains("fewer bytes"), "{large}");
    let small = words(h200(), "x + 1", DType::F32, 1 << 14);
    assert!(small.contains("limited by the launch itself") && small.contains("dependent launches"), "{small}");
    let heavy = words(h200(), &format!("x{}", " * x + 1.5".repeat(200)), DType::F32, 1 << 28);
    assert!(heavy.contains("limited by arithmetic") && heavy.contains("Fewer instructions"), "{heavy}");
}

#[test]
fn the_residue_is_measured_minus_predicted() {
    let subject = Subject::from_machine(h200(), Origin::Profile);
    let point = point("x + 1", DType::F32, 1 << 30, Choose::default());
    let slow = explained(&subject, &point, 1.2);
    let residue = slow.residue().unwrap();
    assert!((residue.share - 1.0 / 6.0).abs() < 1e-9, "{residue:?}");
    assert!(residue.interval.lo < residue.seconds && residue.seconds < residue.interval.hi);
    assert!(slow.words().contains("(16.7 %) slower") && slow.words().contains("rough counts"), "{}", slow.words());
    let exact = explained(&subject, &point, 1.0);
    assert!(exact.words().contains("within both intervals"), "{}", exact.words());
}

#[test]
fn missing_figures_are_named_with_the_probe_that_measures_them() {
    let mut lacking = h200();
    lacking.machine.terms.remove(&Key::BlocksPerClock);
    let bound = words(lacking.clone(), "x + 1", DType::F32, 1 << 30);
    assert!(bound.contains("dispatch of blocks (blocks dispatched per clock)"), "{bound}");
    assert!(
        bound.contains("at least the predicted time") && bound.contains("measuring dispatch finds them"),
        "{bound}"
    );
    for form in [LaunchForm::Graph, LaunchForm::GraphExit] {
        lacking.machine.terms.remove(&Key::Launch(form));
    }
    let none = words(lacking, "x + 1", DType::F32, 1 << 30);
    assert!(none.contains("launch (launch (graph))") && none.contains("there is no prediction"), "{none}");
    let mut nothing = h200();
    nothing.machine = Machine::new("unknown");
    let none = words(nothing, "x + 1", DType::F32, 1 << 30);
    assert!(none.contains("The limit is unknown"), "{none}");
}

#[test]
fn full_functions_in_16_bits_are_limited_by_instructions_and_get_a_hint() {
    // Rough counts don't depend on the tier, so these are the counts in both kernels' machine code, compiled for sm_90.
    let explain_tier = |tier, issue: f64| {
        let subject = Subject::from_machine(h200(), Origin::Profile);
        let point = point("erf(x)", DType::Bf16, 1 << 30, Choose { tier, ..Choose::default() });
        let mut explained = explained(&subject, &point, 1.0);
        let description = &mut explained.forecast.description;
        description.instructions = BTreeMap::from([(Pipe::Issue, issue * description.traffic.read as f64 / 64.0)]);
        explained.forecast.prediction = plimsoll_core::model::predict(description, subject.machine());
        explained
    };
    let ours = explain_tier(Tier::Accurate, 11.3);
    assert_eq!(ours.forecast.prediction.limiter, Some(Kind::Memory));
    let cuda = explain_tier(Tier::Full, 26.1);
    assert_eq!(cuda.forecast.prediction.limiter, Some(Kind::Pipe(Pipe::Issue)));
    assert!(cuda.words().contains("leave out tier=full"), "{}", cuda.words());
}

#[test]
fn an_expression_is_explained_on_the_simulated_device() {
    let mut device = Device::open(&"sim".parse().unwrap(), &crate::CudaOptions::default()).unwrap();
    let double = plimsoll_expr::trace(|a: plimsoll_expr::Scalar<f32>, x: plimsoll_expr::In<f32>| a * x).unwrap();
    let found = double.explain(&mut device, 1 << 20, &ExplainOptions::default()).unwrap();
    assert!(found.measured.is_some() && found.forecast.plan.is_none());
    assert_eq!((found.origin, found.residue()), (Origin::Nothing, None));
    assert!(!found.uncounted.is_empty() && found.words().contains("launch (launch (graph))"), "{}", found.words());
}
