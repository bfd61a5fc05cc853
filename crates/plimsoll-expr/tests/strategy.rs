//! Generated expressions are worth testing with.

use std::collections::BTreeSet;

use plimsoll_expr::graph::Kind;
use plimsoll_expr::strategy::{Expressions, Operations, graphs};
use plimsoll_expr::{DType, Graph};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

fn sample(of: &Expressions, count: usize) -> Vec<Graph> {
    let (mut runner, strategy) = (TestRunner::deterministic(), graphs(of));
    (0..count).map(|_| strategy.new_tree(&mut runner).expect("an expression").current()).collect()
}

/// The operation without its operands.
fn operation(kind: Kind) -> String {
    match kind {
        Kind::Unary(op, _) => format!("{op:?}"),
        Kind::Binary(op, _) => format!("{op:?}"),
        Kind::Compare(op, _) => format!("{op:?}"),
        kind => format!("{kind:?}").split(['(', ' ']).next().unwrap_or_default().to_owned(),
    }
}

#[test]
fn every_operation_and_type_is_generated() {
    let graphs = sample(&Expressions::default(), 3_000);
    let operations: BTreeSet<String> = graphs.iter().flat_map(Graph::nodes).map(|node| operation(node.kind)).collect();
    let types: BTreeSet<DType> = graphs.iter().flat_map(Graph::nodes).map(|node| node.dtype).collect();
    // 37 of one operand, 17 of two, 6 comparisons, 5 leaves, fma, select, cast.
    let expected = plimsoll_expr::op::Unary::ALL.len()
        + plimsoll_expr::op::Binary::ALL.len()
        + plimsoll_expr::op::Comparison::ALL.len()
        + 8;
    assert_eq!(operations.len(), expected, "{operations:?}");
    assert_eq!(types.len(), DType::ALL.len());
    assert!(graphs.iter().any(|graph| graph.nodes().len() > 15));
    assert!(graphs.iter().any(|graph| graph.outputs().iter().any(|output| output.in_place.is_some())));
}

#[test]
fn exact_expressions_of_given_types_have_nothing_else() {
    let of = Expressions { dtypes: vec![DType::F32], operations: Operations::Exact, most: 12, place: false };
    for graph in sample(&of, 500) {
        assert!(graph.inputs().iter().chain(graph.scalars()).all(|parameter| parameter.dtype == DType::F32));
        assert!(!graph.depends_on_place());
        for node in graph.nodes() {
            assert!(!["Exp", "Log", "Tanh", "Erf", "Pow", "Rsqrt"].contains(&operation(node.kind).as_str()));
        }
    }
}
