//! Functions of f64 that take fewer instructions than a device's library: eˣ is evaluated by additions, products and one integer
//! operation that scales, and inverses start from the device's rough one. No error of more than 4.3 units in the last place was found;
//! `docs/mathematics.md` says what is promised. `scripts/f64_coefficients.py` makes the coefficients.
//!
//! Most are right only for operands that a guard demands, such as |x| ≤ 708, where eˣ is a normal number. The forms of [`total`] are right for
//! all operands. NaN doesn't survive a scaling; there, a later product with the operand brings it back.

use plimsoll_expr::DType;
use plimsoll_expr::op::{Comparison, Unary};

use super::super::term::Term;
use crate::{Facts, Op, Primitive, facts};

/// A function in a guarded block.
pub(super) fn guarded<'b>(op: Unary, x: Term<'b>) -> Option<Term<'b>> {
    let within = |most: f64| {
        demand_magnitude(x, most);
        x
    };
    Some(match op {
        Unary::Exp => exp(within(MOST_EXP)),
        Unary::Exp2 => exp2(within(MOST_EXP2)),
        Unary::Log => log(x),
        Unary::Sinh => {
            let e = expm1(within(MOST_PRODUCT).abs());
            ((e + quotient(e, e + 1.0)) * 0.5).copysign(x)
        }
        Unary::Sigmoid => logistic(within(MOST_PRODUCT), None),
        Unary::Silu => x * logistic(within(MOST_PRODUCT), None),
        Unary::Softplus => softplus(within(MOST_PRODUCT)),
        Unary::Mish => {
            // tanh(ln(1 + E)) = E(E + 2)/(E(E + 2) + 2), with E = eˣ.
            let e = exp(within(MOST_PRODUCT / 2.0));
            let n = e.fma(e, e + e);
            x * quotient(n, n + 2.0)
        }
        _ => return None,
    })
}

/// A function whose form is right for every operand.
pub(super) fn total<'b>(op: Unary, x: Term<'b>) -> Option<Term<'b>> {
    Some(match op {
        Unary::Erfc => erfc(x),
        Unary::Gelu => gelu(x),
        _ => return None,
    })
}

/// Up to here, e^±x is a normal number, and so is 2^±x.
const MOST_EXP: f64 = 708.0;
const MOST_EXP2: f64 = 1021.0;
/// Up to here, so is its inverse, and its product with a few.
const MOST_PRODUCT: f64 = 700.0;

/// Demands that |x| ≤ `most`, to the precision of the upper half of its bits.
fn demand_magnitude(x: Term<'_>, most: f64) {
    if !x.facts().is_within(-most, most) {
        // Doubling drops the sign.
        let doubled = |high: u32| u32::MAX - 2 * (high & 0x7fff_ffff);
        let high = x.high();
        (high.integer(u32::MAX.into()) - (high + high)).demand_least(doubled((most.to_bits() >> 32) as u32));
    }
}

/// 3·2⁵¹: adding it rounds to an integer, which then is in the low bits.
const ROUNDING: f64 = 6_755_399_441_055_744.0;

/// x as n·ln 2 + r; n + `raised` as [`Term::scale`] takes it, and r.
fn reduced(x: Term<'_>, raised: f64) -> (Term<'_>, Term<'_>) {
    let shifted = x.fma(std::f64::consts::LOG2_E, ROUNDING + raised);
    let n = shifted - (ROUNDING + raised);
    let r = n.fma(-LN_2, x);
    (shifted, n.fma(-LN_2_REST, r))
}

/// (eʳ − 1 − r)/r² for |r| ≤ 0.347, to 2⁻⁵⁴ of eʳ.
const EXP: [f64; 10] = [
    0.5,
    0.166_666_666_666_666_6,
    0.041_666_666_666_642_614,
    0.008_333_333_333_334_187,
    0.001_388_888_890_885_835_8,
    0.000_198_412_698_567_368_12,
    2.480_153_424_812_34e-5,
    2.755_727_109_615_691e-6,
    2.761_394_171_102_438e-7,
    2.510_049_057_491_414_7e-8,
];

/// eˣ for |x| ≤ 708.
fn exp(x: Term<'_>) -> Term<'_> {
    let (n, r) = reduced(x, 0.0);
    let e = power(n, r);
    let known = facts::derive(Op::Unary(Unary::Exp), DType::F64, &[x.facts()]);
    e.know(Facts { low: known.low.max(0.0), nan: false, least: f64::MIN_POSITIVE, ..known });
    e
}

/// eʳ·2ⁿ where that is a normal number, n as [`Term::scale`] takes it.
fn power<'b>(n: Term<'b>, r: Term<'b>) -> Term<'b> {
    r.polynomial(&EXP).fma(r, 1.0).fma(r, 1.0).scale(n)
}

/// eˣ − 1 for |x| ≤ 708, but a zero loses its sign.
fn expm1(x: Term<'_>) -> Term<'_> {
    let (n, r) = reduced(x, 0.0);
    let part = (r * r).fma(r.polynomial(&EXP), r);
    let power = x.number(1.0).scale(n);
    power.fma(part, power - 1.0)
}

/// 2ˣ for |x| ≤ 1021.
fn exp2(x: Term<'_>) -> Term<'_> {
    let n = x + ROUNDING;
    let r = x - (n - ROUNDING);
    // (2ʳ − 1)/r, to 2⁻⁵⁴ of 2ʳ.
    let p = r.polynomial(&[
        LN_2,
        0.240_226_506_959_100_8,
        0.055_504_108_664_821_514,
        0.009_618_129_107_615_137,
        0.001_333_355_814_643_215,
        0.000_154_035_304_285_362,
        1.525_273_382_043_582_2e-5,
        1.321_545_063_403_696_2e-6,
        1.017_806_425_807_066_3e-7,
        7.070_976_693_057_673e-9,
        4.454_960_844_668_676e-10,
    ]);
    p.fma(r, 1.0).scale(n)
}

/// ln x of positive normal, finite numbers, which a guard demands: k·ln 2 + ln m with √½ ≤ m < √2, where ln m is summed up as
/// fdlibm's `e_log.c` does: with s = f/(2 + f), f = m − 1, it is f − f²/2 + s·(f²/2 + R(s²)).
fn log(x: Term<'_>) -> Term<'_> {
    let high = x.high();
    (high.integer(0x000f_ffff) - high).demand_least(0x8020_0000);
    // k + 1024, as the low bits of 2⁵² + k + 1024.
    let exponent = (high + high.integer(0x0019_5f62)).binary(plimsoll_expr::op::Binary::Shr, high.integer(20));
    let wide = exponent.convert(DType::U64);
    let k = wide.binary(plimsoll_expr::op::Binary::Or, wide.integer(0x4330_0000_0000_0000)).bits()
        - (4_503_599_627_370_496.0 + 1024.0);
    let m = x.scale(-k + ROUNDING);
    let f = m - 1.0;
    let s = f * inverse(m + 1.0);
    let z = s * s;
    let rest = z * z.polynomial(&[
        0.666_666_666_666_667_3,
        0.399_999_999_998_476_7,
        0.285_714_286_400_942_2,
        0.222_222_097_887_336_7,
        0.181_829_415_638_297_08,
        0.153_310_027_570_828_32,
        0.146_165_728_569_030_76,
    ]);
    let half = f * 0.5 * f;
    let low = s.fma(half + rest, k * LN_2_LOW);
    k.fma(LN_2_HIGH, f - (half - low))
}

/// 1/x to about 0.6 units in the last place, for normal x with a normal inverse: one cubic iteration from 2⁻¹⁸.
fn inverse(x: Term<'_>) -> Term<'_> {
    let r = x.primitive(Primitive::Rcp64);
    let e = (-x).fma(r, 1.0);
    r.fma(e.fma(e, e), r)
}

/// a/b to about half a unit in the last place, for finite a and normal b with a normal inverse: the product with an inverse that has
/// two thirds of the digits, and its remainder times that inverse.
fn quotient<'b>(a: Term<'b>, b: Term<'b>) -> Term<'b> {
    let r = b.primitive(Primitive::Rcp64);
    let r = (-b).fma(r, 1.0).fma(r, r);
    let q = a * r;
    (-b).fma(q, a).fma(r, q)
}

/// 1/(1 + e^−(y + rest)) for |y| ≤ 700 and a small rest.
pub(super) fn logistic<'b>(y: Term<'b>, rest: Option<Term<'b>>) -> Term<'b> {
    let e = exp(-y);
    inverse(rest.map_or(e, |rest| (-rest).fma(e, e)) + 1.0)
}

/// The same with a guard.
pub(super) fn guarded_logistic<'b>(y: Term<'b>, rest: Term<'b>) -> Term<'b> {
    demand_magnitude(y, MOST_PRODUCT);
    logistic(y, Some(rest))
}

/// max(x, 0) + ln(1 + e), e = e^−|x|: ln(1 + e) = 2·artanh s, s = e/(e + 2).
fn softplus(x: Term<'_>) -> Term<'_> {
    let e = exp(-x.abs());
    let s = quotient(e, e + 2.0);
    let z = s * s;
    let p = z.polynomial(&[
        0.666_666_666_666_666_6,
        0.399_999_999_999_995_25,
        0.285_714_285_716_001,
        0.222_222_221_982_367_7,
        0.181_818_198_979_627_14,
        0.153_845_439_648_605_5,
        0.133_351_786_314_492_57,
        0.117_342_790_613_031_97,
        0.108_451_783_948_800_15,
        0.074_921_437_955_507_67,
        0.156_305_778_009_228_5,
    ]);
    let logarithm = (s * z).fma(p, s + s);
    x.greater(0.0).choose(x, 0.0) + logarithm
}

/// At most `most`; NaN stays.
pub(super) fn limited(x: Term<'_>, most: f64) -> Term<'_> {
    x.greater(most).choose(x.number(most), x)
}

/// Φ(−t)·e^(t²/2)/`scale` for 0 ≤ t ≤ 39, to 2⁻⁵⁴, where `scale` is a power of 2: P/(t·√(2π)·P + R), of polynomials without a negative
/// coefficient. For large t, errors of P cancel and R is small.
fn scaled_tail(t: Term<'_>, scale: f64) -> Term<'_> {
    let p = t.polynomial(&[
        0.5,
        0.774_881_619_164_484_7,
        0.594_057_749_169_746_5,
        0.289_341_057_028_877_75,
        0.097_703_229_596_220_55,
        0.023_623_641_195_726_255,
        0.004_089_578_429_472_606,
        0.000_490_456_675_457_955_5,
        3.725_782_921_494_927e-5,
        1.385_870_161_236_954_3e-6,
    ]);
    let scaled = |coefficient: f64| coefficient * scale;
    let rest = t.polynomial(
        &[
            1.000_000_000_869_870_2,
            1.094_333_663_160_699,
            0.618_927_256_408_121_2,
            0.225_333_524_078_923_68,
            0.056_791_884_636_807_906,
            0.010_064_258_192_601_743,
            0.001_222_445_279_781_935_9,
            9.339_151_780_037_459e-5,
            3.473_861_591_521_16e-6,
        ]
        .map(scaled),
    );
    let slope = t.fma(scaled(2.506_628_274_638_437), scaled(-1.739_740_368_387_562_8e-9));
    quotient(p, slope.fma(p, rest))
}

/// Gaussians are raised by 2⁵¹² and their factors lowered by as much, so that products are rounded once where they are subnormal.
const RAISED: f64 = 512.0;
const POWER_RAISED: f64 = 1.340_780_792_994_259_7e154;

/// 2⁵¹²·e^(−factor·t²) for t up to 39 and a factor of ½ or 1. What the square loses is made up for.
fn gaussian(t: Term<'_>, factor: f64) -> Term<'_> {
    let square = t * t;
    let (n, r) = reduced(square * -factor, RAISED);
    let r = t.fma(t, -square).fma(-factor, r);
    power(n, r)
}

/// erfc z = 2·Φ(−√2·z), and 2 − erfc(−z) for negative z.
fn erfc(x: Term<'_>) -> Term<'_> {
    let z = limited(x.abs(), 27.5);
    let (tail, e) = (scaled_tail(z * std::f64::consts::SQRT_2, POWER_RAISED / 2.0), gaussian(z, 1.0));
    x.less(0.0).choose((-tail).fma(e, 2.0), tail * e)
}

/// x·Φ(−t) for negative x, x − x·Φ(−t) for positive ones, t = |x|.
fn gelu(x: Term<'_>) -> Term<'_> {
    // The upper halves of the bits are compared as integers, not by the pipe of f64. NaN comes back with x below.
    let (t, bits) = (x.abs(), x.abs().high());
    let t = bits.compare(Comparison::Greater, bits.integer(REACH >> 32)).choose(x.number(f64::from_bits(REACH)), t);
    let is_negative = x.high().compare(Comparison::Greater, bits.integer(i32::MAX as u64));
    // −∞ gives NaN, as its product with 0 does.
    (-scaled_tail(t, POWER_RAISED)).fma(t * gaussian(t, 0.5), is_negative.choose(x * 0.0, x))
}

/// The bits of 39, beyond which a tail is 0.
const REACH: u64 = 0x4043_8000_0000_0000;

/// ln 2 and what f64 loses of it.
const LN_2: f64 = std::f64::consts::LN_2;
const LN_2_REST: f64 = 2.319_046_813_846_299_6e-17;
/// ln 2 in 33 bits, so that its products with exponents are exact, and the rest.
const LN_2_HIGH: f64 = 0.693_147_180_369_123_8;
const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;
