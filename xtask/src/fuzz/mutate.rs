//! Damaged copies of real inputs: words spliced from other inputs, numbers at limits, lines removed or repeated, bits flipped.

/// A generator of random numbers: `SplitMix64` (Steele, Lea and Flood, 'Fast splittable pseudorandom number generators', 2014).
#[derive(Clone, Copy, Debug)]
pub(super) struct Random(pub u64);

impl Random {
    pub(super) fn next(mut self) -> Self {
        self.draw();
        self
    }

    fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn below(&mut self, end: usize) -> usize {
        if end == 0 { 0 } else { (self.draw() % end as u64) as usize }
    }
}

/// Numbers at limits, where parsers go wrong.
const LIMITS: [&str; 18] = [
    "0",
    "-1",
    "1",
    "255",
    "65535",
    "65536",
    "4294967295",
    "4294967296",
    "2147483648",
    "-2147483649",
    "4611686018427387904",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "1e308",
    "1e-400",
    "NaN",
];
/// Maximum bytes of an input.
const MAX_BYTES: usize = 1 << 20;

/// A copy of a seed with one to four changes.
pub(super) fn mutate(seeds: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut input = seeds[random.below(seeds.len())].clone();
    for _ in 0..=random.below(4) {
        let other = &seeds[random.below(seeds.len())];
        change(&mut input, other, random);
        input.truncate(MAX_BYTES);
    }
    input
}

/// Makes one change; words and lines may be taken from another input.
pub(super) fn change(input: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    let at = random.below(input.len() + 1);
    match random.below(10) {
        0 => input.truncate(at),
        1 => {
            if let Some(byte) = input.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
        }
        2 => {
            let word = word_at(input, at);
            input.splice(word, LIMITS[random.below(LIMITS.len())].bytes());
        }
        3 => {
            let (place, word) = (word_at(input, at), word_at(other, random.below(other.len() + 1)));
            input.splice(place, other[word].iter().copied());
        }
        4 => {
            let line = line_at(input, at);
            input.drain(line);
        }
        5 => {
            let line = line_at(input, at);
            let lines = input[line.clone()].repeat(1 + random.below(50));
            input.splice(line.end..line.end, lines);
        }
        6 => {
            let (place, line) = (line_at(input, at), line_at(other, random.below(other.len() + 1)));
            input.splice(place.start..place.start, other[line].iter().copied());
        }
        7 => {
            // Overwrite a four-byte number of a binary file.
            let value = [0_u32, 1, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 0x100][random.below(6)];
            let end = (at + 4).min(input.len());
            input.splice(at.min(end)..end, value.to_le_bytes());
        }
        8 => {
            let piece = [&b"("[..], b"[", b"{", b"-", b"\"", b",", b"\\u0000", b"\xff", b"-(", b"x*"][random.below(10)];
            let pieces = piece.repeat(1 << random.below(14));
            input.splice(at..at, pieces);
        }
        _ => {
            let from = random.below(input.len() + 1);
            let end = (from + random.below(64)).min(input.len());
            let piece = input[from..end].to_vec();
            input.splice(at..at, piece);
        }
    }
}

/// The word or number around a position.
fn word_at(bytes: &[u8], at: usize) -> std::ops::Range<usize> {
    around(bytes, at, |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.'))
}

/// The line around a position, including its newline.
fn line_at(bytes: &[u8], at: usize) -> std::ops::Range<usize> {
    let line = around(bytes, at, |byte| byte != b'\n');
    line.start..(line.end + 1).min(bytes.len())
}

fn around(bytes: &[u8], at: usize, is_part: impl Fn(u8) -> bool) -> std::ops::Range<usize> {
    let at = at.min(bytes.len());
    let before = bytes[..at].iter().rev().take_while(|byte| is_part(**byte)).count();
    let after = bytes[at..].iter().take_while(|byte| is_part(**byte)).count();
    at - before..at + after
}
