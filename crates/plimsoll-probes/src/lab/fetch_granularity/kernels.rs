//! Reads of 32 bytes at random places, with a hint of how many bytes to fetch. The places are those of
//! [`gather::place`](crate::gather::kernels::place).

use crate::prelude::kernels::*;

/// The source of these kernels.
pub static SOURCE: Source =
    Source::new("fetch-granularity", include_str!("kernel.cu"), |_| kernels()).with_access_rule(AccessRule::Stated);

/// Threads per block.
pub const THREADS: u32 = 512;
/// Blocks on each SM.
const BLOCKS: u32 = 2;
/// Loads of a thread in one iteration.
pub const UNROLL: u32 = 8;
/// Bytes that a load's hint asks the L2 to fetch; 0 is no hint.
pub const HINTS: [u32; 4] = [0, 64, 128, 256];

/// Reads with this hint.
#[must_use]
pub fn read(hint: u32) -> KernelDesc {
    let name = format!("fetch_granularity_{hint}");
    KernelDesc {
        entry: format!("FETCH_GRANULARITY_READ({name}, {hint}, {UNROLL}, {THREADS})"),
        parameters: takes!(
            out: [fill 4; PerThread(4, &[])], in: [read 16; Times(128, &["lines"])], lines: U32 [Least(Is(1))], seed: U32,
            iterations: U32,
        ),
        inputs: 1,
        vector_bytes: 16,
        unroll: UNROLL,
        ..resident(BLOCKS, &SOURCE, name, THREADS)
    }
}

/// All kernels.
#[must_use]
pub fn kernels() -> Vec<KernelDesc> {
    HINTS.map(read).to_vec()
}
