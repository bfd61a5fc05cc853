//! Simulated `copy`: hot and cold sizes on the model's caches and memory, with a fixed efficiency per kernel, grid and index.

use plimsoll_core::Traffic;
use plimsoll_core::flag::Flags;
use plimsoll_core::sample::{CachePolicy, Work};
use plimsoll_core::series::TypedSeries;
use plimsoll_probes::copy::{self, ByGrid, ByIndex, ByKernel, Grid, Index, Kernel, OnOne, SPEC};

use super::{PlanInput, Planned, Simulated};
use crate::device::Job;
use crate::machine::CORES;

pub(super) static PROBE: Simulated = Simulated {
    spec: &SPEC,

    kernels: &[Kernel::Naive.name(), Kernel::GridStride.name(), Kernel::Vec4.name()],
    sweeps: &[cold, hot, grids, indices, one_multiprocessor],
};

/// Each kernel with the share of the bandwidth that it reaches.
const KERNELS: [(Kernel, f64); 3] = [(Kernel::Naive, 0.8), (Kernel::GridStride, 0.78), (Kernel::Vec4, 1.0)];
/// Smallest and largest arrays, bytes.
const SIZES: (u64, u64) = (8 << 20, 512 << 20);
/// Bytes per operand of a rotation.
const WINDOW: u64 = 512 << 20;
/// Number of elements at which the model's grid stops growing.
const BREAK_POINT: f64 = 28_310_532.0;

fn sizes(input: &PlanInput<'_>) -> Vec<u64> {
    let most = input.request.bytes.unwrap_or(SIZES.1).max(64);
    input
        .footprints(SIZES.0.min(most), most, 1)
        .into_iter()
        .filter(|&bytes| WINDOW.max(bytes).saturating_mul(2) <= input.free)
        .collect()
}

fn job(input: &PlanInput<'_>, size: u64, share: f64, cold: bool) -> Job {
    let traffic = Traffic::new(size, size);
    let bandwidth = if cold {
        input.machine.memory_bandwidth(traffic, CORES)
    } else {
        input.machine.bandwidth(size.saturating_mul(2), traffic)
    };
    let window = if cold { WINDOW.max(size) } else { 0 };
    Job {
        allocate: window.max(size).saturating_mul(2),
        seconds: traffic.total() as f64 / (share * bandwidth),
        work: Work { traffic, window, ..Work::default() },
        extra: [None; 2],
    }
}

fn by_kernel(input: &PlanInput<'_>, series: TypedSeries<ByKernel>, share: f64) -> Planned {
    let cold = series.spec().cache == CachePolicy::ColdRotate;
    let points = |size: u64| {
        KERNELS.map(|(kernel, part)| (ByKernel { kernel, size: size.into() }, job(input, size, part, cold)))
    };
    Planned::new(series, share, Flags::NONE, sizes(input).into_iter().flat_map(points).collect())
}

fn cold(input: &PlanInput<'_>) -> Planned {
    by_kernel(input, copy::all_kernels(CachePolicy::ColdRotate), 0.3)
}

fn hot(input: &PlanInput<'_>) -> Planned {
    by_kernel(input, copy::all_kernels(CachePolicy::Hot), 0.3)
}

fn grids(input: &PlanInput<'_>) -> Planned {
    let mut points = Vec::new();
    for size in sizes(input) {
        let place = |grid| ByGrid { grid, kernel: Kernel::Vec4, size: size.into() };
        points.push((place(Grid::Covering), job(input, size, 1.0, true)));
        points.push((
            place(Grid::Least),
            Job { extra: [Some((copy::BREAK_POINT, BREAK_POINT)), None], ..job(input, size, 0.98, true) },
        ));
    }
    Planned::new(copy::grids(), 0.2, Flags::NONE, points)
}

fn indices(input: &PlanInput<'_>) -> Planned {
    let mut points = Vec::new();
    for size in sizes(input) {
        for (index, part) in Index::ALL.into_iter().zip([0.79, 0.78]) {
            let at = ByIndex { index, kernel: Kernel::GridStride, size: size.into() };
            points.push((at, job(input, size, part, true)));
        }
    }
    Planned::new(copy::indices(), 0.1, Flags::NONE, points)
}

fn one_multiprocessor(input: &PlanInput<'_>) -> Planned {
    let traffic = Traffic::new(SIZES.0, SIZES.0);
    let bandwidth = input.machine.memory_bandwidth(traffic, 1);
    let point = |kernel, part: f64| {
        let seconds = traffic.total() as f64 / (part * bandwidth);
        (OnOne { kernel }, Job { seconds, ..job(input, SIZES.0, part, false) })
    };
    let points = vec![point(Kernel::GridStride, 0.3), point(Kernel::Vec2, 0.6), point(Kernel::Vec4, 1.0)];
    Planned::new(copy::one_multiprocessor(), 0.1, Flags::NONE, points)
}
