//! Kernels whose start is what is measured.

use super::{Element, Grid, KernelDesc, Output, Source};

const THREADS: u32 = 256;

/// A kernel of one block that does nothing.
#[must_use]
pub fn empty(dependent: bool) -> KernelDesc {
    let name = if dependent { "launch_empty_dependent" } else { "launch_empty" }.to_owned();
    let entry = format!("LAUNCH_EMPTY({name}, {dependent}, 32)");
    KernelDesc { entry, grid: Grid::Blocks(1), looping: true, dependent, ..KernelDesc::new(Source::Launch, name, 32) }
}

/// out = s · in.
#[must_use]
pub fn scale(dependent: bool) -> KernelDesc {
    let name = if dependent { "launch_scale_dependent" } else { "launch_scale" }.to_owned();
    let entry = format!("LAUNCH_SCALE({name}, {dependent}, {THREADS})");
    KernelDesc { entry, dependent, parameters: &["out", "in", "s", "n"], ..moving(name) }
}

/// `scale` many times in one launch, with a barrier of the grid after each; n = 0 leaves the barriers alone.
#[must_use]
pub fn rounds() -> KernelDesc {
    let name = "launch_rounds".to_owned();
    KernelDesc {
        entry: format!("LAUNCH_ROUNDS({name}, {THREADS})"),
        parameters: &["out", "in", "s", "n", "rounds", "barrier"],
        grid: Grid::Resident { blocks: 4 },
        looping: true,
        cooperative: true,
        ..moving(name)
    }
}

fn moving(name: String) -> KernelDesc {
    KernelDesc {
        element: Element::F32,
        inputs: 1,
        outputs: 1,
        vector_bytes: 16,
        output: Output::Map,
        ..KernelDesc::new(Source::Launch, name, THREADS)
    }
}

/// Every one.
#[must_use]
pub fn kernels() -> Vec<KernelDesc> {
    vec![empty(false), empty(true), scale(false), scale(true), rounds()]
}
