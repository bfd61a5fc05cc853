//! Kernels that measure one SM alone or one part of the memory alone.

use plimsoll_gen::kernel::chain;

use crate::prelude::kernels::*;

/// The source of these kernels.
pub static SOURCE: Source =
    Source::new("uniformity", include_str!("kernel.cu"), |_| kernels()).with_access_rule(AccessRule::Stated);

/// Reads that don't allocate in L1.
const PAST_L1: Hints = Hints { load_no_allocate: true, store_streaming: false };

/// Candidates for one block on a chosen SM, per SM.
const CANDIDATES: u32 = 4;

/// One SM reads n vectors of 16 bytes.
#[must_use]
pub fn read() -> KernelDesc {
    KernelDesc {
        entry: "UNIFORMITY_READ(uniformity_read, 1024)".to_owned(),
        parameters: takes!(
            out: [write 8; Times(32, &[])], ticket: [update 4; Times(4, &[])], iteration: U32, wanted: U32,
            bits: [write 4; Times(128, &[])], in: [read 16; Times(16, &["n"])], n: U64,
        ),
        inputs: 1,
        vector_bytes: 16,
        unroll: 8,
        hints: PAST_L1,
        ..resident(CANDIDATES, &SOURCE, "uniformity_read", 1024)
    }
}

/// One SM follows a chain in L2.
#[must_use]
pub fn chase() -> KernelDesc {
    KernelDesc {
        entry: "UNIFORMITY_CHASE(uniformity_chase)".to_owned(),
        parameters: takes!(
            out: [write 8; Times(32, &[])], ticket: [update 4; Times(4, &[])], iteration: U32, wanted: U32,
            cursor: [update 8; Times(8, &[])], hops: U64 [Multiple(Is(chain::HOPS))],
        ),
        vector_bytes: 8,
        access_rule: AccessRule::Chain,
        ..resident(CANDIDATES, &SOURCE, "uniformity_chase", 32)
    }
}

/// The whole device reads n vectors of 16 bytes.
#[must_use]
pub fn region() -> KernelDesc {
    KernelDesc {
        entry: "UNIFORMITY_REGION(uniformity_region, 256)".to_owned(),
        parameters: takes!(bits: [fill 4; PerWarp(4)], in: [read 16; Times(16, &["n"])], n: U64),
        inputs: 1,
        vector_bytes: 16,
        unroll: 8,
        hints: PAST_L1,
        ..resident(8, &SOURCE, "uniformity_region", 256)
    }
}

/// All kernels.
#[must_use]
pub fn kernels() -> Vec<KernelDesc> {
    vec![read(), chase(), region()]
}
