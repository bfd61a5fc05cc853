//! Allowed results: errors in the types of an expression's parts and no more, and no judgement after a discontinuity that errors
//! may cross. Kernels are simulated: each function of f32 is computed in f64, rounded and shifted by a few units.

use plimsoll_expr::function::{Function, mix};
use plimsoll_expr::oracle::{Allowed, Bound, Element, Precision, allowed, apply};
use plimsoll_expr::{DType, Graph, Judgement, LastPlace, Names, Problem, Value, parse};

fn graph(text: &str) -> Graph {
    parse(text, &Names::default()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Bounds for functions of f32 and f64 with errors of up to `ulp` units in the last place.
fn bounds(graph: &Graph, ulp: f64) -> Vec<Bound> {
    graph.nodes().iter().map(|node| Bound { ulp, dtype: node.dtype.carrier() }).collect()
}

/// One element as computed by an implementation whose functions are off by `steps` units in the last place.
fn simulated(graph: &Graph, inputs: &[Value], steps: &mut dyn FnMut() -> i32) -> Vec<Value> {
    use plimsoll_expr::graph::Kind;
    let mut values: Vec<Value> = Vec::new();
    for node in graph.nodes() {
        let operands: Vec<Value> = node.kind.operands().iter().map(|id| values[id.index()]).collect();
        let carried = node.kind.operands().last().map_or(node.dtype, |id| graph.nodes()[id.index()].dtype).carrier();
        let value = match node.kind {
            Kind::Input(slot) => node.dtype.cast(inputs[slot as usize]),
            Kind::Constant(bits) => node.dtype.decode(bits),
            kind => apply(kind, node.dtype, carried, &operands, Precision::Carried),
        };
        let moved = match value {
            Value::Float(x) if Function::from_node(node).is_some() && x != 0.0 && x.is_finite() => {
                let off = steps();
                let place = LastPlace::new(node.dtype.carrier());
                Value::Float(x + f64::from(off) * place.unit(x))
            }
            value => value,
        };
        values.push(moved);
    }
    graph.outputs().iter().map(|output| output.dtype.cast(values[output.node.index()])).collect()
}

/// The number of right, wrong and unjudged elements out of 400.
fn judge_elements(text: &str, ulp: f64, steps: &mut dyn FnMut() -> i32) -> [u32; 3] {
    let graph = graph(text);
    let problem = Problem::flat(&graph, 400, &[]).unwrap();
    let bounds = bounds(&graph, ulp);
    let mut counts = [0; 3];
    for place in 0..400 {
        let inputs = graph.inputs().iter().enumerate().map(|(slot, input)| {
            let mut memory = vec![0; 400 * input.dtype.bytes() as usize];
            problem.fill(input.dtype, slot as u64, &mut memory);
            input.dtype.read(&memory, place).unwrap()
        });
        let inputs: Vec<Value> = inputs.collect();
        let found = simulated(&graph, &inputs, steps);
        counts[match problem.judge(place, &inputs, &found, &bounds) {
            Judgement::Right => 0,
            Judgement::Wrong(_) => 1,
            Judgement::Unjudged => 2,
        }] += 1;
    }
    counts
}

const MIXED: [&str; 8] = [
    "in x: f64, z: f32\ny = exp2(-abs(z)) + x",
    "in x: f64, z: f32\ny = 1/(abs(z) + 0.5) + x",
    "in x: f32, y: f64\nw: bf16 = sin(x)*x\nv = cosh(x) - y",
    "in x: f32\ny: f16 = log(abs(x) + 0.1)/exp(x)",
    "in x: f32, z: f32\ny = gelu(x)*silu(z) + mish(x - z)",
    "in x: f32, z: f32\ny = atan2(exp(x), exp(z)) + pow(exp(x), z)",
    "in x: f32, z: f32\ny = exp(x) // exp(z)\nw = exp(x) % exp(z)",
    "in x: bf16, z: f32\ny = select(tanh(x) < tanh(z), exp(x), exp(z))\nw: i32 = exp(x)*1000",
];

#[test]
fn allowed_errors_are_accepted() {
    for text in MIXED {
        for extreme in [-2, 2, 0] {
            let mut number = 0;
            let mut steps = || {
                number += 1;
                if extreme == 0 { (mix(number) % 5) as i32 - 2 } else { extreme }
            };
            let [right, wrong, _] = judge_elements(text, 2.5, &mut steps);
            assert_eq!(wrong, 0, "{text}");
            assert!(right > 200, "{text}: {right}");
        }
    }
}

#[test]
fn larger_errors_are_found() {
    // One function each, followed by operations that keep its error: nearly every element is wrong if the function is 6 units off.
    for text in ["in x: f32, z: f32\ny = exp2(-abs(z)) + x*0", "in z: f32\ny: f64 = exp(z)", "in x: f32\ny = -sin(x)*2"]
    {
        let [_, wrong, unjudged] = judge_elements(text, 2.5, &mut || 6);
        assert!(wrong > 360 && unjudged == 0, "{text}: {wrong}");
        assert_eq!(judge_elements(text, 2.5, &mut || 2)[1], 0, "{text}");
    }
    // Also for a function of f32 within a sum in f64.
    let [_, wrong, _] = judge_elements(MIXED[0], 2.5, &mut || 4);
    assert!(wrong > 360, "{wrong}");
}

/// The allowed values of one element.
fn allowed_values(text: &str, inputs: &[f64]) -> Allowed {
    let graph = graph(text);
    let inputs: Vec<Value> = inputs.iter().map(|x| Value::Float(*x)).collect();
    let element = Element { inputs: &inputs, scalars: &[], coordinates: &[0], place: 0 };
    allowed(&graph, element, &bounds(&graph, 2.5)).unwrap()[0]
}

#[test]
fn arithmetic_alone_must_match_bit_for_bit() {
    let graph = graph("in x: f32, z: f64\ny = x*0.1 + z\nw = sqrt(x) // z");
    let problem = Problem::flat(&graph, 4, &[]).unwrap();
    let inputs = [Value::Float(3.0), Value::Float(0.25)];
    let right = simulated(&graph, &inputs, &mut || 0);
    let exact: Vec<Bound> = bounds(&graph, 0.5);
    assert_eq!(problem.judge(0, &inputs, &right, &exact), Judgement::Right);
    let off = [Value::Float(right[0].as_f64().next_up()), right[1]];
    assert!(matches!(problem.judge(2, &inputs, &off, &exact), Judgement::Wrong(what) if what.contains("element 2")));
}

#[test]
fn results_after_a_discontinuity_that_errors_may_cross_are_not_judged() {
    // erf(6) is nearly 1, and errors may put it on either side.
    let step = "in x: f64, y: f64\nz = floor(erf(x + 2.997))*y";
    assert_eq!(allowed_values(step, &[3.0, 2.0]), Allowed::Anything);
    assert_eq!(allowed_values(step, &[-2.0, 2.0]), Allowed::Exactly(Value::Float(0.0)));
    for text in [
        "y = floor(exp(x))",
        "y = ceil(exp(x))",
        "y = trunc(exp(x))",
        "y = round(exp(x) + 0.5)",
        "y = sign(exp(x) - 1)",
        "y = exp(x) < 1",
        "y = select(exp(x) > 1, x, -x)",
        "y: i32 = exp(x)",
        "y = exp(x) // 1",
        "y = exp(x) % 1",
        "y = recip(exp(x) - 1)",
        "y = 1/(exp(x) - 1)",
        "y = log(exp(x) - 1)",
        "y = bool(exp(x) - 1)",
        "y = sqrt(exp(x) - 1)",
        "y = pow(exp(x) - 1, 0.5)",
        "y = atan2(exp(x) - 1, -1.0)",
        "y = x % (exp(x) - 1)",
        "y = acosh(exp(x))",
    ] {
        assert_eq!(allowed_values(&format!("in x: f32\n{text}"), &[0.0]), Allowed::Anything, "{text}");
        let away = allowed_values(&format!("in x: f32\n{text}"), &[0.75]);
        assert!(away != Allowed::Anything, "{text}");
        // Away from the discontinuity a wrong step is found.
        if ["floor", "ceil", "trunc", "round", "sign", "//"].iter().any(|step| text.contains(step)) {
            let Allowed::Exactly(Value::Float(right)) = away else { panic!("{text}: {away}") };
            assert_eq!(away.admits(Value::Float(right + 1.0)), Some(false));
        }
    }
}

#[test]
fn large_numbers_have_no_steps_and_equal_branches_are_exact() {
    assert!(
        matches!(allowed_values("in x: f32\ny = floor(exp(x))", &[40.0]), Allowed::Between(low, high) if low < high)
    );
    assert_eq!(allowed_values("in x: f32\ny = select(exp(x) > 1, x, x)", &[0.0]), Allowed::Exactly(Value::Float(0.0)));
    assert_eq!(allowed_values("in x: f32\ny = exp(x)", &[f64::NAN]).admits(Value::Float(f64::NAN)), Some(true));
    assert_eq!(allowed_values("in x: f32\ny = exp(x)", &[200.0]).admits(Value::Float(f64::INFINITY)), Some(true));
    assert_eq!(allowed_values("in x: f32\ny = exp(x)", &[1.0]).admits(Value::Float(f64::NAN)), Some(false));
}

#[test]
fn fractional_bounds_in_a_narrow_type_apply_to_its_carrier() {
    // A function that is off by 0.15 units of bf16 before the rounding may round to either neighbour.
    let graph = graph("in x: bf16\ny = sin(x)");
    let bounds: Vec<Bound> = graph.nodes().iter().map(|_| Bound { ulp: 0.15, dtype: DType::Bf16 }).collect();
    let mut either = 0;
    for x in (1..2000).map(|k| DType::Bf16.round(f64::from(k) / 700.0)) {
        let element = Element { inputs: &[Value::Float(x)], scalars: &[], coordinates: &[], place: 0 };
        let unit = LastPlace::new(DType::Bf16).unit(x.sin());
        let found = |off: f64| DType::Bf16.cast(Value::Float(x.sin() + off * unit));
        let expected = allowed(&graph, element, &bounds).unwrap()[0];
        for off in [-0.14, 0.0, 0.14] {
            assert_eq!(expected.admits(found(off)), Some(true), "sin({x}) {off}");
        }
        either += u32::from(!found(0.14).is_same(found(-0.14)));
        assert_eq!(expected.admits(found(-1.2)), Some(false), "sin({x})");
    }
    assert!(either > 100, "{either}");
}
