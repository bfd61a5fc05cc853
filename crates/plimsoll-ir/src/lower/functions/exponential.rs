//! Exponentials, logarithms and powers, in the digits of 16-bit results.

use plimsoll_expr::op::{Binary, Comparison, Unary};

use super::super::term::Term;
use super::{Digits, LN_2, LOG2_E, LOG10_2, LOG10_E, ex2, exp, lg2_flush, nan};
use crate::{Facts, Primitive};

pub(super) fn short<'b>(op: Unary, x: Term<'b>, digits: Digits) -> Term<'b> {
    match op {
        Unary::Exp => exp(x, digits),
        Unary::Exp2 => ex2(x, digits),
        Unary::Expm1 => expm1(x, digits),
        Unary::Log => log(x, digits, Base::E),
        Unary::Log2 => log(x, digits, Base::Two),
        Unary::Log10 => log(x, digits, Base::Ten),
        _ => log1p(x, digits),
    }
}

fn expm1<'b>(x: Term<'b>, digits: Digits) -> Term<'b> {
    let p = x.polynomial(digits.pick(
        &[1.0, 0.501_927_078, 0.166_848_794],
        &[1.0, 0.500_004_47, 0.167_098_254, 0.041_637_040_7],
        &[1.0, 0.499_998_361, 0.166_667_104, 0.041_774_191, 0.008_335_939_61],
    ));
    let large = exp(x, digits) - 1.0;
    x.abs().less(0.25).choose(x * p, large)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Base {
    Two,
    E,
    Ten,
}

/// ln(1 + t)/t for |t| < 1/16.
fn near_one(t: Term<'_>, digits: Digits) -> Term<'_> {
    let short = &[1.0, -0.500_731_766, 0.333_993_018];
    t.polynomial(digits.pick(short, short, &[1.0, -0.499_999_583, 0.333_982_11, -0.250_693_887]))
}

/// Near 1 the error of log₂ x is absolute, so a polynomial replaces it; x − 1 is exact there. Operands of few digits are 1 or not very
/// near to it: there the absolute error of log₂ x is 0.01 units in the last place of bf16, and of f16 as measured on an H200.
fn log<'b>(x: Term<'b>, digits: Digits, base: Base) -> Term<'b> {
    let facts = x.facts();
    // Subnormal f32 have logarithms, which flushing would lose.
    let flush = facts.is_zero_or_least(f32::MIN_POSITIVE.into());
    let log2 = x.primitive(Primitive::Lg2 { flush });
    let coarse = match digits {
        Digits::Bf16 => facts.digits != 0 && facts.digits <= 11,
        Digits::F16 => facts.digits != 0 && facts.digits <= 11 && flush,
        Digits::Wide => false,
    };
    if coarse {
        return match base {
            Base::Two => log2,
            // Reduced by two units in the last place: then the error of every f16 operand is at most 0.5003 units, where it was
            // 0.509 for 1.0107.
            Base::E if digits == Digits::F16 => log2 * 0.693_147_063_255_310_1,
            Base::E => log2 * LN_2,
            Base::Ten => log2 * LOG10_2,
        };
    }
    let t = x - 1.0;
    let (of_two, of_e) = match base {
        Base::Two => (1.0, LOG2_E),
        Base::E => (LN_2, 1.0),
        Base::Ten => (LOG10_2, LOG10_E),
    };
    let close = t * of_e * near_one(t, digits);
    t.abs().less(0.0625).choose(close, log2 * of_two)
}

/// 1 + x is never subnormal: it is a multiple of 2⁻²⁴ where it is small.
pub(super) fn log1p<'b>(x: Term<'b>, digits: Digits) -> Term<'b> {
    let large = lg2_flush(x + 1.0) * LN_2;
    x.abs().less(0.0625).choose(x * near_one(x, digits), large)
}

/// aᵇ. Small whole constants are products; their errors are at most 1.5 units in the last place.
pub(super) fn pow<'b>(a: Term<'b>, b: Term<'b>, digits: Option<Digits>, guarded: bool) -> Term<'b> {
    match b.float() {
        Some(1.0) => return a,
        Some(2.0) => return a * a,
        Some(3.0) => return a * a * a,
        Some(4.0) => return (a * a) * (a * a),
        _ => {}
    }
    match digits {
        Some(digits @ (Digits::Bf16 | Digits::F16)) if guarded => {
            // Of normal, finite a > 0, and finite b.
            let bits = a.bits();
            (bits.integer(0x007f_ffff) - bits).demand_least(0x8100_0000);
            let smallest = f64::from(f32::MIN_POSITIVE);
            a.know(Facts { low: smallest.max(a.facts().low), nan: false, least: smallest, ..a.facts() });
            b.abs().demand_most(f32::MAX);
            ex2(b * log(a, Digits::Wide, Base::Two), digits)
        }
        Some(digits @ (Digits::Bf16 | Digits::F16)) => any_pow(a, b, digits),
        _ => a.binary(Binary::Pow, b),
    }
}

/// |a|ᵇ = 2^(b·log₂ |a|), with the sign and the special cases of C's pow.
fn any_pow<'b>(a: Term<'b>, b: Term<'b>, digits: Digits) -> Term<'b> {
    let t = a.abs();
    let whole = b.unary(Unary::Trunc).equals(b);
    let half = b * 0.5;
    let odd = whole.and(half.unary(Unary::Trunc).compare(Comparison::NotEqual, half));
    let power = ex2(b * log(t, Digits::Wide, Base::Two), digits);
    let one = b.equals(0.0).or(a.equals(1.0)).or(t.equals(1.0).and(b.equals(b)));
    let y = one.choose(b.number(1.0), power);
    let signed = odd.choose(y.copysign(a), y);
    let negative = a.less(0.0).and(whole.unary(Unary::Not)).and(t.less(f64::INFINITY));
    negative.choose(nan(a), signed)
}
