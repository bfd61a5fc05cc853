//! A producer and a consumer of one tile, in separate launches and in one, and a kernel that checks both.

use crate::prelude::kernels::*;

/// The source of these kernels.
pub static SOURCE: Source =
    Source::new("l2-reuse", include_str!("kernel.cu"), |_| kernels()).with_access_rule(AccessRule::Stated);

/// Threads per block.
const THREADS: u32 = 512;
/// Blocks on each SM: all are resident at once, even if an SM holds only 1536 threads.
const BLOCKS: u32 = 3;

/// The first update of a tile.
#[must_use]
pub fn producer() -> KernelDesc {
    step("l2_reuse_producer", false)
}

/// The second, from the tile's end on.
#[must_use]
pub fn consumer() -> KernelDesc {
    step("l2_reuse_consumer", true)
}

/// Both in turn for some rounds, with grid barriers between.
#[must_use]
pub fn both() -> KernelDesc {
    let name = "l2_reuse_both";
    KernelDesc {
        entry: format!("L2_REUSE_BOTH({name}, {THREADS})"),
        parameters: takes!(at: [update 16; Times(16, &["n"])], n: U64, rounds: U32, barrier: [update 4; Times(4, &[])]),
        cooperative: true,
        ..base(name)
    }
}

/// Counts words that are wrong after `rounds` rounds.
#[must_use]
pub fn wrong() -> KernelDesc {
    KernelDesc {
        parameters: takes!(result: [update 8; Times(8, &[])], at: [read 4; Times(4, &["n"])], rounds: U32, n: U64),
        inputs: 0,
        outputs: 0,
        ..base("l2_reuse_wrong")
    }
}

fn step(name: &str, consumer: bool) -> KernelDesc {
    KernelDesc {
        entry: format!("L2_REUSE_STEP({name}, {consumer}, {THREADS})"),
        parameters: takes!(at: [update 16; Times(16, &["n"])], n: U64),
        ..base(name)
    }
}

fn base(name: &str) -> KernelDesc {
    KernelDesc {
        element: Element::Word,
        inputs: 1,
        outputs: 1,
        vector_bytes: 16,
        ..resident(BLOCKS, &SOURCE, name, THREADS)
    }
}

/// All kernels.
#[must_use]
pub fn kernels() -> Vec<KernelDesc> {
    vec![producer(), consumer(), both(), wrong()]
}

/// Word `w` after `rounds` rounds, if it was 0.
#[must_use]
pub fn word(w: u64, rounds: u32) -> u32 {
    rounds.wrapping_mul((w as u32).wrapping_mul(4).wrapping_add(8))
}
