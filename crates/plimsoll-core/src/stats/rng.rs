//! A small seeded random number generator: the same seed gives the same numbers on every machine and in every version.
//! For sampling and shuffling only; not cryptographically secure.

/// xoshiro256++ 1.0, seeded through SplitMix64: D. Blackman and S. Vigna, "Scrambled linear pseudorandom number
/// generators" (2019), both published into the public domain at <https://prng.di.unimi.it>.
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
    spare_normal: Option<f64>,
}

fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Rng {
    /// A generator seeded with `seed`; any seed is valid, including 0.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut s = seed;
        Rng { state: std::array::from_fn(|_| split_mix(&mut s)), spare_normal: None }
    }

    /// The next 64 uniform bits.
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Uniform in [0, 1), a multiple of 2⁻⁵³.
    pub fn uniform(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (-53f64).exp2()
    }

    /// Standard normal, by the polar method (Marsaglia & Bray 1964).
    pub fn normal(&mut self) -> f64 {
        if let Some(z) = self.spare_normal.take() {
            return z;
        }
        loop {
            let (u, v) = (2.0 * self.uniform() - 1.0, 2.0 * self.uniform() - 1.0);
            let r = u * u + v * v;
            if r > 0.0 && r < 1.0 {
                let scale = (-2.0 * r.ln() / r).sqrt();
                self.spare_normal = Some(v * scale);
                return u * scale;
            }
        }
    }

    /// Uniform in 0..`n` without bias, by Lemire's method (2019); 0 where `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        if n == 0 {
            return 0;
        }
        // The lowest 2⁶⁴ mod n products of each bucket are rejected, because they would favour some values.
        let reject_below = n.wrapping_neg() % n;
        loop {
            let product = u128::from(self.next_u64()) * u128::from(n);
            if product as u64 >= reject_below {
                return (product >> 64) as u64;
            }
        }
    }

    /// Shuffles `items` so that every order is equally likely (Fisher & Yates, in Durstenfeld's form, 1964).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i as u64 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    // Imported by name, because proptest's prelude has a trait of the same name.
    use crate::stats::Rng;
    use proptest::prelude::*;

    #[test]
    fn the_stream_matches_the_published_reference_vectors() {
        // SplitMix64 from 0 (Vigna's reference); xoshiro256++ from state 1, 2, 3, 4 (rand_xoshiro's reference vector).
        let mut s = 0;
        assert_eq!(split_mix(&mut s), 0xe220_a839_7b1d_cdaf);
        let mut r = Rng { state: [1, 2, 3, 4], spare_normal: None };
        let first: Vec<u64> = (0..4).map(|_| r.next_u64()).collect();
        assert_eq!(first, [41_943_041, 58_720_359, 3_588_806_011_781_223, 3_591_011_842_654_386]);
    }

    #[test]
    fn normals_have_mean_zero_and_variance_one() {
        let mut r = Rng::new(1);
        let x: Vec<f64> = (0..100_000).map(|_| r.normal()).collect();
        let mean = x.iter().sum::<f64>() / x.len() as f64;
        let variance = x.iter().map(|v| v * v).sum::<f64>() / x.len() as f64;
        assert!(mean.abs() < 0.015 && (variance - 1.0).abs() < 0.02, "{mean} {variance}");
    }

    #[test]
    fn below_is_uniform() {
        let mut r = Rng::new(2);
        let mut count = [0u32; 7];
        for _ in 0..70_000 {
            count[r.below(7) as usize] += 1;
        }
        assert!(count.iter().all(|&c| c.abs_diff(10_000) < 400), "{count:?}");
        assert_eq!(r.below(0), 0);
    }

    proptest! {
        #[test]
        fn a_shuffle_keeps_every_item(seed: u64, n in 0usize..100) {
            let mut x: Vec<usize> = (0..n).collect();
            Rng::new(seed).shuffle(&mut x);
            x.sort_unstable();
            prop_assert!(x.into_iter().eq(0..n));
        }

        #[test]
        fn below_stays_below(seed: u64, n in 1u64..) {
            prop_assert!(Rng::new(seed).below(n) < n);
        }
    }
}
