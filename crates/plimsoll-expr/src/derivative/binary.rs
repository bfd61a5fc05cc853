//! The derivatives of operations of two operands.

use super::term::Term;
use crate::op::{Binary, Comparison, Unary};

/// The values of an operation of two operands, computed where a rule asks for them.
pub(super) struct Pair<'p, 'w> {
    /// The place of the operand by which the derivative is taken: 0 or 1.
    pub(super) place: usize,
    pub(super) operands: &'p dyn Fn(usize) -> Term<'w>,
    pub(super) result: &'p dyn Fn() -> Term<'w>,
}

impl<'w> Pair<'_, 'w> {
    fn a(&self) -> Term<'w> {
        (self.operands)(0)
    }

    fn b(&self) -> Term<'w> {
        (self.operands)(1)
    }

    /// The operand by which the derivative is taken.
    fn own(&self) -> Term<'w> {
        (self.operands)(self.place)
    }

    fn other(&self) -> Term<'w> {
        (self.operands)(1 - self.place)
    }

    fn y(&self) -> Term<'w> {
        (self.result)()
    }
}

/// `g` times the derivative of a ∘ b by one of the two; `None` if it is 0.
pub(super) fn pull_back<'w>(op: Binary, pair: &Pair<'_, 'w>, g: Term<'w>) -> Option<Term<'w>> {
    Some(match (op, pair.place) {
        // Bit operations take no floats.
        (Binary::FloorDiv | Binary::And | Binary::Or | Binary::Xor | Binary::Shl | Binary::Shr, _) => return None,
        (Binary::Add, _) | (Binary::Sub | Binary::Rem, 0) => g,
        (Binary::Sub, _) => -g,
        (Binary::Mul, _) => g * pair.other(),
        (Binary::Div, 0) => g / pair.b(),
        (Binary::Div, _) => -(g / pair.b()) * pair.y(),
        // a % b = a − b·⌊a/b⌋, and the floor is flat.
        (Binary::Rem, _) => -g * pair.a().binary(Binary::FloorDiv, pair.b()),
        (Binary::Min, _) => extremum(pair, Comparison::Greater, g),
        (Binary::Max, _) => extremum(pair, Comparison::Less, g),
        (Binary::Fmin | Binary::Fmax, _) => number_extremum(pair, g),
        (Binary::Pow, 0) => return power(pair, g),
        (Binary::Pow, _) => exponent(pair, g),
        (Binary::Atan2, place) => {
            let square = pair.a().square() + pair.b().square();
            let scaled = square.compare(Comparison::Equal, 0.0).choose(0.0, g / square);
            if place == 0 { scaled * pair.b() } else { -scaled * pair.a() }
        }
    })
}

/// Of `min` and `max`; an operand that compares as `loses` isn't the result. A number or a scalar is a bound, as of `clamp`: at the
/// bound the operand has the whole derivative. Of two equal tensors each has half.
fn extremum<'w>(pair: &Pair<'_, 'w>, loses: Comparison, g: Term<'w>) -> Term<'w> {
    let (own, other) = (pair.own(), pair.other());
    if other.is_weak() {
        let holds = if loses == Comparison::Less { Comparison::GreaterEqual } else { Comparison::LessEqual };
        return own.compare(holds, other).choose(g, 0.0);
    }
    let rest = own.compare(loses, other).choose(0.0, g);
    own.compare(Comparison::Equal, other).choose(g * 0.5, rest)
}

/// Of `fmin` and `fmax`: as [`extremum`], but NaN is never chosen.
fn number_extremum<'w>(pair: &Pair<'_, 'w>, g: Term<'w>) -> Term<'w> {
    let (own, other) = (pair.own(), pair.other());
    let rest = pair.y().compare(Comparison::Equal, own).choose(g, 0.0);
    if other.is_weak() {
        return rest;
    }
    own.compare(Comparison::Equal, other).choose(g * 0.5, rest)
}

/// g·b·aᵇ⁻¹, 0 where b is 0.
fn power<'w>(pair: &Pair<'_, 'w>, g: Term<'w>) -> Option<Term<'w>> {
    let (a, b) = (pair.a(), pair.b());
    match b.constant() {
        Some(0.0) => None,
        Some(1.0) => Some(g),
        Some(2.0) => Some(g * (b * a)),
        Some(_) => Some(g * (b * a.binary(Binary::Pow, b - 1.0))),
        None => {
            let inside = g * (b * a.binary(Binary::Pow, b - 1.0));
            Some(b.compare(Comparison::Equal, 0.0).choose(0.0, inside))
        }
    }
}

/// g·aᵇ·ln a, 0 where a is 0 and b isn't negative.
fn exponent<'w>(pair: &Pair<'_, 'w>, g: Term<'w>) -> Term<'w> {
    let (a, b) = (pair.a(), pair.b());
    let inside = g * (pair.y() * a.unary(Unary::Log));
    if a.constant().is_some_and(|a| a != 0.0) {
        return inside;
    }
    let at_zero = b.compare(Comparison::GreaterEqual, 0.0);
    let at_zero = a.compare(Comparison::Equal, 0.0).binary(Binary::And, at_zero);
    at_zero.choose(0.0, inside)
}
