//! `bench --tune`: tunes the plan of each point before it is timed, and says what was chosen.

use std::time::Instant;

use plimsoll::bench::{BenchRequest, Cell, Device, Point, Table, Tuned, Variant, tune_points};
use plimsoll::core::unit::{ByteSize, Unit};
use plimsoll::predict::Choose;

use super::args::ProfileArg;
use super::exit::{Failure, say};
use super::{profile, signals};

/// Refuses plans by hand, except for their tier: tuning chooses the rest.
pub(super) fn check_request(request: &BenchRequest) -> Result<(), Failure> {
    let is_free = |variant: &Variant| Choose { tier: variant.0.tier, ..Choose::default() } == variant.0;
    if request.variants.iter().all(is_free) {
        return Ok(());
    }
    Err(Failure::usage("--tune chooses the plan itself: leave --variant out, or choose only a tier, as tier=fast"))
}

/// Tunes the points, and returns those whose plans were decided by timing, now or earlier.
pub(super) fn tune(
    device: &mut Device,
    points: &mut [Point],
    table: Option<&Table>,
    profile: &ProfileArg,
) -> Result<Vec<Cell>, Failure> {
    let stop = signals::install()?;
    let mut cells = Vec::new();
    let mut begin = Instant::now();
    let mut report = |point: &Point, tuned: &Tuned| {
        let took = std::mem::replace(&mut begin, Instant::now()).elapsed().as_secs_f64();
        let cell = &point.cell;
        let place = format!("{}, {}, {}", ByteSize(cell.bytes), cell.cache.name(), cell.launch);
        tuned.notes.iter().for_each(|note| say("note", &format!("{place}: {note}")));
        if let Some(outcome) = describe(tuned, &cell.plan, took) {
            say("tuned", &format!("{place}: {outcome}"));
            cells.push(cell.clone());
        }
    };
    tune_points(device, points, (table, profile::tuned_store(profile)), stop, &mut report)?;
    Ok(cells)
}

/// What was found; `None` if nothing was.
fn describe(tuned: &Tuned, plan: &str, seconds: f64) -> Option<String> {
    let (untuned, own) = tuned.seconds?;
    let source = match tuned.is_stored {
        true => "found earlier".to_owned(),
        false => format!("{} plans in {seconds:.1} s", tuned.plans),
    };
    if !tuned.is_other {
        return Some(format!("the untuned plan is the fastest, {} ({source})", Unit::Second.format(untuned)));
    }
    let times = [untuned, own].map(|seconds| Unit::Second.format(seconds));
    let less = 100.0 * (1.0 - own / untuned);
    Some(format!("{plan}: {} instead of {}, {less:.1} % less ({source})", times[1], times[0]))
}

/// Whether a line of a run is this cell: its other figures are not part of its place.
pub(super) fn is_same(cell: &Cell, line: &Cell) -> bool {
    cell.cache == line.cache && cell.coordinates() == line.coordinates()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tuned(seconds: Option<(f64, f64)>, is_other: bool, is_stored: bool) -> Tuned {
        Tuned { choose: Choose::default(), is_other, seconds, plans: 12, is_stored, notes: Vec::new() }
    }

    #[test]
    fn the_outcome_names_the_plan_and_the_gain() {
        let told = |tuned| describe(&tuned, "vector=8", 1.23).unwrap_or_default();
        let other = told(tuned(Some((2e-6, 1.8e-6)), true, false));
        assert_eq!(other, "vector=8: 1.80 µs instead of 2.00 µs, 10.0 % less (12 plans in 1.2 s)");
        let same = told(tuned(Some((2e-6, 2e-6)), false, true));
        assert_eq!(same, "the untuned plan is the fastest, 2.00 µs (found earlier)");
        assert_eq!(told(tuned(None, false, false)), "");
    }
}
