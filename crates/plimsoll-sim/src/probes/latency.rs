//! latency, simulated: one dependent load by footprint, page size and order.

use plimsoll_core::flag::Flags;
use plimsoll_core::sample::Work;
use plimsoll_suite::probes::latency::{self, SPEC};

use super::{Ask, LAUNCH_SECONDS, Planned, Simulated};
use crate::device::Job;
use crate::machine::CLOCK_HZ;

pub(super) static PROBE: Simulated = Simulated { spec: &SPEC, kernels: &["chase"], sweeps: &[chase] };

/// Page size and order of each line in the picture.
const ORDERS: [(&str, &str); 3] = [("huge", "page-random"), ("small", "page-random"), ("small", "page-local")];
const LEAST: u64 = 2048;

fn chase(ask: &Ask<'_>) -> Planned {
    let footprints = ask.footprints(LEAST, ask.by_effort([512 << 20, 2 << 30, 2 << 30]), ask.by_effort([3, 4, 6]));
    let mut points = Vec::new();
    for (pages, order) in ORDERS {
        for &bytes in &footprints {
            let cycles = ask.machine.latency(bytes, pages == "huge", order == "page-local");
            let hop = cycles / CLOCK_HZ;
            let hops = (LAUNCH_SECONDS / hop).round();
            let work = Work { operations: hops, in_kernel: true, ..Work::default() };
            let job = Job { allocate: bytes, seconds: hops * hop, work, extra: None };
            points.push((vec![pages.into(), order.into(), bytes.into()], job));
        }
    }
    Planned { series: latency::chase(), share: 1.0, flags: Flags::NONE, points }
}
