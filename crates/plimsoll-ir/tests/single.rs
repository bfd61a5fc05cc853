//! Functions of f32 in full precision against the oracle in f64, whose functions share no code with this crate. Sums,
//! products and fused ones are rounded as on every device.

use plimsoll_expr::oracle::{self, Precision, evaluate};
use plimsoll_expr::{DType, LastPlace, Names, Value, parse};
use plimsoll_ir::{Accuracy, eval, lower};

/// The promised error in units in the last place (`docs/mathematics.md`).
const PROMISED: [(&str, f64); 3] = [("log", 2.0), ("log2", 1.5), ("log10", 2.5)];

/// Operands of every magnitude and sign, all kinds of special ones, and those near 1.
fn operands() -> impl Iterator<Item = f32> {
    let all = (0..=u32::MAX).step_by(65_537).map(f32::from_bits);
    let one = 1.0_f32.to_bits();
    let near = (one - 4000..one + 4000).map(f32::from_bits);
    let special = [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX, f32::MIN_POSITIVE, 1e-45, -1.0];
    all.chain(near).chain(special)
}

/// Checks a function of `operand`, an expression of x; `guarded` says whether guards decide which operands the own form computes.
fn check(function: &str, promised: f64, operand: &str, guarded: bool) {
    let graph = |dtype| parse(&format!("in x: {dtype}\ny = {function}({operand})"), &Names::default()).unwrap();
    let program = lower(&graph("f32"), Accuracy::Accurate, true);
    assert_eq!(!program.common.guards.is_empty(), guarded, "{function}({operand})");
    let (exact, place) = (graph("f64"), LastPlace::new(DType::F32));
    let mut own = 0;
    for x in operands() {
        let inputs = [u64::from(x.to_bits())];
        let types = (program.inputs.as_slice(), program.scalars.as_slice());
        let element = eval::Element { inputs: &inputs, scalars: &[], types, place: 0, coordinates: &[0] };
        let (bits, held) = eval::run(&program.common, element);
        if !held {
            continue;
        }
        own += 1;
        let value = [Value::Float(x.into())];
        let element = oracle::Element { inputs: &value, scalars: &[], coordinates: &[0], place: 0 };
        let right = evaluate(&exact, element, Precision::Carried).unwrap()[0].as_f64();
        let found = f64::from(f32::from_bits(bits[0] as u32));
        assert!(right.is_finite(), "{function}({operand}) of {x:e} must not be computed by the own form");
        let error = (found - right).abs() / place.unit(right);
        assert!(error <= promised, "{function}({operand}) of {x:e}: {found:e}, not {right:e}: {error}");
    }
    assert!(own > 15_000, "{function}({operand}): {own}");
}

#[test]
fn logarithms_of_any_number_are_guarded_and_keep_their_promise() {
    PROMISED.into_iter().for_each(|(function, promised)| check(function, promised, "x", true));
}

/// Subnormal operands and negative ones can't occur: only what is infinite or NaN breaks the guard.
#[test]
fn logarithms_of_large_numbers_keep_their_promise() {
    PROMISED.into_iter().for_each(|(function, promised)| check(function, promised, "max(abs(x), 0.1)", true));
}

#[test]
fn logarithms_of_known_numbers_need_no_guard() {
    PROMISED
        .into_iter()
        .for_each(|(function, promised)| check(function, promised, "fmin(fmax(x, 0.25), 1000000000)", false));
}
