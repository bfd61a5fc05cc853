//! Division by a divisor known before the launch, as a multiplication and a shift.

/// ⌊n/d⌋ is n · magic >> shift for n below 2³¹, or in 64 bits, for n below 2⁶³, the upper half of n · magic, >> shift
/// (Granlund and Montgomery, "Division by Invariant Integers using Multiplication", 1994: with ℓ = ⌈log₂ d⌉ the magic number
/// ⌈2^(N−1+ℓ)/d⌉ is correct for all n below 2^(N−1)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Divisor {
    /// d, at least 1.
    pub divisor: u64,
    /// The factor.
    pub magic: u64,
    /// The shift.
    pub shift: u32,
}

impl Divisor {
    /// For numbers below 2³¹.
    pub fn small(divisor: u64) -> Self {
        let divisor = divisor.max(1);
        let shift = 31 + divisor.next_power_of_two().trailing_zeros();
        Self { divisor, magic: (1_u64 << shift).div_ceil(divisor), shift }
    }

    /// For numbers below 2⁶³. A divisor of 1 has no magic number: kernels check for it.
    pub fn large(divisor: u64) -> Self {
        let divisor = divisor.max(1);
        let log = 64 - (divisor - 1).leading_zeros();
        if log == 0 {
            return Self { divisor, magic: 0, shift: 0 };
        }
        let magic = (1_u128 << (63 + log)).div_ceil(u128::from(divisor));
        Self { divisor, magic: magic as u64, shift: log - 1 }
    }

    /// As words of the parameter block.
    pub fn words(self) -> [u64; 3] {
        [self.divisor, self.magic, self.shift.into()]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Divisor;

    fn small(n: u64, d: Divisor) -> u64 {
        assert!(d.magic < 1 << 32, "{d:?}");
        (n * d.magic) >> d.shift
    }

    fn large(n: u64, d: Divisor) -> u64 {
        if d.divisor == 1 { n } else { ((u128::from(n) * u128::from(d.magic)) >> 64) as u64 >> d.shift }
    }

    proptest! {
        #[test]
        fn small_quotients_are_exact(n in 0_u64..1 << 31, d in prop_oneof![1_u64..3000, 1_u64..1 << 31], k in 0_u64..1 << 20) {
            for n in [n, (k * d).min((1 << 31) - 1), (k * d).saturating_sub(1).min((1 << 31) - 1), (1 << 31) - 1] {
                prop_assert_eq!(small(n, Divisor::small(d)), n / d);
            }
        }

        #[test]
        fn large_quotients_are_exact(n in 0_u64..1 << 63, d in prop_oneof![1_u64..3000, 1_u64..1 << 63], k in 0_u64..1 << 40) {
            let most = (1 << 63) - 1;
            for n in [n, k.saturating_mul(d).min(most), k.saturating_mul(d).saturating_sub(1).min(most), most] {
                prop_assert_eq!(large(n, Divisor::large(d)), n / d);
            }
        }
    }
}
