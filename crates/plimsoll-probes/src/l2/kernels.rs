//! Reads, writes and copies that bypass L1.

use crate::prelude::kernels::*;

/// The source of these kernels.
pub static SOURCE: Source =
    Source::new("l2", include_str!("kernel.cu"), |_| kernels()).with_access_rule(AccessRule::Stated);

/// Threads per block, one block on each SM.
pub const THREADS: u32 = 1024;
/// Vectors of 16 bytes of a thread in one iteration.
pub const UNROLL: u32 = 4;

/// Bytes of a warp's iteration, which pieces are made of.
const CHUNK: Amount = Amount::Product(&[Amount::Is(32), Amount::Vector, Amount::Unroll]);

/// Parameters of a traversal, with its output and its input.
macro_rules! walk {
    ($out:tt, $in:tt) => {
        takes!(
            out: $out, in: $in,
            slice: U32 [Least(Is(1)), Multiple(CHUNK), Most(Is(1 << 31))], step: U32 [Multiple(CHUNK), Most(Of("slice"))], hop: U32 [Most(Less(&Blocks, &Is(1)))],
            shift: U32 [Most(Blocks)], iterations: U32,
        )
    };
}

/// Reads.
#[must_use]
pub fn read() -> KernelDesc {
    KernelDesc { inputs: 1, ..kernel("read", "READ") }
}

/// Writes, each word's place in it.
#[must_use]
pub fn write() -> KernelDesc {
    let parameters = walk!([write 16; PerBlock(1, &["slice"])], [read 16; Nothing]);
    KernelDesc { outputs: 1, parameters, ..kernel("write", "WRITE") }
}

/// Copies.
#[must_use]
pub fn copy() -> KernelDesc {
    let parameters = walk!([write 16; PerBlock(1, &["slice"])], [read 16; PerBlock(1, &["slice"])]);
    KernelDesc { inputs: 1, outputs: 1, parameters, ..kernel("copy", "COPY") }
}

fn kernel(what: &str, kind: &str) -> KernelDesc {
    let name = format!("l2_{what}");
    KernelDesc {
        entry: format!("L2_WALK({name}, {kind}, {UNROLL}, {THREADS})"),
        parameters: walk!([fill 4; PerThread(4, &[])], [read 16; PerBlock(1, &["slice"])]),
        vector_bytes: 16,
        unroll: UNROLL,
        ..resident(1, &SOURCE, name, THREADS)
    }
}

/// All kernels.
#[must_use]
pub fn kernels() -> Vec<KernelDesc> {
    vec![read(), write(), copy()]
}
