//! How many iterations of its loop a launch makes whose blocks count their cycles: enough that what stands around the loop
//! doesn't count. Longer launches of the same, by the device's time, and a glance at which configuration is fast.

use plimsoll_core::Fault;
use plimsoll_core::sample::Work;

use plimsoll_gpu::in_kernel::{Inside, Of};
use plimsoll_gpu::kit::{GRAPH, Kit};
use plimsoll_gpu::load::Load;
use plimsoll_gpu::{Gpu, Memory as _, Span};

/// Turns of the launch that the others' length is planned from.
const TRIAL: u32 = 4;
/// How much longer a launch of the whole device is than one that counts cycles: 0.4 ms, which starting it is little of.
const LONGER: u32 = 8;
/// Cycles that a launch takes, about: what stands around the loop is some hundreds: all warps meet the loop's code for the first time.
const LENGTH: f64 = 100_000.0;

/// Samples of launches of one block per multiprocessor, each of as many iterations as make it long enough, at most `most`.
/// `operations` are those of one multiprocessor in one iteration; `launch` makes a launch of so many iterations whose blocks leave
/// their cycles in a place. Reiterations the turns as well.
///
/// # Errors
/// Those of the allocation; the maker's; the driver's.
pub(crate) fn long_enough<G: Gpu>(
    kit: &Kit<G>,
    (operations, most): (f64, u32),
    launch: impl Fn(Span, u32) -> Result<G::Launch, Fault>,
) -> Result<(Inside<G>, u32), Fault> {
    let blocks = (kit.unit.machine().multiprocessors, Of::Typical);
    let of = |iterations: u32| {
        let work = Work { operations: operations * f64::from(iterations), ..Work::default() };
        Inside::counted(kit, blocks, work, |place| launch(place, iterations))
    };
    let cycles = of(TRIAL)?.cycles()?.max(1.0);
    let iterations = ((LENGTH / cycles * f64::from(TRIAL)).ceil() as u32).clamp(1, most);
    Ok((of(iterations)?, iterations))
}

/// Longer launches of the same by the device's time: what the whole device does of it. `cycles` is where the blocks leave
/// theirs, which nobody reads. Reiterations the turns as well.
///
/// # Errors
/// Those of [`long_enough`] and [`Load::new`].
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

/// Operations per cycle of one launch: enough to choose among configurations, and no figure to quote.
///
/// # Errors
/// The driver's.
pub(crate) fn glance<G: Gpu>((mut load, iterations): (Inside<G>, u32), operations: f64) -> Result<f64, Fault> {
    Ok(operations * f64::from(iterations) / load.cycles()?.max(1.0))
}

/// The first of those that no other exceeds by what `rate` says of each.
///
/// # Errors
/// The first of `rate`'s.
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
