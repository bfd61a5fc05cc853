//! What the matrix products of `tensor.cu` work on and must leave: small whole numbers, whose sums are exact, multiplied
//! in plain loops.

use plimsoll_gen::kernel::tensor::{A_ROWS, B_ROWS, Instruction, Number, ROW_WORDS};
use plimsoll_gen::pattern;

/// Bytes of a row of A, and of a column of B.
const ROW_BYTES: u32 = 4 * ROW_WORDS;
/// Bytes of A and B.
pub(super) const INPUT_BYTES: u64 = ((A_ROWS + B_ROWS) * ROW_BYTES) as u64;
/// Seed of the numbers.
const SEED: u64 = 0x706c_696d;

/// The number at a place of a row: from −3 to 3.
fn number(row: u32, place: u32) -> i32 {
    (pattern::bits(SEED, u64::from(row) << 32 | u64::from(place)) % 7) as i32 - 3
}

/// A and B in the bytes of their type.
pub(super) fn input(of: Number) -> Vec<u8> {
    let places = ROW_BYTES / of.bytes();
    let all = (0..A_ROWS + B_ROWS).flat_map(|row| (0..places).map(move |place| number(row, place)));
    all.flat_map(|value| encoded(of, value)).collect()
}

fn encoded(of: Number, value: i32) -> Vec<u8> {
    // Exponent and fraction of 0, 1, 2 and 3.
    let bits = |table: [u32; 4], sign: u32| table[value.unsigned_abs() as usize] | if value < 0 { sign } else { 0 };
    let half = |table| (bits(table, 0x8000) as u16).to_le_bytes().to_vec();
    match of {
        Number::F16 => half([0, 0x3c00, 0x4000, 0x4200]),
        Number::Bf16 => half([0, 0x3f80, 0x4000, 0x4040]),
        Number::Tf32 => (value as f32).to_le_bytes().to_vec(),
        Number::F64 => f64::from(value).to_le_bytes().to_vec(),
        Number::F8 => vec![bits([0, 0x38, 0x40, 0x44], 0x80) as u8],
        Number::I8 => vec![value as i8 as u8],
    }
}

/// A's row times B's column.
fn product(of: Number, row: u32, column: u32) -> i32 {
    (0..ROW_BYTES / of.bytes()).map(|place| number(row, place) * number(A_ROWS + column, place)).sum()
}

/// Bytes that one block leaves.
pub(super) fn block_bytes(of: &Instruction, chains: u32, warps: u32) -> u64 {
    u64::from(warps * 32 * chains * of.accumulators() * if of.number == Number::F64 { 8 } else { 4 })
}

/// What one block leaves after so many turns: as `tensor.cu` lays it out, every accumulator of every thread.
pub(super) fn block(of: &Instruction, chains: u32, warps: u32, turns: u32) -> Vec<u8> {
    let [rows, columns, _] = of.shape;
    let products: Vec<i32> = (0..rows * columns).map(|at| product(of.number, at / columns, at % columns)).collect();
    let times = i64::from(of.steps(chains) * turns * of.repeats());
    let threads = of.threads();
    let mut bytes = Vec::with_capacity(block_bytes(of, chains, warps) as usize);
    for _ in 0..warps * 32 / threads {
        for chain in 0..chains {
            for accumulator in 0..of.accumulators() {
                for thread in 0..threads {
                    let (row, column) = place(accumulator, thread);
                    let sum = i64::from(chain) + times * i64::from(products[(row * columns + column) as usize]);
                    match of.number {
                        Number::F64 => bytes.extend((sum as f64).to_le_bytes()),
                        Number::I8 => bytes.extend((sum as i32).to_le_bytes()),
                        _ => bytes.extend((sum as f32).to_le_bytes()),
                    }
                }
            }
        }
    }
    bytes
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

    use super::*;
    use plimsoll_gen::kernel::tensor::INSTRUCTIONS;

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
            assert_eq!(input(of.number).len() as u64, INPUT_BYTES, "{}", of.name);
            let warps = 2 * of.threads() / 32;
            assert_eq!(block(of, 1, warps, 3).len() as u64, block_bytes(of, 1, warps), "{}", of.name);
        }
    }

    #[test]
    fn sums_stay_exact_in_single_precision_for_as_long_as_a_launch_lasts() {
        let most = |of: &Instruction| {
            let [rows, columns, _] = of.shape;
            (0..rows * columns).map(|at| product(of.number, at / columns, at % columns).unsigned_abs()).max()
        };
        for of in INSTRUCTIONS.iter().filter(|of| !matches!(of.number, Number::F64 | Number::F8 | Number::I8)) {
            assert!(most(of).unwrap() * 60_000 < 1 << 24, "{} {:?}", of.name, most(of));
        }
    }
}
