//! Calibration kernels: one keeps the device busy and measures its clock, the other does nothing.

use super::parameter::takes;
use super::spirv::{Features, Spirv, spirv_builds};
use super::{Grid, KernelDesc, Source};

spirv_builds! {
    "crates/plimsoll-gen/kernels/vulkan", "../../kernels/vulkan/":
    EMPTY = "empty.spv", "empty.comp", [];
    SPIN = "spin.spv", "spin.comp", [];
    SPIN_CYCLES = "spin_cycles.spv", "spin.comp", ["CYCLES"];
    SPIN_TIMER = "spin_timer.spv", "spin.comp", ["CYCLES", "TIMER"];
}

/// The source of these kernels.
pub static SOURCE: Source =
    Source::new("clock", include_str!("../../kernels/clock.cu"), |_| kernels()).with_spirv(spirv, BUILDS);

/// The Vulkan code of a kernel that does nothing.
#[must_use]
pub fn nothing() -> Spirv {
    Spirv::new(EMPTY, vec![])
}

fn spirv(kernel: &KernelDesc, features: Features) -> Result<Spirv, &'static str> {
    if kernel.name == "plimsoll_empty" {
        return Ok(nothing());
    }
    let long = u32::from(features.short_loops);
    Ok(Spirv::clocked([SPIN, SPIN_CYCLES, SPIN_TIMER], vec![(1, long)], features))
}

/// Longest time to keep a device busy, in nanoseconds: the limit of the counter in `spin.comp`.
const LONGEST: u64 = 1 << 40;

/// Keeps every SM busy for a given time and measures its clock meanwhile.
#[must_use]
pub fn spin() -> KernelDesc {
    KernelDesc {
        parameters: takes!(out: [fill 8; Times(16, &[])], nanoseconds: U64 [Most(Is(LONGEST))]),
        grid: Grid::Resident { blocks: 1 },
        looping: true,
        ..KernelDesc::new(&SOURCE, "plimsoll_spin", 256)
    }
}

/// Does nothing: measures the cost of a launch.
#[must_use]
pub fn empty() -> KernelDesc {
    let empty = KernelDesc::new(&SOURCE, "plimsoll_empty", 32);
    KernelDesc { grid: Grid::Blocks(1), looping: true, threads_fixed: false, ..empty }
}

/// Both kernels.
#[must_use]
pub fn kernels() -> Vec<KernelDesc> {
    vec![spin(), empty()]
}
