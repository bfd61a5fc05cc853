//! Quotients of f32. A division of a device's library checks every element for special cases; here the operands' facts, or one guard
//! for all elements of a thread, replace the checks.

use plimsoll_expr::op::Binary;

use super::need::Need;
use super::term::Term;
use crate::Primitive;

/// a/b.
pub(super) fn lower<'b>(a: Term<'b>, b: Term<'b>, need: Need, guarded: bool) -> Term<'b> {
    match (need, b.float()) {
        (Need::Full, Some(divisor)) => by_constant(a, divisor, guarded),
        (Need::Full, None) => None,
        (_, Some(divisor)) => inverse_of(divisor).map(|inverse| a * f64::from(inverse)),
        (Need::Wide, None) => Some(a.quotient(b)),
        (Need::Bf16 | Need::F16, None) => by_inverse(a, b, guarded),
    }
    .unwrap_or_else(|| a.binary(Binary::Div, b))
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
        demand_zero_or_least(b, smallest as f32);
    }
    if large {
        b.abs().demand_most(largest as f32);
    }
    Some(a * b.primitive(Primitive::Rcp { flush: true }))
}

/// Demands that x is 0 or has at least this magnitude: 2·bits − 1 wraps around for 0 and drops the sign.
fn demand_zero_or_least(x: Term<'_>, least: f32) {
    let bits = x.bits();
    let doubled = bits.binary(Binary::Add, bits);
    doubled.binary(Binary::Sub, bits.integer(1)).demand_least(2 * least.to_bits() - 1);
}

/// The correctly rounded x/c as fma(x, z, x·w), where z is 1/c rounded towards zero and w what it lacks (Brisebarre, Muller and Raina,
/// "Accelerating correctly rounded floating-point division when the divisor is known in advance", IEEE Transactions on Computers 53(8),
/// 2004). z is rounded towards zero so that w has its sign: then infinities, and −0, come out right.
fn by_constant(x: Term<'_>, divisor: f64, guarded: bool) -> Option<Term<'_>> {
    let c = divisor as f32;
    let inverse = Inverse::new(c).filter(Inverse::is_right)?;
    if inverse.w == 0.0 {
        // A power of two. An infinite x times w would be NaN.
        return Some(x * f64::from(inverse.z));
    }
    // x·w must not lose digits as a subnormal: |x/c| ≥ 2⁻¹⁰².
    let least = divisor.abs() * 2_f64.powi(-102);
    let normal = (least as f32).max(f32::MIN_POSITIVE);
    let normal = if f64::from(normal) < least { normal.next_up() } else { normal };
    if !x.facts().is_zero_or_least(normal.into()) {
        if !guarded {
            return None;
        }
        demand_zero_or_least(x, normal);
    }
    Some(x.fma(f64::from(inverse.z), x * f64::from(inverse.w)))
}

/// 1/c as a sum of two f32.
#[derive(Clone, Copy, Debug)]
struct Inverse {
    c: f32,
    z: f32,
    w: f32,
}

impl Inverse {
    /// `None` unless c, its inverse and what the inverse lacks are well inside the range of f32.
    fn new(c: f32) -> Option<Self> {
        if !(2_f32.powi(-60)..=2_f32.powi(60)).contains(&c.abs()) {
            return None;
        }
        let nearest = 1.0 / c;
        // Compared exactly: the product of two f32 is exact in f64.
        let above = f64::from(nearest) * f64::from(c) > 1.0;
        let z = if above { f32::from_bits(nearest.to_bits() - 1) } else { nearest };
        // 1 − z·c is exact in f64: both have few digits and are close.
        let w = ((1.0 - f64::from(z) * f64::from(c)) / f64::from(c)) as f32;
        Some(Self { c, z, w })
    }

    /// Whether fma(x, z, x·w) is correctly rounded for every x. It can only fail where x/c is nearer to the middle of two f32 than the
    /// error, 2⁻²³ of a unit in the last place. With the odd significand C of c, and X of x as an integer of 24 bits, the distance to the
    /// middle is |r|/2C units with r = X·2ᵏ − C·(odd number), an integer: so only divisors with C > 2²² can fail, and only for the
    /// few X with a small r. Those are tried. The margin is a factor of four.
    fn is_right(&self) -> bool {
        let significand = u64::from(self.c.to_bits() & 0x7f_ffff | 0x80_0000);
        let odd = significand >> significand.trailing_zeros();
        if odd == 1 {
            return true;
        }
        // X·2ᵏ ≡ r modulo C, for the two k by which X/C gets 24 bits and the half.
        (24..=26).all(|k| {
            let power = inverse_modulo(power_of_two_modulo(k, odd), odd);
            (1..=16).flat_map(|r| [r % odd, (odd - r % odd) % odd]).all(|r| {
                let first = (u128::from(r) * u128::from(power) % u128::from(odd)) as u64;
                // A small C has many X, but is far from the middle for all of them: its first few stand for them.
                let start = first + (0x80_0000_u64.saturating_sub(first)).div_ceil(odd) * odd;
                (start..0x100_0000).step_by(odd as usize).take(4).all(|x| self.divides(x as f32))
            })
        })
    }

    fn divides(&self, x: f32) -> bool {
        x.mul_add(self.z, x * self.w) == x / self.c
    }
}

fn power_of_two_modulo(k: u32, modulus: u64) -> u64 {
    (0..k).fold(1 % modulus, |power, _| power * 2 % modulus)
}

/// The inverse of `a` modulo an odd number to which it is coprime (Euclid).
fn inverse_modulo(a: u64, modulus: u64) -> u64 {
    let (mut old, mut new) = ((a as i64, 1_i64), (modulus as i64, 0_i64));
    while new.0 != 0 {
        let quotient = old.0 / new.0;
        (old, new) = (new, (old.0 - quotient * new.0, old.1 - quotient * new.1));
    }
    old.1.rem_euclid(modulus as i64) as u64
}

#[cfg(test)]
mod tests {
    use plimsoll_expr::{Names, parse};

    use super::*;
    use crate::eval;

    /// Divides every significand by `c`, in integers: an oracle that knows nothing of the two parts.
    fn is_right_for_all(inverse: &Inverse) -> bool {
        (0x80_0000_u32..0x100_0000).all(|x| {
            let x = x as f32;
            (f64::from(x) * f64::from(inverse.z) + f64::from(x * inverse.w)) as f32 == x / inverse.c
                || inverse.divides(x)
        })
    }

    #[test]
    fn quotients_by_constants_keep_infinities_and_zeros() {
        for (text, divisor) in [("x / 0.5", 0.5_f32), ("x / -4", -4.0), ("x / 7", 7.0)] {
            let graph = parse(&format!("in x: f32\ny = {text}"), &Names::default()).unwrap();
            let program = crate::lower(&graph, crate::Accuracy::Accurate, true);
            for x in [f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0, f32::MAX, 1e-40, -f32::from_bits(1)] {
                let element = eval::Element {
                    inputs: &[x.to_bits().into()],
                    scalars: &[],
                    types: (&program.inputs, &program.scalars),
                    place: 0,
                    coordinates: &[0],
                };
                let (common, held) = eval::run(&program.common, element);
                let found = if held { common } else { eval::run(program.total(), element).0 };
                assert_eq!(f32::from_bits(found[0] as u32).to_bits(), (x / divisor).to_bits(), "{x:e} in {text}");
            }
        }
    }

    #[test]
    fn inverses_that_are_accepted_are_right_for_every_significand() {
        let mut refused = 0;
        for c in [3.0, 7.0, 0.1, 0.7, 0.999, 1.0 / 3.0, 6.0, 255.0, 1e-3, 16_777_215.0, 1.999_999_9, 12_582_913.0] {
            let inverse = Inverse::new(c).unwrap();
            if inverse.is_right() {
                assert!(is_right_for_all(&inverse), "{c}");
            } else {
                refused += 1;
            }
        }
        assert!(refused < 6, "{refused} refused");
    }
}
