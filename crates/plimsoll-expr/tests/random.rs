//! Generated expressions cover what they should, with and without proptest.

use std::collections::BTreeSet;

use plimsoll_core::stats::Rng;
use plimsoll_expr::graph::Kind;
use plimsoll_expr::oracle::{Element, Precision, evaluate};
use plimsoll_expr::random;
use plimsoll_expr::strategy::{Expressions, Operations, graphs};
use plimsoll_expr::{DType, Graph, Names, Space, Value, parse};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

fn sample(settings: &Expressions, count: usize) -> Vec<Graph> {
    let (mut runner, strategy) = (TestRunner::deterministic(), graphs(settings));
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
fn exact_expressions_use_only_exact_operations_and_the_given_types() {
    let settings =
        Expressions { dtypes: vec![DType::F32], operations: Operations::Exact, max_operations: 12, place: false };
    for graph in sample(&settings, 500) {
        assert!(graph.inputs().iter().chain(graph.scalars()).all(|parameter| parameter.dtype == DType::F32));
        assert!(!graph.depends_on_place());
        for node in graph.nodes() {
            assert!(!["Exp", "Log", "Tanh", "Erf", "Pow", "Rsqrt"].contains(&operation(node.kind).as_str()));
        }
    }
}

/// Every exact operation, by the name of its variant, and the leaves.
const EXACT: [&str; 41] = [
    "Neg",
    "Not",
    "Abs",
    "Sign",
    "Floor",
    "Ceil",
    "Round",
    "Trunc",
    "Sqrt",
    "Recip",
    "Relu",
    "Add",
    "Sub",
    "Mul",
    "Div",
    "FloorDiv",
    "Rem",
    "And",
    "Or",
    "Xor",
    "Shl",
    "Shr",
    "Min",
    "Max",
    "Fmin",
    "Fmax",
    "Pow",
    "Less",
    "LessEqual",
    "Greater",
    "GreaterEqual",
    "Equal",
    "NotEqual",
    "Fma",
    "Select",
    "Cast",
    "Input",
    "Scalar",
    "Constant",
    "Place",
    "Coordinate",
];

fn exact_graphs(seed: u64, count: usize) -> Vec<Graph> {
    let exact = Expressions { operations: Operations::Exact, ..Expressions::default() };
    let mut rng = Rng::new(seed);
    (0..count).map(|_| random::graph(&exact, &mut rng).expect("an expression")).collect()
}

#[test]
fn random_exact_expressions_have_every_exact_operation_every_type_and_no_other_operation() {
    let graphs = exact_graphs(0x70, 300);
    let operations: BTreeSet<String> = graphs.iter().flat_map(Graph::nodes).map(|node| operation(node.kind)).collect();
    assert_eq!(operations, EXACT.map(str::to_owned).into());
    let types: BTreeSet<DType> = graphs.iter().flat_map(Graph::nodes).map(|node| node.dtype).collect();
    assert_eq!(types, DType::ALL.into());
    let is_int_power = |node: &plimsoll_expr::Node| operation(node.kind) != "Pow" || node.dtype.is_int();
    assert!(graphs.iter().flat_map(Graph::nodes).all(is_int_power));
}

#[test]
fn random_expressions_have_every_number_of_inputs_scalars_and_outputs() {
    let graphs = exact_graphs(0x70, 300);
    let counts = |count: fn(&Graph) -> usize| graphs.iter().map(count).collect::<BTreeSet<usize>>();
    assert_eq!(counts(|graph| graph.inputs().len()), [1, 2, 3, 4].into());
    assert_eq!(counts(|graph| graph.scalars().len()), [0, 1, 2].into());
    assert_eq!(counts(|graph| graph.outputs().len()), [1, 2, 3].into());
    let in_place = graphs.iter().filter(|graph| graph.outputs().iter().any(|output| output.in_place.is_some()));
    assert!((60..240).contains(&in_place.count()));
}

#[test]
fn random_expressions_are_valid_and_the_same_for_the_same_seed() {
    let graphs = exact_graphs(7, 300);
    assert_eq!(graphs, exact_graphs(7, 300));
    assert_ne!(graphs, exact_graphs(8, 300));
    let mut rng = Rng::new(7);
    for graph in &graphs {
        let text = graph.to_string();
        assert_eq!(&parse(&text, &Names::default()).unwrap(), graph, "{text}");
        let mut values = |parameters: &[plimsoll_expr::graph::Parameter]| -> Vec<Value> {
            parameters.iter().map(|parameter| random::value(parameter.dtype, &mut rng)).collect()
        };
        let (inputs, scalars) = (values(graph.inputs()), values(graph.scalars()));
        let element = Element { inputs: &inputs, scalars: &scalars, coordinates: &[3, 5], place: 8 };
        assert_eq!(evaluate(graph, element, Precision::Carried).unwrap().len(), graph.outputs().len(), "{text}");
    }
}

#[test]
fn settings_without_types_give_no_expression() {
    let settings = Expressions { dtypes: Vec::new(), ..Expressions::default() };
    assert_eq!(random::graph(&settings, &mut Rng::new(1)), None);
}

#[test]
fn half_of_random_values_are_small_and_edges_are_among_them() {
    for dtype in [DType::F64, DType::I64] {
        let mut rng = Rng::new(1);
        let values: Vec<f64> = (0..6_000).map(|_| random::value(dtype, &mut rng).as_f64()).collect();
        let share = |is: fn(f64) -> bool| values.iter().filter(|value| is(**value)).count() as f64 / 6_000.0;
        // Some edges are small too: 0 and 1, and of floats −0 and −1.
        let small = share(|value| value.abs() <= 8.0 && (8.0 * value).fract() == 0.0);
        assert!((0.5..0.65).contains(&small), "{dtype}: {small}");
        let edges = [f64::INFINITY, f64::NEG_INFINITY, i64::MAX as f64, i64::MIN as f64];
        assert!(edges[2 * usize::from(dtype.is_int())..][..2].iter().all(|edge| values.contains(edge)), "{dtype}");
    }
}

#[test]
fn random_layouts_fit_their_shapes_and_take_every_form() {
    let mut rng = Rng::new(1);
    let (mut forms, mut ranks) = (BTreeSet::new(), BTreeSet::new());
    for _ in 0..2_000 {
        let shape = random::shape(&mut rng);
        let layout = random::layout(&shape, &mut rng).expect("a layout");
        assert!(shape.iter().all(|extent| *extent <= 5));
        Space::with_shape(&shape, std::slice::from_ref(&layout)).unwrap();
        ranks.insert(shape.len());
        forms.insert(("contiguous", layout.is_contiguous()));
        forms.insert(("offset", layout.offset() > 0));
        forms.insert(("broadcast", layout.shape() != shape));
        forms.insert(("backwards", layout.strides().iter().any(|stride| *stride < 0)));
        forms.insert(("empty", shape.contains(&0)));
    }
    assert_eq!(ranks, (0..=5).collect());
    assert_eq!(forms.len(), 10, "{forms:?}");
}
