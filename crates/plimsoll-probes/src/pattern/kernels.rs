//! Fills memory with words that depend on their index, and checks them.

use crate::prelude::kernels::*;

/// The source of these kernels.
pub static SOURCE: Source = Source::new("pattern", include_str!("kernel.cu"), |_| vec![fill(), check()]);

/// Threads of a block.
const THREADS: u32 = 256;
/// Blocks on each SM: as many threads as it has room for.
const BLOCKS: u32 = 8;
/// Words of the result of a check.
pub const RESULT_WORDS: u64 = 3;

/// Fills memory.
#[must_use]
pub fn fill() -> KernelDesc {
    let name = "pattern_fill".to_owned();
    KernelDesc {
        entry: format!("PATTERN_FILL({name}, {THREADS})"),
        parameters: takes!(out: [fill 8; Times(8, &["n"])], seed: U64, flip: U64, n: U64),
        ..resident(BLOCKS, &SOURCE, name, THREADS)
    }
}

/// Counts the words that differ.
#[must_use]
pub fn check() -> KernelDesc {
    let name = "pattern_check".to_owned();
    KernelDesc {
        entry: format!("PATTERN_CHECK({name}, {THREADS})"),
        parameters: takes!(
            in: [read 8; Times(8, &["n"])], result: [update 8; Times(8 * RESULT_WORDS, &[])], seed: U64, flip: U64, n: U64,
        ),
        ..resident(BLOCKS, &SOURCE, name, THREADS)
    }
}
