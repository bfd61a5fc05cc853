//! Simulated `latency`: one dependent load by footprint, page size and order.

use plimsoll_core::flag::Flags;
use plimsoll_core::sample::Work;
use plimsoll_probes::latency::{self, CHASE, Chase, KNEES, Order, Pages, SPEC};
use plimsoll_suite::findings::levels::{levels, refinement};

use super::{LAUNCH_SECONDS, PlanInput, Planned, Simulated};
use crate::device::Job;
use crate::machine::CLOCK_HZ;

pub(super) static PROBE: Simulated = Simulated { spec: &SPEC, kernels: &["chase"], sweeps: &[chase, knees] };

/// Page size and order of each line in the chart.
const ORDERS: [(Pages, Order); 3] =
    [(Pages::Huge, Order::PageRandom), (Pages::Small, Order::PageRandom), (Pages::Small, Order::PageLocal)];
/// Smallest footprint, bytes.
const LEAST: u64 = 2048;
/// Largest ratio between neighbouring footprints around a knee, and the maximum number of footprints added there.
const RESOLUTION: f64 = 1.06;
const MOST_AT_A_KNEE: usize = 4;

fn chase(input: &PlanInput<'_>) -> Planned {
    let footprints =
        input.footprints(LEAST, input.by_effort([512 << 20, 2 << 30, 2 << 30]), input.by_effort([3, 3, 5]));
    let each = |(pages, order)| footprints.iter().map(move |&bytes| point(input, pages, order, bytes));
    let points = ORDERS.into_iter().flat_map(each).collect();
    Planned::new(latency::hops(CHASE), 0.8, Flags::NONE, points)
}

/// Footprints between the neighbours of each knee in the first sweep.
fn knees(input: &PlanInput<'_>) -> Planned {
    let (pages, order) = ORDERS[0];
    let shown = levels(&latency::curve(input.series, pages, order), latency::TOLERANCE);
    let footprints = refinement(&shown, RESOLUTION, MOST_AT_A_KNEE);
    let points = footprints.into_iter().map(|bytes| point(input, pages, order, bytes as u64 / 64 * 64)).collect();
    Planned::new(latency::hops(KNEES), 0.2, Flags::NONE, points)
}

fn point(input: &PlanInput<'_>, pages: Pages, order: Order, bytes: u64) -> (Chase, Job) {
    let hop = input.machine.latency(bytes, pages == Pages::Huge, order == Order::PageLocal) / CLOCK_HZ;
    let hops = (LAUNCH_SECONDS / hop).round();
    let work = Work { operations: hops, in_kernel: true, ..Work::default() };
    let at = Chase { pages, order, footprint: bytes.into() };
    (at, Job { allocate: bytes, seconds: hops * hop, work, extra: [None; 2] })
}
