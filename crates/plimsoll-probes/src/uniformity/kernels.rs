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
    let name = "uniformity_read".to_owned();
    KernelDesc {
        entry: format!("UNIFORMITY_READ({name}, 1024)"),
        parameters: takes!(
            out: [write 8; Times(32, &[])], ticket: [update 4; Times(4, &[])], iteration: U32, wanted: U32,
            bits: [write 4; Times(128, &[])], in: [read 16; Times(16, &["n"])], n: U64,
        ),
        inputs: 1,
        vector_bytes: 16,
        unroll: 8,
        hints: PAST_L1,
        ..resident(CANDIDATES, &SOURCE, name, 1024)
    }
}

/// One SM follows a chain in L2.
#[must_use]
pub fn chase() -> KernelDesc {
    let name = "uniformity_chase".to_owned();
    KernelDesc {
        entry: format!("UNIFORMITY_CHASE({name})"),
        parameters: takes!(
            out: [write 8; Times(32, &[])], ticket: [update 4; Times(4, &[])], iteration: U32, wanted: U32,
            cursor: [update 8; Times(8, &[])], hops: U64 [Multiple(Is(chain::HOPS))],
        ),
        vector_bytes: 8,
        access_rule: AccessRule::Chain,
        ..resident(CANDIDATES, &SOURCE, name, 32)
    }
}

/// The whole device reads n vectors of 16 bytes.
#[must_use]
pub fn region() -> KernelDesc {
    let name = "uniformity_region".to_owned();
    KernelDesc {
        entry: format!("UNIFORMITY_REGION({name}, 256)"),
        parameters: takes!(bits: [fill 4; PerWarp(4)], in: [read 16; Times(16, &["n"])], n: U64),
        inputs: 1,
        vector_bytes: 16,
        unroll: 8,
        hints: PAST_L1,
        ..resident(8, &SOURCE, name, 256)
    }
}

/// All kernels.
#[must_use]
pub fn kernels() -> Vec<KernelDesc> {
    vec![read(), chase(), region()]
}
