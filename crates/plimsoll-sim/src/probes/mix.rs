//! Simulated `mix`: the model's memory at every mix; long bursts switch between reads and writes less often.

use plimsoll_core::Traffic;
use plimsoll_core::flag::{Flag, Flags};
use plimsoll_core::sample::Work;
use plimsoll_probes::mix::{self, Burst, MOST, Phase, SPEC, Sides};

use super::{PlanInput, Planned, Simulated};
use crate::device::Job;
use crate::machine::CORES;

pub(super) static PROBE: Simulated =
    Simulated { spec: &SPEC, kernels: &["mix 1:1", "mix 4:3"], sweeps: &[bursts, ceilings, phased] };

/// Bytes of one array, unless the user asks otherwise.
const WINDOW: u64 = 512 << 20;
/// Bytes per array of one launch; successive launches move through the window.
const CHUNK: u64 = 8 << 20;
/// Accesses in a row.
const BURSTS: [u64; 3] = [1, 2, 4];
/// Relative gain of a mix of reads and writes for each doubling of the burst.
const BURST_GAIN: f64 = 0.01;

fn window(input: &PlanInput<'_>) -> (u64, Flags) {
    let requested = input.request.bytes.unwrap_or(WINDOW).max(64);
    let room = input.free / (2 * u64::from(MOST)) / 64 * 64;
    (requested.min(room), (requested > room).then_some(Flag::Shrunk).into_iter().collect())
}

fn job(input: &PlanInput<'_>, (reads, writes): (u32, u32), doublings: u32) -> Job {
    let (bytes, _) = window(input);
    let chunk = bytes.min(CHUNK);
    let traffic = Traffic::new(u64::from(reads) * chunk, u64::from(writes) * chunk);
    let is_mixed = reads > 0 && writes > 0;
    let gain = if is_mixed { 1.0 + BURST_GAIN * f64::from(doublings) } else { 1.0 };
    Job {
        allocate: u64::from(reads + writes).saturating_mul(bytes),
        seconds: traffic.total() as f64 / (gain * input.machine.memory_bandwidth(traffic, CORES)),
        work: Work { traffic, window: bytes, ..Work::default() },
        extra: [None; 2],
    }
}

fn bursts(input: &PlanInput<'_>) -> Planned {
    let counts: &[u64] = input.by_effort([&BURSTS[..1], &BURSTS, &BURSTS]);
    let mut points = Vec::new();
    for (reads, writes) in mix::mixes() {
        for &burst in counts {
            let at = Burst { reads: reads.into(), writes: writes.into(), burst: burst.into() };
            points.push((at, job(input, (reads, writes), burst.ilog2())));
        }
    }
    Planned::new(mix::bursts(), 0.6, window(input).1, points)
}

fn ceilings(input: &PlanInput<'_>) -> Planned {
    let point = |(reads, writes): (u32, u32)| {
        (Sides { reads: reads.into(), writes: writes.into() }, job(input, (reads, writes), 2))
    };
    Planned::new(mix::ceilings(), 0.3, window(input).1, mix::mixes().map(point).collect())
}

fn phased(input: &PlanInput<'_>) -> Planned {
    let points = [1_u64, 2, 4].map(|mebibytes| (Phase { chunk: (mebibytes << 20).into() }, job(input, (1, 1), 0)));
    Planned::new(mix::phased(), 0.1, window(input).1, points.to_vec())
}
