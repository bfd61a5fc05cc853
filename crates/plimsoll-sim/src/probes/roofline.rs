//! Simulated `roofline`: the lower of the memory limit and the compute limit.

use plimsoll_core::Traffic;
use plimsoll_core::flag::Flags;
use plimsoll_core::sample::Work;
use plimsoll_core::series::FlopPerByte;
use plimsoll_probes::roofline::{self, Place, SPEC, Type};

use super::{PlanInput, Planned, Simulated};
use crate::device::Job;

pub(super) static PROBE: Simulated = Simulated { spec: &SPEC, kernels: &["FMA chain"], sweeps: &[sweep] };

/// Bytes of a whole rotation, unless the user asks otherwise.
const WINDOW: u64 = 512 << 20;
/// Bytes of one launch.
const CHUNK: u64 = 32 << 20;
/// Each type with its lanes relative to f64.
const TYPES: [(Type, f64); 2] = [(Type::F64, 1.0), (Type::F32, 2.0)];

fn sweep(input: &PlanInput<'_>) -> Planned {
    let per_octave = input.by_effort([1.0, 2.0, 2.0]);
    let window = input.request.bytes.unwrap_or(WINDOW).max(64);
    let traffic = Traffic::new(window.min(CHUNK), 0);
    let mut points = Vec::new();
    for (kind, lanes) in TYPES {
        for step in 0..=(11.0 * per_octave) as u32 {
            let intensity = (f64::from(step) / per_octave - 3.0).exp2();
            let operations = intensity * traffic.read as f64;
            let seconds = operations / input.machine.roofline(intensity, lanes, traffic);
            let work = Work { traffic, operations, window, ..Work::default() };
            let at = Place { kind, intensity: FlopPerByte(intensity) };
            points.push((at, Job { allocate: window, seconds, work, extra: [None; 2] }));
        }
    }
    Planned::new(roofline::sweep(), 1.0, Flags::NONE, points)
}
