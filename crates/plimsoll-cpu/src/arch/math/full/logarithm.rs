//! Logarithms, powers and inverse hyperbolic functions.

use std::f64::consts::{LOG2_E, LOG10_2, LOG10_E};

use super::super::parts::{self, BIAS, log_edges, within};
use super::LN_2_PARTS;
use super::exponential::exp2_of;
use super::pair::Pair;
use super::series::log_tail;

/// What the rounding of a constant to f64 lost.
const LOG2_E_LOW: f64 = 2.035_527_374_093_103_3e-17;
const LOG10_E_LOW: f64 = 1.098_319_650_216_765e-17;
const LOG10_2_LOW: f64 = -2.803_728_127_785_170_4e-18;

/// The exponent e of a positive finite number and its significand m in [√½, √2): x = m·2ᵉ.
#[inline(always)]
fn split(x: f64) -> (f64, f64) {
    let subnormal = x < f64::MIN_POSITIVE;
    let normal = if subnormal { x * 18_014_398_509_481_984.0 } else { x };
    parts::split(normal, if subnormal { BIAS + 54.0 } else { BIAS })
}

/// e·ln 2 + ln(1 + f) + low for √½ ≤ 1 + f < √2: f is added last, and exactly.
#[inline(always)]
fn log_sum(exponent: f64, f: f64, low: f64) -> f64 {
    let s = f / (2.0 + f);
    let z = s * s;
    let half = 0.5 * f * f;
    // ln(1 + f) = f − f²/2 + s·(f²/2 + ⅔s² + …)
    let rest = s * z.mul_add(z.mul_add(log_tail(z), 2.0 / 3.0), half) + exponent.mul_add(LN_2_PARTS[1], low);
    let Pair(sum, lost) = Pair::sum(exponent * LN_2_PARTS[0], f);
    sum + (lost + (rest - half))
}

/// ln x, within 1 unit.
#[inline(always)]
pub fn log(x: f64) -> f64 {
    let (exponent, m) = split(x);
    log_edges(x, log_sum(exponent, m - 1.0, 0.0))
}

/// ln(1 + x), within 1 unit.
#[inline(always)]
pub fn log1p(x: f64) -> f64 {
    let u = 1.0 + x;
    let (exponent, m) = split(u);
    // Near 1, f is x itself; elsewhere what 1 + x has lost of x or of 1 is added to the logarithm.
    let near = exponent == 0.0;
    let lost = if x > 1.0 { 1.0 - (u - x) } else { x - (u - 1.0) };
    let value = log_sum(exponent, if near { x } else { m - 1.0 }, if near { 0.0 } else { lost / u });
    log_edges(u, value).copysign(x)
}

/// The exponent of a positive finite number and the logarithm of its significand, within 2⁻⁶⁵ of it.
#[inline(always)]
fn log_pair(x: f64) -> (f64, Pair) {
    let (exponent, m) = split(x);
    let f = m - 1.0;
    let below = Pair::sum(2.0, f);
    let s = f / below.0;
    let left = (-s).mul_add(below.1, (-s).mul_add(below.0, f));
    let s = Pair(s, left / below.0);
    let z = s.times(s);
    // 2s + s·z·(⅔ + z·tail)
    let tail = Pair(2.0 / 3.0, 3.700_743_415_417_188e-17).plus(Pair::product(z.0, log_tail(z.0)));
    (exponent, Pair(2.0 * s.0, 2.0 * s.1).plus(s.times(z).times(tail)))
}

/// log₂ x, within 1 unit.
#[inline(always)]
pub fn log2(x: f64) -> f64 {
    let (exponent, log) = log_pair(x);
    let Pair(high, low) = Pair(exponent, 0.0).plus(log.times(Pair(LOG2_E, LOG2_E_LOW)));
    log_edges(x, high + low)
}

/// log₁₀ x, within 1 unit.
#[inline(always)]
pub fn log10(x: f64) -> f64 {
    let (exponent, log) = log_pair(x);
    let whole = Pair(exponent, 0.0).times(Pair(LOG10_2, LOG10_2_LOW));
    let Pair(high, low) = whole.plus(log.times(Pair(LOG10_E, LOG10_E_LOW)));
    log_edges(x, high + low)
}

/// xʸ, within 1 unit.
#[inline(always)]
pub fn pow(x: f64, y: f64) -> f64 {
    let a = x.abs();
    let (exponent, log) = log_pair(a);
    let log2 = Pair(exponent, 0.0).plus(log.times(Pair(LOG2_E, LOG2_E_LOW)));
    // Beyond 2⁷⁰ every power is 0, 1 or infinite.
    let bounded = within(y, -1_180_591_620_717_411_303_424.0, 1_180_591_620_717_411_303_424.0);
    let Pair(high, low) = log2.times(Pair(bounded, 0.0));
    let finite = exp2_of(high, if high.abs() < 1100.0 { low } else { 0.0 });
    let edge = if (a > 1.0) == (y > 0.0) { f64::INFINITY } else { 0.0 };
    let extreme = if a == 1.0 { 1.0 } else { edge };
    let magnitude = if a == 0.0 || a == f64::INFINITY || y.abs() == f64::INFINITY { extreme } else { finite };
    let whole = y == y.trunc();
    let half = y * 0.5;
    let odd = whole && half != half.trunc();
    let signed = if odd { magnitude.copysign(x) } else { magnitude };
    let undefined = (x < 0.0 && x > f64::NEG_INFINITY && !whole) || x.is_nan() || y.is_nan();
    let value = if undefined { f64::NAN } else { signed };
    if y == 0.0 || x == 1.0 { 1.0 } else { value }
}

/// arsinh x, within 3 units.
#[inline(always)]
pub fn asinh(x: f64) -> f64 {
    let a = x.abs();
    // a + a²/(1 + √(1 + a²)) is e^arsinh − 1; from 2³⁰ on it is 2a − 1, to all digits.
    let square = a * a;
    let near = log1p(a + square / (1.0 + (1.0 + square).sqrt()));
    (if a > 1_073_741_824.0 { log_of_double(a) } else { near }).copysign(x)
}

/// arcosh x, within 3 units.
#[inline(always)]
pub fn acosh(x: f64) -> f64 {
    let t = x - 1.0;
    let near = log1p(t + (t * (t + 2.0)).sqrt());
    let value = if x > 1_073_741_824.0 { log_of_double(x) } else { near };
    if x < 1.0 { f64::NAN } else { value }
}

/// ln 2x for x ≥ 1.
#[inline(always)]
fn log_of_double(x: f64) -> f64 {
    let (exponent, m) = split(x);
    log_edges(x, log_sum(exponent + 1.0, m - 1.0, 0.0))
}

/// artanh x, within 3 units.
#[inline(always)]
pub fn atanh(x: f64) -> f64 {
    let a = x.abs();
    (0.5 * log1p(2.0 * a / (1.0 - a))).copysign(x)
}
