//! Derivatives agree with finite differences of the expression itself, with the page's table, and with the stated inputs, outputs,
//! names and errors.

mod kinks;
mod numeric;
mod precision;
mod random;
mod signature;

use plimsoll_expr::oracle::{Element, Precision, evaluate};
use plimsoll_expr::{Graph, Names, Value, parse};

/// The expression of a text that declares its tensors.
fn expression(text: &str) -> Graph {
    parse(text, &Names::default()).unwrap_or_else(|error| panic!("{text}\n{error}"))
}

/// The derivative by all float inputs.
fn gradient(graph: &Graph) -> Graph {
    graph.gradient(&graph.float_inputs()).unwrap_or_else(|error| panic!("{graph}\n{error}"))
}

/// The scalars, and the position of the element.
const SCALAR: f64 = 0.375;
const COORDINATES: [u64; 2] = [3, 5];
const PLACE: u64 = 8;

/// The outputs for one element of each input; integers and `bool` are converted.
fn outputs(graph: &Graph, inputs: &[f64], precision: Precision) -> Vec<f64> {
    let inputs: Vec<Value> = inputs.iter().map(|&x| Value::Float(x)).collect();
    let scalars = vec![Value::Float(SCALAR); graph.scalars().len()];
    let element = Element { inputs: &inputs, scalars: &scalars, coordinates: &COORDINATES, place: PLACE };
    evaluate(graph, element, precision).unwrap().iter().map(|value| value.as_f64()).collect()
}
