//! transfer, simulated: each path is a start and a rate; staged copies are slow.

use plimsoll_core::Traffic;
use plimsoll_core::flag::Flags;
use plimsoll_core::sample::Work;
use plimsoll_core::series::SeriesSpec;
use plimsoll_probes::transfer::{self, ACROSS, BOTH_PINNED, DOWN_PAGEABLE, DOWN_PINNED, SPEC, UP_PAGEABLE, UP_PINNED};

use super::{Ask, Planned, Simulated};
use crate::device::Job;

pub(super) static PROBE: Simulated =
    Simulated { spec: &SPEC, sized: true, kernels: &["copy"], sweeps: &[single, copies] };

/// Each path with its rate in B/s and how often it counts a byte.
const PATHS: [(&str, f64, u64); 6] = [
    (UP_PINNED, 55e9, 1),
    (DOWN_PINNED, 54e9, 1),
    (BOTH_PINNED, 92e9, 2),
    (UP_PAGEABLE, 11e9, 1),
    (DOWN_PAGEABLE, 9e9, 1),
    (ACROSS, 160e9, 2),
];
/// What a copy costs back to back and alone, seconds.
const STARTS: (f64, f64) = (1.5e-6, 9e-6);
/// Smallest and largest copies, bytes, and the largest that is timed alone.
const SIZES: (u64, u64) = (1 << 10, 16 << 20);
const SINGLE_MOST: u64 = 4 << 20;

fn planned(ask: &Ask<'_>, series: SeriesSpec, share: f64, most: u64, start: f64) -> Planned {
    let mut points = Vec::new();
    let sizes = ask.footprints(SIZES.0, ask.request.bytes.unwrap_or(SIZES.1), 1).into_iter().step_by(2);
    for size in sizes.filter(|size| *size <= most) {
        for (path, rate, counted) in PATHS {
            let moved = size * counted;
            let traffic = Traffic::new(moved / 2, moved - moved / 2);
            let work = Work { traffic, operations: 1.0, ..Work::default() };
            let seconds = start + moved as f64 / rate;
            points.push((vec![path.into(), size.into()], Job { allocate: size, seconds, work, extra: None }));
        }
    }
    Planned { series, share, flags: Flags::NONE, points }
}

fn single(ask: &Ask<'_>) -> Planned {
    planned(ask, transfer::single(), 0.2, SINGLE_MOST, STARTS.1)
}

fn copies(ask: &Ask<'_>) -> Planned {
    planned(ask, transfer::copies(), 0.8, u64::MAX, STARTS.0)
}
