//! Simulated `incore`: an instruction takes the longer of latency / chains and its reciprocal throughput.

use plimsoll_core::flag::Flags;
use plimsoll_core::sample::Work;
use plimsoll_probes::incore::{self, Chains, SPEC};

use super::{LAUNCH_SECONDS, PlanInput, Planned, Simulated};
use crate::device::Job;
use crate::machine::CLOCK_HZ;

pub(super) static PROBE: Simulated =
    Simulated { spec: &SPEC, kernels: &["ADD", "MUL", "FMA", "DIV", "SQRT"], sweeps: &[operations] };

/// Each operation with its latency and its reciprocal throughput, cycles per instruction.
const OPERATIONS: [(&str, f64, f64); 5] =
    [("ADD", 4.0, 0.5), ("MUL", 4.0, 0.5), ("FMA", 4.0, 0.5), ("DIV", 14.0, 4.0), ("SQRT", 19.0, 6.0)];

fn operations(input: &PlanInput<'_>) -> Planned {
    let types: &[&str] = input.by_effort([&["f64"], &["f64", "f32"], &["f64", "f32"]]);
    let chains: &[u32] = input.by_effort([
        &[1, 2, 3, 4, 6, 8, 10, 12],
        &[1, 2, 3, 4, 5, 6, 8, 10, 12],
        &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12],
    ]);
    let mut points = Vec::new();
    for element in types {
        for width in ["scalar", "512"] {
            for (operation, latency, reciprocal) in OPERATIONS {
                // A divider processes wide vectors in parts.
                let parts: f64 = if width == "512" && latency > 10.0 { 4.0 } else { 1.0 };
                for &ilp in chains {
                    let cycles = f64::max(latency * parts.sqrt() / f64::from(ilp), reciprocal * parts);
                    let instruction = format!("{operation} {element} {width}").into();
                    points.push((Chains { instruction, ilp: ilp.into() }, job(cycles)));
                }
            }
        }
    }
    Planned::new(incore::operations(), 1.0, Flags::NONE, points)
}

fn job(cycles: f64) -> Job {
    let operations = (LAUNCH_SECONDS * CLOCK_HZ / cycles).round();
    let work = Work { operations, in_kernel: true, ..Work::default() };
    Job { allocate: 0, seconds: operations * cycles / CLOCK_HZ, work, extra: [None; 2] }
}
