//! Activation functions: in the digits of 16-bit results, and in full precision, where small results keep their digits.

use plimsoll_expr::DType;
use plimsoll_expr::op::Unary;

use super::super::term::Term;
use super::double;
use super::{Digits, LN_2, LOG2_E, ex2, ex2_flush, exp, inverse};

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

/// A function that libraries lack, in the precision of its carrier. With guards, operands in f32 are neither NaN nor so far below 0 that
/// results leave the normal numbers. Large positive ones break no guard: the exponential no longer matters there, and its operand is
/// limited.
pub(super) fn full<'b>(op: Unary, x: Term<'b>, guarded: bool) -> Option<Term<'b>> {
    if op == Unary::GeluTanh {
        return Some(full_gelu_tanh(x, guarded));
    }
    let guarded = guarded && x.dtype() == DType::F32;
    match op {
        Unary::Sigmoid => Some(full_logistic(None, x, None, guarded)),
        Unary::Silu => Some(full_logistic(Some(x), x, None, guarded)),
        Unary::Softplus if x.dtype() == DType::F32 => Some(full_softplus(x, guarded)),
        Unary::Softplus => Some(x.max(0.0) + (-x.abs()).unary(Unary::Exp).unary(Unary::Log1p)),
        Unary::Mish => Some(full_mish(x, guarded)),
        Unary::Gelu => Some(full_gelu(x, guarded)),
        _ => None,
    }
}

/// Up to here, e^±u and its products are normal numbers.
fn most(u: Term<'_>) -> f64 {
    if u.dtype() == DType::F32 { 80.0 } else { 700.0 }
}

/// e^(factor·(u + rest)) for a factor that is a power of two or its negative, a small rest, and a result that is a normal number. In f32
/// it is 2^t, corrected by what t = factor·u·log₂ e lost when it was rounded: without a range reduction, and without a scaling.
fn exponential<'b>(u: Term<'b>, factor: f64, rest: Option<Term<'b>>) -> Term<'b> {
    if u.dtype() == DType::F64 {
        let e = (u * factor).unary(Unary::Exp);
        return rest.map_or(e, |rest| (rest * factor).fma(e, e));
    }
    let t = u * (factor * LOG2_E);
    // By how much t is too large. The error with the other sign needs −t, which compilers compute as a second product.
    let mut excess = u.fma(-factor * LOG2_E_REST, u.fma(-factor * LOG2_E, t));
    if let Some(rest) = rest {
        excess = rest.fma(-factor * LOG2_E, excess);
    }
    let e = ex2_flush(t);
    (excess * -LN_2).fma(e, e)
}

/// What log₂ e in f32 lacks.
const LOG2_E_REST: f64 = 1.925_963_033_500_011e-8;

/// The square root of e^(factor·(u + rest)) where that is small: products take it twice, so that they are rounded once where they are
/// subnormal. Its error counts twice too, so it is the library's.
fn root_of_small<'b>(u: Term<'b>, factor: f64, rest: Option<Term<'b>>) -> Term<'b> {
    let e = (u * (factor * 0.5)).unary(Unary::Exp);
    rest.map_or(e, |rest| (rest * (factor * 0.5)).fma(e, e))
}

/// 1/x to half a unit in the last place, for normal x with a normal inverse: skips the special cases that a division checks for.
fn plain_inverse(x: Term<'_>) -> Term<'_> {
    if x.dtype() == DType::F64 {
        return x.unary(Unary::Recip);
    }
    let r = inverse(x);
    (-x).fma(r, 1.0).fma(r, r)
}

/// a/b to half a unit in the last place, for finite a and normal b with a normal inverse.
fn plain_quotient<'b>(a: Term<'b>, b: Term<'b>) -> Term<'b> {
    if b.dtype() == DType::F64 {
        return a * b.unary(Unary::Recip);
    }
    let r = inverse(b);
    let q = a * r;
    (-b).fma(q, a).fma(r, q)
}

/// x/(1 + e^−(y + rest)), or 1/(1 + …) without x, with a small rest.
fn full_logistic<'b>(x: Option<Term<'b>>, y: Term<'b>, rest: Option<Term<'b>>, guarded: bool) -> Term<'b> {
    let most = most(y);
    let product = |part: Term<'b>| x.map_or(part, |x| x * part);
    let within = |y| plain_inverse(exponential(y, -1.0, rest) + 1.0);
    if guarded {
        // With a rest, the caller limits y.
        let y = if rest.is_none() { y.min(most) } else { y };
        (-y).demand_most(most as f32);
        return product(within(y));
    }
    let e = root_of_small(y, 1.0, rest);
    y.less(-most).choose(product(e) * e, product(within(y.min(most))))
}

/// max(x, 0) + ln(1 + e), e = e^−|x|, the logarithm as a polynomial over [0, 1], to 2⁻²⁷.
fn full_softplus(x: Term<'_>, guarded: bool) -> Term<'_> {
    let (t, positive) = (x.abs(), x.max(0.0));
    let e = exponential(if guarded { t.min(most(t)) } else { t }, -1.0, None);
    let p = e.polynomial(&[
        1.0,
        -0.499_999_017,
        0.333_299_637,
        -0.249_541_342,
        0.196_759_388,
        -0.153_055_921,
        0.106_036_536,
        -0.056_959_524_8,
        0.019_851_457_3,
        -0.003_244_024_24,
    ]);
    let y = e.fma(p, positive);
    if guarded {
        (-x).demand_most(most(t) as f32);
        return y;
    }
    t.greater(most(t)).choose((-t).unary(Unary::Exp) + positive, y)
}

/// tanh(ln(1 + E)) = E(E + 2)/(E(E + 2) + 2), with E = eˣ.
fn full_mish(x: Term<'_>, guarded: bool) -> Term<'_> {
    let u = x.min(40.0);
    let e = exponential(u, 1.0, None);
    let n = e.fma(e, e + e);
    let y = x * plain_quotient(n, n + 2.0);
    if guarded {
        (-u).demand_most(most(u) as f32);
        return y;
    }
    let e = root_of_small(u, 1.0, None);
    u.less(-most(u)).choose(x * e * e, y)
}

/// Up to here, e^(−t²/2) and its products are normal numbers.
const MOST_GELU: f64 = 12.625;

/// x·Φ(x), where Φ(−t) = e^(−t²/2)·r·P(r), r = 1/(1 + 5t/16), to 2⁻²⁵. The exponential would amplify the rounding error of t², so the
/// error is computed and corrected.
fn full_gelu(x: Term<'_>, guarded: bool) -> Term<'_> {
    let t = if guarded { x.abs().min(MOST_GELU) } else { x.abs().less(64.0).choose(x.abs(), 64.0) };
    let s = t * t;
    let rest = Some(t.fma(t, -s));
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
    // x·Φ(−t) for negative x, x − x·Φ(−t) for positive ones.
    let y = (-t).fma(q * exponential(s, -0.5, rest), x.max(-0.0));
    if guarded {
        (-x).demand_most(MOST_GELU as f32);
        return y;
    }
    let e = root_of_small(s, -0.5, rest);
    s.greater(MOST_GELU * MOST_GELU).and(x.less(0.0)).choose(x * q * e * e, y)
}

/// x·sigmoid(y), y = √(8/π)·(x + 0.044715 x³). In the tail the error would grow with y, so the error of y is computed and corrected.
fn full_gelu_tanh(x: Term<'_>, guarded: bool) -> Term<'_> {
    // The nearest number of the type, and what it lacks.
    let split = |exact: f64, rest: f64| {
        let high = if x.dtype() == DType::F32 { f64::from(exact as f32) } else { exact };
        (x.number(high), x.number(exact - high + rest))
    };
    let ((a, a_low), (b, b_low)) = (split(A, A_REST), split(B, B_REST));
    let single = x.dtype() == DType::F32;
    let clamped = match (guarded, single) {
        (true, true) => x.min(MOST_GELU_TANH),
        (true, false) => double::limited(x, MOST_GELU_TANH),
        (false, _) => x.abs().less(256.0).choose(x, x.number(256.0).copysign(x)),
    };
    let square = clamped * clamped;
    let square_low = clamped.fma(clamped, -square);
    let term = b * square;
    let term_low = b.fma(square, -term) + b.fma(square_low, b_low * square);
    let sum = a + term;
    let part = sum - a;
    let sum_low = (a - (sum - part)) + (term - part) + (term_low + a_low);
    let y = clamped * sum;
    let rest = clamped.fma(sum, -y) + clamped * sum_low;
    if guarded && !single {
        return x * double::guarded_logistic(y, rest);
    }
    let result = full_logistic(Some(x), y, Some(rest), guarded);
    if guarded { result } else { x.equals(x).choose(result, x) }
}

/// Here y is 99: the result is x.
const MOST_GELU_TANH: f64 = 10.5;
/// √(8/π) and 0.044715·√(8/π), each with what f64 loses of it.
const A: f64 = 1.595_769_121_605_730_8;
const A_REST: f64 = -9.969_308_809_110_92e-17;
const B: f64 = 0.071_354_816_272_600_25;
const B_REST: f64 = -6.175_149_918_155_315e-19;
