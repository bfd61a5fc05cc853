//! Alternatives for random expressions and layouts, and their order for typical ones.

use plimsoll_expr::strategy::{Expressions, graphs, layouts, shapes};
use plimsoll_expr::{DType, Layout, Names, Space, parse};
use proptest::prelude::*;

use super::*;
use crate::Target;
use crate::elementwise::Tier;
use crate::elementwise::plan::{Access, plan};
use crate::elementwise::table::example;

fn device(capability: u32) -> Device {
    Device {
        target: Target::plain(capability),
        multiprocessors: 132,
        threads_per_multiprocessor: 2048,
        l2_bytes: 60 << 20,
    }
}

fn flat(text: &str, dtype: DType, elements: u64, choose: &Choose) -> Vec<Alternative> {
    let graph = parse(text, &Names::with_default(dtype)).unwrap();
    let tensors = graph.inputs().len() + graph.outputs().len();
    let access = Access { strides: vec![1], phase: 0 };
    let indexing = Indexing { extents: vec![elements], accesses: vec![access; tensors] };
    alternatives(&graph, &indexing, &device(90), &Table::default(), choose).unwrap()
}

/// An expression with a layout for each input, and an address for each tensor in elements from an aligned one.
fn cases() -> impl Strategy<Value = (Graph, Vec<u64>, Vec<Layout>, Vec<u64>)> {
    let settings = Expressions { max_operations: 6, ..Expressions::default() };
    (graphs(&settings), shapes()).prop_flat_map(|(graph, shape)| {
        let layouts: Vec<_> = graph.inputs().iter().map(|_| layouts(&shape)).collect();
        let tensors = graph.inputs().len() + graph.outputs().len();
        (Just(graph), Just(shape), layouts, prop::collection::vec(0..4_u64, tensors))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn there_are_at_most_twelve_different_plans_and_the_first_is_the_planners(
        (graph, shape, inputs, starts) in cases(),
        (capability, dependent, with_table) in (prop::sample::select(vec![80_u32, 90, 100]), any::<bool>(), any::<bool>()),
    ) {
        let full = Layout::contiguous(&shape).unwrap();
        let output = |output: &plimsoll_expr::graph::Output| match output.in_place {
            Some(slot) => inputs[slot as usize].broadcast_to(&shape).unwrap(),
            None => full.clone(),
        };
        let all: Vec<Layout> = inputs.iter().cloned().chain(graph.outputs().iter().map(output)).collect();
        prop_assume!(shape.len() >= graph.least_rank());
        let bytes = graph.inputs().iter().map(|input| input.dtype).chain(graph.outputs().iter().map(|output| output.dtype));
        let starts: Vec<u64> = starts.iter().zip(bytes).map(|(start, dtype)| 4096 + start * dtype.bytes()).collect();
        let indexing = Indexing::new(&graph, &Space::with_shape(&shape, &all).unwrap(), &starts).unwrap();
        let (device, table) = (device(capability), if with_table { example() } else { Table::default() });
        let base = Choose { dependent, ..Choose::default() };
        match (plan(&graph, &indexing, &device, &table, &base), alternatives(&graph, &indexing, &device, &table, &base)) {
            (Err(expected), Err(found)) => prop_assert_eq!(expected, found),
            (Ok(own), Ok(found)) => {
                prop_assert!((1..=MOST_ALTERNATIVES).contains(&found.len()));
                prop_assert!((found[0].choose == base) && found[0].plan == own);
                let specs: HashSet<&KernelSpec> = found.iter().map(|other| &other.plan.spec).collect();
                prop_assert_eq!(specs.len(), found.len());
                for other in &found {
                    let again = plan(&graph, &indexing, &device, &table, &other.choose).unwrap();
                    prop_assert_eq!(&again.spec, &other.plan.spec);
                    prop_assert!(again.spec.dependent != Dependent::Start);
                    prop_assert_eq!((other.choose.dependent, other.choose.tier), (base.dependent, base.tier));
                }
            }
            (own, found) => prop_assert!(false, "{own:?} and {found:?}"),
        }
    }
}

#[test]
fn large_sums_try_other_sizes_hints_and_bulk_copies() {
    let found = flat("x + y", DType::F32, 1 << 26, &Choose::default());
    assert_eq!(found.len(), MOST_ALTERNATIVES);
    let count = |is: fn(&KernelSpec) -> bool| found.iter().filter(|other| is(&other.plan.spec)).count();
    assert!((2..9).contains(&count(|spec| spec.form == Form::Bulk)), "{found:#?}");
    assert!(count(|spec| spec.form == Form::Flat) >= 4);
    assert!(count(|spec| spec.hints != Hints { load_no_allocate: true, store_streaming: true }) >= 2);
}

#[test]
fn dependent_launches_try_other_releases_and_both_kinds_of_prefetch() {
    let found = flat("x*y + z", DType::Bf16, 1 << 22, &Choose { dependent: true, ..Choose::default() });
    for release in [Dependent::Tail, Dependent::Exit, Dependent::Early] {
        assert!(found.iter().any(|other| other.plan.spec.dependent == release), "{release:?}");
    }
    assert!(found.iter().any(|other| other.plan.spec.prefetch) && found.iter().any(|other| !other.plan.spec.prefetch));
}

#[test]
fn forced_choices_stay() {
    let base = Choose { form: Some(Form::Flat), threads: Some(192), ..Choose::default() };
    let found = flat("exp(x)", DType::F16, 1 << 24, &base);
    assert!(found.len() > 4);
    let keeps = |other: &Alternative| other.plan.spec.form == Form::Flat && other.plan.spec.threads == 192;
    assert!(found.iter().all(keeps), "{found:#?}");
}

#[test]
fn narrow_accesses_few_bytes_in_flight_and_idle_multiprocessors_cost_more() {
    let graph = parse("x + y", &Names::with_default(DType::F32)).unwrap();
    let clocks = |elements: u64, vector, threads| {
        let access = Access { strides: vec![1], phase: 0 };
        let indexing = Indexing { extents: vec![elements], accesses: vec![access; 3] };
        let (device, table) = (device(90), Table::default());
        let prepared = Prepared::new(&graph, &indexing, (&device, &table), Tier::default()).unwrap();
        let choose = Choose { vector: Some(vector), unroll: Some(1), threads: Some(threads), ..Choose::default() };
        let plan = prepared.plan(&choose).unwrap();
        cost::clocks(&plan, &prepared.tensors, &Counts::default(), &device)
    };
    // 2,048 threads with 8 bytes each are 16 KiB in flight, with 32 bytes 64 KiB.
    assert!(clocks(1 << 26, 4, 256) > 1.5 * clocks(1 << 26, 16, 256));
    // 64 blocks leave half of the SMs idle.
    assert!(clocks(1 << 18, 16, 1024) > clocks(1 << 18, 16, 256));
}

#[test]
fn no_alternative_asks_for_more_registers_than_its_blocks_leave() {
    for elements in [1 << 18, 1 << 22, 1 << 26] {
        let found = flat("x*y + z", DType::F32, elements, &Choose { dependent: true, ..Choose::default() });
        for other in &found[1..] {
            let spec = &other.plan.spec;
            // Three inputs of four bytes.
            let held = if spec.form == Form::Bulk { 0 } else { 3 * spec.lanes * spec.unroll };
            assert!((held + 24) * spec.resident * spec.threads <= 65_536, "{spec:?}");
        }
    }
}

#[test]
fn tiles_with_many_elements_per_thread_are_not_tried() {
    let tiles = |extents: &[u64], strides: [&[i64]; 2]| {
        let graph = parse("d: i8 = x*2", &Names::with_default(DType::F16)).unwrap();
        let accesses = strides.map(|strides| Access { strides: strides.to_vec(), phase: 0 }).to_vec();
        let indexing = Indexing { extents: extents.to_vec(), accesses };
        let plans = alternatives(&graph, &indexing, &device(90), &Table::default(), &Choose::default()).unwrap();
        let tiles = plans.iter().map(|alternative| &alternative.plan.spec).filter(|spec| spec.form == Form::Transpose);
        tiles.map(|spec| (spec.rows * spec.unroll * spec.lanes, spec.threads)).collect::<Vec<_>>()
    };
    let odd = tiles(&[23, 1646, 149], [&[1, 23, 37_858], &[245_254, 149, 1]]);
    assert!(odd.len() > MOST_VARIATIONS[0] + 2, "{odd:?}");
    // The planner's own tile has as many as allowed, so there is none with half as many threads.
    let own = tiles(&[8192, 8192], [&[1, 8192], &[8192, 1]]);
    assert_eq!(own[0], (128 * 128, 256));
    for tiles in [odd, own] {
        assert!(tiles.iter().all(|&(elements, threads)| elements <= MOST_IN_TILE * threads), "{tiles:?}");
    }
}
