//! Exponential, logarithm and circular functions on f64 with about 45 correct bits: enough for results that are rounded to f32,
//! and only for the arguments that those need. [`super::full`] has the functions of f64 to the last place.

use std::f64::consts::{FRAC_2_PI, FRAC_PI_2, FRAC_PI_4, LN_2, LOG2_E, PI};

use super::parts::{self, Octant, angle_edges, log_edges, power_of_two, quadrant, within};
use super::polynomial;

/// Beyond these, eˣ counts as 0 or infinite: far outside the range of f32.
const EXP_RANGE: (f64, f64) = (-708.0, 709.0);

/// (eʳ − 1)/r for |r| ≤ ln 2/2, within 2⁻⁴⁹.
#[inline(always)]
fn expm1_reduced(r: f64) -> f64 {
    polynomial(
        r,
        [
            1.000_000_000_000_001_3,
            0.500_000_000_000_000_1,
            0.166_666_666_666_156_07,
            0.041_666_666_666_624_13,
            0.008_333_333_367_332_009,
            0.001_388_888_891_721_371_7,
            0.000_198_411_906_158_358_5,
            2.480_152_129_595_437_6e-5,
            2.763_265_575_933_203e-6,
            2.762_008_844_540_974_6e-7,
        ],
    )
}

/// 2ᵏ·(1 + r·p) = eˣ as the pair (2ᵏ, r·p).
#[inline(always)]
fn exp_parts(x: f64) -> (f64, f64) {
    let x = within(x, EXP_RANGE.0, EXP_RANGE.1);
    let k = (x * LOG2_E).round_ties_even();
    let r = (-k).mul_add(LN_2, x);
    (power_of_two(k), r * expm1_reduced(r))
}

/// eˣ; 0 below −708.
#[inline(always)]
pub fn exp(x: f64) -> f64 {
    let (scale, tail) = exp_parts(x);
    if x < EXP_RANGE.0 { 0.0 } else { scale.mul_add(tail, scale) }
}

/// 2ˣ; 0 below −1021.
#[inline(always)]
pub fn exp2(x: f64) -> f64 {
    let within_range = within(x, -1021.0, 1023.0);
    let k = within_range.round_ties_even();
    let r = (within_range - k) * LN_2;
    let scale = power_of_two(k);
    let power = scale.mul_add(r * expm1_reduced(r), scale);
    let power = if x > 1023.0 { f64::INFINITY } else { power };
    if x < -1021.0 { 0.0 } else { power }
}

/// eˣ − 1, accurate near 0.
#[inline(always)]
pub fn expm1(x: f64) -> f64 {
    let (scale, tail) = exp_parts(x);
    scale.mul_add(tail, scale - 1.0).copysign(x)
}

/// ln m = 2·artanh s for s = (m − 1)/(m + 1), m in [√½, √2], within 2⁻⁵¹.
#[inline(always)]
fn log_reduced(s: f64) -> f64 {
    let series = [
        2.000_000_000_000_000_4,
        0.666_666_666_665_522_2,
        0.400_000_000_620_566,
        0.285_714_159_697_155_36,
        0.222_234_382_899_747_37,
        0.181_218_100_957_960_76,
        0.168_391_960_308_929_14,
    ];
    s * polynomial(s * s, series)
}

/// The exponent e of a positive normal number and its significand m in [√½, √2): x = m·2ᵉ.
#[inline(always)]
fn split(x: f64) -> (f64, f64) {
    parts::split(x, parts::BIAS)
}

/// The exponent and the logarithm of the significand.
#[inline(always)]
fn log_parts(x: f64) -> (f64, f64) {
    let (exponent, m) = split(x);
    (exponent, log_reduced((m - 1.0) / (m + 1.0)))
}

/// log₂ x. Subnormals of f64 need no care: f32 has none of them.
#[inline(always)]
pub fn log2(x: f64) -> f64 {
    let (exponent, tail) = log_parts(x);
    log_edges(x, tail.mul_add(LOG2_E, exponent))
}

/// log₁₀ x.
#[inline(always)]
pub fn log10(x: f64) -> f64 {
    let (exponent, tail) = log_parts(x);
    log_edges(x, tail.mul_add(std::f64::consts::LOG10_E, exponent * std::f64::consts::LOG10_2))
}

/// ln(1 + x), accurate near 0.
#[inline(always)]
pub fn log1p(x: f64) -> f64 {
    let u = 1.0 + x;
    let (exponent, m) = split(u);
    // Near 1 the sum 1 + x has lost digits of x, so s is computed from x itself.
    let near = exponent == 0.0;
    let numerator = if near { x } else { m - 1.0 };
    let denominator = if near { 2.0 + x } else { m + 1.0 };
    let value = exponent.mul_add(LN_2, log_reduced(numerator / denominator));
    log_edges(u, value).copysign(x)
}

/// sin x, or cos x with `quarter` = 1, for f32 numbers |x| ≤ 2³⁰.
#[inline(always)]
pub fn circular(x: f64, quarter: u64) -> f64 {
    // π/2 in two parts; the fused products are exact.
    const HIGH: f64 = std::f64::consts::FRAC_PI_2;
    const LOW: f64 = 6.123_233_995_736_766e-17;
    let n = (x * FRAC_2_PI).round_ties_even();
    let reduced = (-n).mul_add(LOW, (-n).mul_add(HIGH, x));
    // Keeps the sign of zero.
    let r = if n == 0.0 { x } else { reduced };
    let quadrant = quadrant(n, quarter);
    let w = r * r;
    // Within 2⁻⁴⁷ and 2⁻⁵² up to π/4.
    let sine = [
        0.999_999_999_999_995_4,
        -0.166_666_666_666_141_4,
        0.008_333_333_323_495_075,
        -0.000_198_412_631_006_823_4,
        2.755_523_089_421_3e-6,
        -2.475_361_969_356_745_7e-8,
    ];
    let cosine = [
        1.0,
        -0.499_999_999_999_992_06,
        0.041_666_666_666_462_41,
        -0.001_388_888_886_921_251_3,
        2.480_157_827_376_557_5e-5,
        -2.755_519_212_355_855e-7,
        2.062_800_492_229_483_6e-9,
    ];
    let value = if quadrant & 1 == 1 { polynomial(w, cosine) } else { r * polynomial(w, sine) };
    if quadrant & 2 == 2 { -value } else { value }
}

/// The angle of the point (x, y), in radians.
#[inline(always)]
pub fn atan2(y: f64, x: f64) -> f64 {
    let Octant { steep, least, most, far } = Octant::new(y, x);
    let t = if far { least - most } else { least } / if far { least + most } else { most };
    // 0/0 and ∞/∞: the angle is 0 or π/4.
    let degenerate = least == most;
    let t = if degenerate { 0.0 } else { t };
    let base = if far { FRAC_PI_4 } else { 0.0 };
    let base = if degenerate && most > 0.0 { FRAC_PI_4 } else { base };
    let angle = base + atan_reduced(t);
    let angle = if steep { FRAC_PI_2 - angle } else { angle };
    let angle = if x.is_sign_negative() { PI - angle } else { angle };
    angle_edges(y, x, angle)
}

/// arctan t for |t| ≤ tan π/8, within 2⁻⁴⁹.
#[inline(always)]
fn atan_reduced(t: f64) -> f64 {
    let series = [
        0.999_999_999_999_999,
        -0.333_333_333_332_214_04,
        0.199_999_999_783_877_53,
        -0.142_857_126_613_660_12,
        0.111_110_488_434_434_75,
        -0.090_895_297_703_285_33,
        0.076_735_334_608_134_25,
        -0.065_059_709_035_096_54,
        0.050_247_223_712_542_2,
        -0.025_315_935_640_516_887,
    ];
    t * polynomial(t * t, series)
}

/// erfc x, accurate for large x: e^(−x²)·p((|x| − 3)/(|x| + 3)), p within 2⁻⁴⁷ on [0, 10.4]; 0 beyond.
#[inline(always)]
pub fn erfc(x: f64) -> f64 {
    const END: f64 = 10.4;
    let magnitude = within(x.abs(), 0.0, END);
    let series = [
        0.179_001_151_181_389_8,
        -0.326_233_560_043_032_17,
        0.245_603_801_712_389_46,
        -0.150_115_936_501_298_18,
        0.071_665_837_094_194_73,
        -0.024_392_499_304_080_086,
        0.004_269_136_414_507_885,
        0.000_707_746_280_062_193_6,
        -0.000_597_062_923_309_890_8,
        4.525_588_176_474_095_5e-5,
        6.406_287_814_357_843e-5,
        -1.285_870_610_490_996_8e-5,
        -7.999_989_459_353_077e-6,
        2.098_925_755_178_927e-6,
        1.285_995_565_302_988e-6,
        -2.326_011_999_601_225e-7,
        -2.341_547_403_447_961e-7,
        -3.216_282_190_043_495_4e-8,
        3.460_033_942_957_693e-9,
    ];
    let scaled = polynomial((magnitude - 3.0) / (magnitude + 3.0), series);
    let value = exp(-magnitude * magnitude) * scaled;
    let value = if x.abs() > END { 0.0 } else { value };
    if x < 0.0 { 2.0 - value } else { value }
}
