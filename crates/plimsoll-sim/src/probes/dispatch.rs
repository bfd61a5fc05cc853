//! Simulated `dispatch`: starting blocks is limited by blocks and by threads per clock; a signalling block counts twice.

use plimsoll_core::flag::Flags;
use plimsoll_core::sample::Work;
use plimsoll_probes::dispatch::{self, Kind, Plain, Programmatic, SPEC};

use super::{PlanInput, Planned, Simulated};
use crate::device::Job;
use crate::machine::CLOCK_HZ;

pub(super) static PROBE: Simulated = Simulated { spec: &SPEC, kernels: &["empty"], sweeps: &[blocks, programmatic] };

/// Blocks of one launch.
const BLOCKS: u64 = 1 << 20;
/// Blocks and threads started per clock.
const PER_CLOCK: (f64, f64) = (0.8, 400.0);

/// Threads per block.
const THREADS: [u64; 6] = [32, 64, 128, 256, 512, 1024];

/// A launch of blocks of `threads` threads, where starting a block takes as long as starting `starts` empty ones.
fn job(threads: u64, starts: f64) -> Job {
    let clocks = BLOCKS as f64 * f64::max(starts / PER_CLOCK.0, threads as f64 / PER_CLOCK.1);
    let work = Work { operations: BLOCKS as f64, ..Work::default() };
    Job { allocate: 0, seconds: clocks / CLOCK_HZ, work, extra: [None; 2] }
}

fn blocks(_: &PlanInput<'_>) -> Planned {
    let points = THREADS.map(|threads| (Plain { threads: threads.into() }, job(threads, 1.0)));
    Planned::new(dispatch::blocks(), 0.5, Flags::NONE, points.to_vec())
}

fn programmatic(_: &PlanInput<'_>) -> Planned {
    let kinds = [(Kind::Waiting, 1.0), (Kind::Signalling, 2.0)];
    let point = |(kind, starts), threads: u64| (Programmatic { kind, threads: threads.into() }, job(threads, starts));
    let points = kinds.into_iter().flat_map(|kind| THREADS.map(|threads| point(kind, threads))).collect();
    Planned::new(dispatch::programmatic(), 0.5, Flags::NONE, points)
}
