//! The name of an expression in tables and in the common CSV format: its operation, if that is a known one.

use plimsoll_expr::graph::{Kind, NodeId};
use plimsoll_expr::op::Binary;
use plimsoll_expr::{DType, Graph};

/// `copy`, `add_const`, `triad` and the like, or the function's name for a function of one input; `None` for anything else.
#[must_use]
pub fn operation(graph: &Graph) -> Option<&'static str> {
    let [output] = graph.outputs() else { return None };
    let kind = |id: NodeId| graph.node(id).map(|node| node.kind);
    let is_input = |id: NodeId| matches!(kind(id), Some(Kind::Input(_)));
    let is_uniform = |id: NodeId| matches!(kind(id), Some(Kind::Scalar(_) | Kind::Constant(_)));
    let matches_in_any_order =
        |[a, b]: [NodeId; 2], first: &dyn Fn(NodeId) -> bool, second: &dyn Fn(NodeId) -> bool| {
            (first(a) && second(b)) || (first(b) && second(a))
        };
    let is_scaled = |id: NodeId| match kind(id) {
        Some(Kind::Binary(Binary::Mul, factors)) => matches_in_any_order(factors, &is_input, &is_uniform),
        _ => false,
    };
    match kind(output.node)? {
        Kind::Input(_) => Some("copy"),
        Kind::Unary(function, x) if is_input(x) => Some(function.name()),
        Kind::Binary(Binary::Add, ids) if matches_in_any_order(ids, &is_input, &is_uniform) => Some("add_const"),
        Kind::Binary(Binary::Mul, ids) if matches_in_any_order(ids, &is_input, &is_uniform) => Some("scale"),
        Kind::Binary(Binary::Add, ids) if matches_in_any_order(ids, &is_input, &is_input) => Some("add"),
        Kind::Binary(Binary::Add, ids) if matches_in_any_order(ids, &is_input, &is_scaled) => Some("triad"),
        Kind::Fma([a, b, c]) if matches_in_any_order([a, b], &is_input, &is_uniform) && is_input(c) => Some("triad"),
        _ => None,
    }
}

/// The types that are read and written: `bf16` if all are the same, else for example `bf16+f32>bf16`.
#[must_use]
pub fn types(graph: &Graph) -> String {
    let inputs: Vec<DType> = graph.inputs().iter().map(|input| input.dtype).collect();
    let outputs: Vec<DType> = graph.outputs().iter().map(|output| output.dtype).collect();
    let first = inputs.iter().chain(&outputs).next();
    if inputs.iter().chain(&outputs).all(|dtype| Some(dtype) == first) {
        return first.map(DType::to_string).unwrap_or_default();
    }
    let joined = |types: &[DType]| types.iter().map(DType::to_string).collect::<Vec<_>>().join("+");
    format!("{}>{}", joined(&inputs), joined(&outputs))
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_expr::{Names, parse};

    #[test]
    fn known_operations_are_recognized_in_every_form() {
        let scalars = [("a".to_owned(), DType::F32)].into();
        let names = Names { default: Some(DType::Bf16), scalars, ..Names::default() };
        for (text, expected) in [
            ("x", Some("copy")),
            ("y = x", Some("copy")),
            ("x + 42", Some("add_const")),
            ("a + x", Some("add_const")),
            ("x + a*y", Some("triad")),
            ("0.75*y + x", Some("triad")),
            ("fma(a, y, x)", Some("triad")),
            ("x + y", Some("add")),
            ("erf(x)", Some("erf")),
            ("exp(x)", Some("exp")),
            ("log(x)", Some("log")),
            ("tanh(a*x + y)", None),
            ("exp(x) + 1", None),
        ] {
            assert_eq!(operation(&parse(text, &names).unwrap()), expected, "{text}");
        }
    }

    #[test]
    fn equal_types_give_a_single_name() {
        assert_eq!(types(&parse("x + y", &Names::with_default(DType::F16)).unwrap()), "f16");
        assert_eq!(types(&parse("in x: bf16, y: f32; d: bf16 = x * y", &Names::default()).unwrap()), "bf16+f32>bf16");
    }
}
