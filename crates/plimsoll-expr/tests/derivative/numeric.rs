//! Every operation by itself against central differences in f64.

use plimsoll_expr::graph::Builder;
use plimsoll_expr::op::{Binary, Domain, Unary};
use plimsoll_expr::oracle::Precision;
use plimsoll_expr::{DType, Graph, NodeId};

use super::{expression, gradient, outputs};

/// A derivative that isn't 1, so that a rule that drops it fails.
const COTANGENT: f64 = -1.75;
/// The points per range.
const POINTS: usize = 97;

/// Ranges in which the operation is smooth, at least 1/64 from the points where it isn't.
fn ranges(op: Unary) -> &'static [(f64, f64)] {
    match op {
        Unary::Neg | Unary::Exp | Unary::Exp2 | Unary::Expm1 | Unary::Sin | Unary::Cos => &[(-9.0, 9.0)],
        Unary::Tanh | Unary::Sinh | Unary::Cosh | Unary::Asinh | Unary::Atan => &[(-9.0, 9.0)],
        Unary::Sigmoid | Unary::Silu | Unary::Gelu | Unary::GeluTanh | Unary::Softplus | Unary::Mish => &[(-9.0, 9.0)],
        Unary::Erf | Unary::Erfc => &[(-4.0, 4.0)],
        Unary::Abs | Unary::Relu | Unary::Sign => &[(-9.0, -0.1), (0.1, 9.0)],
        Unary::Floor | Unary::Ceil | Unary::Trunc => &[(-1.9, -1.1), (0.1, 0.9), (7.1, 7.9)],
        Unary::Round => &[(-1.4, -0.6), (0.6, 1.4), (6.6, 7.4)],
        Unary::Sqrt | Unary::Rsqrt | Unary::Log | Unary::Log2 | Unary::Log10 => &[(0.3, 2.0), (2.0, 90.0)],
        Unary::Recip => &[(-9.0, -0.3), (0.3, 9.0)],
        Unary::Log1p => &[(-0.7, 9.0)],
        Unary::Acosh => &[(1.3, 9.0)],
        Unary::Atanh => &[(-0.7, 0.7)],
        Unary::Not => &[],
    }
}

/// Rectangles in which the operation is smooth.
fn rectangles(op: Binary) -> &'static [[(f64, f64); 2]] {
    const BELOW: [(f64, f64); 2] = [(-3.0, 1.0), (1.1, 3.0)];
    const ABOVE: [(f64, f64); 2] = [(1.1, 3.0), (-3.0, 1.0)];
    match op {
        Binary::Add | Binary::Sub | Binary::Mul => &[[(-3.0, 3.0), (-3.0, 3.0)]],
        Binary::Div => &[[(-3.0, 3.0), (0.3, 3.0)], [(-3.0, 3.0), (-3.0, -0.3)]],
        Binary::FloorDiv | Binary::Rem => {
            &[[(6.6, 7.4), (3.0, 3.2)], [(-7.4, -6.6), (3.0, 3.2)], [(1.0, 2.0), (-4.0, -3.0)]]
        }
        Binary::Min | Binary::Max | Binary::Fmin | Binary::Fmax => &[BELOW, ABOVE],
        Binary::Pow => &[[(0.3, 3.0), (-3.0, 3.0)]],
        Binary::Atan2 => &[[(0.3, 3.0), (-3.0, 3.0)], [(-3.0, -0.3), (-3.0, 3.0)], [(-3.0, 3.0), (0.3, 3.0)]],
        Binary::And | Binary::Or | Binary::Xor | Binary::Shl | Binary::Shr => &[],
    }
}

/// The point number `k` of a range: the golden ratio spreads the points of several operands evenly.
fn point((low, high): (f64, f64), k: usize, operand: usize) -> f64 {
    let step = [0.618_033_988_749_895, 0.754_877_666_246_693, 0.569_840_290_998_053][operand];
    low + (high - low) * (step * (k + 1) as f64).fract()
}

/// The derivative of the first output by input `place`: Richardson's rule on central differences. Its error is about h⁴·f⁽⁵⁾.
fn difference(graph: &Graph, at: &[f64], place: usize) -> f64 {
    let central = |h: f64| {
        let moved = |by: f64| {
            let mut inputs = at.to_vec();
            inputs[place] += by;
            outputs(graph, &inputs, Precision::Wide)[0]
        };
        (moved(h) - moved(-h)) / (2.0 * h)
    };
    let h = 1.0 / 1024.0;
    (4.0 * central(h) - central(2.0 * h)) / 3.0
}

/// Compares the derivatives at one point.
fn compare(graph: &Graph, derivative: &Graph, at: &[f64]) {
    let given: Vec<f64> = at.iter().copied().chain([COTANGENT]).collect();
    let found = outputs(derivative, &given, Precision::Wide);
    assert_eq!(found.len(), at.len());
    for (place, found) in found.into_iter().enumerate() {
        let expected = COTANGENT * difference(graph, at, place);
        // h⁴·f⁽⁵⁾ is at most about 10⁻⁸ of the largest values in all ranges, and rounding 10⁻¹⁶/h of them.
        let size = 1.0 + expected.abs() + outputs(graph, at, Precision::Wide)[0].abs();
        assert!(
            (found - expected).abs() < 1e-7 * size,
            "{graph}\n{derivative}\nby {place} at {at:?}: {found} {expected}"
        );
    }
}

/// An expression of f64 inputs `x`, `z` and `w`, as many as are asked for.
fn with_inputs(count: usize, build: impl FnOnce(&mut Builder, &[NodeId]) -> NodeId) -> Graph {
    let mut builder = Builder::new();
    let inputs: Vec<NodeId> =
        ["x", "z", "w"][..count].iter().map(|name| builder.input(name, DType::F64).unwrap()).collect();
    let y = build(&mut builder, &inputs);
    builder.output("y", y, None).unwrap();
    builder.finish().unwrap()
}

#[test]
fn operations_of_one_operand_agree_with_central_differences() {
    for &op in Unary::ALL {
        assert_eq!(ranges(op).is_empty(), op.domain() == Domain::Bits, "{}", op.name());
        for &range in ranges(op) {
            let graph = with_inputs(1, |builder, x| builder.unary(op, x[0]).unwrap());
            let derivative = gradient(&graph);
            (0..POINTS).for_each(|k| compare(&graph, &derivative, &[point(range, k, 0)]));
        }
    }
}

#[test]
fn operations_of_two_operands_agree_with_central_differences() {
    for &op in Binary::ALL {
        assert_eq!(rectangles(op).is_empty(), matches!(op.domain(), Domain::Bits | Domain::Int), "{}", op.name());
        for rectangle in rectangles(op) {
            let graph = with_inputs(2, |builder, x| builder.binary(op, x[0], x[1]).unwrap());
            let derivative = gradient(&graph);
            for k in 0..POINTS {
                compare(&graph, &derivative, &[point(rectangle[0], k, 0), point(rectangle[1], k, 1)]);
            }
        }
    }
}

#[test]
fn other_nodes_and_compositions_agree_with_central_differences() {
    for text in [
        "y = fma(x, z, w)",
        "y = fma(x, x, x)",
        "y = select(x < z + 4.0, x*w, z)",
        "y = select(x > z + 4.0, x*w, z*w)",
        "y = clamp(x, z - 5.0, z + 5.0)*w",
        "y = min(x, 3.0)*max(z, -3.0)*fmin(w, 3.0)",
        "y = pow(x*x + 1.0, 2.5) + pow(z, 2.0) + pow(w, 3.0) + pow(x, 1.0)",
        "y = pow(3.0, x) + pow(z*z + 0.5, w)",
        "y = x/(z*z + 1.0)/(w*w + 1.0) - 2.0/(x*x + 1.0)",
        "y = x*f64(x > 9.0) + z*sign(w - 3.0) + f64(index())*w",
        "let a = x; let b = z; iterate 4: a, b = sin(a)*b + w, tanh(a - b)*w\ny = a*b",
    ] {
        let graph = expression(&format!("in x: f64, z: f64, w: f64\n{text}"));
        let derivative = gradient(&graph);
        for k in 0..POINTS {
            compare(&graph, &derivative, &[0, 1, 2].map(|operand| point((-1.9, 1.9), k, operand)));
        }
    }
}

#[test]
fn second_derivatives_agree_with_central_differences() {
    for text in ["y = tanh(x)*z", "y = silu(x) + gelu(z*x)", "y = exp(x)/(z + 3.0)", "y = mish(x)*log(z + 3.0)"] {
        let first = gradient(&expression(&format!("in x: f64, z: f64\n{text}")));
        // Of the first derivative, by x, z and its own cotangent.
        let by_x = first.gradient(&[0, 1, 2]).unwrap();
        for k in 0..POINTS {
            let at = [0, 1, 2].map(|operand| point((-1.5, 1.5), k, operand));
            let given = [at[0], at[1], at[2], COTANGENT, 0.0];
            for (place, found) in outputs(&by_x, &given, Precision::Wide).into_iter().enumerate() {
                let expected = COTANGENT * difference(&first, &at, place);
                assert!((found - expected).abs() < 1e-7 * (1.0 + expected.abs()), "{text} {place}: {found} {expected}");
            }
        }
    }
}
