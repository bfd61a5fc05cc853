//! Simulated `nccl`: a start-up time and a bus bandwidth, on the four devices of `neighbours`.

use plimsoll_core::Traffic;
use plimsoll_core::flag::Flags;
use plimsoll_core::sample::Work;
use plimsoll_probes::nccl::{self, Collective, DEVICES as COUNT, Operation, SPEC};

use super::neighbours::DEVICES;
use super::{PlanInput, Planned, Simulated};
use crate::device::Job;

pub(super) static PROBE: Simulated =
    Simulated { spec: &SPEC, kernels: &["all-reduce", "all-gather"], sweeps: &[collectives] };

/// Start-up time, seconds, and bus bandwidth, B/s.
const START: f64 = 12e-6;
const BUS: f64 = 350e9;
/// Smallest and largest array, bytes.
const SIZES: (u64, u64) = (8 << 10, 128 << 20);

fn collectives(input: &PlanInput<'_>) -> Planned {
    let mut points = Vec::new();
    for size in input.footprints(SIZES.0, SIZES.1, 1).into_iter().step_by(2) {
        for operation in Operation::ALL {
            let bytes = operation.bus_bytes(size, DEVICES as u64);
            let work = Work { traffic: Traffic::new(bytes, 0), operations: 1.0, ..Work::default() };
            let extra = [Some((COUNT, DEVICES as f64)), None];
            let at = Collective { operation, size: size.into() };
            points.push((at, Job { allocate: size, seconds: START + bytes as f64 / BUS, work, extra }));
        }
    }
    Planned::new(nccl::collectives(), 1.0, Flags::NONE, points)
}
