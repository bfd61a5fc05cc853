//! Simulated `sync`: waiting for more threads takes longer, per doubling (a tree) and per thread.

use plimsoll_core::flag::Flags;
use plimsoll_core::sample::Work;
use plimsoll_probes::sync::{self, ByThreads, Primitive, SPEC};

use super::{LAUNCH_SECONDS, PlanInput, Planned, Simulated};
use crate::device::Job;

pub(super) static PROBE: Simulated =
    Simulated { spec: &SPEC, kernels: &["spin barrier", "std barrier"], sweeps: &[primitives] };

/// Each primitive with its time for two threads, and the time that each doubling and each further thread adds, seconds.
const PRIMITIVES: [(Primitive, f64, f64, f64); 5] = [
    (Primitive::SpinBarrier, 110e-9, 90e-9, 4e-9),
    (Primitive::StdBarrier, 5.2e-6, 1.8e-6, 0.9e-6),
    (Primitive::ParkAndUnpark, 4.6e-6, 0.3e-6, 0.05e-6),
    (Primitive::LineHandOver, 62e-9, 3e-9, 0.5e-9),
    (Primitive::AtomicAdd, 24e-9, 6e-9, 18e-9),
];

fn primitives(input: &PlanInput<'_>) -> Planned {
    let counts: &[u32] = input.by_effort([&[2, 4, 8, 16], &[2, 4, 6, 8, 12, 16], &[2, 3, 4, 6, 8, 10, 12, 14, 16]]);
    let mut points = Vec::new();
    for (primitive, two, doubling, each) in PRIMITIVES {
        for &threads in counts {
            let count = f64::from(threads);
            let seconds = two + doubling * (count / 2.0).log2() + each * (count - 2.0);
            let operations = (LAUNCH_SECONDS / seconds).ceil();
            let work = Work { operations, in_kernel: true, ..Work::default() };
            let job = Job { allocate: 0, seconds: seconds * operations, work, extra: [None; 2] };
            points.push((ByThreads { primitive, threads: threads.into() }, job));
        }
    }
    Planned::new(sync::primitives(), 1.0, Flags::NONE, points)
}
