//! Kernels that calibrate a device: they measure its clock, keep it busy, and do nothing.

use super::parameter::takes;
use super::{Grid, KernelDesc, Source};

/// Nanoseconds that a device can be kept busy for: what `spin.comp` counts.
const LONGEST: u64 = 1 << 40;

/// Keeps every multiprocessor busy for a time and measures its clock meanwhile.
#[must_use]
pub fn spin() -> KernelDesc {
    KernelDesc {
        parameters: takes!(out: [fill 8; Times(16, &[])], nanoseconds: U64 [Most(Is(LONGEST))]),
        grid: Grid::Resident { blocks: 1 },
        looping: true,
        ..KernelDesc::new(Source::Clock, "plimsoll_spin".to_owned(), 256)
    }
}

/// Nothing: what a launch costs by itself.
#[must_use]
pub fn empty() -> KernelDesc {
    let empty = KernelDesc::new(Source::Clock, "plimsoll_empty".to_owned(), 32);
    KernelDesc { grid: Grid::Blocks(1), looping: true, threads_fixed: false, ..empty }
}

/// Both.
#[must_use]
pub fn kernels() -> Vec<KernelDesc> {
    vec![spin(), empty()]
}
