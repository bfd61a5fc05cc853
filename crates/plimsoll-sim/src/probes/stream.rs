//! Simulated `stream`: every kernel on rotating arrays, by kind of store and by cores, and the best measured again.

use plimsoll_core::Traffic;
use plimsoll_core::flag::{Flag, Flags};
use plimsoll_core::sample::Work;
use plimsoll_core::series::{Axes as _, Series};
use plimsoll_probes::stream::{self, BY_THREADS, BestOnCores, KERNELS, Mix, OnAllCores, OnSomeCores, SPEC, Stores};

use super::{PlanInput, Planned, Simulated};
use crate::device::Job;
use crate::machine::CORES;

pub(super) static PROBE: Simulated =
    Simulated { spec: &SPEC, kernels: &["read", "init", "copy", "triad"], sweeps: &[kernels, threads, best] };

/// Maximum number of operands of a kernel.
const OPERANDS: u64 = 4;
/// Bytes per operand of a whole rotation, unless the user asks otherwise: max(512 MiB, 5 × last-level cache).
const WINDOW: u64 = 512 << 20;
/// Bytes per operand of one launch; successive launches move through the window.
const CHUNK: u64 = 32 << 20;

/// Bytes per operand, with the flag `SHRUNK` if that is less than requested.
fn window(input: &PlanInput<'_>) -> (u64, Flags) {
    let requested = input.request.bytes.unwrap_or(WINDOW).max(64);
    let room = input.free / OPERANDS / 64 * 64;
    let mut flags = Flags::NONE;
    flags.insert_if(Flag::Shrunk, requested > room);
    (requested.min(room), flags)
}

fn job(input: &PlanInput<'_>, kernel: &Mix, stores: Stores, threads: u32) -> Job {
    let (reads, writes) = (u64::from(kernel.reads), u64::from(kernel.writes));
    let (window, _) = window(input);
    let chunk = window.min(CHUNK);
    let traffic = Traffic::new(reads * chunk, writes * chunk);
    let write_allocate = if stores == Stores::Ordinary { traffic.written } else { 0 };
    let moved = Traffic::new(traffic.read + write_allocate, traffic.written);
    let bandwidth = if window < CHUNK {
        input.machine.bandwidth(window.saturating_mul(reads + writes), moved)
    } else {
        input.machine.memory_bandwidth(moved, threads)
    };
    Job {
        allocate: window.saturating_mul(reads + writes),
        seconds: moved.total() as f64 / bandwidth,
        work: Work { traffic, write_allocate, window, ..Work::default() },
        extra: [None; 2],
    }
}

fn kernels(input: &PlanInput<'_>) -> Planned {
    let mut points = Vec::new();
    for kernel in &KERNELS {
        for &stores in &Stores::ALL[..if kernel.writes > 0 { 2 } else { 1 }] {
            points.push((OnAllCores { kernel: kernel.name.into(), stores }, job(input, kernel, stores, CORES)));
        }
    }
    Planned::new(stream::kernels(), 0.5, window(input).1, points)
}

fn threads(input: &PlanInput<'_>) -> Planned {
    let counts: &[u32] = input.by_effort([
        &[1, 2, 4, 8, 12, 16],
        &[1, 2, 3, 4, 6, 8, 10, 12, 14, 16],
        &[1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16],
    ]);
    let mut points = Vec::new();
    for kernel in KERNELS.iter().filter(|kernel| BY_THREADS.contains(&kernel.name)) {
        for &threads in counts {
            let at = OnSomeCores { kernel: kernel.name.into(), threads: threads.into() };
            points.push((at, job(input, kernel, Stores::Ordinary, threads)));
        }
    }
    Planned::new(stream::threads(), 0.3, window(input).1, points)
}

/// The best kind of store of each kernel, measured again on all cores.
fn best(input: &PlanInput<'_>) -> Planned {
    let measured = input.series.iter().find(|series| series.spec.case == stream::kernels().spec().case);
    let best_stores = |kernel: &Mix| {
        let of_kernel = |series: &Series| {
            let (row, _) = series.best("bandwidth", |row| series.text(row, "kernel") == Some(kernel.name))?;
            OnAllCores::from_values(&row.at).map(|at| at.stores)
        };
        measured.and_then(of_kernel).unwrap_or(Stores::Ordinary)
    };
    let point = |kernel: &Mix| {
        let stores = best_stores(kernel);
        let at = BestOnCores { kernel: kernel.name.into(), stores, threads: CORES.into() };
        (at, job(input, kernel, stores, CORES))
    };
    let points = KERNELS.iter().map(point).collect();
    Planned::new(stream::best(), 0.2, window(input).1, points)
}
