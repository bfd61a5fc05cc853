//! Angles, in the digits of 16-bit results.

use plimsoll_expr::op::{Binary, Comparison, Unary};

use super::super::term::Term;
use super::{Digits, HALF_PI, PI, inverse};

/// The sine or cosine, in the digits of its carrier without `digits`. Large angles need a reduction of many digits, which is the
/// library's.
pub(super) fn wave<'b>(op: Unary, x: Term<'b>, digits: Option<Digits>, guarded: bool) -> Term<'b> {
    if x.facts().largest() >= LARGE.into() {
        if !guarded {
            return x.unary(op);
        }
        x.abs().demand_most(LARGE.next_down());
    }
    match digits {
        Some(digits) => sine(op, x, digits),
        None => full_sine(op, x),
    }
}

/// Beyond this angle, three parts of π are not accurate enough.
const LARGE: f32 = 65536.0;
/// Adding this, 1.5·2²³, rounds to the nearest integer, which is then in the low bits.
const WHOLE: f64 = 12_582_912.0;
const INVERSE_PI: f64 = 0.318_309_873_342_514_04;

/// The sine or cosine of an angle below [`LARGE`]: sin r·(−1)ᵏ with r = x − k·π; for the cosine, k is half an odd integer.
fn sine<'b>(op: Unary, x: Term<'b>, digits: Digits) -> Term<'b> {
    let (sum, k) = if op == Unary::Sin {
        let sum = x.fma(INVERSE_PI, WHOLE);
        (sum, sum - WHOLE)
    } else {
        let sum = x.fma(INVERSE_PI, 0.5) + WHOLE;
        (sum, sum - WHOLE - 0.5)
    };
    // π in three parts (Cody and Waite). All are positive, so that −0 is preserved.
    let turned = -k;
    let r = turned.fma(3.141_592_502_593_994, x);
    let r = turned.fma(1.509_957_883_172_319_3e-7, r);
    let r = turned.fma(1.078_060_590_694_847_7e-14, r);
    let s = r * r;
    let p = s.polynomial(digits.pick(
        &[0.999_891_818, -0.165_960_118, 0.007_602_903_53],
        &[0.999_999_046, -0.166_655_54, 0.008_311_899_38, -0.000_184_881_399],
        &[1.0, -0.166_666_567, 0.008_333_025_5, -0.000_198_074_194, 2.601_903_13e-6],
    ));
    let bits = sum.bits();
    let sign = bits.binary(Binary::Shl, bits.integer(31));
    (r * p).bits().binary(Binary::Xor, sign).bits()
}

/// The same to 1.5 units in the last place: from x − n·π/2 with the sine or the cosine. The rounded n is in the low bits of the sum.
fn full_sine<'b>(op: Unary, x: Term<'b>) -> Term<'b> {
    let sum = x.fma(0.636_619_746_685_028_1, WHOLE);
    let turned = -(sum - WHOLE);
    let r = turned.fma(1.570_796_251_296_997, x);
    let r = turned.fma(7.549_789_415_861_596e-8, r);
    let r = turned.fma(5.390_302_953_474_238e-15, r);
    let quarter = sum.bits();
    let n = if op == Unary::Sin { quarter } else { quarter + quarter.integer(1) };
    // Computed from |r|; the sign is applied last, because a sum with −0 would lose it.
    let (s, t) = (r * r, r.abs());
    let even = (t * s).fma(s.polynomial(&[-0.166_666_552, 0.008_332_158_44, -0.000_195_149_58]), t);
    let odd = s.polynomial(&[1.0, -0.5, 0.041_666_619_5, -0.001_388_667_73, 2.438_314_55e-5]);
    let is_odd = n.binary(Binary::And, n.integer(1)).compare(Comparison::NotEqual, n.integer(0));
    let own = r.bits().binary(Binary::And, n.integer(0x8000_0000));
    let turn = n.binary(Binary::And, n.integer(2)).binary(Binary::Shl, n.integer(30));
    let sign = is_odd.choose(n.integer(0), own).binary(Binary::Xor, turn);
    is_odd.choose(odd, even).bits().binary(Binary::Xor, sign).bits()
}

/// arctan q for 0 ≤ q ≤ 1, over q.
fn arctangent(q: Term<'_>, digits: Digits) -> Term<'_> {
    (q * q).polynomial(digits.pick(
        &[0.999_970_019, -0.331_700_832, 0.185_215_667, -0.091_926_567_3, 0.023_863_401_3],
        &[0.999_995_649, -0.332_994_61, 0.195_635_915, -0.121_239_066, 0.057_477_302_8, -0.013_480_465_9],
        &[
            0.999_999_344,
            -0.333_265_156,
            0.198_814_824,
            -0.134_871_915,
            0.083_871_185_8,
            -0.037_012_994_3,
            0.007_863_374_43,
        ],
    ))
}

pub(super) fn atan<'b>(x: Term<'b>, digits: Digits) -> Term<'b> {
    let t = x.abs();
    let steep = t.greater(1.0);
    let q = steep.choose(inverse(t), t);
    let a = q * arctangent(q, digits);
    let angle = steep.choose(a.number(HALF_PI) - a, a);
    angle.copysign(x)
}

pub(super) fn atan2<'b>(a: Term<'b>, b: Term<'b>, digits: Digits) -> Term<'b> {
    let (rise, run) = (a.abs(), b.abs());
    let (low, high) = (rise.min(run), rise.max(run));
    let quotient = low.quotient(high);
    // 0/0 is 0 here, and ∞/∞ is 1.
    let same = low.equals(0.0).choose(low.number(0.0), 1.0);
    let q = low.equals(high).choose(same, quotient);
    let angle = q * arctangent(q, digits);
    let angle = rise.greater(run).choose(angle.number(HALF_PI) - angle, angle);
    let bits = b.bits();
    let behind = bits.compare(Comparison::GreaterEqual, bits.integer(0x8000_0000));
    let angle = behind.choose(angle.number(PI) - angle, angle);
    high.equals(high).choose(angle.copysign(a), high)
}

/// The angle of a point that isn't near 0 or infinity: 2⁻⁶³ ≤ max(|a|, |b|) ≤ 2⁶⁵. Full precision is within 1.3 units in the last place.
pub(super) fn common_atan2<'b>(a: Term<'b>, b: Term<'b>, digits: Option<Digits>) -> Term<'b> {
    let (rise, run) = (a.abs(), b.abs());
    let (low, high) = (rise.fmin(run), rise.max(run));
    high.demand_most(2_f32.powi(65));
    high.bits().demand_least(2_f32.powi(-63).to_bits());
    let r = inverse(high);
    let rough = low * r;
    let angle = match digits {
        Some(digits @ (Digits::Bf16 | Digits::F16)) => rough * arctangent(rough, digits),
        _ => {
            let q = (-high).fma(rough, low).fma(r, rough);
            let s = q * q;
            (s * s.polynomial(&ARCTANGENT)).fma(q, q)
        }
    };
    let angle = rise.greater(run).choose(angle.number(HALF_PI) - angle, angle);
    let behind = b.bits().compare(Comparison::GreaterEqual, b.bits().integer(0x8000_0000));
    behind.choose(angle.number(PI) - angle, angle).copysign(a)
}

/// (arctan q − q)/q³ in q², for 0 ≤ q ≤ 1.
const ARCTANGENT: [f64; 8] = [
    -0.333_331_525_325_775_15,
    0.199_937_731_027_603_15,
    -0.142_110_556_364_059_45,
    0.106_660_045_683_383_94,
    -0.075_522_147_119_045_26,
    0.043_211_866_170_167_92,
    -0.016_367_930_918_931_96,
    0.002_920_693_252_235_651,
];
