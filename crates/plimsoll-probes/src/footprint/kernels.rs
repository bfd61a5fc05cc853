//! Passes over private data of every block.

use crate::prelude::kernels::*;

/// The source of these kernels.
pub static SOURCE: Source =
    Source::new("footprint", include_str!("kernel.cu"), |_| kernels()).with_access_rule(AccessRule::Stated);

/// Threads per block.
pub const THREADS: u32 = 256;
/// Blocks on each SM.
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

/// Bytes from the first block's first round to the last block's last round.
const PIECES: Amount = {
    use Amount::{Blocks, Is, Less, Of, Product, Sum, Threads};
    let blocks = &Product(&[Less(&Blocks, &Is(1)), Of("apart")]);
    let rounds = &Product(&[Less(&Of("rounds"), &Is(1)), Of("step")]);
    Product(&[Is(16), Threads, Sum(&[*blocks, *rounds, Is(1)])])
};
/// Most rounds whose positions fit in 32 bits.
const ROUNDS: Amount = {
    use Amount::{Is, Of, Over, Product, Sum, Threads};
    Sum(&[Over(&Is(u32::MAX as u64), &Product(&[Of("step"), Threads])), Is(1)])
};

/// `unroll`: vectors of each array that a thread has in flight.
fn kernel(name: &str, inputs: u32, outputs: u32, unroll: u32) -> KernelDesc {
    KernelDesc {
        entry: format!("FOOTPRINT({name}, {inputs}, {outputs}, {THREADS}, {unroll})"),
        parameters: match (inputs, outputs) {
            (1, 0) => takes!(
                out: [fill 4; PerWarp(4)], a: [read 16; Bytes(PIECES)], b: [read 16; Nothing],
                s: F32, apart: U32, step: U32, rounds: U32 [Least(Is(1)), Most(ROUNDS)], steps: U64,
            ),
            (1, _) => takes!(
                out: [write 16; Bytes(PIECES)], a: [read 16; Bytes(PIECES)], b: [read 16; Nothing],
                s: F32, apart: U32, step: U32, rounds: U32 [Least(Is(1)), Most(ROUNDS)], steps: U64,
            ),
            _ => takes!(
                out: [write 16; Bytes(PIECES)], a: [read 16; Bytes(PIECES)], b: [read 16; Bytes(PIECES)],
                s: F32, apart: U32, step: U32, rounds: U32 [Least(Is(1)), Most(ROUNDS)], steps: U64,
            ),
        },
        inputs,
        outputs,
        vector_bytes: 16,
        unroll,
        output: if outputs > 0 { Output::Map } else { Output::WarpBits },
        ..resident(BLOCKS, &SOURCE, name, THREADS)
    }
}

/// All kernels.
#[must_use]
pub fn kernels() -> Vec<KernelDesc> {
    vec![read(), copy(), triad()]
}
