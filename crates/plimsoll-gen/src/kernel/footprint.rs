//! Passes over private data of every block.

use super::parameter::takes;
use super::{Element, Grid, KernelDesc, Output, Source};

/// Threads per block.
pub const THREADS: u32 = 256;
/// Blocks on each multiprocessor.
pub const BLOCKS: u32 = 4;
/// Reads, one array.
#[must_use]
pub fn read() -> KernelDesc {
    kernel("footprint_read", 1, 0, 8)
}

/// out = a.
#[must_use]
pub fn copy() -> KernelDesc {
    kernel("footprint_copy", 1, 1, 8)
}

/// out = a + s · b, in single precision.
#[must_use]
pub fn triad() -> KernelDesc {
    KernelDesc { element: Element::F32, ..kernel("footprint_triad", 2, 1, 4) }
}

/// `unroll`: vectors of each array that a thread has in hand.
fn kernel(name: &str, inputs: u32, outputs: u32, unroll: u32) -> KernelDesc {
    KernelDesc {
        entry: format!("FOOTPRINT({name}, {inputs}, {outputs}, {THREADS}, {unroll})"),
        parameters: takes!(out: [16], a: [16], b: [16], s: F32, apart: U32, step: U32, rounds: U32, steps: U64),
        inputs,
        outputs,
        vector_bytes: 16,
        unroll,
        grid: Grid::Resident { blocks: BLOCKS },
        looping: true,
        output: if outputs > 0 { Output::Map } else { Output::WarpBits },
        ..KernelDesc::new(Source::Footprint, name.to_owned(), THREADS)
    }
}

/// Every one.
#[must_use]
pub fn kernels() -> Vec<KernelDesc> {
    vec![read(), copy(), triad()]
}
