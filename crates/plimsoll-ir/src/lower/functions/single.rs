//! Functions of f32 in full precision that take fewer instructions than a device's library. `docs/mathematics.md` says what is promised;
//! `scripts/f32_coefficients.py` makes the coefficients.

use plimsoll_expr::DType;
use plimsoll_expr::op::{Binary, Unary};

use super::super::term::Term;
use super::{LN_2, LOG10_2, LOG10_E};
use crate::Facts;

/// A function in full precision, if it is shorter here; with a guard where it needs one and `guarded` allows it.
pub(super) fn full<'b>(op: Unary, x: Term<'b>, guarded: bool) -> Option<Term<'b>> {
    match op {
        Unary::Log | Unary::Log2 | Unary::Log10 => is_normal(x, guarded).then(|| log(op, x)),
        _ => None,
    }
}

/// Whether x is known to be a positive normal, finite number, or a guard now demands it.
fn is_normal(x: Term<'_>, guarded: bool) -> bool {
    let (facts, smallest) = (x.facts(), f64::from(f32::MIN_POSITIVE));
    let is_large = facts.low >= smallest;
    if is_large && !facts.nan && facts.high < f64::INFINITY {
        return true;
    }
    if guarded && is_large {
        x.demand_most(f32::MAX);
    } else if guarded {
        let bits = x.bits();
        (bits.integer(0x007f_ffff) - bits).demand_least(0x8100_0000);
        x.know(Facts { low: smallest.max(facts.low), nan: false, least: smallest, ..facts });
    }
    guarded
}

/// The logarithm of x = 2ᵏ·m as k·ln 2 + ln m with √½ ≤ m < √2, where ln m is f + f²·P(f), f = m − 1. The bits of x less those of √½, cut to
/// sign and exponent, are k·2²³; the bits of x less that are those of m.
fn log(op: Unary, x: Term<'_>) -> Term<'_> {
    let bits = x.bits();
    let exponent = (bits - bits.integer(0x3f35_04f3)).binary(Binary::And, bits.integer(0xff80_0000));
    let f = (bits - exponent).bits() - 1.0;
    let k = exponent.convert(DType::I32).convert(DType::F32);
    let unit = 2_f64.powi(-23);
    let natural = || (f * f.polynomial(&LOG)).fma(f, f);
    match op {
        Unary::Log2 => k.fma(unit, f.polynomial(&LOG2).fma(f, f)),
        Unary::Log10 => k.fma(LOG10_2 * unit, natural() * LOG10_E),
        _ => k.fma(LN_2 * unit, natural()),
    }
}

/// (ln(1 + f) − f)/f² for √½ ≤ 1 + f ≤ √2.
const LOG: [f64; 9] = [
    -0.499_999_880_790_710_45,
    0.333_333_253_860_473_63,
    -0.250_015_854_835_510_25,
    0.200_019_821_524_620_06,
    -0.166_090_562_939_643_86,
    0.141_816_735_267_639_16,
    -0.132_430_359_721_183_78,
    0.129_053_309_559_822_08,
    -0.076_227_292_418_479_92,
];
/// (log₂(1 + f) − f)/f, over the same.
const LOG2: [f64; 10] = [
    0.442_695_051_431_655_9,
    -0.721_347_332_000_732_4,
    0.480_898_231_267_929_1,
    -0.360_696_643_590_927_1,
    0.288_567_423_820_495_6,
    -0.239_617_288_112_640_38,
    0.204_600_304_365_158_08,
    -0.191_063_478_589_057_92,
    0.186_177_462_339_401_25,
    -0.109_950_892_627_239_23,
];
