//! What the matrix products of `kernel.cu` work on and must leave: small whole numbers, whose sums are exact, or random
//! ones, multiplied in plain loops in double precision.

use super::kernels::{A_ROWS, B_ROWS, Instruction, Number, ROW_WORDS};
use crate::lab::gemm::kernels::tamed;
use plimsoll_gen::pattern;
use plimsoll_suite::formats::{self, Meaning};

/// Bytes of a row of A, and of a column of B.
const ROW_BYTES: u32 = 4 * ROW_WORDS;
/// Bytes of A, B and the word of places.
pub(crate) const INPUT_BYTES: u64 = ((A_ROWS + B_ROWS) * ROW_BYTES + 4) as u64;
/// Seed of the numbers.
const SEED: u64 = 0x706c_696d;

/// What A and B hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Data {
    /// Whole numbers from −3 to 3: every sum is exact, and few bits change.
    Whole,
    /// Every bit of sign and fraction by chance, the exponent among four: from ⅛ to 2. Bytes are any.
    Random,
}

/// Where two of four numbers of A stand (of tf32 one of two), by which of the ways that there are.
pub(crate) fn places(of: Number, way: u32) -> (u32, [u32; 2]) {
    // PTX ISA, 'mma.sp', 'Sparse matrix storage': the numbers' places in two bits each, in order; of tf32 two bits stand for
    // one of two.
    const PAIRS: [[u32; 2]; 6] = [[0, 2], [1, 3], [0, 1], [0, 3], [1, 2], [2, 3]];
    let (bits, pair) = if of == Number::Tf32 {
        let place = way % 2;
        ([0b0100, 0b1110][place as usize], [place, place])
    } else {
        let pair = PAIRS[way as usize % PAIRS.len()];
        (pair[0] | pair[1] << 2, pair)
    };
    (bits * 0x1111_1111, pair)
}

/// The bits of a number at a place of a row.
fn bits(of: Number, data: Data, row: u32, place: u32) -> u64 {
    let chance = |seed| pattern::bits(seed, u64::from(row) << 32 | u64::from(place));
    match data {
        Data::Whole => whole(of, (chance(SEED) % 7) as i32 - 3),
        Data::Random => random(of, u64::from(chance(SEED)) << 32 | u64::from(chance(SEED + 1))),
    }
}

/// A small whole number.
fn whole(of: Number, value: i32) -> u64 {
    // Exponent and fraction of 0, 1, 2 and 3.
    let bits = |table: [u64; 4], sign: u64| table[value.unsigned_abs() as usize] | if value < 0 { sign } else { 0 };
    match of {
        Number::F16 => bits([0, 0x3c00, 0x4000, 0x4200], 0x8000),
        Number::Bf16 => bits([0, 0x3f80, 0x4000, 0x4040], 0x8000),
        Number::Tf32 => u64::from((value as f32).to_bits()),
        Number::F64 => f64::from(value).to_bits(),
        Number::F8 => bits([0, 0x38, 0x40, 0x44], 0x80),
        Number::F8E5m2 => bits([0, 0x3c, 0x40, 0x42], 0x80),
        Number::I8 => u64::from(value as i8 as u8),
    }
}

/// A number of a format; integers have none.
fn format(of: Number) -> Option<&'static formats::Format> {
    formats::format(match of {
        Number::F16 => "f16",
        Number::Bf16 => "bf16",
        Number::Tf32 => "tf32",
        Number::F64 => "f64",
        Number::F8 => "f8e4m3",
        Number::F8E5m2 => "f8e5m2",
        Number::I8 => return None,
    })
}

/// Chance as bits of the type: a number from ⅛ to 2, or any byte.
fn random(of: Number, chance: u64) -> u64 {
    match format(of) {
        Some(format) => tamed(format, chance >> (64 - format.storage)),
        None => chance & 0xff,
    }
}

/// What the bits stand for.
fn value(of: Number, bits: u64) -> f64 {
    match format(of).map(|format| format.meaning(bits)) {
        Some(Meaning::Number(number)) => number,
        Some(_) => f64::NAN,
        None => f64::from(bits as u8 as i8),
    }
}

/// A and B in the bytes of their type, and the word of places.
pub(crate) fn input(of: Number, data: Data, way: u32) -> Vec<u8> {
    let bytes = of.bytes() as usize;
    let all = (0..A_ROWS + B_ROWS).flat_map(|row| (0..ROW_BYTES / of.bytes()).map(move |place| (row, place)));
    let numbers = all.flat_map(|(row, place)| bits(of, data, row, place).to_le_bytes().into_iter().take(bytes));
    numbers.chain(places(of, way).0.to_le_bytes()).collect()
}

/// Every row of A times every column of B, row by row: each product's sum, and the sum of its terms' magnitudes.
fn products(of: &Instruction, data: Data, way: u32) -> Vec<(f64, f64)> {
    let [rows, columns, _] = of.shape;
    let there = ROW_BYTES / of.number.bytes();
    let (_, pair) = places(of.number, way);
    let numbers = |row| (0..there).map(move |place| value(of.number, bits(of.number, data, row, place))).collect();
    let (a, b): (Vec<Vec<f64>>, Vec<Vec<f64>>) =
        ((0..rows).map(numbers).collect(), (A_ROWS..A_ROWS + columns).map(numbers).collect());
    let beside = |at: u32| match (of.sparse, of.number) {
        (false, _) => at,
        (true, Number::Tf32) => 2 * at + pair[0],
        (true, _) => at / 2 * 4 + pair[at as usize % 2],
    };
    let met: Vec<usize> = (0..there).map(|at| (beside(at) % there) as usize).collect();
    let product = |a: &[f64], b: &[f64]| {
        let terms = a.iter().zip(&met).map(|(a, &at)| a * b[at]);
        terms.fold((0.0, 0.0), |(sum, size), term| (sum + term, size + term.abs()))
    };
    a.iter().flat_map(|a| b.iter().map(|b| product(a, b))).collect()
}

/// Bytes that one block leaves.
pub(crate) fn block_bytes(of: &Instruction, chains: u32, warps: u32) -> u64 {
    u64::from(warps * 32 * chains * of.accumulators() * if of.number == Number::F64 { 8 } else { 4 })
}

/// What one accumulator of a block must be after so many iterations, and how far from it rounding can bring it per unit of
/// relative error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    pub(crate) sum: f64,
    pub(crate) size: f64,
}

/// What one block must leave after so many iterations: as `kernel.cu` lays it out, every accumulator of every thread.
pub(crate) fn expected(
    of: &Instruction,
    (data, way): (Data, u32),
    (chains, warps): (u32, u32),
    iterations: u32,
) -> Vec<Expected> {
    let (columns, products) = (of.shape[1], products(of, data, way));
    let times = f64::from(of.steps(chains) * iterations * of.repeats());
    let threads = of.threads();
    let mut all = Vec::with_capacity((warps * 32 * chains * of.accumulators()) as usize);
    for _ in 0..warps * 32 / threads {
        for chain in 0..chains {
            for accumulator in 0..of.accumulators() {
                for thread in 0..threads {
                    let (row, column) = place(accumulator, thread);
                    let (sum, size) = products[(row * columns + column) as usize];
                    all.push(Expected { sum: f64::from(chain) + times * sum, size: f64::from(chain) + times * size });
                }
            }
        }
    }
    all
}

/// The bytes of what one block must leave where every sum is exact.
pub(crate) fn block(of: &Instruction, way: u32, chains: u32, warps: u32, iterations: u32) -> Vec<u8> {
    let all = expected(of, (Data::Whole, way), (chains, warps), iterations);
    let mut bytes = Vec::with_capacity(block_bytes(of, chains, warps) as usize);
    for one in all {
        match of.number {
            Number::F64 => bytes.extend(one.sum.to_le_bytes()),
            Number::I8 => bytes.extend((one.sum as i64 as i32).to_le_bytes()),
            _ => bytes.extend((one.sum as f32).to_le_bytes()),
        }
    }
    bytes
}

/// How far from exact sums of random numbers may be, relative to the sum of all products' magnitudes: the units keep more
/// bits than this of each of a few hundred sums. Of integers nothing.
fn tolerance(of: Number) -> f64 {
    match of {
        Number::F64 => 1e-13,
        Number::I8 => 0.0,
        // Sums are kept in some 14 bits on 9.0.
        Number::F8 | Number::F8E5m2 => 1e-2,
        Number::F16 | Number::Bf16 | Number::Tf32 => 1e-4,
    }
}

/// The largest error of what one block left on random numbers, relative to the products' magnitudes, and what is wrong with
/// it; nothing where all is within what rounding explains.
pub(crate) fn compare(of: &Instruction, expected: &[Expected], left: &[u8]) -> (f64, Option<String>) {
    let bytes = if of.number == Number::F64 { 8 } else { 4 };
    let (mut worst, mut wrong) = (0.0_f64, None);
    for (place, (one, left)) in expected.iter().zip(left.chunks_exact(bytes)).enumerate() {
        let word = |from: usize| u32::from_le_bytes(std::array::from_fn(|byte| left[from + byte]));
        let found = match of.number {
            Number::F64 => f64::from_bits(u64::from(word(4)) << 32 | u64::from(word(0))),
            // Sums of integers wrap around, as those of the host do here.
            Number::I8 => f64::from(word(0).wrapping_sub(one.sum as i64 as u32) as i32) + one.sum,
            _ => f64::from(f32::from_bits(word(0))),
        };
        let error = (found - one.sum).abs() / one.size.max(f64::MIN_POSITIVE);
        // A NaN is no error that is small enough.
        let fits = error <= tolerance(of.number);
        if !fits && wrong.is_none() {
            wrong = Some(format!("accumulator {place}: {found:e} instead of {:e}", one.sum));
        }
        worst = worst.max(error);
    }
    (worst, wrong)
}

/// Row and column of an accumulator of a thread (PTX ISA, 'Matrix fragments for mma.m16n8k16' and 'Register fragments for
/// wgmma.m64nNk16': the same for all types, bytes counted).
fn place(accumulator: u32, thread: u32) -> (u32, u32) {
    let (warp, group, two) = (thread / 32, thread % 32 / 4, thread % 4);
    (16 * warp + group + accumulator / 2 % 2 * 8, accumulator / 4 * 8 + two * 2 + accumulator % 2)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::kernels::INSTRUCTIONS;
    use super::*;

    #[test]
    fn every_accumulator_has_a_place_of_its_own_in_the_product() {
        for of in &INSTRUCTIONS {
            let all = (0..of.accumulators()).flat_map(|a| (0..of.threads()).map(move |t| place(a, t)));
            let places: BTreeSet<(u32, u32)> = all.collect();
            assert_eq!(places.len() as u32, of.shape[0] * of.shape[1], "{}", of.name);
            assert!(places.iter().all(|(row, column)| *row < of.shape[0] && *column < of.shape[1]), "{}", of.name);
        }
    }

    #[test]
    fn inputs_fill_their_rows_and_blocks_their_bytes() {
        for of in &INSTRUCTIONS {
            for data in [Data::Whole, Data::Random] {
                assert_eq!(input(of.number, data, 1).len() as u64, INPUT_BYTES, "{}", of.name);
            }
            let warps = 2 * of.threads() / 32;
            assert_eq!(block(of, 0, 1, warps, 3).len() as u64, block_bytes(of, 1, warps), "{}", of.name);
        }
    }

    #[test]
    fn sums_stay_exact_in_single_precision_for_as_long_as_a_launch_lasts() {
        let long = |of: &&Instruction| matches!(of.number, Number::F16 | Number::Bf16 | Number::Tf32);
        for of in INSTRUCTIONS.iter().filter(long) {
            for way in 0..6 {
                let most = products(of, Data::Whole, way).iter().map(|(sum, _)| sum.abs()).fold(0.0, f64::max);
                assert!(most * 60_000.0 < f64::from(1 << 24), "{} {most}", of.name);
            }
        }
    }

    #[test]
    fn random_numbers_are_finite_and_use_every_bit_of_the_fraction() {
        for number in [Number::F16, Number::Bf16, Number::Tf32, Number::F64, Number::F8, Number::F8E5m2] {
            let all: Vec<u64> = (0..4000).map(|place| bits(number, Data::Random, place % 64, place / 64)).collect();
            assert!(all.iter().all(|bits| (0.125..2.0).contains(&value(number, *bits).abs())), "{number:?}");
            let format = format(number).unwrap();
            let seen = all.iter().fold(0, |seen, bits| seen | bits >> format.unused);
            let fraction = (1 << format.fraction) - 1;
            assert_eq!(seen & fraction, fraction, "{number:?}");
            assert!(all.iter().any(|bits| value(number, *bits) < 0.0), "{number:?}");
        }
    }

    #[test]
    fn sparse_rows_meet_the_columns_where_their_numbers_stand() {
        let sparse = |number| INSTRUCTIONS.iter().find(|of| of.sparse && of.number == number).unwrap();
        for number in [Number::F16, Number::Tf32] {
            let (of, there) = (sparse(number), ROW_BYTES / number.bytes());
            for way in 0..6 {
                let pair = places(number, way).1;
                // The row with its zeros, multiplied as any row is.
                let group = if number == Number::Tf32 { 2 } else { 4 };
                let full = (0..2 * there).map(|k| {
                    let within = pair.iter().position(|place| *place == k % group)?;
                    Some(value(number, bits(number, Data::Whole, 5, k / group * (group / 2) + within as u32)))
                });
                let column = |k: u32| value(number, bits(number, Data::Whole, A_ROWS + 3, k % there));
                let sum: f64 = full.enumerate().map(|(k, a)| a.unwrap_or(0.0) * column(k as u32)).sum();
                assert_eq!(products(of, Data::Whole, way)[(5 * of.shape[1] + 3) as usize].0, sum, "{number:?} {way}");
            }
        }
        assert_eq!(places(Number::F16, 1), (0xdddd_dddd, [1, 3]));
        assert_eq!(places(Number::Tf32, 1).0, 0xeeee_eeee);
    }

    #[test]
    fn what_is_beyond_rounding_is_told() {
        let of = INSTRUCTIONS.iter().find(|of| of.name == "mma f16").unwrap();
        let all = expected(of, (Data::Random, 0), (1, 1), 1);
        let exact: Vec<u8> = all.iter().flat_map(|one| (one.sum as f32).to_le_bytes()).collect();
        let (worst, wrong) = compare(of, &all, &exact);
        assert!(worst < 1e-7 && wrong.is_none(), "{worst} {wrong:?}");
        let mut off = exact;
        off[4 * 77 + 3] ^= 0x40;
        assert!(compare(of, &all, &off).1.unwrap().starts_with("accumulator 77"));
    }
}
