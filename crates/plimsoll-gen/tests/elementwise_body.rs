//! Tests bodies of expressions on the CPU: compiled by g++ with the address and undefined-behaviour sanitizers, and compared with
//! the oracle. Covers random typed expressions with exactly defined results, and every function in every type. Each test compiles
//! one program.

mod host;

use std::fmt::Write as _;

use plimsoll_expr::graph::MAX_RANK;

use plimsoll_expr::op::Binary;
use plimsoll_expr::oracle::{Element, Precision, evaluate};
use plimsoll_expr::strategy::{Expressions, Operations, divisions, graphs, values};
use plimsoll_expr::{Builder, DType, Graph, Value};
use plimsoll_gen::elementwise::accuracy::{Claim, Errors, claims, is_exact, meaning};
use plimsoll_gen::elementwise::body::catalogue::{Entry, MACROS, integer_idioms};
use plimsoll_gen::elementwise::{Tier, body};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

use host::{compile, execute};

/// One element: the values of inputs and scalars, and its coordinates.
type Row = (Vec<Value>, Vec<Value>, Vec<u64>);

/// A graph, and the elements to evaluate it on.
struct Case {
    graph: Graph,
    tier: Tier,
    rows: Vec<Row>,
}

/// The output bits of every row of every case.
fn run(name: &str, cases: &[Case]) -> Vec<Vec<Vec<u64>>> {
    let mut text = String::from(
        "#include \"shim.hpp\"\n#include \"primitives.h\"\n\
         static u64 next() { u64 w = 0; if (fread(&w, 8, 1, stdin) != 1) exit(2); return w; }\n\
         static void put(u64 w) { fwrite(&w, 8, 1, stdout); }\n",
    );
    let mut calls = String::new();
    for (place, case) in cases.iter().enumerate() {
        write_case(&mut text, place, case);
        writeln!(calls, "  for (int i = 0; i < {}; ++i) case{place}::row();", case.rows.len()).unwrap();
    }
    writeln!(text, "int main() {{\n{calls}  return 0;\n}}").unwrap();
    let printed = execute(&compile(name, &text, "-O1"), &input(cases));
    let mut words = printed.chunks_exact(8).map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap()));
    let outputs = |case: &Case, words: &mut dyn Iterator<Item = u64>| {
        let count = case.graph.outputs().len();
        case.rows.iter().map(|_| (0..count).map(|_| words.next().unwrap()).collect()).collect()
    };
    cases.iter().map(|case| outputs(case, &mut words)).collect()
}

/// Each row is computed in a vector with the row before it.
fn write_case(text: &mut String, place: usize, case: &Case) {
    let emitted = body::emit(&case.graph, case.tier);
    let emitted: Vec<&str> = emitted.lines().filter(|line| !line.starts_with("#include")).collect();
    for name in MACROS {
        writeln!(text, "#undef {name}").unwrap();
    }
    writeln!(text, "namespace case{place} {{\n{}", emitted.join("\n")).unwrap();
    writeln!(
        text,
        "void row() {{\n  At at;\n  at.place = i64(next());\n  for (i64& c : at.coordinate) c = i64(next());\n  \
         u64 words[SCALARS + 1];\n  for (int k = 0; k < SCALARS; ++k) words[k] = next();\n\
         #define TAKE(k) static in##k##_c last##k = 0; in##k##_c x##k[2] = {{from_bits<in##k##_t>(next()), last##k}}; \
         last##k = x##k[0];\n  EACH_INPUT(TAKE)\n#undef TAKE\n\
         #define PLACE(k) out##k##_c y##k[2];\n  EACH_OUTPUT(PLACE)\n#undef PLACE\n  \
         const Scalars s = scalars(words);\n  (void)s, (void)words;\n  BODY_BEGIN\n  BODY_EACH(s, at, 0);\n  \
         BODY_EACH(s, at, 1);\n  BODY_END(s, 2)\n\
         #define GIVE(k) put(to_bits<out##k##_t>(y##k[0]));\n  EACH_OUTPUT(GIVE)\n#undef GIVE\n}}\n}}"
    )
    .unwrap();
}

/// Every row's words, in the order in which the program's `row` reads them.
fn input(cases: &[Case]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for case in cases {
        let reads = case.graph.reads();
        for (inputs, scalars, coordinates) in &case.rows {
            let mut words = vec![7];
            words.extend((0..MAX_RANK).map(|k| coordinates.get(k).copied().unwrap_or(0)));
            let bits = |parameters: &[plimsoll_expr::graph::Parameter], values: &[Value]| -> Vec<u64> {
                parameters.iter().zip(values).map(|(parameter, value)| parameter.dtype.encode(*value)).collect()
            };
            words.extend(bits(case.graph.scalars(), scalars));
            let inputs = bits(case.graph.inputs(), inputs);
            words.extend(inputs.into_iter().zip(&reads).filter(|(_, read)| **read).map(|(bits, _)| bits));
            bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        }
    }
    bytes
}

fn sample<T: std::fmt::Debug>(runner: &mut TestRunner, strategy: impl Strategy<Value = T>) -> T {
    strategy.new_tree(runner).unwrap().current()
}

/// `count` rows of random values.
fn rows(runner: &mut TestRunner, graph: &Graph, count: u64) -> Vec<Row> {
    let sample_all = |runner: &mut TestRunner, parameters: &[plimsoll_expr::graph::Parameter]| -> Vec<Value> {
        parameters.iter().map(|parameter| sample(runner, values(parameter.dtype))).collect()
    };
    (0..count)
        .map(|row| {
            let coordinates = vec![row, row + 1, 2, 3, 4, 5, 6, 7];
            (sample_all(runner, graph.inputs()), sample_all(runner, graph.scalars()), coordinates)
        })
        .collect()
}

/// The oracle's outputs for a row.
fn expected(graph: &Graph, row: &Row, precision: Precision) -> Vec<Value> {
    let element = Element { inputs: &row.0, scalars: &row.1, coordinates: &row.2, place: 7 };
    evaluate(graph, element, precision).unwrap()
}

#[test]
#[cfg_attr(not(gxx), ignore = "g++ is not installed")]
fn random_expressions_match_the_oracle_bit_for_bit() {
    let mut runner = TestRunner::deterministic();
    let strategy = graphs(&Expressions { operations: Operations::Exact, ..Expressions::default() });
    let cases: Vec<Case> = (0..120)
        .map(|_| {
            let graph = sample(&mut runner, &strategy).with_raw_copies();
            let rows = rows(&mut runner, &graph, 100);
            let fused = meaning(&graph, Tier::Accurate);
            if is_exact(&fused, Tier::Accurate) {
                return Case { graph: fused, tier: Tier::Accurate, rows };
            }
            Case { graph, tier: Tier::Exact, rows }
        })
        .collect();
    assert_matches_oracle("exact", &cases);
}

/// The angle of a point near infinity is the library's, and of others it isn't: the two often differ in the last bit.
#[test]
#[cfg_attr(not(gxx), ignore = "g++ is not installed")]
fn results_do_not_depend_on_neighbours_that_break_guards() {
    let graph =
        plimsoll_expr::parse("in a: f32\nin b: f32\ny = atan2(a, b)", &plimsoll_expr::Names::default()).unwrap();
    let row = |x: f32| (vec![Value::Float(x.into()), Value::Float(1.0)], Vec::new(), Vec::new());
    let slopes = || (1..1000).map(|k| 0.001 * k as f32);
    let case = |rows: Vec<Row>| Case { graph: graph.clone(), tier: Tier::Accurate, rows };
    let alone = case(slopes().map(row).collect());
    let among = case(slopes().flat_map(|x| [row(1e30), row(x)]).collect());
    let found = run("neighbours", &[alone, among]);
    let after_far: Vec<_> = found[1].iter().skip(1).step_by(2).collect();
    assert_eq!(found[0].iter().collect::<Vec<_>>(), after_far);
}

/// Operands for a claim's function: every seventh pattern of the upper 16 bits and the limits of each sign, so that every exponent
/// occurs, with arbitrary lower bits. With two operands, the pairs include distant and close values.
fn operands(claim: &Claim) -> Vec<[u64; 2]> {
    let bits = 8 * claim.dtype.bytes() as u32;
    let ends =
        (0..1_u64 << 16).filter(|i| i % 7 == 0 || i % 0x8000 < 2 || matches!(i & 0x7fff, 0x7bff | 0x7c00 | 0x7f80));
    let all = ends.map(|i| i << (bits - 16) | ((i * 40_503) & ((1 << (bits - 16)) - 1)));
    let mix = |x: u64| (x.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) & ((1 << bits) - 1);
    match claim.function.operands() {
        1 => all.map(|x| [x, x]).collect(),
        // The second operand is arbitrary, or close to 2; then all pairs of special values.
        _ => {
            let special = [0.0, 1.0, 2.0, 3.0, 0.5, 1e-30, 1e30, 16777217.0, f64::INFINITY, f64::NAN];
            let special: Vec<u64> =
                special.iter().flat_map(|x| [*x, -x]).map(|x| claim.dtype.encode(Value::Float(x))).collect();
            all.flat_map(|x| {
                [[x, mix(x)], [x & ((1 << (bits - 1)) - 1), mix(x) >> 3 & 0x1f | 0x4000_u64 << (bits - 16)]]
            })
            .chain(special.iter().flat_map(|a| special.iter().map(|b| [*a, *b])))
            .collect()
        }
    }
}

#[test]
#[cfg_attr(not(gxx), ignore = "g++ is not installed")]
fn functions_stay_within_their_promised_errors() {
    let claims = claims();
    let cases: Vec<Case> = claims
        .iter()
        .map(|claim| {
            let row = |at: [u64; 2]| {
                (at.map(|bits| claim.dtype.decode(bits))[..claim.function.operands()].to_vec(), vec![], vec![])
            };
            Case {
                graph: claim.function.graph(claim.dtype).unwrap(),
                tier: claim.tier,
                rows: operands(claim).into_iter().map(row).collect(),
            }
        })
        .collect();
    let mut broken = String::new();
    for ((claim, case), found) in claims.iter().zip(&cases).zip(run("functions", &cases)) {
        let size = claim.dtype.bytes() as usize;
        let memory = |column: &dyn Fn(usize) -> u64| -> Vec<u8> {
            (0..found.len()).flat_map(|row| column(row).to_le_bytes()[..size].to_vec()).collect()
        };
        let operands: Vec<Vec<u8>> = (0..claim.function.operands())
            .map(|place| memory(&|row| claim.dtype.encode(case.rows[row].0[place])))
            .collect();
        let operands: Vec<&[u8]> = operands.iter().map(Vec::as_slice).collect();
        let errors: Errors = claim.compare(&operands, &memory(&|row| found[row][0])).unwrap();
        let line =
            format!("{} {} {:?}: promised {}, {errors:x?}", claim.function.name(), claim.dtype, claim.tier, claim.ulp);
        if std::env::var_os("PLIMSOLL_PRINT").is_some() {
            eprintln!("{line}");
        }
        if !errors.is_within(claim.ulp) {
            writeln!(broken, "{line}").unwrap();
        }
    }
    assert!(broken.is_empty(), "{broken}");
}

#[test]
#[cfg_attr(not(gxx), ignore = "g++ is not installed")]
fn quotients_round_down_and_integer_powers_wrap() {
    let mut runner = TestRunner::deterministic();
    let mut cases = Vec::new();
    for dtype in DType::ALL.into_iter().filter(|dtype| *dtype != DType::Bool) {
        for op in [Binary::FloorDiv, Binary::Rem, Binary::Pow] {
            if dtype.is_float() && op == Binary::Pow {
                continue;
            }
            let mut builder = Builder::new();
            let operands = ["a", "b"].map(|name| builder.input(name, dtype).unwrap());
            let value = builder.binary(op, operands[0], operands[1]).unwrap();
            builder.output("y", value, None).unwrap();
            let graph = builder.finish().unwrap();
            let draw = |_| (sample(&mut runner, divisions(dtype)).to_vec(), vec![], vec![]);
            let rows = (0..if dtype.is_float() { 4000 } else { 600 }).map(draw).collect();
            cases.push(Case { graph, tier: Tier::Accurate, rows });
        }
    }
    assert_matches_oracle("divisions", &cases);
}

/// Different ways to write an absolute value, and uses of it: the least integer of each type is its own absolute value.
#[test]
#[cfg_attr(not(gxx), ignore = "g++ is not installed")]
fn least_integer_is_its_own_absolute_value_in_every_use() {
    let case = |entry: Entry| {
        let (low, high) = entry.graph.inputs()[0].dtype.range().unwrap();
        let rows = [low, low + 1, -1, 0, 1, high].map(|i| (vec![Value::Int(i)], vec![], vec![])).to_vec();
        Case { graph: entry.graph, tier: entry.tier, rows }
    };
    let cases: Vec<Case> = integer_idioms().into_iter().map(case).collect();
    assert_matches_oracle("idioms", &cases);
}

/// Asserts that every output of every row equals the oracle's bit for bit.
fn assert_matches_oracle(name: &str, cases: &[Case]) {
    for (case, found) in cases.iter().zip(run(name, cases)) {
        for (row, bits) in case.rows.iter().zip(found) {
            let right = expected(&case.graph, row, Precision::Carried);
            for ((output, right), bits) in case.graph.outputs().iter().zip(right).zip(bits) {
                let value = output.dtype.decode(bits);
                assert!(
                    value.is_same(right),
                    "{}\non {row:?}: {} is {value:?}, not {right:?}",
                    case.graph,
                    output.name
                );
            }
        }
    }
}

#[test]
#[cfg_attr(not(gxx), ignore = "g++ is not installed")]
fn random_expressions_of_all_operations_run_without_undefined_behaviour() {
    let mut runner = TestRunner::deterministic();
    let strategy = graphs(&Expressions::default());
    let mut case = |tier| {
        let graph = sample(&mut runner, &strategy);
        let rows = rows(&mut runner, &graph, 40);
        Case { graph, tier, rows }
    };
    let cases: Vec<Case> = (0..20).flat_map(|_| Tier::ALL.map(&mut case)).collect();
    let found = run("all", &cases);
    assert!(cases.iter().zip(found).all(|(case, rows)| rows.len() == case.rows.len()));
}
