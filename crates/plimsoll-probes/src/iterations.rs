//! Chooses how many loop iterations a launch makes, so that the code around the loop costs next to nothing. Also longer launches
//! timed by the device, and a quick comparison of configurations.

use plimsoll_core::Fault;
use plimsoll_core::sample::Work;

use plimsoll_gpu::in_kernel::{InKernel, LaunchCycles};
use plimsoll_gpu::kit::{GRAPH, Kit};
use plimsoll_gpu::load::Load;
use plimsoll_gpu::{Gpu, Memory as _, Span};

/// Iterations of the trial launch, from which the length of the others is planned.
const TRIAL: u32 = 4;
/// How much longer a launch timed on the whole device is than one that counts cycles: 0.4 ms, long against starting it.
const LONGER: u32 = 8;
/// Target length of a launch in cycles. The code around the loop takes some hundreds: all warps fetch the loop for the first time.
const LENGTH: f64 = 100_000.0;

/// In-kernel samples of launches with one block per SM, each long enough but at most `most` iterations. `operations` are those of
/// one SM in one iteration; `launch(span, iterations)` makes a launch whose blocks store their cycles in the span. Also returns the
/// iterations chosen.
pub(crate) fn long_enough<G: Gpu>(
    kit: &Kit<G>,
    (operations, most): (f64, u32),
    launch: impl Fn(Span, u32) -> Result<G::Launch, Fault>,
) -> Result<(InKernel<G>, u32), Fault> {
    let blocks = (kit.unit.machine().multiprocessors, LaunchCycles::Median);
    let build = |iterations: u32| {
        let work = Work { operations: operations * f64::from(iterations), ..Work::default() };
        InKernel::new_cycles_only(kit, blocks, work, |place| launch(place, iterations))
    };
    let cycles = build(TRIAL)?.measure_cycles()?.max(1.0);
    let iterations = ((LENGTH / cycles * f64::from(TRIAL)).ceil() as u32).clamp(1, most);
    Ok((build(iterations)?, iterations))
}

/// The same in longer launches, timed by the device: the rate of the whole device. Blocks store their cycles in `cycles`, which
/// nobody reads. Also returns the iterations chosen.
pub(crate) fn whole_device<G: Gpu>(
    kit: &Kit<G>,
    (operations, most): (f64, u32),
    cycles: &G::Buffer,
    launch: impl Fn(Span, u32) -> Result<G::Launch, Fault>,
) -> Result<(Load<G>, u32), Fault> {
    let (_, iterations) = long_enough(kit, (operations, most), &launch)?;
    let iterations = (iterations * LONGER).min(most);
    let long = launch(cycles.whole(), iterations)?;
    let multiprocessors = f64::from(kit.unit.machine().multiprocessors);
    let work = Work { operations: operations * f64::from(iterations) * multiprocessors, ..Work::default() };
    Ok((kit.load(GRAPH, vec![long], work)?, iterations))
}

/// Operations per cycle of one launch: enough to choose among configurations, too rough to report.
pub(crate) fn glance<G: Gpu>((mut load, iterations): (InKernel<G>, u32), operations: f64) -> Result<f64, Fault> {
    Ok(operations * f64::from(iterations) / load.measure_cycles()?.max(1.0))
}

/// The spot with the highest `rate`; the first one of equals. Stops at the first fault.
pub(crate) fn quickest<S: Copy>(
    spots: impl IntoIterator<Item = S>,
    rate: impl Fn(S) -> Result<f64, Fault>,
) -> Result<Option<S>, Fault> {
    let mut best: Option<(S, f64)> = None;
    for spot in spots {
        let rate = rate(spot)?;
        if best.is_none_or(|(_, most)| rate > most) {
            best = Some((spot, rate));
        }
    }
    Ok(best.map(|(spot, _)| spot))
}
