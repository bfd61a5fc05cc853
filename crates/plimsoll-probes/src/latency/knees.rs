//! The two sweeps of a run, the same on a CPU and on a GPU: a coarse one, and a second one between the neighbours of every knee
//! that it shows.

use plimsoll_core::Fault;
use plimsoll_core::probe::{Backend, Session, Sweep};
use plimsoll_core::sample::Workload;
use plimsoll_core::series::{Axes, Series, TypedSeries};
use plimsoll_suite::findings::levels::{levels, refinement};

use super::TOLERANCE;
use crate::sizes;

/// Points added at each knee, at most.
const PER_KNEE: usize = 14;
/// Points of the second sweep, about: there are three knees.
pub(super) const FINE_POINTS: usize = 3 * PER_KNEE;

/// Makes the sweep `coarse`, and then one of the series and with the share of the budget in `fine` over the points that `refine`
/// chooses, if there are any.
pub(super) fn sweep_twice<B: Backend, A: Axes + for<'p> From<&'p P>, P, W: Workload>(
    session: &mut Session<'_, B>,
    coarse: Sweep<'_, P, TypedSeries<A>>,
    fine: (TypedSeries<A>, f64),
    refine: impl FnOnce(&Series) -> Vec<P>,
    mut load: impl FnMut(&P) -> Result<W, Fault>,
) -> Result<(), Fault> {
    let flags = coarse.flags;
    let points = refine(session.sweep(coarse, |point| point.into(), |_, point| load(point))?);
    if points.is_empty() {
        return Ok(());
    }
    let sweep = Sweep { series: fine.0, points: &points, share: fine.1, flags };
    session.sweep(sweep, |point| point.into(), |_, point| load(point)).map(drop)
}

/// Footprints between the neighbours of every knee of `curve` until they are within a ratio of `resolution`, in whole grains.
pub(super) fn between_neighbours(
    curve: &[(f64, f64)],
    resolution: f64,
    grain: u64,
) -> impl Iterator<Item = u64> + use<> {
    let more = refinement(&levels(curve, TOLERANCE), resolution, PER_KNEE);
    more.into_iter().map(move |bytes| sizes::whole(bytes, grain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_sweep_is_close_to_the_knee_and_in_whole_grains() {
        let footprint = |i: u32| 2048.0 * (f64::from(i) / 3.0).exp2();
        let curve: Vec<(f64, f64)> =
            (0..40).map(footprint).map(|bytes| (bytes, if bytes < 300_000.0 { 30.0 } else { 270.0 })).collect();
        let more: Vec<u64> = between_neighbours(&curve, 1.03, 128).collect();
        assert!(!more.is_empty() && more.len() <= PER_KNEE, "{more:?}");
        assert!(more.iter().all(|bytes| bytes % 128 == 0 && (200_000..450_000).contains(bytes)), "{more:?}");
        assert_eq!(between_neighbours(&[], 1.03, 128).count(), 0);
    }
}
