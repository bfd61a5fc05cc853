//! What the kernels compute, on the host: thread by thread, one operation after the other. Only the special functions have no oracle:
//! their last bits aren't specified.

use super::Kind;

/// Threads of a block and of a warp.
const THREADS: u32 = 512;
const WARP: usize = 32;
/// Words of shared memory, and registers, of a thread.
const SHARED_WORDS: u32 = 23;

/// The digest of a block; `None` for a kind that has no oracle.
pub(super) fn digest(kind: Kind, seed: u32, iterations: u32) -> Option<u32> {
    let words: Vec<u32> = (0..THREADS).map(|thread| scramble(seed ^ thread.wrapping_mul(0x9e37_79b1))).collect();
    let ends: Vec<u32> = match kind {
        Kind::FmaF32 => each(&words, |word, end| chain_f32(word, end, iterations)),
        Kind::FmaF64 => each(&words, |word, end| chain_f64(word, end, iterations)),
        Kind::Integer => each(&words, |word, end| chain_integer(word, end, iterations)),
        Kind::Matrix => {
            words.chunks(WARP).zip(0..).flat_map(|(warp, number)| products(warp, number, iterations)).collect()
        }
        Kind::Shared => patterns(&words, iterations),
        Kind::Special => return None,
    };
    let of_warp = |ends: &[u32]| ends.iter().fold(0, |all, end| all ^ scramble(*end));
    let block = ends.chunks(WARP).map(of_warp).fold(0, take_in);
    Some(block.max(1))
}

fn each(words: &[u32], run: impl Fn(u32, u32) -> u32) -> Vec<u32> {
    words.iter().zip(0..).map(|(word, thread)| run(*word, thread)).collect()
}

/// The finalizer of MurmurHash3 (Appleby).
fn scramble(mut x: u32) -> u32 {
    for (shift, factor) in [(16, 0x85eb_ca6b_u32), (13, 0xc2b2_ae35)] {
        x = (x ^ (x >> shift)).wrapping_mul(factor);
    }
    x ^ (x >> 16)
}

fn take_in(digest: u32, word: u32) -> u32 {
    (digest ^ word).rotate_left(7).wrapping_mul(0x9e37_79b1)
}

fn chain_f32(word: u32, mut end: u32, iterations: u32) -> u32 {
    let (mut x, s) = ((word >> 8) as f32 / 16_777_216.0, (word % 64) as f32 / 2048.0);
    for _ in 0..iterations {
        let mut all = 0;
        for _ in 0..64 {
            x = x.mul_add(-1.9, s).mul_add(x, 1.0);
            all ^= x.to_bits();
        }
        end = take_in(end, all);
    }
    end
}

fn chain_f64(word: u32, mut end: u32, iterations: u32) -> u32 {
    let (mut x, s) = (f64::from(word >> 8) / 16_777_216.0, f64::from(word % 64) / 2048.0);
    for _ in 0..iterations {
        let mut all = 0;
        for _ in 0..32 {
            x = x.mul_add(-1.9, s).mul_add(x, 1.0);
            all ^= x.to_bits();
        }
        end = take_in(take_in(end, all as u32), (all >> 32) as u32);
    }
    end
}

fn chain_integer(mut x: u32, mut end: u32, iterations: u32) -> u32 {
    for _ in 0..iterations {
        for _ in 0..64 {
            x = (x ^ (x >> 15)).wrapping_mul(0x2c1b_3c6d).wrapping_add(0x297a_2d39);
        }
        end = take_in(end, x);
    }
    end
}

/// The two numbers of a word of bf16, lower half first, in units of 2⁻⁸: sums of products are exact integers in units of 2⁻¹⁶.
fn numbers(word: u32) -> [i64; 2] {
    [word, word >> 16].map(|half| {
        let size = 128 + i64::from(half & 0x7f);
        if half & 0x8000 == 0 { size } else { -size }
    })
}

/// The products of a warp. A thread holds rows and columns as the PTX manual states for m16n8k16.
fn products(words: &[u32], warp: u32, iterations: u32) -> Vec<u32> {
    let mut state: Vec<[u32; 6]> =
        words.iter().map(|word| std::array::from_fn(|i| scramble(word.wrapping_add(i as u32)))).collect();
    let mut ends: Vec<u32> = (0..WARP as u32).map(|lane| warp * WARP as u32 + lane).collect();
    for _ in 0..iterations {
        let mut a = [[0_i64; 16]; 16];
        for (lane, own) in state.iter().enumerate() {
            for (register, word) in own[..4].iter().enumerate() {
                let (row, column) = (lane / 4 + register % 2 * 8, lane % 4 * 2 + register / 2 * 8);
                [a[row][column], a[row][column + 1]] = numbers(*word);
            }
        }
        let mut sums = [[0_i64; 8]; 16];
        for _ in 0..8 {
            let mut b = [[0_i64; 8]; 16];
            for (lane, own) in state.iter_mut().enumerate() {
                for (register, word) in own[4..].iter_mut().enumerate() {
                    let row = lane % 4 * 2 + register * 8;
                    [b[row][lane / 4], b[row + 1][lane / 4]] = numbers(*word);
                    *word = word.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                }
            }
            for (sums, a) in sums.iter_mut().zip(&a) {
                for (a, b) in a.iter().zip(&b) {
                    sums.iter_mut().zip(b).for_each(|(sum, b)| *sum += a * b);
                }
            }
        }
        for (lane, (own, end)) in state.iter_mut().zip(&mut ends).enumerate() {
            for (register, word) in own[..4].iter_mut().enumerate() {
                let sum = sums[lane / 4 + register / 2 * 8][lane % 4 * 2 + register % 2];
                let bits = (sum as f32 / 65_536.0).to_bits();
                *end = take_in(*end, bits);
                *word = take_in(*word, bits);
            }
        }
    }
    ends
}

/// A word of a pattern.
fn pattern(number: u32, address: u32, word: u32) -> u32 {
    let even = match number / 2 % 4 {
        0 => 0,
        1 => 0x5555_5555,
        2 => address,
        _ => scramble(word ^ address),
    };
    if number.is_multiple_of(2) { even } else { !even }
}

fn patterns(words: &[u32], iterations: u32) -> Vec<u32> {
    let run = |(word, thread): (&u32, u32)| {
        let other = THREADS - 1 - thread;
        let mut end = thread;
        for iteration in 0..iterations {
            for i in 0..SHARED_WORDS {
                let stored = pattern(iteration, i * THREADS + other, words[other as usize]);
                let kept = pattern(iteration + 1, i * THREADS + thread, *word);
                end = take_in(take_in(end, stored), kept);
            }
        }
        end
    };
    words.iter().zip(0..).map(run).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_depend_on_the_seed_and_on_the_iterations() {
        for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::Special) {
            let right = digest(kind, 7, 9).unwrap();
            assert_eq!(digest(kind, 7, 9), Some(right));
            assert!(digest(kind, 6, 9) != Some(right) && digest(kind, 7, 8) != Some(right), "{kind}");
        }
        assert_eq!(digest(Kind::Special, 7, 3), None);
    }

    #[test]
    fn chains_stay_in_range_and_a_difference_shows() {
        for (word, near) in [(0x1234_5678, 0x1235_5678), (0xffff_ffff, 0xfffe_ffff), (0x4000_0000, 0x4001_0000)] {
            assert_ne!(chain_f32(word, 0, 1), chain_f32(near, 0, 1));
            assert_ne!(chain_f64(word, 0, 1), chain_f64(near, 0, 1));
            let mut x = (word >> 8) as f32 / 16_777_216.0;
            for _ in 0..10_000 {
                x = x.mul_add(-1.9, (word % 64) as f32 / 2048.0).mul_add(x, 1.0);
                assert!((-1.0..=1.01).contains(&x), "{x}");
            }
        }
    }

    #[test]
    fn sums_of_products_are_exact_in_single_precision() {
        let largest = 8 * 16 * numbers(0x007f)[0].pow(2);
        assert!(largest < 1 << 24 && numbers(0x80ff_3f00) == [128, -255], "{largest}");
    }
}
