//! Hyperbolic functions, in the digits of 16-bit results.

use plimsoll_expr::op::Unary;

use super::super::term::Term;
use super::exponential::log1p;
use super::{Digits, LN_2, LOG2_E, ex2, ex2_flush, inverse, lg2_flush, nan};
use crate::Primitive;

pub(super) fn short<'b>(op: Unary, x: Term<'b>, digits: Digits) -> Term<'b> {
    match op {
        Unary::Tanh => tanh(x, digits),
        Unary::Sinh => sinh(x, digits),
        Unary::Cosh => cosh(x, digits),
        Unary::Asinh => asinh(x, digits),
        Unary::Acosh => acosh(x, digits),
        _ => atanh(x, digits),
    }
}

fn tanh<'b>(x: Term<'b>, digits: Digits) -> Term<'b> {
    if digits == Digits::Bf16 {
        return x.primitive(Primitive::Tanh);
    }
    let (s, t) = (x * x, x.abs());
    let large = inverse(ex2_flush(t * (2.0 * LOG2_E)) + 1.0).fma(-2.0, 1.0).copysign(x);
    match digits {
        Digits::F16 => t.less(0.125).choose(x * s.polynomial(&[0.999_995_947, -0.331_261_754]), large),
        _ => {
            let small = s.polynomial(&[1.0, -0.333_332_062, 0.133_231_327, -0.051_327_724]);
            t.less(0.25).choose(x * small, large)
        }
    }
}

/// e^|x|/2, because e^|x| itself may exceed the range of f32.
fn half_exp<'b>(x: Term<'b>, digits: Digits) -> Term<'b> {
    ex2(x.abs().fma(LOG2_E, -1.0), digits)
}

fn sinh<'b>(x: Term<'b>, digits: Digits) -> Term<'b> {
    let a = half_exp(x, digits);
    let large = inverse(a).fma(-0.25, a).copysign(x);
    let short = &[0.999_999_762, 0.166_796_878];
    let p = (x * x).polynomial(digits.pick(short, short, &[1.0, 0.166_666_642, 0.008_337_983_86]));
    x.abs().less(0.125).choose(x * p, large)
}

fn cosh<'b>(x: Term<'b>, digits: Digits) -> Term<'b> {
    let a = half_exp(x, digits);
    inverse(a).fma(0.25, a)
}

fn asinh<'b>(x: Term<'b>, digits: Digits) -> Term<'b> {
    let (t, s) = (x.abs(), x * x);
    // Beyond 2²⁰ the square may overflow, and √(t² + 1) is t.
    let huge = t.greater(1_048_576.0);
    let u = huge.choose(t, t + (s + 1.0).primitive(Primitive::Sqrt { flush: true }));
    let large = lg2_flush(u).fma(LN_2, huge.choose(u.number(LN_2), 0.0)).copysign(x);
    let short = &[0.999_997_735, -0.165_505_201];
    let p = s.polynomial(digits.pick(short, short, &[1.0, -0.166_660_637, 0.073_966_734_1]));
    t.less(0.125).choose(x * p, large)
}

/// ln(1 + v), v = t + √(t(t + 2)), t = x − 1.
fn acosh<'b>(x: Term<'b>, digits: Digits) -> Term<'b> {
    let t = x - 1.0;
    let huge = x.greater(1_048_576.0);
    let v = huge.choose(x, t + t.fma(t, t + t).primitive(Primitive::Sqrt { flush: true }));
    let y = log1p(v, digits) + huge.choose(v.number(LN_2), 0.0);
    x.less(1.0).choose(nan(x), y)
}

fn atanh<'b>(x: Term<'b>, digits: Digits) -> Term<'b> {
    let (t, s) = (x.abs(), x * x);
    let large = (lg2_flush((t + 1.0) * inverse(t.number(1.0) - t)) * (0.5 * LN_2)).copysign(x);
    let short = &[0.999_993_801, 0.336_491_555];
    let p = s.polynomial(digits.pick(short, short, &[1.0, 0.333_313_346, 0.203_396_603]));
    t.less(0.125).choose(x * p, t.greater(1.0).choose(nan(x), large))
}
