//! Loads of a warp at strides and in rows, from the first-level cache and from shared memory.

use super::parameter::takes;
use super::{Grid, KernelDesc, Source};

/// Threads per block, of which each multiprocessor has one.
pub const THREADS: u32 = 1024;
/// Loads of a thread in one turn.
pub const UNROLL: u32 = 8;
/// Bytes between two of them, as `strides.cu` has it.
pub const APART: u32 = 128;
/// Bytes of an element.
pub const ELEMENTS: [u32; 3] = [4, 8, 16];

/// Through the first-level cache.
#[must_use]
pub fn cache(bytes: u32) -> KernelDesc {
    KernelDesc { inputs: 1, ..kernel("cache", "STRIDES_CACHE", bytes) }
}

/// From shared memory.
#[must_use]
pub fn shared(bytes: u32) -> KernelDesc {
    kernel("shared", "STRIDES_SHARED", bytes)
}

fn kernel(space: &str, entry: &str, bytes: u32) -> KernelDesc {
    let name = format!("strides_{space}_{bytes}");
    KernelDesc {
        entry: format!("{entry}({name}, {bytes}, {UNROLL}, {THREADS})"),
        parameters: takes!(out: [4], cycles: [8; PerBlock(8)], in: [4; Times(4, &["n"])], n: U32, width: U32, pitch: U32, span: U32, warm: U32, turns: U32),
        vector_bytes: bytes,
        unroll: UNROLL,
        grid: Grid::Resident { blocks: 1 },
        looping: true,
        ..KernelDesc::new(Source::Strides, name, THREADS)
    }
}

/// Every one.
#[must_use]
pub fn kernels() -> Vec<KernelDesc> {
    ELEMENTS.into_iter().flat_map(|bytes| [cache(bytes), shared(bytes)]).collect()
}
