//! copy, simulated: sizes hot and cold on the model's caches and memory; grids and indices make no difference to it.

use plimsoll_core::Traffic;
use plimsoll_core::flag::Flags;
use plimsoll_core::sample::{CachePolicy, Work};
use plimsoll_core::series::TypedSeries;
use plimsoll_probes::copy::{self, ByGrid, ByIndex, ByKernel, Grid, Index, Kernel, OnOne, SPEC};

use super::{Ask, Planned, Simulated};
use crate::device::Job;
use crate::machine::CORES;

pub(super) static PROBE: Simulated = Simulated {
    spec: &SPEC,
    sized: true,
    kernels: &[Kernel::Naive.name(), Kernel::GridStride.name(), Kernel::Vec4.name()],
    sweeps: &[cold, hot, grids, indices, one],
};

/// Kernels with the share of the bandwidth that each reaches.
const KERNELS: [(Kernel, f64); 3] = [(Kernel::Naive, 0.8), (Kernel::GridStride, 0.78), (Kernel::Vec4, 1.0)];
/// Smallest and largest arrays, bytes.
const SIZES: (u64, u64) = (8 << 20, 512 << 20);
/// Bytes per operand of a rotation.
const WINDOW: u64 = 512 << 20;
/// Elements from which on the model's grid would not grow.
const BREAK_POINT: f64 = 28_310_532.0;

fn sizes(ask: &Ask<'_>) -> Vec<u64> {
    let most = ask.request.bytes.unwrap_or(SIZES.1).max(64);
    ask.footprints(SIZES.0.min(most), most, 1)
        .into_iter()
        .filter(|&bytes| WINDOW.max(bytes).saturating_mul(2) <= ask.free)
        .collect()
}

fn job(ask: &Ask<'_>, size: u64, share: f64, cold: bool) -> Job {
    let traffic = Traffic::new(size, size);
    let bandwidth = if cold {
        ask.machine.memory_bandwidth(traffic, CORES)
    } else {
        ask.machine.bandwidth(size.saturating_mul(2), traffic)
    };
    let window = if cold { WINDOW.max(size) } else { 0 };
    Job {
        allocate: window.max(size).saturating_mul(2),
        seconds: traffic.total() as f64 / (share * bandwidth),
        work: Work { traffic, window, ..Work::default() },
        extra: None,
    }
}

fn by_kernel(ask: &Ask<'_>, series: TypedSeries<ByKernel>, share: f64) -> Planned {
    let cold = series.spec().cache == CachePolicy::ColdRotate;
    let points =
        |size: u64| KERNELS.map(|(kernel, part)| (ByKernel { kernel, size: size.into() }, job(ask, size, part, cold)));
    Planned::new(series, share, Flags::NONE, sizes(ask).into_iter().flat_map(points).collect())
}

fn cold(ask: &Ask<'_>) -> Planned {
    by_kernel(ask, copy::cold(), 0.3)
}

fn hot(ask: &Ask<'_>) -> Planned {
    by_kernel(ask, copy::hot(), 0.3)
}

fn grids(ask: &Ask<'_>) -> Planned {
    let mut points = Vec::new();
    for size in sizes(ask) {
        let at = |grid| ByGrid { grid, kernel: Kernel::Vec4, size: size.into() };
        points.push((at(Grid::Covering), job(ask, size, 1.0, true)));
        points.push((
            at(Grid::Least),
            Job { extra: Some((copy::BREAK_POINT, BREAK_POINT)), ..job(ask, size, 0.98, true) },
        ));
    }
    Planned::new(copy::grids(), 0.2, Flags::NONE, points)
}

fn indices(ask: &Ask<'_>) -> Planned {
    let mut points = Vec::new();
    for size in sizes(ask) {
        for (index, part) in Index::ALL.into_iter().zip([0.79, 0.78]) {
            let at = ByIndex { index, kernel: Kernel::GridStride, size: size.into() };
            points.push((at, job(ask, size, part, true)));
        }
    }
    Planned::new(copy::indices(), 0.1, Flags::NONE, points)
}

fn one(ask: &Ask<'_>) -> Planned {
    let traffic = Traffic::new(SIZES.0, SIZES.0);
    let bandwidth = ask.machine.memory_bandwidth(traffic, 1);
    let point = |kernel, part: f64| {
        let seconds = traffic.total() as f64 / (part * bandwidth);
        (OnOne { kernel }, Job { seconds, ..job(ask, SIZES.0, part, false) })
    };
    let points = vec![point(Kernel::GridStride, 0.3), point(Kernel::Vec2, 0.6), point(Kernel::Vec4, 1.0)];
    Planned::new(copy::one_multiprocessor(), 0.1, Flags::NONE, points)
}
