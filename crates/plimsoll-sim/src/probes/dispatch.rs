//! dispatch, simulated: a block takes a clock to start, and so does each so many of its threads.

use plimsoll_core::flag::Flags;
use plimsoll_core::sample::Work;
use plimsoll_suite::probes::dispatch::{self, SPEC};

use super::{Ask, Planned, Simulated};
use crate::device::Job;
use crate::machine::CLOCK_HZ;

pub(super) static PROBE: Simulated = Simulated { spec: &SPEC, sized: false, kernels: &["empty"], sweeps: &[blocks] };

/// Blocks of one launch.
const BLOCKS: u64 = 1 << 20;
/// Blocks and threads started per clock.
const PER_CLOCK: (f64, f64) = (0.8, 400.0);

fn blocks(_: &Ask<'_>) -> Planned {
    let point = |threads: u64| {
        let clocks = BLOCKS as f64 * f64::max(1.0 / PER_CLOCK.0, threads as f64 / PER_CLOCK.1);
        let work = Work { operations: BLOCKS as f64, ..Work::default() };
        (vec![threads.into()], Job { allocate: 0, seconds: clocks / CLOCK_HZ, work, extra: None })
    };
    let points = [32, 64, 128, 256, 512, 1024].map(point).to_vec();
    Planned { series: dispatch::blocks(), share: 1.0, flags: Flags::NONE, points }
}
