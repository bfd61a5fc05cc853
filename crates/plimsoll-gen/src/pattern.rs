//! The kernels' input data, a function of the seed and the element's index; `check.cu` generates the same on the device.

/// 64 random bits for element `i`: SplitMix64 after i + 1 steps from `seed` (Steele, Lea and Flood, 'Fast splittable
/// pseudorandom number generators', 2014).
#[must_use]
pub const fn random_bits(seed: u64, i: u64) -> u64 {
    let mut z = seed.wrapping_add(i.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// 32 random bits: the data of copies.
#[must_use]
pub const fn bits(seed: u64, i: u64) -> u32 {
    (random_bits(seed, i) >> 32) as u32
}

/// 1 ≤ x < 2 in steps of 2⁻²³.
#[must_use]
pub fn unit_f32(seed: u64, i: u64) -> f32 {
    f32::from_bits(0x3f80_0000 | (random_bits(seed, i) >> 41) as u32)
}

/// 1 ≤ x < 2 in steps of 2⁻⁵².
#[must_use]
pub fn unit_f64(seed: u64, i: u64) -> f64 {
    f64::from_bits(0x3ff0_0000_0000_0000 | (random_bits(seed, i) >> 12))
}

/// 1, 2, 3 or 4: sums of products are exact in any order while they stay below 2²⁴ (f32) or 2⁵³ (f64).
#[must_use]
pub const fn small(seed: u64, i: u64) -> u32 {
    1 + (random_bits(seed, i) >> 62) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_bits_match_the_splitmix64_reference() {
        // The first outputs of the reference implementation (prng.di.unimi.it/splitmix64.c) from state 1234567.
        let expected = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!([0, 1, 2].map(|i| random_bits(1_234_567, i)), expected);
    }

    #[test]
    fn generated_values_stay_in_range() {
        for i in 0..10_000 {
            assert!((1.0..2.0).contains(&unit_f32(7, i)) && (1.0..2.0).contains(&unit_f64(7, i)));
            assert!((1..=4).contains(&small(7, i)));
        }
    }
}
