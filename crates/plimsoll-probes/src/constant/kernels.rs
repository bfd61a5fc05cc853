//! A chase through constant memory, and loads from it by all warps of an SM.

use plimsoll_gen::kernel::Data;
use plimsoll_gen::kernel::chain::HOPS;

use crate::prelude::kernels::*;

/// The source of these kernels. Their module holds the table that they read.
pub static SOURCE: Source =
    Source::new("constant", include_str!("kernel.cu"), |_| vec![chase(), read()]).with_data(Data::Any);

/// Bytes of a line.
pub const LINE: u32 = 64;
/// Lines of the table.
pub const LINES: u32 = 1024;
/// Chains in the table, from the shortest to the longest.
pub const CHAINS: u32 = 15;
/// Threads of a block that reads; each SM runs one block.
pub const THREADS: u32 = 1024;
/// Loads of a lane for each line that it reads.
pub const LOADS: u32 = 8;
/// Bytes of such a load.
pub const LOAD: u32 = 8;

/// Lines of a chain: octaves from 8, and one size half way between each.
#[must_use]
pub fn lines(chain: u32) -> u32 {
    if chain.is_multiple_of(2) { 8 << (chain / 2) } else { 12 << (chain / 2) }
}

/// Lines from one element of a chain to the next.
#[must_use]
pub fn step(chain: u32) -> u32 {
    let mut step = lines(chain) * 5 / 8;
    while step.is_multiple_of(2) || step.is_multiple_of(3) {
        step += 1;
    }
    step
}

/// The place of a chain's element, cyclic: bytes from the table's beginning.
#[must_use]
pub fn place(chain: u32, element: u64) -> u64 {
    let line = element % u64::from(lines(chain)) * u64::from(step(chain)) % u64::from(lines(chain));
    line * u64::from(LINE) + 4 * u64::from(chain)
}

/// A word of the table: the successor of this line in that word's chain.
#[must_use]
pub fn word(line: u32, word: u32) -> u32 {
    let chain = word.min(CHAINS - 1);
    (line + step(chain)) % lines(chain) * LINE + 4 * word
}

/// Follows a chain from a place, in one thread.
#[must_use]
pub fn chase() -> KernelDesc {
    KernelDesc {
        entry: format!("CONSTANT_CHASE(constant_chase, {HOPS})"),
        parameters: takes!(
            out: [fill 8; Times(32, &[])], begin: U32 [Most(Is(LINES as u64 * LINE as u64 - 4)), Multiple(Is(4))],
            warm: U64 [Multiple(Is(HOPS))], hops: U64 [Multiple(Is(HOPS))],
        ),
        grid: Grid::Blocks(1),
        looping: true,
        ..KernelDesc::new(&SOURCE, "constant_chase", 32)
    }
}

/// Every warp reads lines, several at once.
#[must_use]
pub fn read() -> KernelDesc {
    KernelDesc {
        entry: format!("CONSTANT_READ(constant_read, {THREADS})"),
        parameters: takes!(
            out: [fill 8; PerThread(8, &[])], cycles: [fill 8; PerBlock(8, &[])],
            lines: U32 [Most(Is(LINES as u64)), Least(Of("addresses"))], addresses: U32 [Least(Is(1)), Most(Is(32))],
            warm: U32, iterations: U32,
        ),
        unroll: LOADS,
        vector_bytes: LOAD,
        ..resident(1, &SOURCE, "constant_read", THREADS)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_chain_visits_all_its_lines_and_comes_back() {
        for chain in 0..CHAINS {
            let around = u64::from(lines(chain));
            let seen: BTreeSet<u64> = (0..around).map(|element| place(chain, element)).collect();
            assert_eq!(seen.len() as u64, around, "{chain}");
            assert!(seen.iter().all(|place| *place < around * u64::from(LINE)));
            assert_eq!(place(chain, around), place(chain, 0));
        }
        assert_eq!((lines(0), lines(CHAINS - 1)), (8, LINES));
    }

    #[test]
    fn words_of_the_table_are_the_successors() {
        for chain in 0..CHAINS {
            for element in 0..u64::from(lines(chain)) {
                let line = (place(chain, element) / u64::from(LINE)) as u32;
                assert_eq!(u64::from(word(line, chain)), place(chain, element + 1));
            }
        }
    }
}
