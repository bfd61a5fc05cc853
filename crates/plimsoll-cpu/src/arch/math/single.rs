//! The functions of f32. Those that most expressions use are evaluated in f32, within 2 units in the last place; the others
//! are rounded from f64 results of about 45 bits, within 0.501. NaN, infinities, signed zeros and subnormals follow the C
//! standard. The caller must pass arguments of `sin` and `cos` beyond [`CIRCULAR_RANGE`] to [`far_sin`] and [`far_cos`], as
//! their reduction needs a table.

use super::{double, parts, polynomial_f32};

/// The largest argument that [`sin`] and [`cos`] take.
pub const CIRCULAR_RANGE: f32 = parts::CIRCULAR_RANGE as f32;

/// Declares functions of f32 that are evaluated in f64.
macro_rules! by_f64 {
    ($($(#[$meta:meta])* $name:ident($x:ident) = $value:expr;)*) => {$(
        $(#[$meta])*
        #[inline(always)]
        #[must_use]
        pub fn $name($x: f32) -> f32 {
            let $x = f64::from($x);
            let value: f64 = $value;
            value as f32
        }
    )*};
}

by_f64! {
    /// 2ˣ.
    exp2(x) = double::exp2(x);
    /// eˣ − 1.
    expm1(x) = double::expm1(x);
    /// log₂ x.
    log2(x) = double::log2(x);
    /// log₁₀ x.
    log10(x) = double::log10(x);
    /// ln(1 + x).
    log1p(x) = double::log1p(x);
    /// sin x up to [`CIRCULAR_RANGE`].
    sin(x) = double::circular(x, 0);
    /// cos x up to [`CIRCULAR_RANGE`].
    cos(x) = double::circular(x, 1);
    /// sinh x.
    sinh(x) = {
        let grown = double::expm1(x.abs());
        (0.5 * (grown + grown / (grown + 1.0))).copysign(x)
    };
    /// cosh x.
    cosh(x) = {
        let power = double::exp(x.abs());
        0.5 * (power + 1.0 / power)
    };
    /// arsinh x.
    asinh(x) = {
        let a = x.abs();
        // a² is finite in f64; a + a²/(1 + √(1 + a²)) is e^arsinh − 1.
        let grown = a + a * a / (1.0 + a.mul_add(a, 1.0).sqrt());
        double::log1p(if a == f64::INFINITY { a } else { grown }).copysign(x)
    };
    /// arcosh x.
    acosh(x) = {
        let t = x - 1.0;
        let value = double::log1p(t + (t * (t + 2.0)).sqrt());
        if x < 1.0 { f64::NAN } else { value }
    };
    /// artanh x.
    atanh(x) = {
        let a = x.abs();
        (0.5 * double::log1p(2.0 * a / (1.0 - a))).copysign(x)
    };
    /// arctan x.
    atan(x) = double::atan2(x, 1.0);
    /// 1 − erf x.
    erfc(x) = double::erfc(x);
    /// 1/(1 + e⁻ˣ).
    sigmoid(x) = sigmoid_of(x);
    /// x·sigmoid(x).
    silu(x) = x * sigmoid_of(x);
    /// x·Φ(x).
    gelu(x) = 0.5 * x * double::erfc(-x * std::f64::consts::FRAC_1_SQRT_2);
    /// x/2·(1 + tanh(√(2/π)·(x + 0.044715 x³))).
    gelu_tanh(x) = {
        // √(8/π): (1 + tanh u)/2 is sigmoid(2u).
        let twice = 1.595_769_121_605_730_7 * (x * x * x).mul_add(0.044_715, x);
        x * sigmoid_of(twice)
    };
    /// ln(1 + eˣ).
    softplus(x) = {
        let positive = if x > 0.0 { x } else { 0.0 };
        let value = positive + double::log1p(double::exp(-x.abs()));
        if x.is_nan() { x } else { value }
    };
    /// x·tanh(softplus(x)).
    mish(x) = {
        // tanh(ln(1 + e)) is n/(n + 2) with n = e(e + 2); 1 from x = 40 on.
        let e = double::exp(if x > 40.0 { 40.0 } else { x });
        let n = e * (e + 2.0);
        x * (n / (n + 2.0))
    };
}

/// 1.5·2²³: added to a small integer, it leaves that integer in the low bits.
const INTEGER: f32 = 12_582_912.0;
/// ln 2 in two parts.
const LN_2: (f32, f32) = (std::f32::consts::LN_2, -1.904_654_2e-9);
/// The bits of √½: significands are taken from [√½, √2).
const ROOT_HALF: u32 = 0x3f35_04f3;
const ONE: u32 = 0x3f80_0000;

/// (eʳ − 1 − r)/r², within 2⁻²² on |r| ≤ ln 2/2.
const EXP: [f32; 5] = [0.5, 0.166_665_78, 0.041_666_854, 0.008_363_141, 0.001_390_127_3];

/// 2ᵏ for an integer k from −126 to 127.
#[inline(always)]
fn power_of_two(k: f32) -> f32 {
    f32::from_bits((k + (INTEGER + 127.0)).to_bits() << 23)
}

/// e^(x − k·ln 2), for k near x/ln 2.
#[inline(always)]
fn exp_reduced(x: f32, k: f32) -> f32 {
    let r = (-k).mul_add(LN_2.1, (-k).mul_add(LN_2.0, x));
    1.0 + (r * r).mul_add(polynomial_f32(r, EXP), r)
}

/// An integer k and e^(x − k·ln 2).
#[inline(always)]
fn exp_parts(x: f32) -> (f32, f32) {
    let k = (x * std::f32::consts::LOG2_E).round_ties_even();
    (k, exp_reduced(x, k))
}

/// e^(times·x), up to e^±40, with a relative error of up to 2⁻²¹: for functions in which it hardly counts. `times` is ±1 or ±2: all constants
/// are scaled by its powers. What it gives for NaN has no meaning.
#[inline(always)]
fn rough_exp(x: f32, times: f32) -> f32 {
    // The sum's low bits are the integer, which is added to the exponent.
    let shifted = x.mul_add(std::f32::consts::LOG2_E * times, INTEGER);
    let r = (INTEGER - shifted).mul_add(LN_2.0 / times, x);
    let mut power = times;
    let tail = EXP.map(|coefficient| {
        power *= times;
        coefficient * power
    });
    let significand = polynomial_f32(r, tail).mul_add(r, times).mul_add(r, 1.0);
    f32::from_bits(significand.to_bits().wrapping_add(shifted.to_bits() << 23))
}

/// The largest |x| that [`near_exp`] takes: beyond it, the result may be subnormal or infinite.
pub const EXP_RANGE: f32 = 87.0;

/// eˣ up to [`EXP_RANGE`].
#[inline(always)]
#[must_use]
pub fn near_exp(x: f32) -> f32 {
    // The sum's low bits are the integer, which is added to the exponent.
    let shifted = x.mul_add(std::f32::consts::LOG2_E, INTEGER);
    let significand = exp_reduced(x, shifted - INTEGER);
    f32::from_bits(significand.to_bits().wrapping_add(shifted.to_bits() << 23))
}

/// eˣ.
#[inline(always)]
#[must_use]
pub fn exp(x: f32) -> f32 {
    // Beyond these the result is 0 or infinity.
    let x = if x < -104.0 { -104.0 } else { x };
    let x = if x > 89.0 { 89.0 } else { x };
    let (k, significand) = exp_parts(x);
    // In two steps, as f32 can represent neither 2⁻¹⁵⁰ nor 2¹²⁸.
    let half = (0.5 * k).round_ties_even();
    significand * power_of_two(half) * power_of_two(k - half)
}

/// ln x.
#[inline(always)]
#[must_use]
pub fn log(x: f32) -> f32 {
    let subnormal = x < f32::MIN_POSITIVE;
    let normal = if subnormal { x * 8_388_608.0 } else { x };
    let shifted = normal.to_bits().wrapping_add(ONE - ROOT_HALF);
    let exponent = (shifted >> 23) as i32 as f32 - if subnormal { 127.0 + 23.0 } else { 127.0 };
    let f = f32::from_bits((shifted & 0x7f_ffff) + ROOT_HALF) - 1.0;
    // (ln(1 + f) − f + f²/2)/f³, within 2⁻²³ on [√½ − 1, √2 − 1].
    let tail = [
        0.333_333_3,
        -0.249_999_94,
        0.200_007_14,
        -0.166_680_57,
        0.142_493_22,
        -0.124_201_49,
        0.116_770_12,
        -0.115_145_594,
        0.070_375_86,
    ];
    let correction = f * f * f.mul_add(polynomial_f32(f, tail), -0.5);
    let value = exponent.mul_add(LN_2.0, f + exponent.mul_add(LN_2.1, correction));
    let value = if x == f32::INFINITY { x } else { value };
    let at_most_zero = if x == 0.0 { f32::NEG_INFINITY } else { f32::NAN };
    if x > 0.0 { value } else { at_most_zero }
}

/// tanh x.
#[inline(always)]
#[must_use]
pub fn tanh(x: f32) -> f32 {
    let a = x.abs();
    let w = a * a;
    // (tanh x/x − 1)/x², within 2⁻²² up to 0.625.
    let near = [-0.333_333_28, 0.133_327_71, -0.053_850_953, 0.020_997_355, -0.006_096_937];
    let near = (a * w).mul_add(polynomial_f32(w, near), a);
    let bounded = if a > 10.0 { 10.0 } else { a };
    let far = 1.0 - 2.0 / (rough_exp(bounded, 2.0) + 1.0);
    // NaN stays NaN in `near`.
    (if a >= 0.625 { far } else { near }).copysign(x)
}

/// The error function.
#[inline(always)]
#[must_use]
pub fn erf(x: f32) -> f32 {
    let a = x.abs();
    let w = a * a;
    // erf x/x − 1, within 2⁻²⁸ of erf x/x up to 0.93.
    let near =
        [0.128_379_17, -0.376_126_32, 0.112_836_875, -0.026_858_94, 0.005_199_907, -0.000_813_001_24, 8.316_775e-5];
    let near = a.mul_add(polynomial_f32(w, near), a);
    // −ln erfc x, so that erf is within 2⁻³⁴ from 0.93 to 4; beyond 4 it rounds to 1.
    let t = if a > 4.0 { 4.0 } else { a };
    let far = [
        -0.000_177_334_21,
        1.129_527_7,
        0.633_321_2,
        0.108_308_26,
        -0.025_137_616,
        0.004_177_960_6,
        -0.000_435_884_34,
        2.121_788_7e-5,
    ];
    let far = 1.0 - rough_exp(polynomial_f32(t, far), -1.0);
    // NaN stays NaN in `near`.
    (if a >= 0.93 { far } else { near }).copysign(x)
}

/// 1/(1 + e⁻ˣ), without overflow on either side.
#[inline(always)]
fn sigmoid_of(x: f64) -> f64 {
    let e = double::exp(-x.abs());
    let numerator = if x < 0.0 { e } else { 1.0 };
    numerator / (1.0 + e)
}

/// 1/√x: a root and a division, each correctly rounded, so within 1 unit in the last place.
#[inline(always)]
#[must_use]
pub fn rsqrt(x: f32) -> f32 {
    1.0 / x.sqrt()
}

/// The angle of the point (x, y), in radians.
#[inline(always)]
#[must_use]
pub fn atan2(y: f32, x: f32) -> f32 {
    double::atan2(f64::from(y), f64::from(x)) as f32
}

/// xʸ.
#[inline(always)]
#[must_use]
pub fn pow(x: f32, y: f32) -> f32 {
    let (x, y) = (f64::from(x), f64::from(y));
    let magnitude = double::exp2(y * double::log2(x.abs()));
    let whole = y == y.trunc();
    let half = y * 0.5;
    let odd = whole && half != half.trunc();
    let signed = if odd { magnitude.copysign(x) } else { magnitude };
    let undefined = x < 0.0 && x > f64::NEG_INFINITY && !whole;
    let value = if undefined { f64::NAN } else { signed };
    let one = y == 0.0 || x == 1.0 || (x == -1.0 && y.abs() == f64::INFINITY);
    (if one { 1.0 } else { value }) as f32
}

/// sin x for any x.
#[must_use]
pub fn far_sin(x: f32) -> f32 {
    libm::sin(f64::from(x)) as f32
}

/// cos x for any x.
#[must_use]
pub fn far_cos(x: f32) -> f32 {
    libm::cos(f64::from(x)) as f32
}
