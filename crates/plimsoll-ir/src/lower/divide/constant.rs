//! Quotients by constants.

use std::ops::{Div, Mul};

use super::demand_zero_or_least;
use crate::lower::term::Term;

/// f32 or f64.
pub(super) trait Real: Copy + PartialEq + Mul<Output = Self> + Div<Output = Self> {
    /// Bits of a significand.
    const PRECISION: u32;
    /// From 2 to this power on, what w contributes to a quotient loses no digits that matter as a subnormal: half of the smallest number is
    /// less than 2^(−2·[`Self::PRECISION`]) of the quotient.
    const LEAST_EXPONENT: i32;
    /// The smallest normal number.
    const SMALLEST: f64;
    /// The nearest number.
    fn new(x: f64) -> Self;
    fn value(self) -> f64;
    fn fma(self, factor: Self, summand: Self) -> Self;
    /// Its significand as an integer of [`Self::PRECISION`] bits.
    fn significand(self) -> u64;
    /// The next number towards zero.
    fn smaller(self) -> Self;
}

macro_rules! real {
    ($float:ty, $least:expr) => {
        impl Real for $float {
            const PRECISION: u32 = <$float>::MANTISSA_DIGITS;
            const LEAST_EXPONENT: i32 = $least;
            const SMALLEST: f64 = <$float>::MIN_POSITIVE as f64;
            fn new(x: f64) -> Self {
                x as Self
            }
            fn value(self) -> f64 {
                self.into()
            }
            fn fma(self, factor: Self, summand: Self) -> Self {
                self.mul_add(factor, summand)
            }
            fn significand(self) -> u64 {
                let leading = 1 << (Self::PRECISION - 1);
                u64::from(self.to_bits()) & (leading - 1) | leading
            }
            fn smaller(self) -> Self {
                Self::from_bits(self.to_bits() - 1)
            }
        }
    };
}
real!(f32, -101);
real!(f64, -960);

/// The correctly rounded x/c as fma(x, z, x·w), where z is 1/c rounded towards zero and w what it lacks (Brisebarre, Muller and Raina,
/// "Accelerating correctly rounded floating-point division when the divisor is known in advance", IEEE Transactions on Computers 53(8),
/// 2004). z is rounded towards zero so that w has its sign: then infinities, and −0, come out right.
pub(super) fn divide<F: Real>(x: Term<'_>, divisor: f64, guarded: bool) -> Option<Term<'_>> {
    let inverse = Inverse::new(F::new(divisor)).filter(Inverse::is_right)?;
    let (z, w) = (inverse.z.value(), inverse.w.value());
    if w == 0.0 {
        // A power of two. An infinite x times w would be NaN.
        return Some(x * z);
    }
    // x·w must not lose digits as a subnormal, and x must be normal.
    let least = (divisor.abs() * 2_f64.powi(F::LEAST_EXPONENT)).max(F::SMALLEST);
    if !x.facts().is_zero_or_least(least) {
        if !guarded {
            return None;
        }
        demand_zero_or_least(x, least);
    }
    Some(x.fma(z, x * w))
}

/// 1/c as a sum of two numbers.
#[derive(Clone, Copy, Debug)]
struct Inverse<F> {
    c: F,
    z: F,
    w: F,
}

impl<F: Real> Inverse<F> {
    /// `None` unless c, its inverse and what the inverse lacks are well inside the range.
    fn new(c: F) -> Option<Self> {
        if !(2_f64.powi(-60)..=2_f64.powi(60)).contains(&c.value().abs()) {
            return None;
        }
        let one = F::new(1.0);
        let nearest = one / c;
        // 1 − z·c is exact: z and 1/c differ by at most one unit in the last place.
        let lacks = |z: F| F::new(-z.value()).fma(c, one);
        let z = if lacks(nearest).value() < 0.0 { nearest.smaller() } else { nearest };
        Some(Self { c, z, w: lacks(z) / c })
    }

    /// Whether fma(x, z, x·w) is correctly rounded for every x. It can only fail where x/c is nearer to the middle of two numbers than the
    /// error, 2^(1 − p) of a unit in the last place with p digits. With the odd significand C of c, and X of x as an integer of p bits, the
    /// distance to the middle is |r|/2C units with r = X·2ᵏ − C·(odd number), an integer: so only divisors with C > 2^(p − 2) can fail,
    /// and only for the few X with a small r. Those are tried. The margin is a factor of four.
    fn is_right(&self) -> bool {
        let significand = self.c.significand();
        let odd = significand >> significand.trailing_zeros();
        if odd == 1 {
            return true;
        }
        let end = 1_u64 << F::PRECISION;
        // X·2ᵏ ≡ r modulo C, for those k by which X/C gets p bits and the half.
        (F::PRECISION..=F::PRECISION + 2).all(|k| {
            let power = inverse_modulo(power_of_two_modulo(k, odd), odd);
            (1..=16).flat_map(|r| [r % odd, (odd - r % odd) % odd]).all(|r| {
                let first = (u128::from(r) * u128::from(power) % u128::from(odd)) as u64;
                // A small C has many X, but is far from the middle for all of them: its first few stand for them.
                let start = first + (end / 2).saturating_sub(first).div_ceil(odd) * odd;
                (start..end).step_by(odd as usize).take(4).all(|x| self.divides(F::new(x as f64)))
            })
        })
    }

    fn divides(&self, x: F) -> bool {
        x.fma(self.z, x * self.w) == x / self.c
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

    /// Divides every significand by `c` in f32, whose quotients are an oracle that knows nothing of the two parts.
    fn is_right_for_all(inverse: &Inverse<f32>) -> bool {
        (0x80_0000_u32..0x100_0000).all(|x| {
            let x = x as f32;
            (f64::from(x) * f64::from(inverse.z) + f64::from(x * inverse.w)) as f32 == x / inverse.c
                || inverse.divides(x)
        })
    }

    /// Of `text`, an expression of x, for an x with these bits.
    fn evaluate(text: &str, dtype: &str, x: u64) -> (u64, bool) {
        let graph = parse(&format!("in x: {dtype}\ny = {text}"), &Names::default()).unwrap();
        let program = crate::lower(&graph, crate::Accuracy::Accurate, true);
        let types = (program.inputs.as_slice(), program.scalars.as_slice());
        let element = eval::Element { inputs: &[x], scalars: &[], types, place: 0, coordinates: &[0] };
        let (common, held) = eval::run(&program.common, element);
        (if held { common[0] } else { eval::run(program.total(), element).0[0] }, held)
    }

    #[test]
    fn quotients_of_f64_are_those_of_the_processor() {
        let mut state = 1_u64;
        let mut next = || {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            state ^ state >> 29
        };
        for (text, divisor) in
            [("x / 6", 6.0), ("x / -0.7", -0.7), ("x / 1.1e9", 1.1e9), ("x / 0.0625", 0.0625), ("x / 3e-15", 3e-15)]
        {
            let special =
                [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN_POSITIVE, 5e-324, 1e-290, 1e-285];
            let drawn: Vec<f64> = (0..3000).map(|_| f64::from_bits(next())).filter(|x| !x.is_nan()).collect();
            let usual = drawn.iter().map(|x| x.signum() * (1.0 + x.abs().to_bits() as f64 * 2_f64.powi(-64)));
            let mut own = 0;
            for x in drawn.iter().copied().chain(usual).chain(special) {
                let (found, held) = evaluate(text, "f64", x.to_bits());
                assert_eq!(found, (x / divisor).to_bits(), "{x:e} in {text}");
                own += usize::from(held);
            }
            assert!(own > 4000, "{own} in {text}");
        }
        assert!(Inverse::new(6.0_f64).unwrap().is_right());
    }

    #[test]
    fn quotients_by_constants_keep_infinities_and_zeros() {
        for (text, divisor) in [("x / 0.5", 0.5_f32), ("x / -4", -4.0), ("x / 7", 7.0)] {
            for x in [f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0, f32::MAX, 1e-40, -f32::from_bits(1)] {
                let (found, _) = evaluate(text, "f32", x.to_bits().into());
                assert_eq!(f32::from_bits(found as u32).to_bits(), (x / divisor).to_bits(), "{x:e} in {text}");
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
