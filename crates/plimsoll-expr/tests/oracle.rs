//! The oracle agrees with closures written by hand, and never panics.

use half::{bf16, f16};
use plimsoll_expr::graph::Kind;
use plimsoll_expr::op::{Binary, Comparison, Unary};
use plimsoll_expr::oracle::{Element, OracleError, Precision, Tensor, evaluate, run};
use plimsoll_expr::strategy::{Expressions, Operations, graphs, layouts, shapes, values};
use plimsoll_expr::{DType, Graph, Layout, Names, NodeId, Value, parse};
use proptest::prelude::*;

/// The outputs of `text` for one element of each input, in the order in which the text mentions them.
fn outputs(text: &str, inputs: &[Value], precision: Precision) -> Vec<Value> {
    let graph = parse(text, &Names::default()).unwrap_or_else(|error| panic!("{error}"));
    let element = Element { inputs, scalars: &[], coordinates: &[], place: 0 };
    evaluate(&graph, element, precision).unwrap()
}

fn float(text: &str, inputs: &[f64]) -> f64 {
    let inputs: Vec<Value> = inputs.iter().map(|&x| Value::Float(x)).collect();
    outputs(text, &inputs, Precision::Carried)[0].as_f64()
}

fn int(text: &str, inputs: &[i128]) -> i128 {
    let inputs: Vec<Value> = inputs.iter().map(|&i| Value::Int(i)).collect();
    outputs(text, &inputs, Precision::Carried)[0].as_int()
}

fn same(a: f64, b: f64) -> bool {
    Value::Float(a).is_same(Value::Float(b))
}

proptest! {
    #[test]
    fn f32_arithmetic_matches_the_processor(a in any::<f32>(), b in any::<f32>(), c in any::<f32>()) {
        let wide = [a, b, c].map(f64::from);
        for (text, expected) in [
            ("d = a*b + c", a * b + c),
            ("d = a/b - c", a / b - c),
            ("d = fma(a, b, c)", a.mul_add(b, c)),
            ("d = sqrt(a)*b + 0.0*c", a.sqrt() * b + 0.0 * c),
            ("d = floor(a) + trunc(b) - ceil(c)", a.floor() + b.trunc() - c.ceil()),
            ("d = select(a < b, a, c)", if a < b { a } else { c }),
            ("d = abs(a) + round(b)*c", a.abs() + b.round_ties_even() * c),
        ] {
            let got = float(&format!("in a: f32, b: f32, c: f32\n{text}"), &wide);
            prop_assert!(same(got, f64::from(expected)), "{text}: {got} against {expected}");
        }
    }

    #[test]
    fn sixteen_bit_results_are_rounded_once(a in any::<u16>(), b in any::<u16>(), c in any::<u16>()) {
        let [x, y, z] = [a, b, c].map(|bits| bf16::from_bits(bits).to_f32());
        let got = float("in x: bf16, y: bf16, z: bf16\nd = x*y + z", &[x, y, z].map(f64::from));
        prop_assert!(same(got, bf16::from_f32(x * y + z).to_f64()));
        let got = float("in x: bf16, y: bf16, z: bf16\nd = bf16(x*y) + z", &[x, y, z].map(f64::from));
        prop_assert!(same(got, bf16::from_f32(bf16::from_f32(x * y).to_f32() + z).to_f64()));
        let [x, y, z] = [a, b, c].map(|bits| f16::from_bits(bits).to_f32());
        let got = float("in x: f16, y: f16, z: f16\nd = (x - y)/z*0.1", &[x, y, z].map(f64::from));
        prop_assert!(same(got, f16::from_f32((x - y) / z * 0.1).to_f64()));
    }

    #[test]
    fn integers_wrap_as_in_rust(a in any::<i32>(), b in any::<i32>(), u in any::<u8>(), n in 0_u32..7) {
        let floor = |a: i64, b: i64| if b == 0 { 0 } else { a.div_euclid(b) - i64::from(b < 0 && a.rem_euclid(b) != 0) };
        let down = floor(a.into(), b.into());
        for (text, expected) in [
            ("a*b + a", a.wrapping_mul(b).wrapping_add(a)),
            ("fma(a, a, b)", a.wrapping_mul(a).wrapping_add(b)),
            ("-abs(a)", a.wrapping_abs().wrapping_neg()),
            ("a // b", down as i32),
            ("a % b", a.wrapping_sub((down as i32).wrapping_mul(b))),
            ("(a & b) ^ (a | ~b)", (a & b) ^ (a | !b)),
            ("a << 3 >> 1", a << 3 >> 1),
            ("min(a, b) - max(a, b)", a.min(b).wrapping_sub(a.max(b))),
            ("i32(i8(a))", i32::from(a as i8)),
            ("i32(f32(a))", a as f32 as i32),
        ] {
            let got = int(&format!("in a: i32, b: i32\nd = {text}"), &[a.into(), b.into()]);
            prop_assert_eq!(got, i128::from(expected), "{}", text);
        }
        let power = int("in a: u8, n: u8\nd = pow(a, n)", &[u.into(), n.into()]);
        prop_assert_eq!(power, i128::from(u.wrapping_pow(n)));
    }

    #[test]
    fn every_expression_gives_a_value_of_its_type_for_any_input(
        graph in graphs(&Expressions::default()),
        bits in prop::collection::vec(any::<u64>(), 6),
    ) {
        for precision in [Precision::Carried, Precision::Wide] {
            let decoded = |parameters: &[plimsoll_expr::graph::Parameter]| -> Vec<Value> {
                parameters.iter().zip(&bits).map(|(parameter, &bits)| parameter.dtype.decode(bits)).collect()
            };
            let (inputs, scalars) = (decoded(graph.inputs()), decoded(graph.scalars()));
            let element = Element { inputs: &inputs, scalars: &scalars, coordinates: &[3], place: 3 };
            let outputs = evaluate(&graph, element, precision).unwrap();
            for (value, output) in outputs.into_iter().zip(graph.outputs()) {
                prop_assert!(output.dtype.cast(value).is_same(value), "{:?} is not a valid {}", value, output.dtype);
            }
        }
    }

    #[test]
    fn generated_values_belong_to_their_type(
        (dtype, value) in prop::sample::select(&DType::ALL[..]).prop_flat_map(|d| (Just(d), values(d)))
    ) {
        prop_assert!(dtype.cast(value).is_same(value), "{:?} is not a valid {}", value, dtype);
    }

    #[test]
    fn layouts_decide_which_elements_are_read(
        (shape, layout) in shapes().prop_flat_map(|shape| (Just(shape.clone()), layouts(&shape)))
    ) {
        let graph = parse("in x: i32\nd = x", &Names::default()).unwrap();
        let reach = layout.span().map_or(0, |(_, high)| high + 1);
        let memory: Vec<u8> = (0..reach as u32).flat_map(u32::to_le_bytes).collect();
        let tensor = Tensor { memory: &memory, layout: &layout };
        let outputs = run(&graph, &shape, &[tensor], &[], Precision::Wide).unwrap();
        let stretched = layout.broadcast_to(&shape).unwrap();
        let offsets = plimsoll_expr::Space::new(&[stretched]).unwrap().offsets(0);
        let expected: Vec<Value> = offsets.into_iter().map(|offset| Value::Int(offset.into())).collect();
        prop_assert_eq!(&outputs[0], &expected);
    }
}

#[test]
fn nan_zeros_and_infinities_follow_the_stated_rules() {
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    for (text, inputs, expected) in [
        ("min(a, b)", [nan, 1.0], nan),
        ("max(a, b)", [1.0, nan], nan),
        ("fmin(a, b)", [nan, 1.0], 1.0),
        ("fmax(a, b)", [1.0, nan], 1.0),
        ("min(a, b)", [0.0, -0.0], -0.0),
        ("max(a, b)", [-0.0, 0.0], 0.0),
        ("relu(a)", [-0.0, 0.0], 0.0),
        ("relu(a)", [nan, 0.0], nan),
        ("clamp(a, b, 2.0)", [5.0, 1.0], 2.0),
        ("clamp(a, b, 2.0)", [1.0, nan], nan),
        ("sign(a)", [-0.0, 0.0], 0.0),
        ("sign(a)", [nan, 0.0], nan),
        ("a % b", [-1.0, 3.0], 2.0),
        ("a // b", [-1.0, 3.0], -1.0),
        ("a // b", [6.0, 3.0], 2.0),
        ("a // b", [1.0, 0.0], inf),
        ("round(a)", [2.5, 0.0], 2.0),
        ("sigmoid(a)", [-inf, 0.0], 0.0),
        ("softplus(a)", [inf, 0.0], inf),
        ("silu(a)", [-inf, 0.0], nan),
        ("log(a)", [-0.0, 0.0], -inf),
        ("sqrt(a)", [-0.0, 0.0], -0.0),
        ("f32(a != a)", [nan, 0.0], 1.0),
        ("f32(a <= a)", [nan, 0.0], 0.0),
    ] {
        let got = float(&format!("in a: f32, b: f32\nd = {text}"), &inputs);
        assert!(same(got, expected), "{text} of {inputs:?}: {got}");
    }
}

#[test]
fn functions_have_known_values() {
    for (text, x, expected) in [
        ("erf(x)", 0.5, 0.520_499_877_813_046_5),
        ("erfc(x)", 3.0, 2.209_049_699_858_544e-5),
        ("gelu(x)", -1.0, -0.158_655_253_931_457_05),
        ("gelu_tanh(x)", -1.0, -0.158_808_009_391_723_24),
        ("silu(x)", 1.0, 0.731_058_578_630_004_9),
        ("softplus(x)", 0.0, std::f64::consts::LN_2),
        ("mish(x)", 1.0, 0.865_098_388_267_310_4),
        ("rsqrt(x)", 4.0, 0.5),
        ("log1p(x)", 1e-10, 9.999_999_999_5e-11),
        ("exp2(x)", 10.0, 1024.0),
        ("atan2(x, -1.0)", 0.0, std::f64::consts::PI),
        ("pow(x, 0.5)", 2.0, std::f64::consts::SQRT_2),
    ] {
        let got = float(&format!("in x: f64\nd = {text}"), &[x]);
        assert!((got - expected).abs() <= 4e-16 * expected.abs(), "{text} of {x}: {got:e} against {expected:e}");
    }
}

#[test]
fn shifts_and_powers_are_defined_everywhere() {
    assert_eq!(int("in a: i8, b: i8\nd = a << b", &[1, 8]), 0);
    assert_eq!(int("in a: i8, b: i8\nd = a >> b", &[-3, 100]), -1);
    assert_eq!(int("in a: u8, b: u8\nd = a >> b", &[200, 9]), 0);
    assert_eq!(int("in a: i8, b: i8\nd = a << b", &[1, -1]), 0);
    assert_eq!(int("in a: i64, b: i64\nd = pow(a, b)", &[3, 1 << 40]), i128::from(power_of_three(1 << 40)));
    assert_eq!(int("in a: i64, b: i64\nd = pow(a, b)", &[-1, -3]), -1);
    assert_eq!(int("in a: i64, b: i64\nd = pow(a, b)", &[2, -3]), 0);
    assert_eq!(int("in a: i32, b: i32\nd = a // b", &[i32::MIN.into(), -1]), i32::MIN.into());
}

/// 3ⁿ modulo 2⁶⁴ for n a power of two, by squaring.
fn power_of_three(n: u64) -> i64 {
    (0..n.trailing_zeros()).fold(3_i64, |power, _| power.wrapping_mul(power))
}

#[test]
fn wide_precision_keeps_digits_that_carried_rounds_off() {
    let text = "in x: f32\nd: f64 = f64((x + 1.0) - 1.0)";
    let tiny = [Value::Float(f64::from(1e-9_f32))];
    assert_eq!(outputs(text, &tiny, Precision::Carried), [Value::Float(0.0)]);
    assert!(outputs(text, &tiny, Precision::Wide)[0].as_f64() > 0.0);
}

#[test]
fn indices_and_scalars_reach_every_element() {
    let text = "in x: f32\nscalar a: f64\nd = a*x + index(1)\ni = index()";
    let graph: Graph = parse(text, &Names::default()).unwrap();
    let memory: Vec<u8> = [1.0_f32, 2.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    let layout = Layout::contiguous(&[2, 1]).unwrap();
    let tensor = Tensor { memory: &memory, layout: &layout };
    let outputs = run(&graph, &[2, 3], &[tensor], &[Value::Float(10.0)], Precision::Carried).unwrap();
    assert_eq!(outputs[0].iter().map(|value| value.as_f64()).collect::<Vec<_>>(), [10.0, 11.0, 12.0, 20.0, 21.0, 22.0]);
    assert_eq!(outputs[1].iter().map(|value| value.as_int()).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn operands_that_do_not_match_are_errors() {
    let graph = parse("in x: f32\nd = x + index(1)", &Names::default()).unwrap();
    let layout = Layout::contiguous(&[4]).unwrap();
    let short = Tensor { memory: &[0; 15], layout: &layout };
    assert!(matches!(
        run(&graph, &[1, 4], &[short], &[], Precision::Wide),
        Err(OracleError::Short { bytes: 15, element: 3, .. })
    ));
    assert!(matches!(
        run(&graph, &[4], &[short], &[], Precision::Wide),
        Err(OracleError::Rank { needed: 2, given: 1 })
    ));
    assert!(matches!(run(&graph, &[1, 4], &[], &[], Precision::Wide), Err(OracleError::Count { expected: 1, .. })));
    assert!(matches!(run(&graph, &[1, 5], &[short], &[], Precision::Wide), Err(OracleError::Layout(_))));
}

/// A second interpreter that uses the processor's f32, with `bool` as 0 or 1. `None` if the expression has other types.
fn native(graph: &Graph, inputs: &[f32], scalars: &[f32]) -> Option<Vec<f32>> {
    let mut values: Vec<f32> = Vec::new();
    for node in graph.nodes() {
        if !matches!(node.dtype, DType::F32 | DType::Bool) {
            return None;
        }
        let operand = |id: NodeId| values[id.index()];
        let from_bool = |b: bool| f32::from(u8::from(b));
        values.push(match node.kind {
            Kind::Input(slot) => inputs[slot as usize],
            Kind::Scalar(slot) => scalars[slot as usize],
            Kind::Constant(_) => node.constant()?.as_f64() as f32,
            Kind::Cast(a) if node.dtype == DType::Bool => from_bool(operand(a) != 0.0),
            Kind::Cast(a) => operand(a),
            Kind::Select([condition, a, b]) => {
                if operand(condition) != 0.0 {
                    operand(a)
                } else {
                    operand(b)
                }
            }
            Kind::Fma([a, b, c]) => operand(a).mul_add(operand(b), operand(c)),
            Kind::Compare(op, [a, b]) => from_bool(match op {
                Comparison::Less => operand(a) < operand(b),
                Comparison::LessEqual => operand(a) <= operand(b),
                Comparison::Greater => operand(a) > operand(b),
                Comparison::GreaterEqual => operand(a) >= operand(b),
                Comparison::Equal => operand(a) == operand(b),
                Comparison::NotEqual => operand(a) != operand(b),
            }),
            Kind::Unary(op, a) => match (op, operand(a)) {
                (Unary::Neg, x) => -x,
                (Unary::Not, x) => 1.0 - x,
                (Unary::Abs, x) => x.abs(),
                (Unary::Sign, x) => {
                    if x.is_nan() || x == 0.0 {
                        x + 0.0
                    } else {
                        x.signum()
                    }
                }
                (Unary::Floor, x) => x.floor(),
                (Unary::Ceil, x) => x.ceil(),
                (Unary::Round, x) => x.round_ties_even(),
                (Unary::Trunc, x) => x.trunc(),
                (Unary::Sqrt, x) => x.sqrt(),
                (Unary::Recip, x) => 1.0 / x,
                (Unary::Relu, x) => {
                    if x > 0.0 || x.is_nan() {
                        x
                    } else {
                        0.0
                    }
                }
                _ => return None,
            },
            Kind::Binary(op, [a, b]) => match (op, operand(a), operand(b)) {
                (Binary::Add, x, y) => x + y,
                (Binary::Sub, x, y) => x - y,
                (Binary::Mul, x, y) => x * y,
                (Binary::Div, x, y) => x / y,
                (Binary::And, x, y) => x * y,
                (Binary::Or, x, y) => x.max(y),
                (Binary::Xor, x, y) => from_bool(x != y),
                // The sign of a zero result is not compared.
                (Binary::Min | Binary::Max | Binary::Fmin | Binary::Fmax, 0.0, 0.0) => return None,
                (Binary::Min | Binary::Max, x, y) if x.is_nan() || y.is_nan() => f32::NAN,
                (Binary::Min | Binary::Fmin, x, y) => x.min(y),
                (Binary::Max | Binary::Fmax, x, y) => x.max(y),
                _ => return None,
            },
            _ => return None,
        });
    }
    Some(graph.outputs().iter().map(|output| values[output.node.index()]).collect())
}

proptest! {
    #[test]
    fn exact_expressions_in_f32_match_the_processor_bit_for_bit(
        graph in graphs(&Expressions { dtypes: vec![DType::F32], operations: Operations::Exact, max_operations: 16, place: false }),
        operands in prop::collection::vec(values(DType::F32), 6),
    ) {
        let parts = |count: usize, skip: usize| operands[skip..skip + count].to_vec();
        let (inputs, scalars) = (parts(graph.inputs().len(), 0), parts(graph.scalars().len(), 4));
        let narrow = |values: &[Value]| values.iter().map(|value| value.as_f64() as f32).collect::<Vec<_>>();
        if let Some(expected) = native(&graph, &narrow(&inputs), &narrow(&scalars)) {
            let element = Element { inputs: &inputs, scalars: &scalars, coordinates: &[], place: 0 };
            let got = evaluate(&graph, element, Precision::Carried).unwrap();
            for (got, expected) in got.into_iter().zip(expected) {
                prop_assert!(same(got.as_f64(), expected.into()), "{}\n{:?}: {:?} against {}", graph, operands, got, expected);
            }
        }
    }
}
