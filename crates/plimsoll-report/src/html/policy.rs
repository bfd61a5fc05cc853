//! The page's Content-Security-Policy: nothing is loaded, and only the page's own script runs, which is named by its hash.

use crate::text::clean;

/// The policy of a page with this script: whatever a record smuggled in would not run.
pub(crate) fn policy(script: &str) -> String {
    let hash = encode_base64(&sha256(script.as_bytes()));
    clean(&format!(
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{hash}'; img-src data:; base-uri 'none'; \
         form-action 'none'"
    ))
}

/// The first 32 bits of the fractional parts of `f` of the first primes.
fn prime_fractions<const N: usize>(f: fn(f64) -> f64, exact: fn(u128, u32) -> bool) -> [u32; N] {
    let mut out = [0; N];
    let is_prime = |n: &u32| (2..*n).all(|divisor| !n.is_multiple_of(divisor));
    for (place, prime) in (2..).filter(is_prime).take(N).enumerate() {
        // Floating point gives the whole part and most of the fraction; integers decide the last bits.
        let mut guess = (f(f64::from(prime)) * 4_294_967_296.0) as u128;
        guess -= 4;
        while exact(guess + 1, prime) {
            guess += 1;
        }
        out[place] = guess as u32;
    }
    out
}

/// SHA-256 (FIPS 180-4).
fn sha256(message: &[u8]) -> [u8; 32] {
    let squares = |root: u128, prime: u32| root * root <= u128::from(prime) << 64;
    let cubes = |root: u128, prime: u32| root * root * root <= u128::from(prime) << 96;
    let constants: [u32; 64] = prime_fractions(f64::cbrt, cubes);
    let mut state: [u32; 8] = prime_fractions(f64::sqrt, squares);
    let mut padded = message.to_vec();
    padded.push(0x80);
    padded.resize((message.len() + 9).next_multiple_of(64) - 8, 0);
    padded.extend((8 * message.len() as u64).to_be_bytes());
    for block in padded.chunks_exact(64) {
        compress(&mut state, block, &constants);
    }
    let mut out = [0; 32];
    out.chunks_exact_mut(4).zip(state).for_each(|(bytes, word)| bytes.copy_from_slice(&word.to_be_bytes()));
    out
}

fn compress(state: &mut [u32; 8], block: &[u8], constants: &[u32; 64]) {
    let mut words = [0u32; 64];
    for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
        *word = bytes.iter().fold(0, |word, byte| word << 8 | u32::from(*byte));
    }
    for t in 16..64 {
        let (x, y) = (words[t - 15], words[t - 2]);
        let small = x.rotate_right(7) ^ x.rotate_right(18) ^ x >> 3;
        let large = y.rotate_right(17) ^ y.rotate_right(19) ^ y >> 10;
        words[t] = words[t - 16].wrapping_add(small).wrapping_add(words[t - 7]).wrapping_add(large);
    }
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
    for t in 0..64 {
        let sum = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
        let first = h.wrapping_add(sum).wrapping_add(e & f ^ !e & g).wrapping_add(constants[t]).wrapping_add(words[t]);
        let sum = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
        let second = sum.wrapping_add(a & b ^ a & c ^ b & c);
        (h, g, f, e, d, c, b, a) = (g, f, e, d.wrapping_add(first), c, b, a, first.wrapping_add(second));
    }
    for (word, add) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
        *word = word.wrapping_add(add);
    }
}

fn encode_base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for three in bytes.chunks(3) {
        let bits = (0..3).fold(0usize, |bits, nth| bits << 8 | usize::from(three.get(nth).copied().unwrap_or(0)));
        for nth in 0..4 {
            let letter = char::from(LETTERS[bits >> (18 - 6 * nth) & 63]);
            out.push(if nth <= three.len() { letter } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_standard() {
        // FIPS 180-4's examples, as `sha256sum` and `base64` print them.
        assert_eq!(encode_base64(&sha256(b"abc")), "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=");
        assert_eq!(encode_base64(&sha256(b"")), "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=");
        let long = b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
        assert_eq!(encode_base64(&sha256(long)), "JI1qYdIGOLjlwCaTDD5gOaM85Flk/yFn9uzt1BnbBsE=");
    }
}
