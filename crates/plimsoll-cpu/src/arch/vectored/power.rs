//! Powers of integers of 64 bits, modulo 2⁶⁴.
//!
//! A base is ±m·2ᵗ with m ≡ 1 modulo 4. Such m have logarithms in the 2-adic integers, and mᵇ = exp(b·log m) modulo 2⁶⁴ for every b. A table of 512
//! factors makes m ≡ 1 modulo 2¹¹, another one has their logarithms, and a third one exp of the low bits of b·log m. What is left is divisible by
//! 2¹¹, so the series of the logarithm ends after five terms and that of exp after six. Only their first terms need more than 32 bits.

use std::marker::PhantomData;

use super::elements::Pow;
use super::integer::{integer_part, square_and_multiply};
use super::loops::{Binary, HasShort};

/// The bits that tables take care of. The two lowest are those of 1.
const BITS: u32 = 11;
const SIZE: usize = 1 << (BITS - 2);

static TABLES: Tables = Tables::new();

/// For m ≡ 1 modulo 4, by bits 2 to 10.
struct Tables {
    /// A factor that makes m ≡ 1 modulo 2¹¹, smaller than that.
    factor: [u64; SIZE],
    /// Minus its logarithm.
    logarithm: [u64; SIZE],
    /// exp of these bits.
    exponential: [u64; SIZE],
}

impl Tables {
    const fn new() -> Self {
        let mut tables = Self { factor: [0; SIZE], logarithm: [0; SIZE], exponential: [0; SIZE] };
        let (mut place, mut power) = (0, 1_u64);
        while place < SIZE {
            let factor = inverse(4 * place as u64 + 1) % (1 << BITS);
            tables.factor[place] = factor;
            tables.logarithm[place] = logarithm(factor).wrapping_neg();
            tables.exponential[place] = power;
            power = power.wrapping_mul(exponential_of_four());
            place += 1;
        }
        tables
    }

    /// The place of a number's bits 2 to 10.
    #[inline(always)]
    fn place(number: u64) -> usize {
        (number >> 2) as usize % SIZE
    }
}

/// 1/a modulo 2⁶⁴ of an odd number, by Newton's method: a·a ≡ 1 modulo 8.
const fn inverse(a: u64) -> u64 {
    let (mut inverse, mut step) = (a, 0);
    while step < 5 {
        inverse = inverse.wrapping_mul(2_u64.wrapping_sub(a.wrapping_mul(inverse)));
        step += 1;
    }
    inverse
}

/// The logarithm of 1 + 4q modulo 2⁶⁴: the sum of (−1)ⁿ⁺¹(4q)ⁿ/n.
const fn logarithm(a: u64) -> u64 {
    let q = a.wrapping_sub(1) / 4;
    let (mut sum, mut power, mut n) = (0_u64, 1_u64, 1_u64);
    while n < 40 {
        power = power.wrapping_mul(q);
        let twos = n.trailing_zeros();
        let shift = 2 * n as u32 - twos;
        if shift < u64::BITS {
            let term = power.wrapping_mul(inverse(n >> twos)) << shift;
            sum = if n % 2 == 1 { sum.wrapping_add(term) } else { sum.wrapping_sub(term) };
        }
        n += 1;
    }
    sum
}

/// exp(4) modulo 2⁶⁴: the sum of 4ⁿ/n!.
const fn exponential_of_four() -> u64 {
    let (mut sum, mut odd, mut shift, mut n) = (1_u64, 1_u64, 0, 1_u64);
    while n < 64 {
        let twos = n.trailing_zeros();
        odd = odd.wrapping_mul(inverse(n >> twos));
        shift = shift + 2 - twos;
        if shift < u64::BITS {
            sum = sum.wrapping_add(odd << shift);
        }
        n += 1;
    }
    sum
}

/// The product of the low halves: one instruction of every vector set, unlike a whole product.
#[inline(always)]
fn low(a: u64, b: u64) -> u64 {
    (a & 0xffff_ffff) * (b & 0xffff_ffff)
}

/// Bases as ±m·2ᵗ, and what their powers are shifted by; the sign is bit 63.
#[inline(always)]
fn split<const N: usize>(a: &[u64; N], b: &[u64; N]) -> ([u64; N], [u64; N]) {
    let (mut m, mut shift) = ([0; N], [0; N]);
    for j in 0..N {
        let twos = u64::from(a[j].trailing_zeros());
        let odd = a[j] >> (twos % 64) | 1;
        m[j] = if odd & 2 != 0 { odd.wrapping_neg() } else { odd };
        let sign = (odd & 2) << 62 & b[j] << 63;
        shift[j] = low(twos, b[j].min(64)) | sign;
    }
    (m, shift)
}

/// Logarithms of numbers ≡ 1 modulo 4. With m·factor = 1 + 2¹¹x, log(1 + 2¹¹x) = 2¹¹(x + 2¹⁰x²(−1 + 2¹²x(⅓ − 2⁹x + 2²²x²/5))).
#[inline(always)]
fn logarithms<const N: usize>(m: &[u64; N]) -> [u64; N] {
    let (mut x, mut sum, mut all) = ([0; N], [0; N], [0; N]);
    for j in 0..N {
        let place = Tables::place(m[j]);
        x[j] = m[j].wrapping_mul(TABLES.factor[place] % (1 << BITS)) >> BITS;
        all[j] = TABLES.logarithm[place];
    }
    for j in 0..N {
        sum[j] = low(x[j], const { inverse(5) });
    }
    for j in 0..N {
        sum[j] = const { inverse(3) }.wrapping_add(low(x[j], (sum[j] << 22).wrapping_sub(1 << 9)));
    }
    for j in 0..N {
        sum[j] = (low(x[j], sum[j]) << 12).wrapping_sub(1);
    }
    for j in 0..N {
        sum[j] = x[j].wrapping_mul(x[j]).wrapping_mul(sum[j]);
    }
    for j in 0..N {
        all[j] = all[j].wrapping_add(x[j].wrapping_add(sum[j] << 10) << BITS);
    }
    all
}

/// exp of numbers ≡ 0 modulo 4. exp(2¹¹v) = 1 + 2¹¹v + 2²¹v²(1 + 2¹¹v(⅓ + 2⁹v(⅓ + 2¹¹v(¹⁄₁₅ + 2¹⁰v/45)))).
#[inline(always)]
fn exponentials<const N: usize>(z: &[u64; N]) -> [u64; N] {
    let (mut v, mut sum, mut all) = ([0; N], [0; N], [0; N]);
    for j in 0..N {
        v[j] = z[j] >> BITS;
    }
    for j in 0..N {
        sum[j] = const { inverse(15) }.wrapping_add(low(v[j], const { inverse(45) }) << 10);
    }
    for j in 0..N {
        sum[j] = const { inverse(3) }.wrapping_add(low(v[j], sum[j]) << 11);
    }
    for j in 0..N {
        sum[j] = const { inverse(3) }.wrapping_add(low(v[j], sum[j]) << 9);
    }
    for j in 0..N {
        sum[j] = (low(v[j], sum[j]) << 11).wrapping_add(1);
    }
    for j in 0..N {
        sum[j] = v[j].wrapping_mul(v[j]).wrapping_mul(sum[j]);
    }
    for j in 0..N {
        let rest = (sum[j] << 21).wrapping_add(v[j] << BITS).wrapping_add(1);
        all[j] = TABLES.exponential[Tables::place(z[j])].wrapping_mul(rest);
    }
    all
}

/// Powers of a block. Each loop is a short step of all elements, because one element's steps wait for each other.
#[inline(always)]
fn powers<const N: usize>(a: &[u64; N], b: &[u64; N]) -> [u64; N] {
    let (m, shift) = split(a, b);
    let mut power = logarithms(&m);
    for j in 0..N {
        power[j] = power[j].wrapping_mul(b[j]);
    }
    power = exponentials(&power);
    for j in 0..N {
        let signed = if shift[j] >> 63 == 1 { power[j].wrapping_neg() } else { power[j] };
        let by = shift[j] & !(1 << 63);
        power[j] = if by < 64 { signed << (by % 64) } else { 0 };
    }
    power
}

impl Binary for Pow<u64> {
    type In = u64;
    type Out = u64;
    #[inline(always)]
    fn apply(a: u64, b: u64) -> u64 {
        powers(&[a], &[b])[0]
    }
}

impl Binary for Pow<i64> {
    type In = i64;
    type Out = i64;
    #[inline(always)]
    fn apply(a: i64, b: i64) -> i64 {
        let power = Pow::<u64>::apply(a as u64, b as u64) as i64;
        integer_part!(a, b, power)
    }
}

/// Powers with exponents below 64: few products, which vectors of 64 bits lack.
pub(super) struct ShortPow<T>(PhantomData<T>);

impl Binary for ShortPow<u64> {
    type In = u64;
    type Out = u64;
    #[inline(always)]
    fn apply(a: u64, b: u64) -> u64 {
        square_and_multiply!(a, b, 6, u64).0
    }
}

impl Binary for ShortPow<i64> {
    type In = i64;
    type Out = i64;
    #[inline(always)]
    fn apply(a: i64, b: i64) -> i64 {
        let power = ShortPow::<u64>::apply(a as u64, b as u64) as i64;
        integer_part!(a, b, power)
    }
}

impl HasShort for Pow<u64> {
    type Element = u64;
    type Short = ShortPow<u64>;
    #[inline(always)]
    fn is_short(b: u64) -> bool {
        b < 64
    }
    #[inline(always)]
    fn apply_block<const N: usize>(a: &[u64; N], b: &[u64; N]) -> [u64; N] {
        powers(a, b)
    }
}

impl HasShort for Pow<i64> {
    type Element = i64;
    type Short = ShortPow<i64>;
    #[inline(always)]
    fn is_short(b: i64) -> bool {
        b < 64
    }
    #[inline(always)]
    fn apply_block<const N: usize>(a: &[i64; N], b: &[i64; N]) -> [i64; N] {
        let (mut bases, mut exponents) = ([0; N], [0; N]);
        for j in 0..N {
            (bases[j], exponents[j]) = (a[j] as u64, b[j] as u64);
        }
        let found = powers(&bases, &exponents);
        let mut all = [0; N];
        for j in 0..N {
            let (a, b, power) = (a[j], b[j], found[j] as i64);
            all[j] = integer_part!(a, b, power);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By squaring, one bit of the exponent after the other.
    fn expected(mut a: u64, mut b: u64) -> u64 {
        let mut power = 1_u64;
        while b > 0 {
            if b & 1 == 1 {
                power = power.wrapping_mul(a);
            }
            (a, b) = (a.wrapping_mul(a), b >> 1);
        }
        power
    }

    #[test]
    fn powers_are_those_by_squaring() {
        let edges =
            (0..64).flat_map(|bit| [1_u64 << bit, (1 << bit) - 1, (1 << bit) + 1, (1_u64 << bit).wrapping_neg()]);
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let drawn = (0..300).map(|round| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state ^ state >> 29) >> (round % 64)
        });
        let numbers: Vec<u64> = edges.chain(drawn).chain(0..=64).collect();
        for &a in &numbers {
            for &b in &numbers {
                assert_eq!(Pow::<u64>::apply(a, b), expected(a, b), "{a} to the power of {b}");
            }
        }
    }
}
