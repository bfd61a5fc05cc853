//! Simulated `footprint`: bandwidth of all levels.

use plimsoll_core::Traffic;
use plimsoll_core::flag::Flags;
use plimsoll_core::sample::Work;
use plimsoll_probes::footprint::{self, Kernel, SPEC, Spread};

use super::{LAUNCH_SECONDS, PlanInput, Planned, Simulated};
use crate::device::Job;
use crate::machine::CORES;

pub(super) static PROBE: Simulated = Simulated { spec: &SPEC, kernels: &["read", "copy", "triad"], sweeps: &[curve] };

/// Each kernel with the number of operands that it reads and writes; together they make up the footprint.
const KERNELS: [(Kernel, u64, u64); 3] = [(Kernel::Read, 1, 0), (Kernel::Copy, 1, 1), (Kernel::Triad, 2, 1)];
/// Smallest footprint: 4 KiB per core.
const LEAST: u64 = 4096 * CORES as u64;

fn curve(input: &PlanInput<'_>) -> Planned {
    let footprints = input.footprints(LEAST, input.by_effort([1 << 30, 2 << 30, 4 << 30]), input.by_effort([2, 3, 4]));
    let mut points = Vec::new();
    for (kernel, reads, writes) in KERNELS {
        for &bytes in &footprints {
            points.push((Spread { kernel, footprint: bytes.into() }, job(input, bytes, reads, writes)));
        }
    }
    Planned::new(footprint::curve(), 1.0, Flags::NONE, points)
}

fn job(input: &PlanInput<'_>, bytes: u64, reads: u64, writes: u64) -> Job {
    let part = bytes / (reads + writes);
    let once = Traffic::new(part.saturating_mul(reads), part.saturating_mul(writes));
    let seconds = once.total() as f64 / input.machine.bandwidth(bytes, once);
    // One launch makes several passes over a small footprint.
    let passes = (LAUNCH_SECONDS / seconds).ceil().max(1.0);
    let traffic = once.checked_mul(passes as u64).unwrap_or(once);
    Job { allocate: bytes, seconds: seconds * passes, work: Work { traffic, ..Work::default() }, extra: [None; 2] }
}
