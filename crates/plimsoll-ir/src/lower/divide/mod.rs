//! Quotients. A division of a device's library checks every element for special cases; here the operands' facts, or one guard for all
//! elements of a thread, replace the checks.

mod constant;

use plimsoll_expr::DType;
use plimsoll_expr::op::Binary;

use super::need::Need;
use super::term::Term;
use crate::Primitive;

/// a/b of f32.
pub(super) fn single<'b>(a: Term<'b>, b: Term<'b>, need: Need, guarded: bool) -> Term<'b> {
    match (need, b.float()) {
        (Need::Full, Some(divisor)) => constant::divide::<f32>(a, divisor, guarded),
        (Need::Full, None) => None,
        (_, Some(divisor)) => inverse_of(divisor).map(|inverse| a * f64::from(inverse)),
        (Need::Wide, None) => Some(a.quotient(b)),
        (Need::Bf16 | Need::F16, None) => by_inverse(a, b, guarded),
    }
    .unwrap_or_else(|| a.binary(Binary::Div, b))
}

/// a/b of f64.
pub(super) fn double<'b>(a: Term<'b>, b: Term<'b>, guarded: bool) -> Term<'b> {
    let by_constant = b.float().and_then(|divisor| constant::divide::<f64>(a, divisor, guarded));
    by_constant.unwrap_or_else(|| a.binary(Binary::Div, b))
}

/// 1/divisor to the nearest f32, if both are normal.
fn inverse_of(divisor: f64) -> Option<f32> {
    let inverse = (1.0 / divisor) as f32;
    (inverse.is_normal() && (divisor as f32).is_normal()).then_some(inverse)
}

/// a·(1/b) for results of 16 bits, with an error of 2 units in the last place of f32. The device's inverse flushes subnormals: b must not
/// be subnormal, nor so large that its inverse is. Zeros and infinities of b give the right result.
fn by_inverse<'b>(a: Term<'b>, b: Term<'b>, guarded: bool) -> Option<Term<'b>> {
    let (smallest, largest) = (2_f64.powi(-126), 2_f64.powi(126));
    let facts = b.facts();
    let (small, large) = (!facts.is_zero_or_least(smallest), facts.largest() > largest);
    if (small || large) && !guarded {
        return None;
    }
    if small {
        demand_zero_or_least(b, smallest);
    }
    if large {
        b.abs().demand_most(largest as f32);
    }
    Some(a * b.primitive(Primitive::Rcp { flush: true }))
}

/// Demands that x is 0 or has at least this magnitude: 2·bits − 1 wraps around for 0 and drops the sign. Of f64, the upper half decides: numbers
/// that are smaller by less than 2⁻²⁰ may pass.
fn demand_zero_or_least(x: Term<'_>, least: f64) {
    let bits = x.bits();
    let below = bits + bits - bits.integer(1);
    if x.dtype() == DType::F64 {
        below.bits().high().demand_least(2 * (least.to_bits() >> 32) as u32 - 1);
    } else {
        below.demand_least(2 * (least as f32).to_bits() - 1);
    }
}
