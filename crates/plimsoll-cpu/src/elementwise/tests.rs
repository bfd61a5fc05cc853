mod any_layout;

use std::cell::RefCell;

use plimsoll_expr::op::{Binary, Comparison, Unary};
use plimsoll_expr::oracle::{self, Precision, Tensor};
use plimsoll_expr::strategy::{Expressions, Operations, divisions, graphs, layouts, values};
use plimsoll_expr::{Builder, DType, ExprError, Graph, Layout, Names, NodeId, Problem, Value, parse};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::*;
use crate::arch::available;
use crate::memory::{Buffer, Pages};
use crate::threads::{Team, affinity};
use crate::timer::Timer;

fn team(threads: usize) -> Team {
    let cpu = affinity::allowed_cpus()[0];
    Team::new(&vec![cpu; threads], Timer::best()).unwrap()
}

/// The operands of a run.
#[derive(Clone, Debug)]
struct Case {
    graph: Graph,
    inputs: Vec<(Layout, Vec<u8>)>,
    outputs: Vec<Layout>,
    scalars: Vec<Value>,
}

fn memory_of(layout: &Layout, dtype: DType) -> usize {
    layout.span().map_or(0, |(_, last)| (last + 1) as usize * dtype.bytes() as usize)
}

/// Runs a case and compares every element of every output with the oracle.
fn check(case: &Case, how: &How, team: &mut Team, near: impl Fn(DType, Value, Value) -> bool) -> Result<(), String> {
    let Case { graph, inputs, outputs, scalars } = case;
    let layouts: Vec<Layout> = inputs.iter().map(|(layout, _)| layout.clone()).collect();
    let mut prepared = Program::new(graph).prepare(&layouts, outputs, how).map_err(|error| error.to_string())?;
    let tensors: Vec<Tensor<'_>> = inputs.iter().map(|(layout, memory)| Tensor { memory, layout }).collect();
    let shape = outputs[0].shape();
    let expected = oracle::run(graph, shape, &tensors, scalars, Precision::Carried).map_err(|e| e.to_string())?;
    // Memory at the buffers' alignment, with non-zero bytes around the elements.
    let buffer = |bytes: &[u8]| {
        let mut buffer = Buffer::<u8>::new(bytes.len().max(1), Pages::Small).unwrap();
        buffer[..bytes.len()].copy_from_slice(bytes);
        buffer
    };
    let in_place = |input: usize| graph.outputs().iter().any(|output| output.in_place == Some(input as u32));
    let sources: Vec<Buffer<u8>> =
        inputs.iter().enumerate().filter(|(i, _)| !in_place(*i)).map(|(_, (_, bytes))| buffer(bytes)).collect();
    let before: Vec<Vec<u8>> = graph
        .outputs()
        .iter()
        .zip(outputs)
        .map(|(output, layout)| match output.in_place {
            Some(slot) => inputs[slot as usize].1.clone(),
            None => vec![0xa5; memory_of(layout, output.dtype) + 40],
        })
        .collect();
    let mut targets: Vec<Buffer<u8>> = before.iter().map(|bytes| buffer(bytes)).collect();
    {
        let sources: Vec<&[u8]> = sources.iter().map(|b| &**b).collect();
        let mut targets: Vec<&mut [u8]> = targets.iter_mut().map(|b| &mut **b).collect();
        let set = Set { inputs: &sources, outputs: &mut targets };
        prepared.run(team, set, scalars).map_err(|error| error.to_string())?;
    }
    for (place, output) in graph.outputs().iter().enumerate() {
        let (layout, width) = (&outputs[place], output.dtype.bytes() as usize);
        let space = plimsoll_expr::Space::with_shape(shape, std::slice::from_ref(layout)).unwrap();
        let offsets = space.offsets(0);
        for (i, (&offset, &expected)) in offsets.iter().zip(&expected[place]).enumerate() {
            let found = output.dtype.read(&targets[place], offset).unwrap();
            if !near(output.dtype, expected, found) {
                return Err(format!("{}: element {i} is {found:?}, not {expected:?}", output.name));
            }
        }
        let mut touched = vec![false; before[place].len() / width + 1];
        offsets.iter().for_each(|&offset| touched[offset as usize] = true);
        for (byte, &old) in before[place].iter().enumerate() {
            if !touched[byte / width] && targets[place][byte] != old {
                return Err(format!("{}: byte {byte} outside its elements was written", output.name));
            }
        }
    }
    Ok(())
}

/// Equal, or at most `steps` numbers of the type apart.
fn within(steps: u64) -> impl Fn(DType, Value, Value) -> bool {
    move |dtype, expected, found| {
        let number = |value| matches!(value, Value::Float(x) if !x.is_nan());
        if !dtype.is_float() || !number(expected) || !number(found) {
            return expected.is_same(found);
        }
        // The bits of numbers with one sign are ordered like the numbers; zeros of both signs differ.
        let [a, b] = [expected, found].map(|value| dtype.encode(value));
        a.abs_diff(b) <= steps
    }
}

fn exact(_: DType, expected: Value, found: Value) -> bool {
    expected.is_same(found)
}

fn contiguous(graph: &Graph, n: u64, seed: u64) -> Case {
    let problem = Problem::flat(graph, n, &vec![Value::Float(0.75); graph.scalars().len()]).unwrap();
    let layout = Layout::contiguous(&[n]).unwrap();
    let inputs = graph.inputs().iter().enumerate().map(|(i, input)| {
        let mut bytes = vec![0; n as usize * input.dtype.bytes() as usize];
        problem.fill(input.dtype, seed + i as u64, &mut bytes);
        (layout.clone(), bytes)
    });
    let inputs = inputs.collect();
    Case {
        graph: graph.clone(),
        inputs,
        outputs: vec![layout; graph.outputs().len()],
        scalars: problem.scalars().to_vec(),
    }
}

/// A random case with shapes and layouts from the strategies, some of them larger than a tile.
fn cases(expressions: &Expressions) -> impl Strategy<Value = Case> + use<> {
    let extent = prop_oneof![4 => 1_u64..=5, 2 => 6_u64..=40, 1 => Just(700_u64), 1 => Just(0)];
    let shape = prop::collection::vec(extent, 0..=4)
        .prop_filter("a small shape", |shape| shape.iter().product::<u64>() <= 3000);
    (graphs(expressions), shape)
        .prop_flat_map(|(graph, mut shape)| {
            while shape.len() < graph.least_rank() {
                shape.push(2);
            }
            let dense = Layout::contiguous(&shape).unwrap();
            let outputs = prop::collection::vec((any::<bool>(), 0..4_u64), graph.outputs().len());
            let inputs: Vec<_> = graph.inputs().iter().map(|_| layouts(&shape)).collect();
            let fills: Vec<_> =
                graph.inputs().iter().map(|input| prop::collection::vec(values(input.dtype), 97)).collect();
            let scalars: Vec<_> = graph.scalars().iter().map(|scalar| values(scalar.dtype)).collect();
            (Just(graph), Just(dense), outputs, inputs, fills, scalars)
        })
        .prop_filter_map("layouts in range", |(graph, dense, how, mut inputs, fills, scalars)| {
            let mut outputs = Vec::new();
            for (output, (transposed, offset)) in graph.outputs().iter().zip(how) {
                let shape = dense.shape();
                let layout = if transposed && shape.len() >= 2 {
                    let mut swapped = shape.to_vec();
                    swapped.swap(shape.len() - 2, shape.len() - 1);
                    Layout::contiguous(&swapped).ok()?.transposed()
                } else {
                    dense.clone()
                };
                let layout = layout.offset_by(offset).ok()?;
                if let Some(slot) = output.in_place {
                    inputs[slot as usize] = layout.clone();
                }
                outputs.push(layout);
            }
            let inputs = graph.inputs().iter().zip(inputs).zip(fills).map(|((input, layout), fill)| {
                let mut bytes = Vec::new();
                let elements = memory_of(&layout, input.dtype) / input.dtype.bytes() as usize;
                fill.iter().cycle().take(elements).for_each(|&value| input.dtype.write(value, &mut bytes));
                (layout, bytes)
            });
            let inputs = inputs.collect();
            Some(Case { graph, inputs, outputs, scalars })
        })
}

fn check_property(expressions: &Expressions, count: u32, near: impl Fn(DType, Value, Value) -> bool) {
    let mut runner =
        TestRunner::new(ProptestConfig { cases: count, failure_persistence: None, ..ProptestConfig::default() });
    let team = RefCell::new(team(2));
    let sets = available();
    let iteration = RefCell::new(0_usize);
    runner
        .run(&cases(expressions), |case| {
            *iteration.borrow_mut() += 1;
            let isa = sets[*iteration.borrow() % sets.len()];
            let stores =
                if iteration.borrow().is_multiple_of(3) { StorePolicy::NonTemporal } else { StorePolicy::Ordinary };
            let how = How { threads: 2, isa, stores };
            check(&case, &how, &mut team.borrow_mut(), &near)
                .map_err(|wrong| TestCaseError::fail(format!("{isa:?} {wrong}")))
        })
        .unwrap();
}

#[test]
fn arithmetic_matches_the_oracle_bitwise_on_every_layout_and_set() {
    check_property(&Expressions { operations: Operations::Exact, ..Expressions::default() }, 400, exact);
}

#[test]
fn float_expressions_match_the_oracle_bitwise() {
    let dtypes = vec![DType::F32, DType::F16, DType::Bf16, DType::F8E4M3, DType::F8E5M2];
    check_property(
        &Expressions { dtypes, operations: Operations::Exact, max_operations: 12, place: false },
        200,
        exact,
    );
}

#[test]
fn sizes_around_a_tile_are_complete() {
    // Several operations, and single ones, whose results are stored past the caches block by block.
    let texts = [
        "scalar a: f32; in x: f32, y: f32; z = x*y - x; w: bf16 = x; y = a*x + y",
        "scalar a: f32; in x: f32, y: f32; z = a*x + y",
        "in x: f32; x = x - 1.5",
        "in x: f64, y: f64; z = x*y",
        "in x: u8, y: u8; z = x + y",
        "in x: i16, y: i16; z = x < y",
    ];
    // Outputs begin at a cache line, or three elements later.
    let stores = [(StorePolicy::Ordinary, 0), (StorePolicy::NonTemporal, 0), (StorePolicy::NonTemporal, 3)];
    let mut team = team(2);
    for text in texts {
        let graph = parse(text, &Names::default()).unwrap();
        let in_place = graph.outputs().iter().any(|output| output.in_place.is_some());
        for isa in available() {
            for n in [0, 1, 2, 15, 16, 17, 63, 64, 65, 1023, 1024, 1025, 4095, 4096, 4097, 10_007] {
                for (stores, later) in stores {
                    let how = How { threads: 2, isa, stores };
                    let mut case = contiguous(&graph, n, 7);
                    if n > 0 && !in_place {
                        case.outputs.iter_mut().for_each(|output| *output = output.offset_by(later).unwrap());
                    }
                    let wrong = |e| panic!("{text} {isa:?} {n}: {e}");
                    check(&case, &how, &mut team, exact).unwrap_or_else(wrong);
                }
            }
        }
    }
}

#[test]
fn large_transposed_and_broadcast_tensors_are_indexed_correctly() {
    let graph = parse("in x: f32, b: bf16, c: f32; y = x + b*c", &Names::default()).unwrap();
    let mut team = team(2);
    for (rows, columns) in [(70, 301), (301, 70), (33, 32), (8, 1000), (1000, 8), (1000, 3)] {
        let layout = |shape: &[u64]| Layout::contiguous(shape).unwrap();
        let inputs = [layout(&[columns, rows]).transposed(), layout(&[columns]), layout(&[rows, 1])];
        let problem = Problem::new(graph.clone(), inputs.to_vec(), vec![]).unwrap();
        let inputs = inputs.into_iter().enumerate().map(|(i, layout)| {
            let mut bytes = vec![0; problem.input_bytes(i) as usize];
            problem.fill(graph.inputs()[i].dtype, i as u64, &mut bytes);
            (layout, bytes)
        });
        let case = Case {
            graph: graph.clone(),
            inputs: inputs.collect(),
            outputs: vec![layout(&[rows, columns])],
            scalars: vec![],
        };
        for stores in [StorePolicy::Ordinary, StorePolicy::NonTemporal] {
            let how = How { stores, ..How::for_threads(2) };
            check(&case, &how, &mut team, exact).unwrap_or_else(|e| panic!("{rows} {columns}: {e}"));
        }
    }
}

/// A graph with one operation on two inputs of a type.
fn single_operation(
    dtype: DType,
    make: impl Fn(&mut Builder, NodeId, NodeId) -> Result<NodeId, ExprError>,
) -> Option<Graph> {
    let mut builder = Builder::new();
    let a = builder.input("a", dtype).ok()?;
    let b = builder.input("b", dtype).ok()?;
    let result = make(&mut builder, a, b).ok()?;
    builder.output("y", result, None).ok()?;
    builder.finish().ok()
}

/// Every operation by itself, in every type that it takes.
fn every_operation() -> Vec<(String, Graph)> {
    let mut graphs = Vec::new();
    for dtype in DType::ALL {
        let unary =
            Unary::ALL.iter().map(|&op| (op.name(), single_operation(dtype, |builder, a, _| builder.unary(op, a))));
        let binary = Binary::ALL
            .iter()
            .map(|&op| (op.name(), single_operation(dtype, |builder, a, b| builder.binary(op, a, b))));
        let compare = Comparison::ALL
            .iter()
            .map(|&op| (op.name(), single_operation(dtype, |builder, a, b| builder.compare(op, a, b))));
        let cast =
            DType::ALL.into_iter().map(|to| (to.name(), single_operation(dtype, |builder, a, _| builder.cast(a, to))));
        for (name, graph) in unary.chain(binary).chain(compare).chain(cast) {
            graphs.extend(graph.map(|graph| (format!("{name} {dtype}"), graph)));
        }
    }
    graphs
}

#[test]
fn every_operation_matches_the_oracle_in_every_type_and_set() {
    let mut runner = TestRunner::deterministic();
    let mut team = team(1);
    for (name, graph) in every_operation() {
        let n = 600;
        let layout = Layout::contiguous(&[n]).unwrap();
        let inputs = graph.inputs().iter().map(|input| {
            let mut bytes = Vec::new();
            let strategy = values(input.dtype);
            for _ in 0..n {
                input.dtype.write(strategy.new_tree(&mut runner).unwrap().current(), &mut bytes);
            }
            (layout.clone(), bytes)
        });
        let case = Case { inputs: inputs.collect(), outputs: vec![layout.clone()], scalars: vec![], graph };
        for isa in available() {
            let how = How { isa, ..How::for_threads(1) };
            // The oracle rounds the arguments of exponentials in gelu and gelu_tanh, which are up to 745.
            let steps = if name.starts_with("gelu") && name.ends_with("f64") { 2_000 } else { 3 };
            check(&case, &how, &mut team, within(steps)).unwrap_or_else(|wrong| panic!("{name} {isa:?}: {wrong}"));
        }
    }
}

/// Runs a text over two lists of numbers on every set, and compares the results with the oracle. With scalars, the text has an `s` and
/// runs once for each of them.
fn check_pairs(text: &str, dtype: DType, drawn: &[[Value; 2]], scalars: &[Value]) {
    let declared = if scalars.is_empty() { String::new() } else { format!("scalar s: {dtype}\n") };
    let text = format!("in a: {dtype}, b: {dtype}\n{declared}{text}");
    let graph = parse(&text, &Names::default()).unwrap();
    let layout = Layout::contiguous(&[drawn.len() as u64]).unwrap();
    let inputs = [0, 1].map(|slot| {
        let mut bytes = Vec::new();
        drawn.iter().for_each(|pair| dtype.write(pair[slot], &mut bytes));
        (layout.clone(), bytes)
    });
    let outputs = vec![layout; graph.outputs().len()];
    let runs = if scalars.is_empty() { vec![vec![]] } else { scalars.iter().map(|scalar| vec![*scalar]).collect() };
    let mut team = team(1);
    for scalars in runs {
        let case = Case { inputs: inputs.to_vec(), outputs: outputs.clone(), scalars, graph: graph.clone() };
        for isa in available() {
            let how = How { isa, ..How::for_threads(1) };
            check(&case, &how, &mut team, exact).unwrap_or_else(|wrong| panic!("{text} {isa:?}: {wrong}"));
        }
    }
}

#[test]
fn integers_of_8_bits_match_the_oracle_for_all_pairs() {
    for dtype in [DType::I8, DType::U8] {
        let pairs: Vec<[Value; 2]> =
            (0..1 << 16).map(|bits| [dtype.decode(bits & 0xff), dtype.decode(bits >> 8)]).collect();
        check_pairs("q = a // b\nr = a % b\np = pow(a, b)\nf = fma(a, b, a)", dtype, &pairs, &[]);
    }
}

#[test]
fn integer_powers_and_fused_products_match_the_oracle() {
    let mut runner = TestRunner::deterministic();
    let integers = DType::ALL.into_iter().filter(|dtype| dtype.is_int());
    for dtype in integers {
        let pair = [values(dtype), values(dtype)];
        let drawn: Vec<[Value; 2]> = (0..3000).map(|_| pair.new_tree(&mut runner).unwrap().current()).collect();
        let texts = ["p = pow(a, b)\nf = fma(a, b, a)", "p = pow(a, b & 63)\nf = fma(b, 3, a)"];
        texts.iter().for_each(|text| check_pairs(text, dtype, &drawn, &[]));
        let scalars: Vec<Value> =
            drawn.iter().take(3).map(|pair| pair[1]).chain([dtype.cast(Value::Int(63))]).collect();
        check_pairs("p = pow(a, s)\nq = pow(s, b)\nf = fma(a, s, b)", dtype, &drawn, &scalars);
    }
}

#[test]
fn quotients_and_remainders_match_the_oracle_bitwise() {
    let mut runner = TestRunner::deterministic();
    for dtype in DType::ALL.into_iter().filter(|dtype| *dtype != DType::Bool) {
        let drawn: Vec<[Value; 2]> =
            (0..3000).map(|_| divisions(dtype).new_tree(&mut runner).unwrap().current()).collect();
        // Two tensors, and a tensor with a scalar on either side.
        check_pairs("q = a // b\nr = a % b", dtype, &drawn, &[]);
        let scalars: Vec<Value> = drawn.iter().take(4).map(|pair| pair[1]).collect();
        for text in ["q = a // s\nr = a % s", "q = s // b\nr = s % b"] {
            check_pairs(text, dtype, &drawn, &scalars);
        }
    }
}

#[test]
fn functions_are_within_their_bounds_for_every_exponent() {
    let depth = plimsoll_core::probe::Depth::Small;
    verify::verify(team(1), &[], depth, &mut |case| assert_eq!(case.wrong, "", "{case:?}")).unwrap();
}

#[test]
#[ignore = "tries all arguments of all functions, which takes hours"]
fn functions_are_within_their_bounds_for_all_arguments() {
    let depth = plimsoll_core::probe::Depth::Exhaustive;
    verify::verify(team(1), &[], depth, &mut |case| assert_eq!(case.wrong, "", "{case:?}")).unwrap();
}

#[test]
fn outputs_may_swap_their_inputs() {
    let graph = parse("in x: i32, y: i32; let t = x; x = y; y = t; z = t - y", &Names::default());
    let Ok(graph) = graph else { return };
    check(&contiguous(&graph, 5000, 3), &How::for_threads(1), &mut team(1), exact).unwrap();
}

#[test]
fn wrong_operands_are_refused_before_anything_is_written() {
    let graph = parse("in x: f32; y = x + 1", &Names::default()).unwrap();
    let program = Program::new(&graph);
    let four = Layout::contiguous(&[4]).unwrap();
    let one = Layout::contiguous(&[1]).unwrap();
    let still = Layout::strided(&[4], &[0], 0).unwrap();
    let how = How::for_threads(1);
    let prepare = |inputs: &[Layout], outputs: &[Layout]| program.prepare(inputs, outputs, &how).map(drop).unwrap_err();
    assert!(matches!(prepare(&[], std::slice::from_ref(&four)), Error::Count { what: "inputs", .. }));
    assert!(matches!(prepare(std::slice::from_ref(&four), &[one]), Error::Input { .. }));
    assert!(matches!(prepare(std::slice::from_ref(&four), &[still]), Error::SharedElements(_)));
    let mut prepared = program.prepare(std::slice::from_ref(&four), std::slice::from_ref(&four), &how).unwrap();
    let buffer = Buffer::<f32>::new(8, Pages::Small).unwrap();
    let mut memory = Buffer::<u8>::new(64, Pages::Small).unwrap();
    let source = [0_u8; 64];
    let start = source.as_ptr().align_offset(4);
    let mut run = |input: &[u8], output: &mut [u8]| {
        let set = Set { inputs: &[input], outputs: &mut [output] };
        prepared.run(&mut team(1), set, &[]).unwrap_err()
    };
    assert!(matches!(run(&source[start..start + 15], &mut memory[..16]), Error::Short { needed: 16, bytes: 15, .. }));
    assert!(matches!(run(&source[start + 1..], &mut memory[..16]), Error::Misaligned { .. }));
    assert!(matches!(run(&source[start..], &mut memory[..12]), Error::Short { .. }));
    assert!(memory.iter().all(|&byte| byte == 0) && buffer.len() == 8);
    let mut two = team(2);
    let set = Set { inputs: &[&source[start..]], outputs: &mut [&mut memory] };
    assert!(matches!(prepared.run(&mut two, set, &[]).unwrap_err(), Error::Threads { prepared: 1, given: 2 }));
}

#[test]
fn layouts_beyond_any_memory_are_typed_errors() {
    let graph = parse("in x: f32, b: f64; y = x + b", &Names::default()).unwrap();
    let program = Program::new(&graph);
    let far = 1_i64 << 62;
    let strided = |shape: &[u64], strides: &[i64], offset| Layout::strided(shape, strides, offset).unwrap();
    let flat = |n: u64| Layout::contiguous(&[n]).unwrap();
    let refused =
        |x: Layout, b: Layout, y: Layout| program.prepare(&[x, b], &[y], &How::for_threads(1)).map(drop).unwrap_err();
    for x in [
        strided(&[2], &[far], 0),
        strided(&[2], &[-far], 1 << 62),
        strided(&[2], &[1], 1 << 62),
        strided(&[2], &[0], i64::MAX as u64),
        strided(&[2], &[i64::MAX], 0),
        strided(&[2], &[-i64::MAX], i64::MAX as u64),
    ] {
        let error = refused(x.clone(), flat(1), flat(2));
        assert!(matches!(&error, Error::Memory { name, .. } if name == "x"), "{x:?}: {error}");
        assert!(matches!(refused(flat(2), flat(2), x), Error::Memory { .. } | Error::SharedElements(_)));
    }
    let all = strided(&[1 << 62], &[0], 0);
    assert!(matches!(refused(all.clone(), flat(1), flat(1 << 62)), Error::Memory { name, .. } if name == "y"));
    assert!(
        matches!(refused(all, strided(&[1], &[1], 1 << 60), flat(1 << 62)), Error::Memory { name, .. } if name == "b")
    );
    // Strides that are never used may have any value.
    let still = [strided(&[1], &[far], 0), strided(&[1], &[i64::MIN], 0), strided(&[1], &[1], 0)];
    for x in still {
        program.prepare(&[x, flat(1)], &[flat(2)], &How::for_threads(1)).unwrap();
    }
    let empty = strided(&[u64::MAX, 0], &[far, far], 1 << 61);
    program.prepare(&[empty.clone(), flat(1)], &[empty], &How::for_threads(1)).unwrap();
}
