//! Reads, writes and copies that pass the first-level cache by.

use super::parameter::takes;
use super::{Grid, KernelDesc, Source};

/// Threads per block, of which each multiprocessor has one.
pub const THREADS: u32 = 1024;
/// Vectors of 16 bytes of a thread in one turn.
pub const UNROLL: u32 = 4;

/// Reads.
#[must_use]
pub fn read() -> KernelDesc {
    KernelDesc { inputs: 1, ..kernel("read", "READ") }
}

/// Writes, each word's place in it.
#[must_use]
pub fn write() -> KernelDesc {
    KernelDesc { outputs: 1, ..kernel("write", "WRITE") }
}

/// Copies.
#[must_use]
pub fn copy() -> KernelDesc {
    KernelDesc { inputs: 1, outputs: 1, ..kernel("copy", "COPY") }
}

fn kernel(what: &str, kind: &str) -> KernelDesc {
    let name = format!("l2_{what}");
    KernelDesc {
        entry: format!("L2_WALK({name}, {kind}, {UNROLL}, {THREADS})"),
        parameters: takes!(out: [4], in: [4], slice: U32, step: U32, hop: U32, shift: U32, turns: U32),
        vector_bytes: 16,
        unroll: UNROLL,
        grid: Grid::Resident { blocks: 1 },
        looping: true,
        ..KernelDesc::new(Source::L2, name, THREADS)
    }
}

/// Every one.
#[must_use]
pub fn kernels() -> Vec<KernelDesc> {
    vec![read(), write(), copy()]
}
