//! Simulated `soak`: the same load in every window; the scenario slows it down.

use plimsoll_core::flag::Flags;
use plimsoll_core::sample::Work;
use plimsoll_probes::lab::soak::{POWER, SPEC, over_time, sample_length, windows};

use super::{PlanInput, Planned, Simulated};
use crate::device::Job;
use crate::machine::{self, CLOCK_HZ, CORES, FLOP_PER_CYCLE};

pub(super) static PROBE: Simulated = Simulated { spec: &SPEC, kernels: &["FMA chain"], sweeps: &[sweep] };

fn sweep(input: &PlanInput<'_>) -> Planned {
    let duration = input.request.seconds.unwrap_or_else(|| SPEC.budget(input.request.effort));
    let seconds = sample_length(duration, input.request.effort);
    let operations = f64::from(CORES) * FLOP_PER_CYCLE * CLOCK_HZ * seconds;
    let work = Work { operations, ..Work::default() };
    let job = Job { allocate: 0, seconds, work, extra: [Some((POWER, machine::POWER)), None] };
    let points = windows(duration).into_iter().map(|window| (window, job)).collect();
    Planned::new(over_time(), 1.0, Flags::NONE, points)
}
