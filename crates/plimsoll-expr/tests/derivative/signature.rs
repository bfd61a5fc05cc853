//! Inputs, outputs, names, errors and limits.

use plimsoll_expr::graph::{Builder, MAX_INPUTS, MAX_NODES};
use plimsoll_expr::op::Binary;
use plimsoll_expr::oracle::Precision;
use plimsoll_expr::{DType, ExprError, GradientError, Graph, In, NodeId, Scalar, trace};

use super::{expression, gradient, outputs};

fn text_of(text: &str) -> String {
    gradient(&expression(text)).to_string()
}

fn names(graph: &Graph) -> (Vec<&str>, Vec<&str>) {
    let inputs = graph.inputs().iter().map(|input| &input.name[..]).collect();
    (inputs, graph.outputs().iter().map(|output| &output.name[..]).collect())
}

#[test]
fn every_output_passes_its_derivative_on() {
    assert_eq!(
        text_of("in x: f32, z: f32\na = x*z\nb = x + z\nn: i32 = i32(x)"),
        "in x: f32, z: f32, grad_a: f32, grad_b: f32\nd_x = grad_b + grad_a*z\nd_z = grad_b + grad_a*x"
    );
}

#[test]
fn outputs_have_the_order_and_the_choice_of_the_caller() {
    let graph = expression("in x: f32, n: i32, z: f64\ny = x*z + n");
    let derivative = graph.gradient(&[2, 0]).unwrap();
    assert_eq!(names(&derivative), (vec!["x", "n", "z", "grad_y"], vec!["d_z", "d_x"]));
    let types: Vec<DType> = derivative.outputs().iter().map(|output| output.dtype).collect();
    assert_eq!(types, [DType::F64, DType::F32]);
    assert_eq!(graph.float_inputs(), [0, 2]);
    assert_eq!(graph.gradient(&[0]).unwrap().outputs().len(), 1);
}

#[test]
fn derivatives_of_expressions_in_place_are_by_the_values_before() {
    let graph = expression("in m: f32, g: f32\nm = 0.5*m + g\ng = g*m");
    let derivative = gradient(&graph);
    assert_eq!(names(&derivative), (vec!["m", "g", "grad_m", "grad_g"], vec!["d_m", "d_g"]));
    assert!(derivative.outputs().iter().all(|output| output.in_place.is_none()));
    // The new m is m/2 + g, and the new g is g·(m/2 + g): at m = 2, g = 3 the derivatives are ½ + 10·3/2 and 1 + 10·(1 + 6).
    assert_eq!(outputs(&derivative, &[2.0, 3.0, 1.0, 10.0], Precision::Carried), [15.5, 71.0]);
}

#[test]
fn inputs_without_influence_have_the_derivative_zero() {
    assert_eq!(
        text_of("in x: bf16, z: f32\ny = floor(x) + z"),
        "in x: bf16, z: f32, grad_y: f32\nd_x: bf16 = 0.0f32\nd_z = grad_y"
    );
    let unread = expression("in x: f32, z: f32\ny = x").gradient(&[1]).unwrap();
    assert_eq!(outputs(&unread, &[1.0, 2.0, 3.0], Precision::Carried), [0.0]);
    // Only the integer output depends on z.
    let graph = expression("in x: f64, z: f64\ny = x\nn: i64 = i64(z)");
    assert_eq!(outputs(&gradient(&graph), &[1.0, 2.0, 3.0], Precision::Carried), [3.0, 0.0]);
    assert_eq!(text_of("in x: f32\ny = pow(x, 0.0)"), "in x: f32, grad_y: f32\nd_x = 0.0f32");
}

#[test]
fn only_what_the_derivative_needs_is_computed() {
    assert_eq!(
        text_of("in x: f32, z: f32\ny = x + exp(z*z) + erf(floor(x))"),
        "in x: f32, z: f32, grad_y: f32\nlet t0 = grad_y*exp(z*z)*z\nd_x = grad_y\nd_z = t0 + t0"
    );
}

#[test]
fn traced_closures_and_scalars_have_derivatives() {
    let axpy = trace(|a: Scalar<f32>, x: In<f32>, y: In<f32>| (a * x + y).tanh()).unwrap();
    let derivative = gradient(axpy.graph());
    assert_eq!(
        derivative.to_string(),
        "in x0: f32, x1: f32, grad_y0: f32\nscalar a0: f32\nlet t0 = tanh(a0*x0 + x1)\nlet t1 = grad_y0*(1.0 - t0*t0)\nd_x0 = t1*a0\nd_x1 = t1"
    );
}

#[test]
fn new_names_differ_from_the_users_names() {
    let graph = expression("in x: f32, grad_y: f32, d_x: f32\nscalar d_x_2: f32\ny = x*grad_y*d_x*d_x_2\nd_grad_y = x");
    let derivative = gradient(&graph);
    let expected = ["d_x_3", "d_grad_y_2", "d_d_x"].to_vec();
    assert_eq!(names(&derivative), (vec!["x", "grad_y", "d_x", "grad_y_2", "grad_d_grad_y"], expected));
}

#[test]
fn long_names_are_shortened_and_differ() {
    let long = "a".repeat(62);
    let graph = expression(&format!("in {long}b: f32, {long}c: f32\n{long}d = {long}b*{long}c"));
    let derivative = gradient(&graph);
    let (inputs, results) = names(&derivative);
    assert_eq!(inputs[2], format!("grad_{}", "a".repeat(59)));
    assert_eq!(results, [format!("d_{}", "a".repeat(62)), format!("d_{}_2", "a".repeat(60))]);
}

#[test]
fn errors_name_the_fault() {
    let graph = expression("in x: f32, n: i32\ny = x*n");
    for (inputs, message) in [
        (vec![], "no input to differentiate by: give the index of at least one float input"),
        (vec![2], "there is no input 2: the expression has 2, counted from 0"),
        (vec![0, 0], "input 'x' was given twice: give each input once"),
        (vec![0, 1], "input 'n' is i32 and has no derivative: only floats do, so leave it out"),
    ] {
        assert_eq!(graph.gradient(&inputs).unwrap_err().to_string(), message);
    }
    let flat = expression("in x: f32\ny = x > 0\nz = i32(x)").gradient(&[0]).unwrap_err();
    assert_eq!(flat, GradientError::NoFloatOutput);
}

#[test]
fn unread_inputs_can_be_dropped() {
    let derivative = gradient(&expression("in x: f32, z: f32, w: f32\ny = x + sin(w)\nk = z"));
    assert_eq!(derivative.reads(), [false, false, true, true, true]);
    let (short, left) = derivative.with_read_inputs();
    assert_eq!(left, [2, 3, 4]);
    assert_eq!(
        short.to_string(),
        "in w: f32, grad_y: f32, grad_k: f32\nd_x = grad_y\nd_z = grad_k\nd_w = grad_y*cos(w)"
    );
    let in_place = expression("in x: f32, p: f32, q: f32\np = q");
    let (short, left) = in_place.with_read_inputs();
    assert_eq!((short.to_string(), left), ("in p: f32, q: f32\np = q".to_owned(), vec![1, 2]));
}

#[test]
fn values_behind_a_flat_operation_take_no_nodes() {
    for flat in ["floor(x)", "x // 3.0", "f64(x > 1.0)", "f64(i32(x))"] {
        let text = format!("in x: f64\nlet t = {flat}\niterate 1024: t = sin(t*t*t*t*t)\ny = x + t");
        // Its derivative would have more than 16,384 nodes if these were copied.
        let derivative = expression(&text).gradient(&[0]).unwrap();
        assert_eq!(derivative.to_string(), "in x: f64, grad_y: f64\nd_x = grad_y", "{flat}");
    }
}

/// Each value is used twice by the next one, so there are 2ⁿ ways from the input to the output.
fn chain(length: usize, next: impl Fn(&mut Builder, NodeId) -> NodeId) -> Graph {
    let mut builder = Builder::new();
    let x = builder.input("x", DType::F64).unwrap();
    let last = (0..length).fold(x, |last, _| next(&mut builder, last));
    builder.output("y", last, None).unwrap();
    builder.finish().unwrap()
}

#[test]
fn chains_near_the_limit_have_derivatives_of_linear_size() {
    let squares = chain(5_000, |builder, last| builder.binary(Binary::Mul, last, last).unwrap());
    // The input, the cotangent and 4,999 squares; a product and a sum for each of 5,000 nodes.
    assert_eq!(gradient(&squares).nodes().len(), 2 + 4_999 + 2 * 5_000);
    let sums = chain(MAX_NODES - 2, |builder, last| builder.binary(Binary::Add, last, last).unwrap());
    // It needs none of the original values.
    assert_eq!(gradient(&sums).nodes().len(), MAX_NODES - 1);
    let too_long = chain(MAX_NODES - 1, |builder, last| builder.binary(Binary::Add, last, last).unwrap());
    assert_eq!(too_long.gradient(&[0]).unwrap_err(), GradientError::Limit(ExprError::TooManyNodes));
}

#[test]
fn a_derivative_beyond_the_limits_is_an_error() {
    let long =
        expression("in x: f32, z: f32\nlet t = x\nlet u = z\niterate 900: t, u = (t*u - z)*x, sin(t)*u*u\ny = t + u");
    let error = long.gradient(&[0, 1]).unwrap_err();
    assert_eq!(error, GradientError::Limit(ExprError::TooManyNodes));
    assert_eq!(error.to_string(), "the derivative is too large: more than 16384 operations: split the expression");

    let mut builder = Builder::new();
    let mut sum = builder.input("x0", DType::F32).unwrap();
    for place in 1..MAX_INPUTS {
        let input = builder.input(&format!("x{place}"), DType::F32).unwrap();
        sum = builder.binary(Binary::Add, sum, input).unwrap();
    }
    builder.output("y", sum, None).unwrap();
    let full = builder.finish().unwrap();
    assert_eq!(full.gradient(&[0]).unwrap_err(), GradientError::Limit(ExprError::TooManyInputs));
}
