//! transfer, simulated: each path is a start and a rate; staged copies are slow.

use plimsoll_core::Traffic;
use plimsoll_core::flag::Flags;
use plimsoll_core::sample::Work;
use plimsoll_core::series::TypedSeries;
use plimsoll_probes::transfer::{self, Copy, Path, SPEC};

use super::{Ask, Planned, Simulated};
use crate::device::Job;

pub(super) static PROBE: Simulated =
    Simulated { spec: &SPEC, sized: true, kernels: &["copy"], sweeps: &[single, copies] };

/// Each path with its rate in B/s and how often it counts a byte.
const PATHS: [(Path, f64, u64); 6] = [
    (Path::UpPinned, 55e9, 1),
    (Path::DownPinned, 54e9, 1),
    (Path::BothPinned, 92e9, 2),
    (Path::UpPageable, 11e9, 1),
    (Path::DownPageable, 9e9, 1),
    (Path::Across, 160e9, 2),
];
/// What a copy costs back to back and alone, seconds.
const STARTS: (f64, f64) = (1.5e-6, 9e-6);
/// Smallest and largest copies, bytes, and the largest that is timed alone.
const SIZES: (u64, u64) = (1 << 10, 16 << 20);
const SINGLE_MOST: u64 = 4 << 20;

fn planned(ask: &Ask<'_>, series: TypedSeries<Copy>, share: f64, most: u64, start: f64) -> Planned {
    let mut points = Vec::new();
    let sizes = ask.footprints(SIZES.0, ask.request.bytes.unwrap_or(SIZES.1), 1).into_iter().step_by(2);
    for size in sizes.filter(|size| *size <= most) {
        for (path, rate, counted) in PATHS {
            let moved = size * counted;
            let traffic = Traffic::new(moved / 2, moved - moved / 2);
            let work = Work { traffic, operations: 1.0, ..Work::default() };
            let seconds = start + moved as f64 / rate;
            let at = Copy { path, size: size.into() };
            points.push((at, Job { allocate: size, seconds, work, extra: None }));
        }
    }
    Planned::new(series, share, Flags::NONE, points)
}

fn single(ask: &Ask<'_>) -> Planned {
    planned(ask, transfer::single(), 0.2, SINGLE_MOST, STARTS.1)
}

fn copies(ask: &Ask<'_>) -> Planned {
    planned(ask, transfer::copies(), 0.8, u64::MAX, STARTS.0)
}
