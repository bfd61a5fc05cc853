//! mix, simulated: the memory of the model at every mix; long bursts turn it round less often.

use plimsoll_core::Traffic;
use plimsoll_core::flag::{Flag, Flags};
use plimsoll_core::sample::Work;
use plimsoll_probes::mix::{self, Burst, MOST, Phase, SPEC, Sides};

use super::{Ask, Planned, Simulated};
use crate::device::Job;
use crate::machine::CORES;

pub(super) static PROBE: Simulated =
    Simulated { spec: &SPEC, sized: true, kernels: &["mix 1:1", "mix 4:3"], sweeps: &[bursts, ceilings, phased] };

/// Bytes of one array, unless the user asks otherwise.
const WINDOW: u64 = 512 << 20;
/// Bytes per array of one launch; launches follow each other through the window.
const CHUNK: u64 = 8 << 20;
/// Accesses in a row.
const BURSTS: [u64; 3] = [1, 2, 4];
/// What each doubling of a burst wins of a mix of reads and writes.
const WON: f64 = 0.01;

fn window(ask: &Ask<'_>) -> (u64, Flags) {
    let asked = ask.request.bytes.unwrap_or(WINDOW).max(64);
    let room = ask.free / (2 * u64::from(MOST)) / 64 * 64;
    (asked.min(room), (asked > room).then_some(Flag::Shrunk).into_iter().collect())
}

fn job(ask: &Ask<'_>, (reads, writes): (u32, u32), doublings: u32) -> Job {
    let (bytes, _) = window(ask);
    let chunk = bytes.min(CHUNK);
    let traffic = Traffic::new(u64::from(reads) * chunk, u64::from(writes) * chunk);
    let turned = reads > 0 && writes > 0;
    let won = if turned { 1.0 + WON * f64::from(doublings) } else { 1.0 };
    Job {
        allocate: u64::from(reads + writes).saturating_mul(bytes),
        seconds: traffic.total() as f64 / (won * ask.machine.memory_bandwidth(traffic, CORES)),
        work: Work { traffic, window: bytes, ..Work::default() },
        extra: None,
    }
}

fn bursts(ask: &Ask<'_>) -> Planned {
    let counts: &[u64] = ask.by_effort([&BURSTS[..1], &BURSTS, &BURSTS]);
    let mut points = Vec::new();
    for (reads, writes) in mix::mixes() {
        for &burst in counts {
            let at = Burst { reads: reads.into(), writes: writes.into(), burst: burst.into() };
            points.push((at, job(ask, (reads, writes), burst.ilog2())));
        }
    }
    Planned::new(mix::bursts(), 0.6, window(ask).1, points)
}

fn ceilings(ask: &Ask<'_>) -> Planned {
    let point = |(reads, writes): (u32, u32)| {
        (Sides { reads: reads.into(), writes: writes.into() }, job(ask, (reads, writes), 2))
    };
    Planned::new(mix::ceilings(), 0.3, window(ask).1, mix::mixes().map(point).collect())
}

fn phased(ask: &Ask<'_>) -> Planned {
    let points = [1_u64, 2, 4].map(|mebibytes| (Phase { chunk: (mebibytes << 20).into() }, job(ask, (1, 1), 0)));
    Planned::new(mix::phased(), 0.1, window(ask).1, points.to_vec())
}
