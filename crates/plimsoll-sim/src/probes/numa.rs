//! Simulated `numa`: two nodes, the second farther.

use plimsoll_core::Traffic;
use plimsoll_core::flag::Flags;
use plimsoll_core::sample::Work;
use plimsoll_probes::numa::{self, Direction, NEAR, Place, SPEC};

use super::{PlanInput, Planned, Simulated};
use crate::device::Job;

pub(super) static PROBE: Simulated = Simulated { spec: &SPEC, kernels: &["copy"], sweeps: &[nodes] };

/// Bytes of a copy, and the rate from each node, B/s.
const BYTES: u64 = 16 << 20;
const RATES: [f64; 2] = [55e9, 41e9];

fn nodes(_: &PlanInput<'_>) -> Planned {
    let mut points = Vec::new();
    for (node, rate) in (0_u64..).zip(RATES) {
        for direction in Direction::ALL {
            let work = Work { traffic: Traffic::new(BYTES, 0), operations: 1.0, ..Work::default() };
            let extra = [Some((NEAR, if node == 0 { 1.0 } else { 0.0 })), None];
            let at = Place { node: node.into(), direction };
            points.push((at, Job { allocate: BYTES, seconds: BYTES as f64 / rate, work, extra }));
        }
    }
    Planned::new(numa::nodes(), 1.0, Flags::NONE, points)
}
