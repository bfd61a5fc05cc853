//! Random expressions against central differences of three widths; and properties of derivatives of any expression.

use plimsoll_core::stats::Rng;
use plimsoll_expr::graph::Kind;
use plimsoll_expr::op::{Binary, Unary};
use plimsoll_expr::oracle::{Precision, apply};
use plimsoll_expr::random;
use plimsoll_expr::strategy::{Expressions, Operations, graphs};
use plimsoll_expr::{DType, GradientError, Graph, Names, Value, parse};
use proptest::prelude::*;

use super::{COORDINATES, PLACE, SCALAR, gradient, outputs};

/// An expression at one point.
struct Sample {
    /// The sum of the float outputs times their cotangents.
    sum: f64,
    /// The largest magnitude of a value on the way.
    largest: f64,
    /// The values that change only in steps.
    steps: Vec<f64>,
}

fn sample(graph: &Graph, inputs: &[f64], cotangents: &[f64]) -> Sample {
    let (mut values, mut steps): (Vec<Value>, Vec<f64>) = (Vec::new(), Vec::new());
    for node in graph.nodes() {
        let operands: Vec<Value> = node.kind.operands().iter().map(|id| values[id.index()]).collect();
        let value = match node.kind {
            Kind::Input(slot) => Value::Float(inputs[slot as usize]),
            Kind::Scalar(_) => Value::Float(SCALAR),
            Kind::Constant(bits) => node.dtype.decode(bits),
            Kind::Place => Value::Int(PLACE.into()),
            Kind::Coordinate(dimension) => Value::Int(COORDINATES[usize::from(dimension)].into()),
            kind => apply(kind, node.dtype, DType::F64, &operands, Precision::Wide),
        };
        match node.kind {
            Kind::Unary(Unary::Floor | Unary::Ceil | Unary::Round | Unary::Trunc | Unary::Sign, _)
            | Kind::Binary(Binary::FloorDiv, _)
            | Kind::Compare(..) => steps.push(value.as_f64()),
            Kind::Binary(Binary::Rem, _) => steps.push((operands[0].as_f64() / operands[1].as_f64()).floor()),
            _ => {}
        }
        values.push(value);
    }
    let floats = graph.outputs().iter().filter(|output| output.dtype.is_float());
    let sum = floats.zip(cotangents).map(|(output, cotangent)| values[output.node.index()].as_f64() * cotangent).sum();
    let magnitudes = values.iter().map(|value| value.as_f64().abs()).filter(|magnitude| magnitude.is_finite());
    Sample { sum, largest: magnitudes.fold(1.0, f64::max), steps }
}

/// The central difference by input `place` and the error that it may have. `None` if the function isn't smooth there: it takes a
/// step or is infinite or NaN nearby, or three widths disagree.
fn difference(graph: &Graph, at: &[f64], cotangents: &[f64], place: usize) -> Option<(f64, f64)> {
    let Sample { mut largest, steps, .. } = sample(graph, at, cotangents);
    let mut has_step = false;
    let mut central = |h: f64| {
        let mut moved = |by: f64| {
            let mut inputs = at.to_vec();
            inputs[place] += by;
            let near = sample(graph, &inputs, cotangents);
            largest = largest.max(near.largest);
            has_step |= near.steps != steps;
            near.sum
        };
        (moved(h) - moved(-h)) / (2.0 * h)
    };
    let widths = [1.0, 0.587, 0.231].map(|part| central(part * 2.0_f64.powi(-13)));
    let spread = widths.iter().fold(0.0_f64, |spread, width| spread.max((width - widths[2]).abs()));
    // The narrowest width has less than a tenth of the spread as its error in h². Its rounding errors are some 2⁻⁵³ of the largest
    // value on the way, times 2¹⁵.
    let allowed = 2.0 * spread + largest * 2.0_f64.powi(-32);
    let is_smooth = widths.iter().all(|width| width.is_finite()) && allowed <= 1e-3 * (widths[2].abs() + 1e-2);
    (is_smooth && !has_step).then_some((widths[2], allowed))
}

/// Compares all derivatives at one point, and returns how many could be compared.
fn compare(graph: &Graph, rng: &mut Rng) -> usize {
    let derivative = match graph.gradient(&graph.float_inputs()) {
        Ok(derivative) => derivative,
        Err(error) => {
            assert_eq!(error, GradientError::NoFloatOutput);
            return 0;
        }
    };
    let mut draw =
        |count: usize| (0..count).map(|_| rng.below(1 << 40) as f64 / (1_u64 << 38) as f64 - 2.0).collect::<Vec<f64>>();
    let inputs = draw(graph.inputs().len());
    let cotangents = draw(derivative.inputs().len() - inputs.len());
    let given: Vec<f64> = inputs.iter().chain(&cotangents).copied().collect();
    let found = outputs(&derivative, &given, Precision::Wide);
    let mut compared = 0;
    for (place, found) in found.into_iter().enumerate() {
        // 0·∞ next to a singularity is NaN, as in PyTorch.
        let Some((expected, allowed)) = difference(graph, &inputs, &cotangents, place).filter(|_| found.is_finite())
        else {
            continue;
        };
        assert!(
            (found - expected).abs() <= allowed,
            "{graph}\n---\n{derivative}\nby {place} at {inputs:?}, {cotangents:?}: {found}, not {expected} ± {allowed}"
        );
        compared += usize::from(expected != 0.0);
    }
    compared
}

#[test]
fn random_expressions_agree_with_central_differences() {
    for (seed, operations) in [(1, Operations::All), (2, Operations::Exact)] {
        let settings = Expressions { dtypes: vec![DType::F64], operations, max_operations: 16, place: true };
        let mut rng = Rng::new(seed);
        let mut compared = 0;
        for _ in 0..4_000 {
            let graph = random::graph(&settings, &mut rng).expect("an expression");
            compared += compare(&graph, &mut rng);
        }
        assert!(compared > 2_000, "{compared} derivatives other than 0");
    }
}

proptest! {
    #[test]
    fn derivatives_of_any_expression_are_valid_print_and_have_a_derivative(graph in graphs(&Expressions::default())) {
        let inputs = graph.float_inputs();
        let floats = graph.outputs().iter().filter(|output| output.dtype.is_float()).count();
        match graph.gradient(&inputs) {
            Ok(derivative) => {
                let types = |graph: &Graph| graph.inputs().iter().map(|input| input.dtype).collect::<Vec<_>>();
                let results: Vec<DType> = derivative.outputs().iter().map(|output| output.dtype).collect();
                prop_assert_eq!(results, inputs.iter().map(|&place| types(&graph)[place]).collect::<Vec<_>>());
                prop_assert_eq!(&derivative.inputs()[..graph.inputs().len()], graph.inputs());
                prop_assert_eq!(derivative.inputs().len(), graph.inputs().len() + floats);
                prop_assert_eq!(derivative.scalars(), graph.scalars());
                prop_assert!(derivative.outputs().iter().all(|output| output.in_place.is_none()));
                let text = derivative.to_string();
                prop_assert_eq!(&parse(&text, &Names::default()).expect(&text), &derivative, "{}", text);
                gradient(&derivative);
            }
            Err(GradientError::NoInput) => prop_assert!(inputs.is_empty()),
            Err(error) => prop_assert!(floats == 0 && error == GradientError::NoFloatOutput, "{}", error),
        }
    }
}
