//! Loads of a warp at strides and in rows, from L1 and from shared memory.

use crate::prelude::kernels::*;

/// The source of these kernels.
pub static SOURCE: Source =
    Source::new("strides", include_str!("kernel.cu"), |_| kernels()).with_access_rule(AccessRule::Stated);

/// Threads per block; each SM has one block.
pub const THREADS: u32 = 1024;
/// Loads of a thread in one iteration.
pub const UNROLL: u32 = 8;
/// Bytes between two of them, the same as in `kernel.cu`.
pub const APART: u32 = 128;
/// Element sizes, bytes.
pub const ELEMENTS: [u32; 3] = [4, 8, 16];

/// Loads through L1.
#[must_use]
pub fn cache(bytes: u32) -> KernelDesc {
    KernelDesc { inputs: 1, ..kernel("cache", "STRIDES_CACHE", bytes) }
}

/// Loads from shared memory.
#[must_use]
pub fn shared(bytes: u32) -> KernelDesc {
    kernel("shared", "STRIDES_SHARED", bytes)
}

/// Bytes from an iteration's first access to the next iteration's, the same as in `kernel.cu`: a line per access.
const ITERATION: u64 = 128 * UNROLL as u64;
/// Words up to the end of the last lane's last access.
const WORDS: Amount = {
    use Amount::{Is, Less, Of, Over, Product, Smallest, Sum, Vector};
    let rows = Product(&[Over(&Is(31), &Of("width")), Of("pitch")]);
    let row = Product(&[Smallest(&[Is(32), Of("width")]), Vector]);
    Over(&Sum(&[rows, row, Less(&Of("span"), &Is(128))]), &Is(4))
};

fn kernel(space: &str, entry: &str, bytes: u32) -> KernelDesc {
    let name = format!("strides_{space}_{bytes}");
    KernelDesc {
        entry: format!("{entry}({name}, {bytes}, {UNROLL}, {THREADS})"),
        parameters: if space == "shared" {
            takes!(
                out: [fill 4; PerThread(4, &[])], cycles: [fill 8; PerBlock(8, &[])], in: [read 4; Times(4, &["n"])],
                n: U32 [Least(WORDS), Most(Over(&Shared, &Is(4)))], width: U32 [Least(Is(1))], pitch: U32 [Multiple(Vector)],
                span: U32 [Least(Is(ITERATION)), Multiple(Is(ITERATION))], warm: U32, iterations: U32,
            )
        } else {
            takes!(
                out: [fill 4; PerThread(4, &[])], cycles: [fill 8; PerBlock(8, &[])], in: [read VECTOR; Times(4, &["n"])],
                n: U32 [Least(WORDS)], width: U32 [Least(Is(1))], pitch: U32 [Multiple(Vector)],
                span: U32 [Least(Is(ITERATION)), Multiple(Is(ITERATION))], warm: U32, iterations: U32,
            )
        },
        vector_bytes: bytes,
        unroll: UNROLL,
        ..resident(1, &SOURCE, name, THREADS)
    }
}

/// All kernels.
#[must_use]
pub fn kernels() -> Vec<KernelDesc> {
    ELEMENTS.into_iter().flat_map(|bytes| [cache(bytes), shared(bytes)]).collect()
}
