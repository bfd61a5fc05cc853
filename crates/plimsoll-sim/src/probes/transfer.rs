//! Simulated `transfer`: each path has a start-up time and a rate; staged copies are slow.

use plimsoll_core::Traffic;
use plimsoll_core::flag::Flags;
use plimsoll_core::sample::Work;
use plimsoll_core::series::TypedSeries;
use plimsoll_probes::transfer::{self, Copy, Path, SPEC};

use super::{PlanInput, Planned, Simulated};
use crate::device::Job;

pub(super) static PROBE: Simulated = Simulated { spec: &SPEC, kernels: &["copy"], sweeps: &[single, copies] };

/// Each path with its rate in B/s and how many times it counts a byte.
const PATHS: [(Path, f64, u64); 6] = [
    (Path::UpPinned, 55e9, 1),
    (Path::DownPinned, 54e9, 1),
    (Path::BothPinned, 92e9, 2),
    (Path::UpPageable, 11e9, 1),
    (Path::DownPageable, 9e9, 1),
    (Path::Across, 160e9, 2),
];
/// Start-up time of a copy, back to back and alone, seconds.
const STARTS: (f64, f64) = (1.5e-6, 9e-6);
/// Smallest and largest copies, bytes, and the largest that is timed alone.
const SIZES: (u64, u64) = (1 << 10, 16 << 20);
const SINGLE_MOST: u64 = 4 << 20;

fn planned(input: &PlanInput<'_>, series: TypedSeries<Copy>, share: f64, most: u64, start: f64) -> Planned {
    let mut points = Vec::new();
    let sizes = input.footprints(SIZES.0, input.request.bytes.unwrap_or(SIZES.1), 1).into_iter().step_by(2);
    for size in sizes.filter(|size| *size <= most) {
        for (path, rate, counted) in PATHS {
            let moved = size * counted;
            let traffic = Traffic::new(moved / 2, moved - moved / 2);
            let work = Work { traffic, operations: 1.0, ..Work::default() };
            let seconds = start + moved as f64 / rate;
            let at = Copy { path, size: size.into() };
            points.push((at, Job { allocate: size, seconds, work, extra: [None; 2] }));
        }
    }
    Planned::new(series, share, Flags::NONE, points)
}

fn single(input: &PlanInput<'_>) -> Planned {
    planned(input, transfer::single(), 0.2, SINGLE_MOST, STARTS.1)
}

fn copies(input: &PlanInput<'_>) -> Planned {
    planned(input, transfer::copies(), 0.8, u64::MAX, STARTS.0)
}
