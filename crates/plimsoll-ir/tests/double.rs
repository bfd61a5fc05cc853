//! Functions of f64 against true values of 160 bits, which `scripts/f64_reference.py` made with mpmath: it shares no code with this
//! crate.

use std::collections::BTreeMap;

use plimsoll_expr::{DType, LastPlace, Names, parse};
use plimsoll_ir::{Accuracy, Program, eval, lower};

/// The promised error in units in the last place (`docs/mathematics.md`).
const PROMISED: [(&str, f64); 11] = [
    ("exp", 1.5),
    ("exp2", 1.5),
    ("log", 1.5),
    ("sinh", 2.5),
    ("erfc", 5.5),
    ("sigmoid", 4.5),
    ("silu", 5.5),
    ("gelu", 8.5),
    ("gelu_tanh", 6.0),
    ("softplus", 4.0),
    ("mish", 5.5),
];

/// The result for x, and whether the common block computed it.
fn evaluate(program: &Program, x: f64) -> (f64, bool) {
    let inputs = [x.to_bits()];
    let types = (program.inputs.as_slice(), program.scalars.as_slice());
    let element = eval::Element { inputs: &inputs, scalars: &[], types, place: 0, coordinates: &[0] };
    let (common, held) = eval::run(&program.common, element);
    let bits = if held { common[0] } else { eval::run(program.total(), element).0[0] };
    (f64::from_bits(bits), held)
}

fn program(function: &str) -> Program {
    let graph = parse(&format!("in x: f64\ny = {function}(x)"), &Names::default()).unwrap();
    lower(&graph, Accuracy::Accurate, true)
}

/// For each function, its arguments with the nearest result, and what that lacks in units in the last place.
fn trials(text: &str) -> BTreeMap<&str, Vec<(f64, f64, f64)>> {
    let number = |bits: &str| f64::from_bits(u64::from_str_radix(bits, 16).unwrap());
    let mut trials: BTreeMap<&str, Vec<_>> = BTreeMap::new();
    for line in text.lines() {
        if let [name, x, result, rest] = line.split(' ').collect::<Vec<_>>()[..] {
            trials.entry(name).or_default().push((number(x), number(result), rest.parse().unwrap()));
        }
    }
    trials
}

#[test]
fn functions_of_f64_are_within_their_bounds_of_true_values() {
    let place = LastPlace::new(DType::F64);
    let trials = trials(include_str!("../../plimsoll-cpu/tests/f64_functions.txt"));
    for (function, promised) in PROMISED {
        let program = program(function);
        let mut by_common = 0;
        for &(x, result, rest) in &trials[function] {
            let (found, held) = evaluate(&program, x);
            let error = ((found - result) / place.unit(result) - rest).abs();
            assert!(error <= promised, "{function}({x:e}): {found:e}, not {result:e}: {error} ulp");
            by_common += usize::from(held);
        }
        assert!(by_common * 2 > trials[function].len(), "{function}: {by_common} by the common block");
    }
}

#[test]
fn special_values_are_those_of_the_library() {
    let same = |a: f64, b: f64| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
    let cases = [
        ("exp", [f64::NAN, 0.0, f64::INFINITY, 1.0, 1.0]),
        ("exp2", [f64::NAN, 0.0, f64::INFINITY, 1.0, 1.0]),
        ("expm1", [f64::NAN, -1.0, f64::INFINITY, 0.0, -0.0]),
        ("log", [f64::NAN, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::NEG_INFINITY]),
        ("tanh", [f64::NAN, -1.0, 1.0, 0.0, -0.0]),
        ("sinh", [f64::NAN, f64::NEG_INFINITY, f64::INFINITY, 0.0, -0.0]),
        ("cosh", [f64::NAN, f64::INFINITY, f64::INFINITY, 1.0, 1.0]),
        ("erfc", [f64::NAN, 2.0, 0.0, 1.0, 1.0]),
        ("sigmoid", [f64::NAN, 0.0, 1.0, 0.5, 0.5]),
        ("silu", [f64::NAN, f64::NAN, f64::INFINITY, 0.0, -0.0]),
        ("gelu", [f64::NAN, f64::NAN, f64::INFINITY, 0.0, -0.0]),
        ("gelu_tanh", [f64::NAN, f64::NAN, f64::INFINITY, 0.0, -0.0]),
        ("mish", [f64::NAN, f64::NAN, f64::INFINITY, 0.0, -0.0]),
        ("softplus", [f64::NAN, 0.0, f64::INFINITY, std::f64::consts::LN_2, std::f64::consts::LN_2]),
    ];
    for (function, expected) in cases {
        let program = program(function);
        for (x, expected) in [f64::NAN, f64::NEG_INFINITY, f64::INFINITY, 0.0, -0.0].into_iter().zip(expected) {
            let (found, _) = evaluate(&program, x);
            assert!(same(found, expected), "{function}({x}): {found}, not {expected}");
        }
    }
}

/// Around the ends of the guards and at subnormals, the result is near that of the library's function, whichever block computed it.
#[test]
fn results_at_the_ends_of_guards_are_near_those_of_the_library() {
    type Named = (&'static str, fn(f64) -> f64);
    let library: [Named; 7] = [
        ("exp", libm::exp),
        ("exp2", libm::exp2),
        ("expm1", libm::expm1),
        ("log", libm::log),
        ("tanh", libm::tanh),
        ("sinh", libm::sinh),
        ("cosh", libm::cosh),
    ];
    let ends =
        [708.0, 708.000_48, 708.001, 1021.0, 1_021.000_4, 1021.001, 700.0, 700.000_4, 20.0, 20.5, 1e-310, 5e-324];
    for (function, expected) in library {
        let program = program(function);
        for x in ends.into_iter().flat_map(|x: f64| [x, -x, x.next_up(), -x.next_up()]) {
            let ((found, _), expected) = (evaluate(&program, x), expected(x));
            let near = (found - expected).abs() <= 1e-14 * expected.abs() + f64::MIN_POSITIVE * 1e-14;
            assert!(near || found == expected || found.is_nan() && expected.is_nan(), "{function}({x:e}): {found:e}");
        }
    }
}
