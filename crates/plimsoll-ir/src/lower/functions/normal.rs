//! Functions of the normal distribution, in the digits of 16-bit results.

use plimsoll_expr::op::Unary;

use super::super::term::Term;
use super::{Digits, ex2_flush, exp, inverse};

pub(super) fn short<'b>(op: Unary, x: Term<'b>, digits: Digits) -> Term<'b> {
    match op {
        Unary::Erf => erf(x, digits),
        Unary::Erfc => erfc(x, digits),
        _ => gelu(x, digits),
    }
}

/// erfc t for t ≥ 0: e^(−t²)·Q(r), r = 1/(1 + p·t); to about 2⁻¹⁴ for bf16, 2⁻¹⁷ up to 4 for f16, else 2⁻¹⁹.
fn erfc_tail(t: Term<'_>, digits: Digits) -> Term<'_> {
    let e = exp((-t) * t, digits);
    let slope = if digits == Digits::Bf16 { 0.55 } else { 0.5 };
    let r = inverse(t.fma(slope, 1.0));
    e * (r * r.polynomial(digits.pick(
        &[0.310_067_296, 0.316_483_974, 0.213_744_342, 0.334_329_277, -0.174_681_053],
        &[0.277_048_2, 0.332_436_979, 0.051_876_757_3, 0.534_179_389, -0.195_534_93],
        &[0.282_325_208, 0.277_668_178, 0.281_041_712, 0.039_127_625_5, 0.387_471_765, -0.355_483_055, 0.087_847_143_4],
    )))
}

/// For bf16 and f16, odd polynomials that round correctly for every operand of the type (f16: within 0.5001 units in the last place), and
/// that are within 0.145 units before rounding for all other operands, found by `scripts/erf_coefficients.py`.
fn erf<'b>(x: Term<'b>, digits: Digits) -> Term<'b> {
    let odd = |most: f64, coefficients: &[f64]| {
        let t = x.max(-most).min(most);
        t * (t * t).polynomial(coefficients)
    };
    match digits {
        Digits::Bf16 => odd(2.7, &BF16_ERF),
        Digits::F16 => odd(2.88, &F16_ERF),
        _ => {
            let large = (x.number(1.0) - erfc_tail(x.abs(), digits)).copysign(x);
            let p = (x * x).polynomial(&[1.128_378_99, -0.376_107_335, 0.112_456_292, -0.024_389_311_7]);
            x.abs().less(0.5).choose(x * p, large)
        }
    }
}

fn erfc<'b>(x: Term<'b>, digits: Digits) -> Term<'b> {
    let tail = erfc_tail(x.abs(), digits);
    x.less(0.0).choose(tail.number(2.0) - tail, tail)
}

/// max(x, 0) − |x|·2^h(|x|) with h(t) = log₂ Φ(−t) as a polynomial: one approximation instead of two. 2^h is computed times 2¹², so that
/// it stays normal where the product may be subnormal. ∞·0 must not arise, but −∞·0 has to be NaN as in x·Φ(x): so positive x are
/// clamped, and for negative ones h falls on beyond the range of its fit.
fn gelu<'b>(x: Term<'b>, digits: Digits) -> Term<'b> {
    let by_tail = |most: f64, coefficients: &[f64]| {
        let minus = x.fmin(-x.fmin(most));
        let h = (-minus).polynomial(coefficients);
        (minus * 2_f64.powi(-12)).fma(ex2_flush(h), x.max(-0.0))
    };
    match digits {
        Digits::Bf16 => by_tail(14.0, &BF16_GELU),
        Digits::F16 => by_tail(6.0, &F16_GELU),
        Digits::Wide => {
            let tail = erfc_tail(x.abs() * std::f64::consts::FRAC_1_SQRT_2, digits) * 0.5;
            x * x.less(0.0).choose(tail, tail.number(1.0) - tail)
        }
    }
}

const BF16_ERF: [f64; 8] = [
    1.128_379_225_730_896,
    -0.376_160_949_468_612_67,
    0.112_883_575_260_639_19,
    -0.026_559_343_561_530_113,
    0.004_773_877_561_092_377,
    -0.000_602_309_068_199_247_1,
    4.573_110_345_518_216_5e-5,
    -1.527_416_429_780_714_7e-6,
];
const F16_ERF: [f64; 10] = [
    1.128_379_225_730_896,
    -0.376_125_276_088_714_6,
    0.112_823_270_261_287_69,
    -0.026_799_852_028_489_113,
    0.005_126_098_636_537_79,
    -0.000_784_982_286_859_303_7,
    9.193_771_256_832_406e-5,
    -7.560_282_938_356_977e-6,
    3.799_000_012_350_006_7e-7,
    -8.633_059_600_526_849e-9,
];
/// Over 0 to 14, within 2⁻¹⁰ of 2^h: 0.634 units of bf16 with the final rounding.
const BF16_GELU: [f64; 8] = [
    10.999_232_292_175_293,
    -1.143_063_187_599_182_1,
    -0.472_758_084_535_598_75,
    -0.044_505_927_711_725_235,
    0.005_480_344_407_260_418,
    -0.000_421_517_819_631_844_76,
    1.800_447_535_060_811_8e-5,
    -3.239_555_610_434_763_4e-7,
];
/// Over 0 to 6, beyond which the result rounds to 0: within 2⁻¹⁷·⁶ of 2^h, in the arithmetic of f32.
const F16_GELU: [f64; 8] = [
    11.000_004_768_371_582,
    -1.151_251_077_651_977_5,
    -0.458_464_384_078_979_5,
    -0.053_960_073_739_290_24,
    0.008_507_892_489_433_289,
    -0.000_930_525_304_283_946_8,
    6.159_835_174_912_587e-5,
    -1.834_814_497_669_867_7e-6,
];
