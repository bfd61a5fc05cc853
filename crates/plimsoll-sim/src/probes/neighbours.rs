//! Simulated `neighbours`: the simulated device is the first of four of its host. Copies from and to the host share the host's
//! memory; nothing else is shared, unless the scenario says otherwise.

use plimsoll_core::Traffic;
use plimsoll_core::flag::Flags;
use plimsoll_core::sample::Work;
use plimsoll_probes::interference::Task;
use plimsoll_probes::neighbours::rounds::rounds;
use plimsoll_probes::neighbours::{self, Company, Pair, Place, SPEC, TASKS, pair_name};

use super::{LAUNCH_SECONDS, PlanInput, Planned, Simulated};
use crate::device::Job;
use crate::machine::CORES;

pub(super) static PROBE: Simulated =
    Simulated { spec: &SPEC, kernels: &["read", "copy"], sweeps: &[reads, to_devices, from_devices, products, pairs] };

/// Devices of the host.
pub(super) const DEVICES: usize = 4;
/// Bytes of a copy from or to the host, and of a kernel's array.
const BYTES: u64 = 16 << 20;
/// Rates of a single copy, of all copies through the host's memory, and of a pair in both directions, B/s.
const COPY: f64 = 55e9;
const HOST: f64 = 200e9;
const PAIR: f64 = 740e9;
/// Rate of matrix products, FLOP/s, power, watts, and clock, hertz.
const PRODUCTS: f64 = 600e12;
const DRAWN: f64 = 690.0;
const HERTZ: f64 = 1.5e9;

/// The name of a device of the host.
fn name(device: usize) -> String {
    format!("sim:{device}")
}

fn planned(input: &PlanInput<'_>, task: Task) -> Planned {
    let traffic = Traffic::new(BYTES, 0);
    let mut points = Vec::new();
    for device in 0..DEVICES {
        for with in Company::ALL {
            let shared = with == Company::Together && task != Task::Read;
            let fair = if shared { COPY.min(HOST / DEVICES as f64) } else { COPY };
            let crowded = input.scenario.crowded.filter(|(crowded, _)| shared && *crowded == device as u64);
            let rate = match task {
                Task::Read => input.machine.memory_bandwidth(traffic, CORES),
                _ => fair * (1.0 - crowded.map_or(0.0, |(_, loss)| loss)),
            };
            let work = Work { traffic, operations: 1.0, ..Work::default() };
            let at = Place { device: name(device).into(), with };
            points.push((at, Job { allocate: BYTES, seconds: BYTES as f64 / rate, work, extra: [None; 2] }));
        }
    }
    Planned::new(neighbours::rates(task), 0.15, Flags::NONE, points)
}

fn reads(input: &PlanInput<'_>) -> Planned {
    planned(input, TASKS[0])
}

fn to_devices(input: &PlanInput<'_>) -> Planned {
    planned(input, TASKS[1])
}

fn from_devices(input: &PlanInput<'_>) -> Planned {
    planned(input, TASKS[2])
}

fn products(_: &PlanInput<'_>) -> Planned {
    let operations = PRODUCTS * LAUNCH_SECONDS;
    let extra = [Some((neighbours::POWER, DRAWN)), Some((neighbours::CLOCK, HERTZ))];
    let job = Job { seconds: LAUNCH_SECONDS, work: Work { operations, ..Work::default() }, extra, allocate: 0 };
    let points =
        (0..DEVICES).flat_map(|device| Company::ALL.map(|with| (Place { device: name(device).into(), with }, job)));
    Planned::new(neighbours::products(), 0.35, Flags::NONE, points.collect())
}

fn pairs(_: &PlanInput<'_>) -> Planned {
    let work = Work { traffic: Traffic::new(BYTES, BYTES), operations: 1.0, ..Work::default() };
    let job = Job { allocate: BYTES, seconds: 2.0 * BYTES as f64 / PAIR, work, extra: [None; 2] };
    let all = rounds(DEVICES).into_iter().flatten().map(|(first, second)| pair_name(&name(first), &name(second)));
    let points = all.flat_map(|pair| Company::ALL.map(|with| (Pair { pair: pair.clone(), with }, job)));
    Planned::new(neighbours::pairs(), 0.2, Flags::NONE, points.collect())
}
