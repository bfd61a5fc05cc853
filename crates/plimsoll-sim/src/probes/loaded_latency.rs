//! Simulated `loaded-latency`: a queue in front of memory.

use plimsoll_core::Traffic;
use plimsoll_core::flag::Flags;
use plimsoll_core::sample::Work;
use plimsoll_probes::loaded_latency::{self, Background, Load, SPEC};

use super::{LAUNCH_SECONDS, PlanInput, Planned, Simulated};
use crate::device::Job;
use crate::machine::{CLOCK_HZ, CORES};

pub(super) static PROBE: Simulated = Simulated { spec: &SPEC, kernels: &["chase beside load"], sweeps: &[load] };

/// The background load of the other cores, with its mix.
const BACKGROUNDS: [(Background, Traffic); 2] =
    [(Background::Read, Traffic::new(1, 0)), (Background::Copy, Traffic::new(1, 1))];
/// Bytes of the chase, unless the user asks otherwise.
const FOOTPRINT: u64 = 512 << 20;
/// Bytes that a core moves between two delays.
const BLOCK: f64 = 1024.0;
/// Cores that generate load: all except the one that chases.
const LOADERS: u32 = CORES - 1;

fn load(input: &PlanInput<'_>) -> Planned {
    let delays: &[u64] = input.by_effort([
        &[0, 50, 100, 150, 200, 300, 500, 1000, 4000],
        &[0, 25, 50, 75, 100, 125, 150, 200, 250, 300, 400, 600, 1000, 2000, 8000],
        &[0, 25, 50, 75, 100, 125, 150, 200, 250, 300, 400, 600, 1000, 2000, 8000],
    ]);
    let mut points = Vec::new();
    for (background, traffic) in BACKGROUNDS {
        points.push((place(background, 0, 0), job(input, 0.0, 1.0)));
        let most = input.machine.memory_bandwidth(traffic, LOADERS);
        for &delay in delays.iter().rev() {
            let block = BLOCK * f64::from(LOADERS) / most;
            let drawn = BLOCK * f64::from(LOADERS) / (block + delay as f64 / CLOCK_HZ);
            points.push((place(background, delay, LOADERS), job(input, drawn, most)));
        }
    }
    Planned::new(loaded_latency::load(), 1.0, Flags::NONE, points)
}

fn place(background: Background, delay: u64, threads: u32) -> Load {
    Load { background, delay: delay.into(), threads: threads.into() }
}

fn job(input: &PlanInput<'_>, drawn: f64, most: f64) -> Job {
    let hop = input.machine.loaded_latency(drawn, most) / CLOCK_HZ;
    let hops = (LAUNCH_SECONDS / hop).round();
    Job {
        allocate: input.request.bytes.unwrap_or(FOOTPRINT),
        seconds: hops * hop,
        work: Work { operations: hops, in_kernel: true, ..Work::default() },
        extra: [Some(("background bandwidth", drawn)), None],
    }
}
