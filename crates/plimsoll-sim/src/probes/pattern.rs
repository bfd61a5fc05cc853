//! Simulated `pattern`: all free memory, read at the machine's bandwidth.

use plimsoll_core::Traffic;
use plimsoll_core::flag::Flags;
use plimsoll_core::sample::Work;
use plimsoll_probes::pattern::{self, Checked, Pass, SPEC};

use super::{PlanInput, Planned, Simulated};
use crate::device::Job;
use crate::machine::CORES;

pub(super) static PROBE: Simulated = Simulated { spec: &SPEC, kernels: &["pattern"], sweeps: &[checks] };

fn checks(input: &PlanInput<'_>) -> Planned {
    let bytes = input.request.bytes.unwrap_or(u64::MAX).min(input.free / 10 * 9);
    let traffic = Traffic::new(bytes, 0);
    let seconds = bytes as f64 / input.machine.memory_bandwidth(traffic, CORES);
    let job =
        Job { allocate: bytes, seconds, work: Work { traffic, window: bytes, ..Work::default() }, extra: [None; 2] };
    let points = Pass::ALL.map(|pass| (Checked { pass, memory: bytes.into() }, job));
    Planned::new(pattern::checks(), 1.0, Flags::NONE, points.to_vec())
}
