//! Simulated `launch`: every mode has its own start-up time; the rest is the model's caches and memory.

use plimsoll_core::Traffic;
use plimsoll_core::flag::Flags;
use plimsoll_core::sample::Work;
use plimsoll_probes::launch::{self, ByClock, ByMode, Clock, Mode, SPEC, Scale};

use super::{PlanInput, Planned, Simulated};
use crate::device::Job;

pub(super) static PROBE: Simulated =
    Simulated { spec: &SPEC, kernels: &["empty", "scale"], sweeps: &[empty, single, scale] };

/// Each mode with its start-up time in addition to the scenario's launch, seconds.
const MODES: [(Mode, f64); 6] = [
    (Mode::Stream, 1.2e-6),
    (Mode::Graph, 0.1e-6),
    (Mode::StreamDependent, 0.9e-6),
    (Mode::GraphDependent, 0.0),
    (Mode::GraphExit, 0.05e-6),
    (Mode::Persistent, 0.5e-6),
];
/// Smallest and largest footprint, bytes.
const FOOTPRINTS: (u64, u64) = (4 << 10, 256 << 20);
/// Least total time of a launch, whatever the scenario's launch, seconds.
const LEAST: f64 = 1e-9;

/// A job of `seconds`; the scenario's launch time is added when it is loaded.
fn job(input: &PlanInput<'_>, allocate: u64, seconds: f64, traffic: Traffic) -> Job {
    let work = Work { traffic, operations: 1.0, ..Work::default() };
    Job { allocate, seconds: seconds.max(LEAST - input.machine.launch), work, extra: [None; 2] }
}

fn empty(input: &PlanInput<'_>) -> Planned {
    let points = MODES.map(|(mode, start)| (ByMode { mode }, job(input, 0, start, Traffic::default())));
    Planned::new(launch::empty(), 0.1, Flags::NONE, points.to_vec())
}

fn single(input: &PlanInput<'_>) -> Planned {
    let clocks = [(Clock::Events, 1.5e-6), (Clock::Host, 6e-6)];
    let points = clocks.map(|(clock, more)| (ByClock { clock }, job(input, 0, more, Traffic::default())));
    Planned::new(launch::single(), 0.05, Flags::NONE, points.to_vec())
}

fn scale(input: &PlanInput<'_>) -> Planned {
    let sizes = input.footprints(FOOTPRINTS.0, FOOTPRINTS.1, input.by_effort([1, 1, 2]));
    let mut points = Vec::new();
    for (mode, start) in MODES {
        for &bytes in &sizes {
            let traffic = Traffic::new(bytes / 2, bytes / 2);
            let seconds = start + bytes as f64 / input.machine.bandwidth(bytes, traffic);
            points.push((Scale { mode, footprint: bytes.into() }, job(input, bytes, seconds, traffic)));
        }
    }
    Planned::new(launch::scale(), 0.85, Flags::NONE, points)
}
