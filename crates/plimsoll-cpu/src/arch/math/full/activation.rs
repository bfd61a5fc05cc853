//! The error function, and activation functions of neural networks.

use super::super::parts::within;
use super::exponential::{exp, exp_parts, scale};
use super::logarithm::log1p;
use super::pair::Pair;
use super::series::{erf_tail, scaled_erfc};

/// erfc a for 0 ≤ a, within 3.5 units for a ≥ 0.5.
#[inline(always)]
fn erfc_positive(a: f64) -> f64 {
    let a = within(a, 0.0, 28.0);
    let Pair(square, low) = Pair::product(a, a);
    let (k, p) = exp_parts(-square, -low);
    scale((1.0 + p) * scaled_erfc(a), k)
}

/// erf x, within 1.5 units.
#[inline(always)]
pub fn erf(x: f64) -> f64 {
    let a = x.abs();
    let near = x.mul_add(erf_tail(x * x), x);
    let far = (1.0 - erfc_positive(a)).copysign(x);
    if a < 1.0 { near } else { far }
}

/// 1 − erf x, within 3.5 units.
#[inline(always)]
pub fn erfc(x: f64) -> f64 {
    let far = erfc_positive(x.abs());
    let far = if x < 0.0 { 2.0 - far } else { far };
    let near = 1.0 - x.mul_add(erf_tail(x * x), x);
    if x.abs() < 0.5 { near } else { far }
}

/// 1/(1 + e⁻ˣ), within 3 units.
#[inline(always)]
pub fn sigmoid(x: f64) -> f64 {
    let e = exp(-x.abs());
    (if x < 0.0 { e } else { 1.0 }) / (1.0 + e)
}

/// factor·sigmoid(x + low) for a factor of the sign of x. Products with subnormal powers are rounded once.
#[inline(always)]
fn times_sigmoid(factor: f64, x: f64, low: f64) -> f64 {
    let negative = x < 0.0;
    let (k, p) = exp_parts(-x.abs(), if negative { low } else { -low });
    let power = 1.0 + p;
    let e = scale(power, k);
    // −∞·0 is NaN, and other large negative factors give −0.
    let below = within(factor, -800.0, 0.0) * power / (1.0 + e);
    let below = if factor == f64::NEG_INFINITY { f64::NAN } else { scale(below, k) };
    if negative { below } else { factor / (1.0 + e) }
}

/// x·sigmoid(x), within 3 units.
#[inline(always)]
pub fn silu(x: f64) -> f64 {
    times_sigmoid(x, x, 0.0)
}

/// x·Φ(x), within 4.5 units.
#[inline(always)]
pub fn gelu(x: f64) -> f64 {
    let a = within(x.abs(), 0.0, 39.5);
    let Pair(square, low) = Pair::product(a, a);
    let (k, p) = exp_parts(-0.5 * square, -0.5 * low);
    // erfc(a/√2)/2 without its power of two.
    let tail = (1.0 + p) * (0.5 * scaled_erfc(a * std::f64::consts::FRAC_1_SQRT_2));
    let below = if x == f64::NEG_INFINITY { f64::NAN } else { scale(-a * tail, k) };
    let far = if x < 0.0 { below } else { x * (1.0 - scale(tail, k)) };
    let t = x * std::f64::consts::FRAC_1_SQRT_2;
    let near = x * 0.5_f64.mul_add(t.mul_add(erf_tail(t * t), t), 0.5);
    if x.abs() < 0.7 { near } else { far }
}

/// x/2·(1 + tanh(√(2/π)·(x + 0.044715 x³))), within 3 units.
#[inline(always)]
pub fn gelu_tanh(x: f64) -> f64 {
    // √(8/π): (1 + tanh u)/2 is sigmoid(2u).
    let bounded = within(x, -40.0, 40.0);
    let cubic = Pair(0.071_354_816_272_600_25, -6.175_149_918_155_315e-19);
    let linear = Pair(1.595_769_121_605_730_8, -9.969_308_809_110_92e-17);
    let cubic = Pair::product(bounded, bounded).times(cubic);
    // Either part may be the larger.
    let sum = linear.0 + cubic.0;
    let shift = sum - linear.0;
    let lost = (linear.0 - (sum - shift)) + (cubic.0 - shift);
    let Pair(twice, low) = Pair(sum, lost + (linear.1 + cubic.1)).times(Pair(bounded, 0.0));
    times_sigmoid(x, twice, low)
}

/// ln(1 + eˣ), within 3 units.
#[inline(always)]
pub fn softplus(x: f64) -> f64 {
    let positive = if x > 0.0 { x } else { 0.0 };
    let value = positive + log1p(exp(-x.abs()));
    if x.is_nan() { x } else { value }
}

/// x·tanh(softplus(x)), within 3.5 units.
#[inline(always)]
pub fn mish(x: f64) -> f64 {
    // tanh(ln(1 + e)) is n/(n + 2) with n = e(e + 2); 1 from x = 40 on.
    let bounded = within(x, -800.0, 40.0);
    let (k, p) = exp_parts(bounded, 0.0);
    let power = 1.0 + p;
    let e = scale(power, k);
    let value = scale(bounded * power * ((e + 2.0) / e.mul_add(e + 2.0, 2.0)), k);
    // −∞·0 is NaN.
    let value = if x == f64::NEG_INFINITY { f64::NAN } else { value };
    if x > 40.0 { x } else { value }
}
