//! Inputs and expected outputs of the matrix products in `kernel.cu`: small integers, whose sums are exact, or random numbers,
//! multiplied in plain loops in double precision.

use super::kernels::{A_ROWS, B_ROWS, Instruction, Number, ROW_WORDS};
use crate::lab::gemm::kernels::tamed;
use plimsoll_gen::pattern;
use plimsoll_suite::formats::{self, Meaning};

/// Bytes of a row of A, and of a column of B.
const ROW_BYTES: u32 = 4 * ROW_WORDS;
/// Bytes of A, B and the word of positions.
pub(crate) const INPUT_BYTES: u64 = ((A_ROWS + B_ROWS) * ROW_BYTES + 4) as u64;
/// Seed of the numbers.
const SEED: u64 = 0x706c_696d;

/// What A and B hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Data {
    /// Integers from −3 to 3: every sum is exact, and few bits change.
    Whole,
    /// Random sign and fraction bits, one of four exponents: from ⅛ to 2 in magnitude. Integers are any byte.
    Random,
}

/// Positions of two nonzeros among four elements of A (of one among two for tf32) in pattern `way`: as the instruction's word,
/// and as numbers.
pub(crate) fn places(number: Number, way: u32) -> (u32, [u32; 2]) {
    // PTX ISA, 'mma.sp', 'Sparse matrix storage': the positions in two bits each, in order; for tf32 two such fields encode
    // one of two.
    const PAIRS: [[u32; 2]; 6] = [[0, 2], [1, 3], [0, 1], [0, 3], [1, 2], [2, 3]];
    let (bits, pair) = if number == Number::Tf32 {
        let place = way % 2;
        ([0b0100, 0b1110][place as usize], [place, place])
    } else {
        let pair = PAIRS[way as usize % PAIRS.len()];
        (pair[0] | pair[1] << 2, pair)
    };
    (bits * 0x1111_1111, pair)
}

/// The bits of the number at index `place` of a row.
fn bits(number: Number, data: Data, row: u32, place: u32) -> u64 {
    let chance = |seed| pattern::bits(seed, u64::from(row) << 32 | u64::from(place));
    match data {
        Data::Whole => whole(number, (chance(SEED) % 7) as i32 - 3),
        Data::Random => random(number, u64::from(chance(SEED)) << 32 | u64::from(chance(SEED + 1))),
    }
}

/// The bits of a small integer.
fn whole(number: Number, value: i32) -> u64 {
    // Exponent and fraction of 0, 1, 2 and 3.
    let bits = |table: [u64; 4], sign: u64| table[value.unsigned_abs() as usize] | if value < 0 { sign } else { 0 };
    match number {
        Number::F16 => bits([0, 0x3c00, 0x4000, 0x4200], 0x8000),
        Number::Bf16 => bits([0, 0x3f80, 0x4000, 0x4040], 0x8000),
        Number::Tf32 => u64::from((value as f32).to_bits()),
        Number::F64 => f64::from(value).to_bits(),
        Number::F8 => bits([0, 0x38, 0x40, 0x44], 0x80),
        Number::F8E5m2 => bits([0, 0x3c, 0x40, 0x42], 0x80),
        Number::I8 => u64::from(value as i8 as u8),
    }
}

/// The floating-point format; none for integers.
fn format(number: Number) -> Option<&'static formats::Format> {
    formats::format(match number {
        Number::F16 => "f16",
        Number::Bf16 => "bf16",
        Number::Tf32 => "tf32",
        Number::F64 => "f64",
        Number::F8 => "f8e4m3",
        Number::F8E5m2 => "f8e5m2",
        Number::I8 => return None,
    })
}

/// Random bits of the type: a number from ⅛ to 2 in magnitude, or any byte.
fn random(number: Number, chance: u64) -> u64 {
    match format(number) {
        Some(format) => tamed(format, chance >> (64 - format.storage)),
        None => chance & 0xff,
    }
}

/// The value of the bits.
fn value(number: Number, bits: u64) -> f64 {
    match format(number).map(|format| format.meaning(bits)) {
        Some(Meaning::Number(number)) => number,
        Some(_) => f64::NAN,
        None => f64::from(bits as u8 as i8),
    }
}

/// The bytes of A and B, and the word of positions.
pub(crate) fn input(number: Number, data: Data, way: u32) -> Vec<u8> {
    let bytes = number.bytes() as usize;
    let all = (0..A_ROWS + B_ROWS).flat_map(|row| (0..ROW_BYTES / number.bytes()).map(move |place| (row, place)));
    let numbers = all.flat_map(|(row, place)| bits(number, data, row, place).to_le_bytes().into_iter().take(bytes));
    numbers.chain(places(number, way).0.to_le_bytes()).collect()
}

/// Every row of A times every column of B, row-major: each product's sum, and the sum of its terms' magnitudes.
fn products(instruction: &Instruction, data: Data, way: u32) -> Vec<(f64, f64)> {
    let [rows, columns, _] = instruction.shape;
    let per_row = ROW_BYTES / instruction.number.bytes();
    let (_, pair) = places(instruction.number, way);
    let numbers = |row| {
        (0..per_row).map(move |place| value(instruction.number, bits(instruction.number, data, row, place))).collect()
    };
    let (a, b): (Vec<Vec<f64>>, Vec<Vec<f64>>) =
        ((0..rows).map(numbers).collect(), (A_ROWS..A_ROWS + columns).map(numbers).collect());
    let column_index = |at: u32| match (instruction.sparse, instruction.number) {
        (false, _) => at,
        (true, Number::Tf32) => 2 * at + pair[0],
        (true, _) => at / 2 * 4 + pair[at as usize % 2],
    };
    let matching: Vec<usize> = (0..per_row).map(|at| (column_index(at) % per_row) as usize).collect();
    let product = |a: &[f64], b: &[f64]| {
        let terms = a.iter().zip(&matching).map(|(a, &at)| a * b[at]);
        terms.fold((0.0, 0.0), |(sum, size), term| (sum + term, size + term.abs()))
    };
    a.iter().flat_map(|a| b.iter().map(|b| product(a, b))).collect()
}

/// Bytes that one block stores.
pub(crate) fn block_bytes(instruction: &Instruction, chains: u32, warps: u32) -> u64 {
    u64::from(warps * 32 * chains * instruction.accumulators() * if instruction.number == Number::F64 { 8 } else { 4 })
}

/// The expected value of one accumulator of a block, and the sum of its terms' magnitudes, which scales the tolerance.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    pub(crate) sum: f64,
    pub(crate) size: f64,
}

/// The expected output of one block after `iterations` iterations: every accumulator of every thread, in the layout of `kernel.cu`.
pub(crate) fn expected(
    instruction: &Instruction,
    (data, way): (Data, u32),
    (chains, warps): (u32, u32),
    iterations: u32,
) -> Vec<Expected> {
    let (columns, products) = (instruction.shape[1], products(instruction, data, way));
    let times = f64::from(instruction.steps(chains) * iterations * instruction.repeats());
    let threads = instruction.threads();
    let mut all = Vec::with_capacity((warps * 32 * chains * instruction.accumulators()) as usize);
    for _ in 0..warps * 32 / threads {
        for chain in 0..chains {
            for accumulator in 0..instruction.accumulators() {
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

/// The expected bytes of one block, for inputs with exact sums.
pub(crate) fn block(instruction: &Instruction, way: u32, chains: u32, warps: u32, iterations: u32) -> Vec<u8> {
    let all = expected(instruction, (Data::Whole, way), (chains, warps), iterations);
    let mut bytes = Vec::with_capacity(block_bytes(instruction, chains, warps) as usize);
    for one in all {
        match instruction.number {
            Number::F64 => bytes.extend(one.sum.to_le_bytes()),
            Number::I8 => bytes.extend((one.sum as i64 as i32).to_le_bytes()),
            _ => bytes.extend((one.sum as f32).to_le_bytes()),
        }
    }
    bytes
}

/// Largest permitted error of sums of random numbers, relative to the sum of all products' magnitudes; 0 for integers. The units
/// keep more bits than this in each of a few hundred additions.
fn tolerance(number: Number) -> f64 {
    match number {
        Number::F64 => 1e-13,
        Number::I8 => 0.0,
        // Sums are kept in some 14 bits on 9.0.
        Number::F8 | Number::F8E5m2 => 1e-2,
        Number::F16 | Number::Bf16 | Number::Tf32 => 1e-4,
    }
}

/// The largest error of one block's output on random numbers, relative to the products' magnitudes, and a description of the
/// first error beyond rounding, if any.
pub(crate) fn compare(instruction: &Instruction, expected: &[Expected], left: &[u8]) -> (f64, Option<String>) {
    let bytes = if instruction.number == Number::F64 { 8 } else { 4 };
    let (mut worst, mut wrong) = (0.0_f64, None);
    for (place, (one, left)) in expected.iter().zip(left.chunks_exact(bytes)).enumerate() {
        let word = |from: usize| u32::from_le_bytes(std::array::from_fn(|byte| left[from + byte]));
        let found = match instruction.number {
            Number::F64 => f64::from_bits(u64::from(word(4)) << 32 | u64::from(word(0))),
            // Integer sums wrap around, so the difference is wrapping too.
            Number::I8 => f64::from(word(0).wrapping_sub(one.sum as i64 as u32) as i32) + one.sum,
            _ => f64::from(f32::from_bits(word(0))),
        };
        let error = (found - one.sum).abs() / one.size.max(f64::MIN_POSITIVE);
        // False for NaN.
        let fits = error <= tolerance(instruction.number);
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

/// The blocks whose bytes differ from those that most blocks left; `None` if there are none.
pub(crate) fn odd_block(left: &[u8], bytes: usize) -> Option<String> {
    let blocks: Vec<&[u8]> = left.chunks_exact(bytes).collect();
    let mut counts = std::collections::HashMap::new();
    for block in &blocks {
        *counts.entry(*block).or_insert(0) += 1;
    }
    // Of equally many, those of the first block.
    let usual = *blocks.iter().rev().max_by_key(|block| counts[*block])?;
    let first = blocks.iter().position(|block| *block != usual)?;
    let odd = blocks.len() - counts[usual];
    Some(format!("{odd} of {} blocks left other bits than most, first block {first}", blocks.len()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::kernels::INSTRUCTIONS;
    use super::*;

    #[test]
    fn blocks_with_other_bits_are_outvoted_even_if_the_first_is_one_of_them() {
        assert_eq!(odd_block(&[1, 2, 1, 2, 1, 2], 2), None);
        assert_eq!(odd_block(&[], 2), None);
        let found = |left: &[u8]| odd_block(left, 2).unwrap();
        assert_eq!(found(&[9, 2, 1, 2, 1, 2, 1, 3]), "2 of 4 blocks left other bits than most, first block 0");
        assert_eq!(found(&[1, 2, 1, 2, 1, 3]), "1 of 3 blocks left other bits than most, first block 2");
        assert_eq!(found(&[1, 2, 3, 4]), "1 of 2 blocks left other bits than most, first block 1");
    }

    #[test]
    fn every_accumulator_has_a_unique_position_in_the_product() {
        for instruction in &INSTRUCTIONS {
            let all =
                (0..instruction.accumulators()).flat_map(|a| (0..instruction.threads()).map(move |t| place(a, t)));
            let places: BTreeSet<(u32, u32)> = all.collect();
            assert_eq!(places.len() as u32, instruction.shape[0] * instruction.shape[1], "{}", instruction.name);
            assert!(
                places.iter().all(|(row, column)| *row < instruction.shape[0] && *column < instruction.shape[1]),
                "{}",
                instruction.name
            );
        }
    }

    #[test]
    fn inputs_and_blocks_have_the_declared_sizes() {
        for instruction in &INSTRUCTIONS {
            for data in [Data::Whole, Data::Random] {
                assert_eq!(input(instruction.number, data, 1).len() as u64, INPUT_BYTES, "{}", instruction.name);
            }
            let warps = 2 * instruction.threads() / 32;
            assert_eq!(
                block(instruction, 0, 1, warps, 3).len() as u64,
                block_bytes(instruction, 1, warps),
                "{}",
                instruction.name
            );
        }
    }

    #[test]
    fn sums_of_a_whole_launch_are_exact_in_single_precision() {
        let long = |instruction: &&Instruction| matches!(instruction.number, Number::F16 | Number::Bf16 | Number::Tf32);
        for instruction in INSTRUCTIONS.iter().filter(long) {
            for way in 0..6 {
                let most = products(instruction, Data::Whole, way).iter().map(|(sum, _)| sum.abs()).fold(0.0, f64::max);
                assert!(most * 60_000.0 < f64::from(1 << 24), "{} {most}", instruction.name);
            }
        }
    }

    #[test]
    fn random_numbers_are_finite_and_use_every_fraction_bit() {
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
    fn sparse_rows_multiply_the_columns_at_their_positions() {
        let sparse = |number| {
            INSTRUCTIONS.iter().find(|instruction| instruction.sparse && instruction.number == number).unwrap()
        };
        for number in [Number::F16, Number::Tf32] {
            let (instruction, per_row) = (sparse(number), ROW_BYTES / number.bytes());
            for way in 0..6 {
                let pair = places(number, way).1;
                // The row expanded with its zeros, multiplied like a dense row.
                let group = if number == Number::Tf32 { 2 } else { 4 };
                let full = (0..2 * per_row).map(|k| {
                    let within = pair.iter().position(|place| *place == k % group)?;
                    Some(value(number, bits(number, Data::Whole, 5, k / group * (group / 2) + within as u32)))
                });
                let column = |k: u32| value(number, bits(number, Data::Whole, A_ROWS + 3, k % per_row));
                let sum: f64 = full.enumerate().map(|(k, a)| a.unwrap_or(0.0) * column(k as u32)).sum();
                assert_eq!(
                    products(instruction, Data::Whole, way)[(5 * instruction.shape[1] + 3) as usize].0,
                    sum,
                    "{number:?} {way}"
                );
            }
        }
        assert_eq!(places(Number::F16, 1), (0xdddd_dddd, [1, 3]));
        assert_eq!(places(Number::Tf32, 1).0, 0xeeee_eeee);
    }

    #[test]
    fn errors_beyond_rounding_are_reported() {
        let instruction = INSTRUCTIONS.iter().find(|instruction| instruction.name == "mma f16").unwrap();
        let all = expected(instruction, (Data::Random, 0), (1, 1), 1);
        let exact: Vec<u8> = all.iter().flat_map(|one| (one.sum as f32).to_le_bytes()).collect();
        let (worst, wrong) = compare(instruction, &all, &exact);
        assert!(worst < 1e-7 && wrong.is_none(), "{worst} {wrong:?}");
        let mut off = exact;
        off[4 * 77 + 3] ^= 0x40;
        assert!(compare(instruction, &all, &off).1.unwrap().starts_with("accumulator 77"));
    }
}
