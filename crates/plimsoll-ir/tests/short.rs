//! Short functions against `libm` in f64, before their results are rounded: an expression may multiply them, and their operands may be any
//! number of f32, not only numbers of 16 bits. A device's approximations are exact here; `plimsoll verify` tests theirs.

use plimsoll_expr::op::Unary;
use plimsoll_expr::oracle::{self, Precision, evaluate};
use plimsoll_expr::{DType, Graph, Names, Value, parse};
use plimsoll_ir::{Accuracy, Block, eval, lower};

/// What is left of the promised 0.65 units in the last place after the final rounding: docs/mathematics.md.
const UNITS: f64 = 0.15;
/// The largest relative error of a term of a sum; of results that f32 holds as subnormal numbers, relative to its smallest normal number:
/// docs/mathematics.md.
const TERM: f64 = 1.0 / 32768.0;
/// Half the smallest number of bf16. What rounds to 0 may be 0.
const ROUNDS_TO_0: f64 = 1.0 / (1_u128 << 67) as f64 / (1_u128 << 67) as f64;

/// What a result becomes, the text that makes it one, and the error that it may have next to a true value.
type Need = (&'static str, &'static str, fn(f64) -> f64);

const NEEDS: [Need; 3] = [
    ("bf16", "", |x| (UNITS * unit(x, 7, -126)).max(if x.abs() < ROUNDS_TO_0 { x.abs() } else { 0.0 })),
    ("f16", "", |x| UNITS * unit(x, 10, -14)),
    ("bf16", " + z", |x| TERM * x.abs().max(f32::MIN_POSITIVE.into())),
];

/// One unit in the last place of a number with so many bits behind the point.
fn unit(x: f64, fraction: i32, least: i32) -> f64 {
    let exponent = if x == 0.0 { least } else { libm::ilogb(x).max(least) };
    2_f64.powi(exponent - fraction)
}

fn graph(text: &str) -> Graph {
    parse(text, &Names::default()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Operands of every magnitude and sign, and a dense sequence near 0.
fn operands() -> impl Iterator<Item = f32> {
    let all = (0..=u32::MAX).step_by(1_048_583).map(f32::from_bits);
    all.chain((-8000..=8000).map(|i| i as f32 * (1.0 / 617.0))).filter(|x| !x.is_nan())
}

/// The result of a block for one operand and a 0 to add, before it is rounded, if the guards hold.
fn run(block: &Block, x: f32) -> Option<f64> {
    let inputs = [u64::from(x.to_bits()), 0];
    let types = ([DType::F32, DType::F32], []);
    let element =
        eval::Element { inputs: &inputs, scalars: &[], types: (&types.0, &types.1), place: 0, coordinates: &[] };
    let (bits, held) = eval::run(block, element);
    held.then(|| DType::F32.decode(bits[0]).as_f64())
}

#[test]
fn short_functions_keep_their_promise_before_the_last_rounding() {
    for &op in Unary::ALL {
        let name = op.name();
        let Ok(exact) = parse(&format!("in x: f64\ny = {name}(x)"), &Names::default()) else { continue };
        if exact.outputs()[0].dtype != DType::F64 {
            continue;
        }
        for (dtype, term, allowed) in NEEDS {
            let z = if term.is_empty() { "" } else { ", z: f32" };
            let text = format!("in x: f32{z}\ny: {dtype} = {name}(x){term}");
            let program = lower(&graph(&text), Accuracy::Accurate, true);
            for x in operands() {
                let element =
                    oracle::Element { inputs: &[Value::Float(x.into())], scalars: &[], coordinates: &[], place: 0 };
                let right = evaluate(&exact, element, Precision::Carried).unwrap()[0].as_f64();
                for block in [Some(&program.common), program.general.as_ref()].into_iter().flatten() {
                    let Some(found) = run(block, x) else { continue };
                    assert!(
                        is_close(found, right, dtype, allowed(right)),
                        "{text}: x = {x:e}: {found:e}, not {right:e}"
                    );
                }
            }
        }
    }
}

/// Whether a result is within an error of the true value. What becomes infinite in the type may be any number that becomes infinite.
fn is_close(found: f64, right: f64, dtype: &str, error: f64) -> bool {
    let largest = if dtype == "f16" { 65_520.0 } else { f64::from(f32::MAX) };
    if right.is_nan() {
        return found.is_nan();
    }
    (found - right).abs() <= error
        || (right.abs() >= largest && found.abs() >= largest && found.signum() == right.signum())
}
