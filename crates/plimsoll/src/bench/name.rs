//! What an expression is called in tables and in the CSV form that programs share: by its operation where it is a known one.

use plimsoll_expr::graph::{Kind, NodeId};
use plimsoll_expr::op::Binary;
use plimsoll_expr::{DType, Graph};

/// `copy`, `add_const`, `triad`, or the function's name where all is one function of one input; `None` for anything else.
#[must_use]
pub fn operation(graph: &Graph) -> Option<&'static str> {
    let [output] = graph.outputs() else { return None };
    let kind = |id: NodeId| graph.node(id).map(|node| node.kind);
    let is_input = |id: NodeId| matches!(kind(id), Some(Kind::Input(_)));
    let is_same = |id: NodeId| matches!(kind(id), Some(Kind::Scalar(_) | Kind::Constant(_)));
    let either = |[a, b]: [NodeId; 2], one: &dyn Fn(NodeId) -> bool, other: &dyn Fn(NodeId) -> bool| {
        (one(a) && other(b)) || (one(b) && other(a))
    };
    let is_scaled = |id: NodeId| match kind(id) {
        Some(Kind::Binary(Binary::Mul, factors)) => either(factors, &is_input, &is_same),
        _ => false,
    };
    match kind(output.node)? {
        Kind::Input(_) => Some("copy"),
        Kind::Unary(function, x) if is_input(x) => Some(function.name()),
        Kind::Binary(Binary::Add, ids) if either(ids, &is_input, &is_same) => Some("add_const"),
        Kind::Binary(Binary::Mul, ids) if either(ids, &is_input, &is_same) => Some("scale"),
        Kind::Binary(Binary::Add, ids) if either(ids, &is_input, &is_input) => Some("add"),
        Kind::Binary(Binary::Add, ids) if either(ids, &is_input, &is_scaled) => Some("triad"),
        Kind::Fma([a, b, c]) if either([a, b], &is_input, &is_same) && is_input(c) => Some("triad"),
        _ => None,
    }
}

/// The types that are read and written: `bf16` where all are one, else `bf16+f32>bf16`.
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
    fn known_operations_are_known_however_they_are_written() {
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
    fn types_are_one_name_where_they_are_one() {
        assert_eq!(types(&parse("x + y", &Names::all(DType::F16)).unwrap()), "f16");
        assert_eq!(types(&parse("in x: bf16, y: f32; d: bf16 = x * y", &Names::default()).unwrap()), "bf16+f32>bf16");
    }
}
