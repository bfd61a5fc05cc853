//! loaded-latency, simulated: a queue before memory.

use plimsoll_core::Traffic;
use plimsoll_core::flag::Flags;
use plimsoll_core::sample::Work;
use plimsoll_core::series::Value;
use plimsoll_probes::loaded_latency::{self, SPEC};

use super::{Ask, LAUNCH_SECONDS, Planned, Simulated};
use crate::device::Job;
use crate::machine::{CLOCK_HZ, CORES};

pub(super) static PROBE: Simulated =
    Simulated { spec: &SPEC, sized: true, kernels: &["chase beside load"], sweeps: &[load] };

/// What the other cores do, with their mix.
const BACKGROUNDS: [(&str, Traffic); 2] = [("read", Traffic::new(1, 0)), ("copy", Traffic::new(1, 1))];
/// Bytes that the chase needs, unless asked otherwise.
const FOOTPRINT: u64 = 512 << 20;
/// Bytes that a core moves between two delays.
const BLOCK: f64 = 1024.0;
/// Cores that make load: all but the one that chases.
const LOADERS: u32 = CORES - 1;

fn load(ask: &Ask<'_>) -> Planned {
    let delays: &[f64] = ask.by_effort([
        &[0.0, 50.0, 100.0, 150.0, 200.0, 300.0, 500.0, 1000.0, 4000.0],
        &[0.0, 25.0, 50.0, 75.0, 100.0, 125.0, 150.0, 200.0, 250.0, 300.0, 400.0, 600.0, 1000.0, 2000.0, 8000.0],
        &[0.0, 25.0, 50.0, 75.0, 100.0, 125.0, 150.0, 200.0, 250.0, 300.0, 400.0, 600.0, 1000.0, 2000.0, 8000.0],
    ]);
    let mut points = Vec::new();
    for (background, traffic) in BACKGROUNDS {
        points.push((at(background, 0.0, 0), job(ask, 0.0, 1.0)));
        let most = ask.machine.memory_bandwidth(traffic, LOADERS);
        for &delay in delays.iter().rev() {
            let block = BLOCK * f64::from(LOADERS) / most;
            let drawn = BLOCK * f64::from(LOADERS) / (block + delay / CLOCK_HZ);
            points.push((at(background, delay, LOADERS), job(ask, drawn, most)));
        }
    }
    Planned { series: loaded_latency::load(), share: 1.0, flags: Flags::NONE, points }
}

fn at(background: &str, delay: f64, threads: u32) -> Vec<Value> {
    vec![background.into(), delay.into(), f64::from(threads).into()]
}

fn job(ask: &Ask<'_>, drawn: f64, most: f64) -> Job {
    let hop = ask.machine.loaded_latency(drawn, most) / CLOCK_HZ;
    let hops = (LAUNCH_SECONDS / hop).round();
    Job {
        allocate: ask.request.bytes.unwrap_or(FOOTPRINT),
        seconds: hops * hop,
        work: Work { operations: hops, in_kernel: true, ..Work::default() },
        extra: Some(("background bandwidth", drawn)),
    }
}
