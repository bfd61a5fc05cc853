//! Simulated `strides`: strides that share a factor with the number of L1 banks cause bank conflicts.

use plimsoll_core::Traffic;
use plimsoll_core::flag::Flags;
use plimsoll_core::sample::Work;
use plimsoll_probes::strides::{self, SPEC, Stride};

use super::{LAUNCH_SECONDS, PlanInput, Planned, Simulated};
use crate::device::Job;
use crate::machine::CLOCK_HZ;

pub(super) static PROBE: Simulated = Simulated { spec: &SPEC, kernels: &["strided read"], sweeps: &[tableau] };

/// Width of a bank in bytes, and the number of banks.
const BANK: u64 = 4;
const BANKS: u64 = 16;
/// Cycles of an access without conflicts, and what each further access to the same bank adds.
const ACCESS: f64 = 0.5;
const CONFLICT: f64 = 0.09;

fn tableau(input: &PlanInput<'_>) -> Planned {
    let (every, all_up_to) = input.by_effort([(16, 16), (8, 32), (2, 64)]);
    let mut points = Vec::new();
    for element in [4_u64, 8, 16] {
        for stride in (1..=128_u64).filter(|stride| *stride <= all_up_to || stride % every == 0) {
            // Neighbouring elements fill whole rows of banks, so a unit stride has no conflict for any element size.
            let banks = element / BANK;
            let step = banks * stride % BANKS;
            let conflicts = if step == 0 { BANKS } else { 1 << step.trailing_zeros() } / banks;
            let base = if element == 16 { 2.0 * ACCESS } else { ACCESS };
            let cycles = base + CONFLICT * (conflicts - 1) as f64;
            points.push((Stride { element: element.into(), stride: stride.into() }, job(cycles, element)));
        }
    }
    Planned::new(strides::tableau(), 1.0, Flags::NONE, points)
}

fn job(cycles: f64, element: u64) -> Job {
    let accesses = (LAUNCH_SECONDS * CLOCK_HZ / cycles).round();
    let traffic = Traffic::new(accesses as u64 * element, 0);
    let work = Work { traffic, operations: accesses, in_kernel: true, ..Work::default() };
    Job { allocate: 32 << 10, seconds: accesses * cycles / CLOCK_HZ, work, extra: [None; 2] }
}
