//! The functions of f32, rounded from f64 results of some 45 bits: within 0.501 units of the last place where nothing else
//! is said. NaN, infinities, signed zeros and subnormals follow the C standard. Arguments of `sin` and `cos` beyond
//! [`CIRCULAR_RANGE`] are the caller's to pass to [`far_sin`] and [`far_cos`], as their reduction takes a table.

use super::double;

/// The largest argument that [`sin`] and [`cos`] take.
pub const CIRCULAR_RANGE: f32 = double::CIRCULAR_RANGE as f32;

/// Declares functions of f32 by what they are in f64.
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
    /// eˣ.
    exp(x) = double::exp(x);
    /// 2ˣ.
    exp2(x) = double::exp2(x);
    /// eˣ − 1.
    expm1(x) = double::expm1(x);
    /// ln x.
    log(x) = double::log(x);
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
    /// tanh x.
    tanh(x) = {
        let grown = double::expm1(2.0 * x.abs());
        // 2·|x| is at most 709 there, so that nothing overflows.
        (grown / (grown + 2.0)).copysign(x)
    };
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
    /// The error function.
    erf(x) = {
        // A polynomial in x² below 1, within 2⁻⁴⁵; beyond, 1 − erfc.
        let a = x.abs();
        let near = [
            1.128_379_167_095_494,
            -0.376_126_389_028_086_15,
            0.112_837_915_866_487_13,
            -0.026_866_169_050_599_326,
            0.005_223_967_193_543_9,
            -0.000_854_793_373_651_963_3,
            0.000_120_462_612_697_797_98,
            -1.479_503_140_066_204_5e-5,
            1.530_637_316_364_108_4e-6,
            -1.046_911_033_215_120_8e-7,
        ];
        let near = x * super::polynomial(x * x, near);
        let far = (1.0 - double::erfc(a)).copysign(x);
        if a < 1.0 { near } else { far }
    };
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
        // √(8/π): (1 + tanh u)/2 is sigmoid 2u.
        let twice = 1.595_769_121_605_730_7 * (x * x * x).mul_add(0.044_715, x);
        x * sigmoid_of(twice)
    };
    /// ln(1 + eˣ).
    softplus(x) = {
        let positive = if x > 0.0 { x } else { 0.0 };
        let value = positive + double::log1p(double::exp(-x.abs()));
        if x != x { x } else { value }
    };
    /// x·tanh(softplus(x)).
    mish(x) = {
        // tanh(ln(1 + e)) is n/(n + 2) of n = e(e + 2); 1 from 40 on.
        let e = double::exp(if x > 40.0 { 40.0 } else { x });
        let n = e * (e + 2.0);
        x * (n / (n + 2.0))
    };
}

/// 1/(1 + e⁻ˣ), without overflow on either side.
#[inline(always)]
fn sigmoid_of(x: f64) -> f64 {
    let e = double::exp(-x.abs());
    let numerator = if x < 0.0 { e } else { 1.0 };
    numerator / (1.0 + e)
}

/// 1/√x: a root and a division, each correctly rounded, so within 1 unit of the last place.
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

/// sin x of any x.
#[must_use]
pub fn far_sin(x: f32) -> f32 {
    libm::sin(f64::from(x)) as f32
}

/// cos x of any x.
#[must_use]
pub fn far_cos(x: f32) -> f32 {
    libm::cos(f64::from(x)) as f32
}
