//! One multiprocessor alone, and one part of the memory alone.

use super::parameter::takes;
use super::{Grid, Hints, KernelDesc, Source};

/// Reads leave nothing in the first-level cache.
const PASSING: Hints = Hints { load_no_allocate: true, store_streaming: false };

/// Candidates for one block on a chosen multiprocessor, per multiprocessor.
const CANDIDATES: u32 = 4;

/// One multiprocessor reads n vectors of 16 bytes.
#[must_use]
pub fn read() -> KernelDesc {
    let name = "uniformity_read".to_owned();
    KernelDesc {
        entry: format!("UNIFORMITY_READ({name}, 1024)"),
        parameters: takes!(out: [8; Times(32, &[])], ticket: [4], turn: U32, wanted: U32, bits: [4], in: [16; Times(16, &["n"])], n: U64),
        inputs: 1,
        vector_bytes: 16,
        unroll: 8,
        hints: PASSING,
        grid: Grid::Resident { blocks: CANDIDATES },
        looping: true,
        ..KernelDesc::new(Source::Uniformity, name, 1024)
    }
}

/// One multiprocessor follows a chain that lies in the second-level cache.
#[must_use]
pub fn chase() -> KernelDesc {
    let name = "uniformity_chase".to_owned();
    KernelDesc {
        entry: format!("UNIFORMITY_CHASE({name})"),
        parameters: takes!(out: [8; Times(32, &[])], ticket: [4], turn: U32, wanted: U32, cursor: [8], hops: U64),
        vector_bytes: 8,
        grid: Grid::Resident { blocks: CANDIDATES },
        looping: true,
        ..KernelDesc::new(Source::Uniformity, name, 32)
    }
}

/// The whole device reads n vectors of 16 bytes.
#[must_use]
pub fn region() -> KernelDesc {
    let name = "uniformity_region".to_owned();
    KernelDesc {
        entry: format!("UNIFORMITY_REGION({name}, 256)"),
        parameters: takes!(bits: [4], in: [16; Times(16, &["n"])], n: U64),
        inputs: 1,
        vector_bytes: 16,
        unroll: 8,
        hints: PASSING,
        grid: Grid::Resident { blocks: 8 },
        looping: true,
        ..KernelDesc::new(Source::Uniformity, name, 256)
    }
}

/// Every one.
#[must_use]
pub fn kernels() -> Vec<KernelDesc> {
    vec![read(), chase(), region()]
}
