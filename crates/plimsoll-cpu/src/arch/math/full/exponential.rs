//! Exponentials and hyperbolic functions.

use std::f64::consts::{LN_2, LOG2_E};

use super::super::parts::{power_of_two, within};
use super::LN_2_PARTS;
use super::pair::Pair;
use super::series::exp_tail;

/// What the rounding of ln 2 to f64 lost.
const LN_2_LOW: f64 = 2.319_046_813_846_299_6e-17;

/// m·2ᵏ for |k| < 2040, rounded once. In two steps, as f64 can represent neither 2⁻¹⁰⁷⁴ as a factor of normal numbers nor 2¹⁰²⁴.
#[inline(always)]
pub(super) fn scale(m: f64, k: f64) -> f64 {
    let half = (0.5 * k).round_ties_even();
    m * power_of_two(half) * power_of_two(k - half)
}

/// An integer k and p with e^(x + low) = 2ᵏ·(1 + p), |p| < 0.42.
#[inline(always)]
pub(super) fn exp_parts(x: f64, low: f64) -> (f64, f64) {
    // Beyond these the result is 0 or infinity.
    let x = within(x, -800.0, 712.0);
    let k = (x * LOG2_E).round_ties_even();
    let r = (-k).mul_add(LN_2_PARTS[0], x) + (-k).mul_add(LN_2_PARTS[1], low);
    (k, (r * r).mul_add(exp_tail(r), r))
}

/// e^(x + low), within 1.5 units.
#[inline(always)]
fn exp_of(x: f64, low: f64) -> f64 {
    let (k, p) = exp_parts(x, low);
    scale(1.0 + p, k)
}

/// eˣ, within 1.5 units.
#[inline(always)]
pub fn exp(x: f64) -> f64 {
    exp_of(x, 0.0)
}

/// 2^(x + low), low at most half a unit of x; x beyond ±1,100 gives 0 or infinity.
#[inline(always)]
pub(super) fn exp2_of(x: f64, low: f64) -> f64 {
    let x = within(x, -1100.0, 1100.0);
    let k = x.round_ties_even();
    let Pair(fraction, low) = Pair::sum(x - k, low);
    let Pair(r, lost) = Pair::product(fraction, LN_2);
    let low = fraction.mul_add(LN_2_LOW, low.mul_add(LN_2, lost));
    let p = r + (r * r).mul_add(exp_tail(r), low);
    scale(1.0 + p, k)
}

/// 2ˣ, within 1 unit.
#[inline(always)]
pub fn exp2(x: f64) -> f64 {
    exp2_of(x, 0.0)
}

/// eˣ − 1, within 3 units.
#[inline(always)]
pub fn expm1(x: f64) -> f64 {
    let (k, p) = exp_parts(x, 0.0);
    // 2¹⁰²⁴ isn't representable; from k = 100 on, the −1 is lost anyway.
    let near = within(k, -100.0, 100.0);
    let power = power_of_two(near);
    let value = scale(power.mul_add(p, power - 1.0), if k > 100.0 { k - near } else { 0.0 });
    value.copysign(x)
}

/// tanh x, within 3 units.
#[inline(always)]
pub fn tanh(x: f64) -> f64 {
    let a = within(x.abs(), 0.0, 30.0);
    let grown = expm1(2.0 * a);
    (grown / (grown + 2.0)).copysign(x)
}

/// sinh x, within 3 units.
#[inline(always)]
pub fn sinh(x: f64) -> f64 {
    let a = x.abs();
    let grown = expm1(within(a, 0.0, 40.0));
    let near = 0.5 * (grown + grown / (grown + 1.0));
    (if a > 40.0 { half_exp(a) } else { near }).copysign(x)
}

/// cosh x, within 3 units.
#[inline(always)]
pub fn cosh(x: f64) -> f64 {
    let half = half_exp(x.abs());
    half + 0.25 / half
}

/// eˣ/2, which is finite where eˣ isn't yet.
#[inline(always)]
fn half_exp(x: f64) -> f64 {
    let (k, p) = exp_parts(x, 0.0);
    scale(1.0 + p, k - 1.0)
}
