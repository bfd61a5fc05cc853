//! Programs of random expressions: their results against the oracle, and their text.

use plimsoll_expr::graph::Parameter;
use plimsoll_expr::oracle::{Element, Precision, evaluate};
use plimsoll_expr::strategy::{Expressions, Operations, graphs, values};
use plimsoll_expr::{DType, Graph, Value};
use plimsoll_ir::{Accuracy, Block, Program, eval, lower, text};
use proptest::prelude::*;

/// The results of a block for one element, in the outputs' types, and whether the guards held.
fn run(program: &Program, block: &Block, inputs: &[Value], scalars: &[Value]) -> (Vec<Value>, bool) {
    let encode = |types: &[DType], values: &[Value]| -> Vec<u64> {
        types.iter().zip(values).map(|(dtype, value)| dtype.encode(*value)).collect()
    };
    let element = eval::Element {
        inputs: &encode(&program.inputs, inputs),
        scalars: &encode(&program.scalars, scalars),
        types: (&program.inputs, &program.scalars),
        place: 7,
        coordinates: &COORDINATES,
    };
    let (bits, held) = eval::run(block, element);
    let typed = |(bits, dtype): (&u64, &DType)| dtype.cast(dtype.carrier().decode(*bits));
    (bits.iter().zip(&program.outputs).map(typed).collect(), held)
}

const COORDINATES: [u64; 8] = [1, 2, 3, 4, 5, 6, 7, 8];

fn expected(graph: &Graph, inputs: &[Value], scalars: &[Value]) -> Vec<Value> {
    let element = Element { inputs, scalars, coordinates: &COORDINATES, place: 7 };
    evaluate(graph, element, Precision::Carried).unwrap()
}

/// A graph with values for its parameters.
fn cases(operations: Operations) -> impl Strategy<Value = (Graph, Vec<Vec<Value>>, Vec<Vec<Value>>)> {
    let rows = |parameters: &[Parameter]| {
        let row: Vec<_> = parameters.iter().map(|parameter| values(parameter.dtype)).collect();
        prop::collection::vec(row, 20)
    };
    graphs(&Expressions { operations, ..Expressions::default() }).prop_flat_map(move |graph| {
        let (inputs, scalars) = (rows(graph.inputs()), rows(graph.scalars()));
        (Just(graph), inputs, scalars)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Exact operations have one right result, however they are folded, shared or simplified.
    #[test]
    fn exact_programs_give_the_bits_of_the_oracle((graph, inputs, scalars) in cases(Operations::Exact)) {
        let graph = graph.with_raw_copies();
        let program = lower(&graph, Accuracy::Exact, true);
        for (inputs, scalars) in inputs.iter().zip(&scalars) {
            let right = expected(&graph, inputs, scalars);
            let same = |found: &[Value]| found.iter().zip(&right).all(|(found, right)| found.is_same(*right));
            let (general, _) = run(&program, program.total(), inputs, scalars);
            prop_assert!(same(&general), "{program}\n{inputs:?} {scalars:?}: {general:?}, not {right:?}");
            let (common, held) = run(&program, &program.common, inputs, scalars);
            prop_assert!(!held || same(&common), "{program}\n{inputs:?} {scalars:?}: {common:?}, not {right:?}");
        }
    }

    #[test]
    fn text_is_read_back_as_written((graph, _, _) in cases(Operations::All)) {
        for accuracy in [Accuracy::Exact, Accuracy::Accurate, Accuracy::Fast, Accuracy::Full] {
            let program = lower(&graph, accuracy, true);
            let read = text::parse(&program.to_string());
            prop_assert_eq!(read.as_ref(), Ok(&program), "{}", program);
        }
    }

    /// Damaged text is refused with a line, or read as a program that can be interpreted.
    #[test]
    fn damaged_text_is_an_error_or_a_program(
        (graph, inputs, scalars) in cases(Operations::All),
        place in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut text = lower(&graph, Accuracy::Accurate, true).to_string().into_bytes();
        let place = place.index(text.len());
        text[place] = byte;
        if let Ok(program) = text::parse(&String::from_utf8_lossy(&text))
            && program.inputs.len() == inputs[0].len()
            && program.scalars.len() == scalars[0].len()
        {
            let fits = |types: &[DType], values: &[Value]| {
                types.iter().zip(values).all(|(dtype, value)| matches!(
                    (dtype.category(), value),
                    (plimsoll_expr::Category::Float, Value::Float(_))
                        | (plimsoll_expr::Category::Int, Value::Int(_))
                        | (plimsoll_expr::Category::Bool, Value::Bool(_))
                ))
            };
            if fits(&program.inputs, &inputs[0]) && fits(&program.scalars, &scalars[0]) {
                run(&program, program.total(), &inputs[0], &scalars[0]);
            }
        }
    }
}
