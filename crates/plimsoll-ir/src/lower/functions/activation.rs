//! Activation functions: in the digits of 16-bit results, and in full precision, where small results keep their digits.

use plimsoll_expr::DType;
use plimsoll_expr::op::Unary;

use super::super::term::Term;
use super::{Digits, LOG2_E, ex2, ex2_flush, exp, inverse};

pub(super) fn short<'b>(op: Unary, x: Term<'b>, digits: Digits) -> Term<'b> {
    match op {
        Unary::Sigmoid => logistic(None, x * -LOG2_E, digits),
        Unary::Silu => logistic(Some(x), x * -LOG2_E, digits),
        Unary::GeluTanh => {
            // −2u·log₂ e with u = √(2/π)·(x + 0.044715 x³)
            let inner = (x * x).fma(0.102_943_241_596_221_92, 2.302_208_185_195_923);
            logistic(Some(x), (-x) * inner, digits)
        }
        Unary::Softplus => softplus(x, digits),
        _ => mish(x, digits),
    }
}

/// A scale that keeps 2ˣ and its inverse normal where the result is subnormal.
const SCALE: f64 = 1.0 / 65536.0;

/// x/(1 + 2^u), or 1/(1 + 2^u) without x.
fn logistic<'b>(x: Option<Term<'b>>, u: Term<'b>, digits: Digits) -> Term<'b> {
    if digits == Digits::F16 {
        let r = inverse(ex2_flush(u) + 1.0);
        return x.map_or(r, |x| x * r);
    }
    if digits == Digits::Wide {
        let e = ex2(-u.abs(), digits);
        let r = inverse(e + 1.0);
        let part = u.greater(0.0).choose(e * r, r);
        return x.map_or(part, |x| x * part);
    }
    // 2⁻¹⁶/(2⁻¹⁶ + 2^(u − 16))
    let r = inverse(ex2_flush(u - 16.0) + SCALE);
    match x {
        // A product of few digits with 2⁻¹⁶ is exact, also where it is subnormal.
        Some(x) if x.facts().digits != 0 && x.facts().digits <= 8 => x * SCALE * r,
        Some(x) => x * (r * SCALE),
        None => r * SCALE,
    }
}

/// max(x, 0) + ln(1 + e), e = e^−|x|, the logarithm as a polynomial over [0, 1].
fn softplus<'b>(x: Term<'b>, digits: Digits) -> Term<'b> {
    let e = exp(-x.abs(), digits);
    let p = e.polynomial(digits.pick(
        &[0.999_943_256, -0.496_977_806, 0.306_300_908, -0.157_427_192, 0.041_347_291_3],
        &[0.999_991_596, -0.499_361_366, 0.325_206_667, -0.210_048_646, 0.101_222_232, -0.023_869_128_9],
        &[
            0.999_999_821,
            -0.499_974_042,
            0.332_754_791,
            -0.244_954_631,
            0.177_452_4,
            -0.107_681_699,
            0.044_089_622_8,
            -0.008_539_206_35,
        ],
    ));
    e.fma(p, x.fmax(0.0))
}

/// x·n/(n + 2) with n = E(E + 2), E = eˣ.
fn mish<'b>(x: Term<'b>, digits: Digits) -> Term<'b> {
    let e = exp(x.fmin(20.0), digits);
    let n = e.fma(e, e + e);
    x * (n * inverse(n + 2.0))
}

/// A function that libraries lack, in the precision of its carrier. With guards, operands in f32 are neither NaN nor so large that an
/// exponential is small.
pub(super) fn full<'b>(op: Unary, x: Term<'b>, guarded: bool) -> Option<Term<'b>> {
    let guarded = guarded && x.dtype() == DType::F32;
    match op {
        Unary::Sigmoid => {
            let one = if guarded { x.number(1.0) } else { x.equals(x).choose(x.number(1.0), x) };
            Some(full_logistic(one, x, None, guarded))
        }
        Unary::Silu => Some(full_logistic(x, x, None, guarded)),
        Unary::Softplus => Some(x.max(0.0) + (-x.abs()).unary(Unary::Exp).unary(Unary::Log1p)),
        Unary::Mish => Some(full_mish(x, guarded)),
        Unary::Gelu if x.dtype() == DType::F32 => Some(full_gelu(x, guarded)),
        Unary::Gelu => Some(double_gelu(x)),
        Unary::GeluTanh => Some(full_gelu_tanh(x, guarded)),
        _ => None,
    }
}

/// Below −80 in f32 and −700 in f64, e^u or its products may lose digits as subnormals.
const LEAST_F32: f32 = -80.0;

/// An exponential e^u that may be small: then it is e^(u/2), and products take it twice.
#[derive(Clone, Copy)]
struct Exponential<'b> {
    /// Whether it is small; `None` if it never is.
    small: Option<Term<'b>>,
}

impl<'b> Exponential<'b> {
    /// Of u. With guards, a kernel demands that it isn't small.
    fn new(u: Term<'b>, guarded: bool) -> Self {
        if guarded {
            (-u).demand_most(-LEAST_F32);
            return Self { small: None };
        }
        let least = if u.dtype() == DType::F32 { LEAST_F32.into() } else { -700.0 };
        Self { small: Some(u.less(least)) }
    }

    /// u or half of it, or a number that goes with it.
    fn half(self, u: Term<'b>) -> Term<'b> {
        self.small.map_or(u, |small| small.choose(u * 0.5, u))
    }

    /// A product that took the exponential e once.
    fn complete(self, product: Term<'b>, e: Term<'b>) -> Term<'b> {
        self.small.map_or(product, |small| product * small.choose(e, 1.0))
    }
}

/// 1/x to half a unit in the last place, for normal x with a normal inverse: skips the special cases that a division checks for.
fn plain_inverse(x: Term<'_>) -> Term<'_> {
    if x.dtype() == DType::F64 {
        return x.unary(Unary::Recip);
    }
    let r = inverse(x);
    (-x).fma(r, 1.0).fma(r, r)
}

/// x/(1 + e^−y), for y + rest with a small rest.
fn full_logistic<'b>(x: Term<'b>, y: Term<'b>, rest: Option<Term<'b>>, guarded: bool) -> Term<'b> {
    let u = -y.abs();
    let exponential = Exponential::new(u, guarded);
    let negative = y.less(0.0);
    let mut e = exponential.half(u).unary(Unary::Exp);
    if let Some(rest) = rest {
        let part = exponential.half(rest);
        e = e.fma(negative.choose(part, -part), e);
    }
    let product = negative.choose(x * e, x);
    let inverse = plain_inverse(e + 1.0);
    product * exponential.small.map_or(inverse, |small| small.and(negative).choose(e, inverse))
}

/// tanh(ln(1 + E)) = E(E + 2)/(E(E + 2) + 2), with E = eˣ.
fn full_mish(x: Term<'_>, guarded: bool) -> Term<'_> {
    let u = if guarded { x.fmin(40.0) } else { x.less(40.0).choose(x, 40.0) };
    let exponential = Exponential::new(u, guarded);
    let e = exponential.half(u).unary(Unary::Exp);
    let n = e.fma(e, e + e);
    let y = x * (n * plain_inverse(n + 2.0));
    exponential.small.map_or(y, |small| small.choose(x * e * e, y))
}

/// x·Φ(x), where Φ(−t) = e^(−t²/2)·r·P(r), r = 1/(1 + 5t/16), to 2⁻²⁵. The exponential would amplify the rounding error of t², so the
/// error is computed and corrected.
fn full_gelu(x: Term<'_>, guarded: bool) -> Term<'_> {
    let t = if guarded { x.abs() } else { x.abs().less(64.0).choose(x.abs(), 64.0) };
    let s = t * t;
    let rest = t.fma(t, -s);
    let u = s * -0.5;
    let exponential = Exponential::new(u, guarded);
    let e = exponential.half(u).unary(Unary::Exp);
    let e = (exponential.half(s.number(-0.5)) * rest).fma(e, e);
    let r = plain_inverse(t.fma(0.3125, 1.0));
    let q = r * r.polynomial(&[
        0.124_665_484,
        0.124_747_962,
        0.111_903_563,
        0.089_994_192_1,
        0.055_824_797_6,
        -0.003_085_757_61,
        0.074_966_974_6,
        -0.151_609_629,
        0.091_660_052_5,
        -0.019_067_645_1,
    ]);
    let tail = exponential.complete(x * q * e, e);
    x.less(0.0).choose(tail, x * (q.number(1.0) - q * e))
}

/// x·Φ(x) in f64, from erfc z, z = |x|/√2. The derivative of erfc z is about −2z·erfc z where the rounding error of z matters.
fn double_gelu(x: Term<'_>) -> Term<'_> {
    let t = x.abs().less(64.0).choose(x.abs(), 64.0);
    let z = t * std::f64::consts::FRAC_1_SQRT_2;
    let rest = t.fma(std::f64::consts::FRAC_1_SQRT_2, -z) + t * -4.833_646_656_726_457e-17;
    let c = z.unary(Unary::Erfc);
    let tail = (z * -2.0 * rest).fma(c, c) * 0.5;
    x * x.less(0.0).choose(tail, tail.number(1.0) - tail)
}

/// x·sigmoid(y), y = √(8/π)·(x + 0.044715 x³). In the tail the error would grow with y, so the error of y is computed and corrected.
fn full_gelu_tanh(x: Term<'_>, guarded: bool) -> Term<'_> {
    // The nearest number of the type, and what it lacks.
    let split = |exact: f64, rest: f64| {
        let high = if x.dtype() == DType::F32 { f64::from(exact as f32) } else { exact };
        (x.number(high), x.number(exact - high + rest))
    };
    let ((a, a_low), (b, b_low)) = (split(A, A_REST), split(B, B_REST));
    let clamped = if guarded { x } else { x.abs().less(256.0).choose(x, x.number(256.0).copysign(x)) };
    let square = clamped * clamped;
    let square_low = clamped.fma(clamped, -square);
    let term = b * square;
    let term_low = b.fma(square, -term) + b.fma(square_low, b_low * square);
    let sum = a + term;
    let part = sum - a;
    let sum_low = (a - (sum - part)) + (term - part) + (term_low + a_low);
    let y = clamped * sum;
    let rest = clamped.fma(sum, -y) + clamped * sum_low;
    let result = full_logistic(x, y, Some(rest), guarded);
    if guarded { result } else { x.equals(x).choose(result, x) }
}

/// √(8/π) and 0.044715·√(8/π), each with what f64 loses of it.
const A: f64 = 1.595_769_121_605_730_8;
const A_REST: f64 = -9.969_308_809_110_92e-17;
const B: f64 = 0.071_354_816_272_600_25;
const B_REST: f64 = -6.175_149_918_155_315e-19;
