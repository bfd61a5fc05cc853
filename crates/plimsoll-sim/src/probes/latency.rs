//! latency, simulated: one dependent load by footprint, page size and order.

use plimsoll_core::flag::Flags;
use plimsoll_core::sample::Work;
use plimsoll_probes::latency::{self, Chase, Order, Pages, SPEC};
use plimsoll_suite::findings::levels::{levels, refinement};

use super::{Ask, LAUNCH_SECONDS, Planned, Simulated};
use crate::device::Job;
use crate::machine::CLOCK_HZ;

pub(super) static PROBE: Simulated =
    Simulated { spec: &SPEC, sized: true, kernels: &["chase"], sweeps: &[chase, knees] };

/// Page size and order of each line in the picture.
const ORDERS: [(Pages, Order); 3] =
    [(Pages::Huge, Order::PageRandom), (Pages::Small, Order::PageRandom), (Pages::Small, Order::PageLocal)];
const LEAST: u64 = 2048;
/// How near the neighbours of a knee come to each other, as a factor, and how many footprints that may take.
const RESOLUTION: f64 = 1.06;
const MOST_AT_A_KNEE: usize = 4;

fn chase(ask: &Ask<'_>) -> Planned {
    let footprints = ask.footprints(LEAST, ask.by_effort([512 << 20, 2 << 30, 2 << 30]), ask.by_effort([3, 3, 5]));
    let each = |(pages, order)| footprints.iter().map(move |&bytes| point(ask, pages, order, bytes));
    let points = ORDERS.into_iter().flat_map(each).collect();
    Planned::new(latency::chase(), 0.8, Flags::NONE, points)
}

/// Between the neighbours of each knee that the first sweep shows.
fn knees(ask: &Ask<'_>) -> Planned {
    let (pages, order) = ORDERS[0];
    let shown = levels(&latency::curve(ask.series, pages, order), latency::TOLERANCE);
    let footprints = refinement(&shown, RESOLUTION, MOST_AT_A_KNEE);
    let points = footprints.into_iter().map(|bytes| point(ask, pages, order, bytes as u64 / 64 * 64)).collect();
    Planned::new(latency::knees(), 0.2, Flags::NONE, points)
}

fn point(ask: &Ask<'_>, pages: Pages, order: Order, bytes: u64) -> (Chase, Job) {
    let hop = ask.machine.latency(bytes, pages == Pages::Huge, order == Order::PageLocal) / CLOCK_HZ;
    let hops = (LAUNCH_SECONDS / hop).round();
    let work = Work { operations: hops, in_kernel: true, ..Work::default() };
    let at = Chase { pages, order, footprint: bytes.into() };
    (at, Job { allocate: bytes, seconds: hops * hop, work, extra: None })
}
