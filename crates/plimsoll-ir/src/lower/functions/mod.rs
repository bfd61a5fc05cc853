//! Functions of one element, in the shortest form that the need allows.
//!
//! Results that become bf16 or f16 need only a few more digits than those types have: `short` forms are composed from a device's
//! approximations of 2ˣ, log₂ x, 1/x and tanh x, with polynomials where a difference would cancel. In full precision, functions are the
//! library's, except those that libraries lack (`activation`) and those that are shorter here (`single`, `double`). Forms without a guard accept
//! any operand and give the special values of the oracle.
//!
//! Coefficients are minimax in relative error (Lawson's weights over Chebyshev nodes), except for those of erf.

mod activation;
mod double;
mod exponential;
mod hyperbolic;
mod normal;
mod single;
mod trigonometric;

use plimsoll_expr::DType;
use plimsoll_expr::op::{Binary, Unary};

use super::need::Need;
use super::term::Term;
use crate::{Op, Primitive, facts};

/// A function of one operand, with guards if `guarded`.
pub(super) fn unary<'b>(op: Unary, x: Term<'b>, need: Need, guarded: bool) -> Term<'b> {
    if matches!(op, Unary::Sin | Unary::Cos) && x.dtype() == DType::F32 {
        return trigonometric::wave(op, x, Digits::new(need), guarded);
    }
    let Some(digits) = Digits::new(need).filter(|_| x.dtype() == DType::F32) else {
        let double = || double::total(op, x).or_else(|| guarded.then(|| double::guarded(op, x))?);
        let shorter = if x.dtype() == DType::F64 { double() } else { None };
        if let (Some(y), Unary::Erfc | Unary::Sigmoid | Unary::Softplus) = (shorter, op) {
            y.know(facts::derive(Op::Unary(op), DType::F64, &[x.facts()]));
        }
        let single = || if x.dtype() == DType::F32 { single::full(op, x, guarded) } else { None };
        return shorter.or_else(single).or_else(|| activation::full(op, x, guarded)).unwrap_or_else(|| x.unary(op));
    };
    match op {
        Unary::Exp | Unary::Exp2 | Unary::Expm1 | Unary::Log | Unary::Log2 | Unary::Log10 | Unary::Log1p => {
            exponential::short(op, x, digits)
        }
        Unary::Atan => trigonometric::atan(x, digits),
        Unary::Tanh | Unary::Sinh | Unary::Cosh | Unary::Asinh | Unary::Acosh | Unary::Atanh => {
            hyperbolic::short(op, x, digits)
        }
        Unary::Erf | Unary::Erfc | Unary::Gelu => normal::short(op, x, digits),
        Unary::Sigmoid | Unary::Silu | Unary::GeluTanh | Unary::Softplus | Unary::Mish => {
            activation::short(op, x, digits)
        }
        // Correctly rounded unless only 2⁻¹⁵ are needed over the range of f32: it is cheap enough.
        Unary::Sqrt if digits == Digits::Wide => x.primitive(Primitive::Sqrt { flush: false }),
        Unary::Recip if digits == Digits::Wide => x.primitive(Primitive::Rcp { flush: false }),
        // A negative subnormal has no real root, so it must not become −0.
        Unary::Rsqrt => x.primitive(Primitive::Rsqrt { flush: x.facts().is_zero_or_least(f32::MIN_POSITIVE.into()) }),
        _ => x.unary(op),
    }
}

/// A function of two operands other than a quotient, with guards if `guarded`.
pub(super) fn binary<'b>(op: Binary, a: Term<'b>, b: Term<'b>, need: Need, guarded: bool) -> Term<'b> {
    match (op, Digits::new(need)) {
        (Binary::Atan2, digits) if guarded => trigonometric::common_atan2(a, b, digits),
        (Binary::Atan2, Some(digits @ (Digits::Bf16 | Digits::F16))) => trigonometric::atan2(a, b, digits),
        (Binary::Pow, digits) => exponential::pow(a, b, digits, guarded),
        _ => a.binary(op, b),
    }
}

/// How many digits a short form has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Digits {
    /// Those of bf16, over the range of f32.
    Bf16,
    /// Those of f16; values below 2⁻¹⁰⁰ may be 0.
    F16,
    /// 2⁻¹⁵ of the value.
    Wide,
}

impl Digits {
    const fn new(need: Need) -> Option<Self> {
        match need {
            Need::Bf16 => Some(Self::Bf16),
            Need::F16 => Some(Self::F16),
            Need::Wide => Some(Self::Wide),
            Need::Full => None,
        }
    }

    /// Chooses a polynomial's coefficients.
    const fn pick<'c>(self, bf16: &'c [f64], f16: &'c [f64], wide: &'c [f64]) -> &'c [f64] {
        match self {
            Self::Bf16 => bf16,
            Self::F16 => f16,
            Self::Wide => wide,
        }
    }
}

/// 2ˣ. No f16 number is near f32's subnormals, so the form that flushes them suffices for f16.
fn ex2(x: Term<'_>, digits: Digits) -> Term<'_> {
    x.primitive(Primitive::Ex2 { flush: digits == Digits::F16 })
}

/// 2ˣ where a result below 2⁻¹²⁶ doesn't matter.
fn ex2_flush(x: Term<'_>) -> Term<'_> {
    x.primitive(Primitive::Ex2 { flush: true })
}

/// log₂ x for an x that isn't subnormal.
fn lg2_flush(x: Term<'_>) -> Term<'_> {
    x.primitive(Primitive::Lg2 { flush: true })
}

/// 1/x for normal x with a normal inverse.
fn inverse(x: Term<'_>) -> Term<'_> {
    x.primitive(Primitive::Rcp { flush: true })
}

/// eˣ.
fn exp(x: Term<'_>, digits: Digits) -> Term<'_> {
    ex2(x * LOG2_E, digits)
}

/// NaN.
fn nan(like: Term<'_>) -> Term<'_> {
    like.number(f64::NAN)
}

/// log₂ e in f32, and the other factors of logarithms.
const LOG2_E: f64 = 1.442_695_021_629_333_5;
const LN_2: f64 = 0.693_147_182_464_599_6;
const LOG10_2: f64 = 0.301_030_009_984_970_1;
const LOG10_E: f64 = 0.434_294_492_006_301_9;
/// π/2 and π in f32.
const HALF_PI: f64 = 1.570_796_370_506_286_6;
const PI: f64 = 3.141_592_741_012_573_2;
