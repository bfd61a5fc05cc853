//! The functions of f64 to the last place, without branches. Each states its error in units of the last place of the true
//! result; `docs/mathematics.md` has the errors that were found. The caller must pass arguments of [`sin`] and [`cos`] beyond
//! [`CIRCULAR_RANGE`] to `libm`. `scripts/f64_coefficients.py` makes the coefficients.
//!
//! Where a rounding error would count, a value is a [`Pair`]: a number and what its rounding lost.

use std::f64::consts::{FRAC_2_PI, FRAC_PI_2, FRAC_PI_4, LN_2, LOG2_E, LOG10_2, LOG10_E, PI};

use super::polynomial;

/// The largest argument that [`sin`] and [`cos`] take.
pub const CIRCULAR_RANGE: f64 = 1_073_741_824.0;
/// 1.5·2⁵²: added to a small integer, it leaves that integer in the low bits.
const INTEGER: f64 = 6_755_399_441_055_744.0;
/// The bits of √½: significands are taken from [√½, √2).
const ROOT_HALF: u64 = 0x3fe6_a09e_667f_3bcd;
const ONE: u64 = 0x3ff0_0000_0000_0000;
const FRACTION: u64 = (1 << 52) - 1;
/// What the rounding of a constant to f64 lost.
const LN_2_LOW: f64 = 2.319_046_813_846_299_6e-17;
const LOG2_E_LOW: f64 = 2.035_527_374_093_103_3e-17;
const LOG10_E_LOW: f64 = 1.098_319_650_216_765e-17;
const LOG10_2_LOW: f64 = -2.803_728_127_785_170_4e-18;
const FRAC_PI_2_LOW: [f64; 2] = [6.123_233_995_736_766e-17, -1.497_384_904_859_169_8e-33];

/// ln 2: the first part has 42 bits, so that its product with an exponent is exact.
const LN_2_PARTS: [f64; 2] = [0.693_147_180_559_890_3, 5.497_923_018_708_371e-14];

/// The unevaluated sum of a number and a much smaller one.
#[derive(Clone, Copy)]
struct Pair(f64, f64);

impl Pair {
    /// a + b exactly, for |a| ≥ |b| or a = 0.
    #[inline(always)]
    fn sum(a: f64, b: f64) -> Self {
        let sum = a + b;
        Self(sum, b - (sum - a))
    }

    /// a·b exactly.
    #[inline(always)]
    fn product(a: f64, b: f64) -> Self {
        let product = a * b;
        Self(product, a.mul_add(b, -product))
    }

    #[inline(always)]
    fn times(self, other: Self) -> Self {
        let product = self.0 * other.0;
        let low = self.0.mul_add(other.0, -product);
        Self(product, self.0.mul_add(other.1, self.1.mul_add(other.0, low)))
    }

    /// The sum with a pair that isn't larger.
    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        let Self(sum, low) = Self::sum(self.0, other.0);
        Self::sum(sum, low + (self.1 + other.1))
    }
}

/// Clamps x to two bounds; keeps NaN.
#[inline(always)]
fn within(x: f64, low: f64, high: f64) -> f64 {
    let x = if x < low { low } else { x };
    if x > high { high } else { x }
}

/// 2ᵏ for an integer k from −1022 to 1023.
#[inline(always)]
fn power_of_two(k: f64) -> f64 {
    f64::from_bits((k + (INTEGER + 1023.0)).to_bits() << 52)
}

/// m·2ᵏ for |k| < 2040, rounded once. In two steps, as f64 can represent neither 2⁻¹⁰⁷⁴ as a factor of normal numbers nor 2¹⁰²⁴.
#[inline(always)]
fn scale(m: f64, k: f64) -> f64 {
    let half = (0.5 * k).round_ties_even();
    m * power_of_two(half) * power_of_two(k - half)
}

/// (eʳ − 1 − r)/r² for |r| ≤ 0.347, within 2⁻⁵⁸.
#[inline(always)]
fn exp_tail(r: f64) -> f64 {
    let series = [
        0.5,
        0.166_666_666_666_666_7,
        0.041_666_666_666_666_67,
        0.008_333_333_333_326_07,
        0.001_388_888_888_888_370_3,
        0.000_198_412_698_750_489_05,
        2.480_158_732_571_076e-5,
        2.755_725_511_097_889e-6,
        2.755_727_343_657_049e-7,
        2.510_533_724_466_521e-8,
        2.091_477_283_224_809e-9,
    ];
    polynomial(r, series)
}

/// An integer k and p with e^(x + low) = 2ᵏ·(1 + p), |p| < 0.42.
#[inline(always)]
fn exp_parts(x: f64, low: f64) -> (f64, f64) {
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
fn exp2_of(x: f64, low: f64) -> f64 {
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

/// The exponent e of a positive finite number and its significand m in [√½, √2): x = m·2ᵉ.
#[inline(always)]
fn split(x: f64) -> (f64, f64) {
    let subnormal = x < f64::MIN_POSITIVE;
    let normal = if subnormal { x * 18_014_398_509_481_984.0 } else { x };
    let shifted = normal.to_bits().wrapping_add(ONE - ROOT_HALF);
    // The exponent as an integer: build 2⁵² + exponent, then subtract 2⁵² and the bias.
    let bias = if subnormal { 4_503_599_627_370_496.0 + 1077.0 } else { 4_503_599_627_370_496.0 + 1023.0 };
    let exponent = f64::from_bits(shifted >> 52 | 0x4330_0000_0000_0000) - bias;
    (exponent, f64::from_bits((shifted & FRACTION) + ROOT_HALF))
}

/// (ln m − 2s − ⅔s³)/s⁵ for z = s², s = (m − 1)/(m + 1), m in [√½, √2], within 2⁻⁵⁵.
#[inline(always)]
fn log_tail(z: f64) -> f64 {
    let series = [
        0.4,
        0.285_714_285_714_293_64,
        0.222_222_222_216_559_07,
        0.181_818_183_353_876,
        0.153_845_949_630_741_36,
        0.133_348_046_636_243_36,
        0.117_062_371_488_163_72,
        0.117_231_701_607_990_75,
    ];
    polynomial(z, series)
}

/// `value` for a positive finite u, else the logarithm's value at 0, infinity, negative numbers and NaN.
#[inline(always)]
fn log_edges(u: f64, value: f64) -> f64 {
    let value = if u == f64::INFINITY { u } else { value };
    let at_most_zero = if u == 0.0 { f64::NEG_INFINITY } else { f64::NAN };
    if u > 0.0 { value } else { at_most_zero }
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

/// sin x, or cos x with `quarter` = 1, for |x| ≤ [`CIRCULAR_RANGE`], within 1 unit.
#[inline(always)]
fn circular(x: f64, quarter: u64) -> f64 {
    let n = (x * FRAC_2_PI).round_ties_even();
    // The first difference is exact; the second is computed with what it loses, as its operands may cancel.
    let first = (-n).mul_add(FRAC_PI_2, x);
    let Pair(step, step_low) = Pair::product(-n, FRAC_PI_2_LOW[0]);
    let second = first + step;
    let taken = second - first;
    let lost = (first - (second - taken)) + (step - taken);
    let low = (-n).mul_add(FRAC_PI_2_LOW[1], lost + step_low);
    let (r, low) = if n == 0.0 { (x, 0.0) } else { (second, low) };
    let quadrant = (n + INTEGER).to_bits().wrapping_add(quarter);
    let w = r * r;
    // (sin r − r)/r³ and (cos r − 1 + r²/2)/r⁴, within 2⁻⁵⁶ and 2⁻⁵⁸ up to π/4.
    let sine = [
        -0.166_666_666_666_666_66,
        0.008_333_333_333_333_331,
        -0.000_198_412_698_412_650_63,
        2.755_731_921_933_767_2e-6,
        -2.505_210_623_192_785_7e-8,
        1.605_853_155_361_183_3e-10,
        -7.586_692_262_094_344e-13,
    ];
    let cosine = [
        0.041_666_666_666_666_664,
        -0.001_388_888_888_888_888_7,
        2.480_158_730_158_464_5e-5,
        -2.755_731_922_140_199_3e-7,
        2.087_675_579_079_147e-9,
        -1.147_046_084_181_152_6e-11,
        4.745_869_202_410_873_4e-14,
    ];
    let half = 0.5 * w;
    let sine = r + (w * r).mul_add(polynomial(w, sine), (-half).mul_add(low, low));
    let sine = if n == 0.0 { sine.copysign(x) } else { sine };
    let near = 1.0 - half;
    let cosine = near + (((1.0 - near) - half) + (w * w).mul_add(polynomial(w, cosine), -r * low));
    let value = if quadrant & 1 == 1 { cosine } else { sine };
    if quadrant & 2 == 2 { -value } else { value }
}

/// sin x up to [`CIRCULAR_RANGE`], within 1 unit.
#[inline(always)]
pub fn sin(x: f64) -> f64 {
    circular(x, 0)
}

/// cos x up to [`CIRCULAR_RANGE`], within 1 unit.
#[inline(always)]
pub fn cos(x: f64) -> f64 {
    circular(x, 1)
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

/// arctan x, within 3 units.
#[inline(always)]
pub fn atan(x: f64) -> f64 {
    atan2(x, 1.0)
}

/// The angle of the point (x, y), in radians, within 3 units.
#[inline(always)]
pub fn atan2(y: f64, x: f64) -> f64 {
    let (ay, ax) = (y.abs(), x.abs());
    let steep = ay > ax;
    let least = if steep { ax } else { ay };
    let most = if steep { ay } else { ax };
    // tan of the angle, or of the angle minus π/4: |t| ≤ tan π/8 in both cases.
    let far = least > 0.414_213_562_373_095_05 * most;
    // The sum of two huge numbers would overflow.
    let factor = if most > 1e300 { 0.0625 } else { 1.0 };
    let (scaled_least, scaled_most) = (least * factor, most * factor);
    let numerator = if far { scaled_least - scaled_most } else { scaled_least };
    let denominator = if far { scaled_least + scaled_most } else { scaled_most };
    // 0/0 and ∞/∞: the angle is 0 or π/4.
    let degenerate = least == most;
    let t = if degenerate { 0.0 } else { numerator / denominator };
    let part = if degenerate { most > 0.0 } else { far };
    let base = if part { FRAC_PI_4 } else { 0.0 };
    // What the rounding of multiples of π/4 lost is added to the small part.
    let base_low = if part { 0.5 * FRAC_PI_2_LOW[0] } else { 0.0 };
    let low = (t * t * t).mul_add(atan_tail(t * t), base_low);
    // angle = base + t + low, or π/2 − that, or π − that.
    let (base, t, low) = if steep { (FRAC_PI_2 - base, -t, FRAC_PI_2_LOW[0] - low) } else { (base, t, low) };
    let back = x.is_sign_negative();
    let (base, t, low) = if back { (PI - base, -t, 2.0 * FRAC_PI_2_LOW[0] - low) } else { (base, t, low) };
    let angle = base + (t + low);
    let angle = if x.is_nan() || y.is_nan() { f64::NAN } else { angle };
    angle.copysign(y)
}

/// (arctan t − t)/t³ for w = t², |t| ≤ tan π/8, within 2⁻⁵⁵.
#[inline(always)]
fn atan_tail(w: f64) -> f64 {
    let series = [
        -0.333_333_333_333_333_3,
        0.199_999_999_999_999_93,
        -0.142_857_142_857_115_18,
        0.111_111_111_107_545_96,
        -0.090_909_090_670_019_65,
        0.076_923_067_357_183_86,
        -0.066_666_420_138_028_23,
        0.058_819_251_621_305_094,
        -0.052_580_406_718_134_826,
        0.047_193_893_943_800_5,
        -0.041_044_134_902_075_015,
        0.030_635_176_368_556_08,
        -0.013_917_695_219_310_572,
    ];
    polynomial(w, series)
}

/// (erf x − x)/x for w = x², |x| ≤ 1, within 2⁻⁵⁶.
#[inline(always)]
fn erf_tail(w: f64) -> f64 {
    let series = [
        0.128_379_167_095_512_6,
        -0.376_126_389_031_837_54,
        0.112_837_916_709_551_26,
        -0.026_866_170_645_131_218,
        0.005_223_977_625_441_674,
        -0.000_854_832_702_340_300_1,
        0.000_120_553_329_788_794_83,
        -1.492_565_023_696_750_1e-5,
        1.646_211_078_201_863_6e-6,
        -1.636_576_864_883_207e-7,
        1.480_602_714_612_875_2e-8,
        -1.227_773_448_679_552_4e-9,
        9.323_723_518_153_027e-11,
        -6.196_736_428_787_7e-12,
        2.806_712_819_561_126_4e-13,
    ];
    polynomial(w, series)
}

/// e^(a²)·erfc a for 0 ≤ a ≤ 28: p((a − 4)/(a + 4))/(1 + 2a), p within 2⁻⁵⁴.
#[inline(always)]
fn scaled_erfc(a: f64) -> f64 {
    let series = [
        1.232_995_118_625_552_6,
        -0.139_621_116_840_562_5,
        0.015_379_652_102_620_047,
        0.068_097_054_254_691_6,
        -0.101_039_066_036_325_62,
        0.093_732_834_998_393_74,
        -0.066_330_365_811_629_38,
        0.037_167_515_536_697_92,
        -0.016_197_734_066_254_327,
        0.005_031_969_985_118_134,
        -0.000_757_773_216_869_514_5,
        -0.000_199_256_728_942_511_58,
        0.000_150_621_293_305_667_87,
        -2.439_913_924_418_651e-5,
        -1.122_070_766_895_703_5e-5,
        5.709_767_690_086_341e-6,
        2.908_230_386_771_215_4e-7,
        -8.260_570_534_176_564e-7,
        7.898_218_703_986_078e-8,
        1.116_953_344_060_114_8e-7,
        -2.179_033_237_604_130_8e-8,
        -1.620_148_443_037_394_3e-8,
        3.668_434_815_499_72e-9,
        2.625_025_584_239_667_2e-9,
        -2.655_559_735_529_441e-10,
        -3.493_767_796_696_455_3e-10,
        -5.421_497_096_769_612e-11,
    ];
    polynomial((a - 4.0) / (a + 4.0), series) / 2.0_f64.mul_add(a, 1.0)
}

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
