//! stream, simulated: every kernel on rotating arrays, by kind of store, by cores, and the best again.

use plimsoll_core::Traffic;
use plimsoll_core::flag::{Flag, Flags};
use plimsoll_core::sample::Work;
use plimsoll_core::series::{Series, Value};
use plimsoll_suite::probes::stream::{self, BY_THREADS, KERNELS, Mix, SPEC};

use super::{Ask, Planned, Simulated};
use crate::device::Job;
use crate::machine::CORES;

pub(super) static PROBE: Simulated = Simulated {
    spec: &SPEC,
    sized: true,
    kernels: &["read", "init", "copy", "triad"],
    sweeps: &[kernels, threads, best],
};

/// Most operands of a kernel.
const OPERANDS: u64 = 4;
/// Bytes per operand of a whole rotation, unless the user asks otherwise: max(512 MiB, 5 × last-level cache).
const WINDOW: u64 = 512 << 20;
/// Bytes per operand of one launch; launches follow each other through the window.
const CHUNK: u64 = 32 << 20;
const STORES: [&str; 2] = ["ordinary", "non-temporal"];

/// Bytes per operand, and whether that is less than what was asked for.
fn window(ask: &Ask<'_>) -> (u64, Flags) {
    let asked = ask.request.bytes.unwrap_or(WINDOW).max(64);
    let room = ask.free / OPERANDS / 64 * 64;
    let mut flags = Flags::NONE;
    flags.insert_if(Flag::Shrunk, asked > room);
    (asked.min(room), flags)
}

fn job(ask: &Ask<'_>, kernel: &Mix, stores: &str, threads: u32) -> Job {
    let (reads, writes) = (u64::from(kernel.reads), u64::from(kernel.writes));
    let (window, _) = window(ask);
    let chunk = window.min(CHUNK);
    let traffic = Traffic::new(reads * chunk, writes * chunk);
    let write_allocate = if stores == STORES[0] { traffic.written } else { 0 };
    let moved = Traffic::new(traffic.read + write_allocate, traffic.written);
    let bandwidth = if window < CHUNK {
        ask.machine.bandwidth(window.saturating_mul(reads + writes), moved)
    } else {
        ask.machine.memory_bandwidth(moved, threads)
    };
    Job {
        allocate: window.saturating_mul(reads + writes),
        seconds: moved.total() as f64 / bandwidth,
        work: Work { traffic, write_allocate, window, ..Work::default() },
        extra: None,
    }
}

fn kernels(ask: &Ask<'_>) -> Planned {
    let mut points = Vec::new();
    for kernel in &KERNELS {
        for stores in &STORES[..if kernel.writes > 0 { 2 } else { 1 }] {
            points.push((vec![kernel.name.into(), (*stores).into()], job(ask, kernel, stores, CORES)));
        }
    }
    Planned { series: stream::kernels(), share: 0.5, flags: window(ask).1, points }
}

fn threads(ask: &Ask<'_>) -> Planned {
    let counts: &[u32] = ask.by_effort([
        &[1, 2, 4, 8, 12, 16],
        &[1, 2, 3, 4, 6, 8, 10, 12, 14, 16],
        &[1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16],
    ]);
    let mut points = Vec::new();
    for kernel in KERNELS.iter().filter(|kernel| BY_THREADS.contains(&kernel.name)) {
        for &threads in counts {
            let at = vec![kernel.name.into(), Value::Number(f64::from(threads))];
            points.push((at, job(ask, kernel, STORES[0], threads)));
        }
    }
    Planned { series: stream::threads(), share: 0.3, flags: window(ask).1, points }
}

/// The best kind of store of each kernel, measured afresh on all cores.
fn best(ask: &Ask<'_>) -> Planned {
    let measured = ask.series.iter().find(|series| series.spec.case == stream::kernels().case);
    let best_stores = |kernel: &Mix| {
        let of_kernel = |series: &Series| {
            let (row, _) = series.best("bandwidth", |row| series.text(row, "kernel") == Some(kernel.name))?;
            series.text(row, "stores").map(str::to_owned)
        };
        measured.and_then(of_kernel).unwrap_or_else(|| STORES[0].to_owned())
    };
    let point = |kernel: &Mix| {
        let stores = best_stores(kernel);
        let at = vec![kernel.name.into(), stores.as_str().into(), Value::Number(f64::from(CORES))];
        (at, job(ask, kernel, &stores, CORES))
    };
    let points = KERNELS.iter().map(point).collect();
    Planned { series: stream::best(), share: 0.2, flags: window(ask).1, points }
}
