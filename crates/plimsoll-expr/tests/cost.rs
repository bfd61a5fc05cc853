//! The cost of expressions.

use plimsoll_core::Traffic;
use plimsoll_expr::cost::{Class, Least, least_operations, traffic};
use plimsoll_expr::function::Function;
use plimsoll_expr::op::Unary;
use plimsoll_expr::strategy::{Expressions, graphs};
use plimsoll_expr::{Cost, DType, Graph, Layout, Names, parse};
use proptest::prelude::*;

fn graph(text: &str, dtype: DType) -> Graph {
    parse(text, &Names::with_default(dtype)).unwrap()
}

#[test]
fn traffic_counts_each_input_and_each_output_once() {
    let cost = |text, dtype| Cost::from_graph(&graph(text, dtype)).traffic;
    assert_eq!(cost("d = x", DType::Bf16), Traffic::new(2, 2));
    assert_eq!(cost("d = x*x + exp(x)", DType::F32), Traffic::new(4, 4));
    assert_eq!(cost("d = a*b + c", DType::F64), Traffic::new(24, 8));
    assert_eq!(cost("y = a*x + y", DType::F16), Traffic::new(6, 2));
    assert_eq!(cost("in unused: f64\nd = 1.5", DType::F32), Traffic::new(0, 4));
    let adam =
        "in g: bf16, m: f32, v: f32, p: f32\nm = 0.9*m + 0.1*g\nv = 0.99*v + 0.01*g*g\np = p - 1e-3*m/(sqrt(v) + 1e-8)";
    assert_eq!(Cost::from_graph(&parse(adam, &Names::default()).unwrap()).traffic, Traffic::new(14, 12));
}

#[test]
fn operations_are_counted_by_class_and_carrier() {
    let cost = Cost::from_graph(&graph("d = fma(a, b, c) + erf(a)/b", DType::Bf16));
    let expected = [
        ((Class::Add, DType::F32), 1),
        ((Class::Fma, DType::F32), 1),
        ((Class::Divide, DType::F32), 1),
        ((Class::Function(Function::Unary(Unary::Erf)), DType::F32), 1),
        // Three loads and the store.
        ((Class::Convert, DType::F32), 4),
    ];
    assert_eq!(cost.operations, expected.into());
    assert_eq!(cost.flops(), 5);
    assert_eq!(cost.arithmetic_intensity(), Some(5.0 / 8.0));
}

#[test]
fn least_operations_leave_out_what_a_kernel_may_save() {
    let flat = Layout::contiguous(&[8, 16]).unwrap();
    let least =
        |text: &str, inputs: &[Layout], carrier| least_operations(&graph(text, DType::Bf16), inputs, 128, carrier);
    let counted = least("d = a*b + fma(a, b, 2.5) - b", &[flat.clone(), flat.clone()], DType::F32);
    assert_eq!(counted, Least { sums: 256, products: 128, multiply_adds: 128 });
    let one = std::slice::from_ref(&flat);
    assert_eq!(least("d = a*b", &[flat.clone(), flat.clone()], DType::F64), Least::default());
    assert_eq!(least("d = min(abs(a), 2.5) + 0", one, DType::F32), Least::default());
    assert_eq!(least("d = 1*a", one, DType::F32), Least::default());
    assert_eq!(least("d = a + 1", one, DType::F32), Least { sums: 128, ..Least::default() });
    // A row that is broadcast: its square may be computed once per column.
    let row = Layout::contiguous(&[16]).unwrap();
    let counted = least("d = a + b*b", &[flat.clone(), row], DType::F32);
    assert_eq!(counted, Least { sums: 128, ..Least::default() });
}

#[test]
fn operations_on_only_scalars_are_not_counted() {
    let text = "in x: f32\nscalar a: f32, b: f32\nd = x*exp(a*b)";
    let cost = Cost::from_graph(&parse(text, &Names::default()).unwrap());
    assert_eq!(cost.operations, [((Class::Mul, DType::F32), 1)].into());
}

#[test]
fn integers_and_comparisons_are_not_flops() {
    let cost = Cost::from_graph(&graph("d = a*b + 1\ne = a < b\nf = select(a < b, a, b)", DType::I32));
    assert_eq!(cost.flops(), 0);
    assert_eq!(cost.operations[&(Class::Compare, DType::I32)], 1, "one comparison, used twice");
}

#[test]
fn broadcast_elements_are_read_once() {
    let g = graph("d = x*b", DType::F32);
    let layouts = [Layout::contiguous(&[1000, 64]).unwrap(), Layout::contiguous(&[64]).unwrap()];
    assert_eq!(traffic(&g, &layouts), Ok(Traffic::new(4 * (64_000 + 64), 256_000)));
    let huge = [Layout::contiguous(&[1 << 62]).unwrap(), Layout::contiguous(&[1]).unwrap()];
    assert!(traffic(&g, &huge).is_err());
}

proptest! {
    #[test]
    fn traffic_of_contiguous_tensors_is_n_times_that_of_one_element(graph in graphs(&Expressions::default()), n in 1_u64..1000) {
        let layout = Layout::contiguous(&[n]).unwrap();
        let layouts = vec![layout; graph.inputs().len()];
        prop_assert_eq!(Some(traffic(&graph, &layouts).unwrap()), Cost::from_graph(&graph).traffic.checked_mul(n));
    }

    #[test]
    fn no_more_operations_are_counted_than_the_graph_has(graph in graphs(&Expressions::default())) {
        let counted: u64 = Cost::from_graph(&graph).operations.values().sum();
        let most = graph.nodes().len() + graph.outputs().len();
        prop_assert!(counted <= most as u64);
    }
}
