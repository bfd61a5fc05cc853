//! How many turns of its loop a launch makes whose blocks count their cycles: enough that what stands around the loop
//! doesn't count.

use plimsoll_core::Fault;
use plimsoll_core::sample::Work;

use super::inside::{Inside, Of};
use super::kit::Kit;
use crate::launch::Launch;
use crate::memory::Span;

/// Turns of the launch that the others' length is planned from.
const TRIAL: u32 = 4;
/// Cycles that a launch takes, about: what stands around the loop is some hundreds: all warps meet the loop's code for the first time.
const LENGTH: f64 = 100_000.0;

/// Samples of launches of one block per multiprocessor, each of as many turns as make it long enough, at most `most`.
/// `operations` are those of one multiprocessor in one turn; `launch` makes a launch of so many turns whose blocks leave
/// their cycles in a place. Returns the turns as well.
///
/// # Errors
/// Those of the allocation; the maker's; the driver's.
pub(super) fn long_enough(
    kit: &Kit,
    (operations, most): (f64, u32),
    launch: impl Fn(Span, u32) -> Result<Launch, Fault>,
) -> Result<(Inside, u32), Fault> {
    let blocks = (kit.unit.machine().multiprocessors, Of::Typical);
    let of = |turns: u32| {
        let work = Work { operations: operations * f64::from(turns), ..Work::default() };
        Inside::counted(kit, blocks, work, |place| launch(place, turns))
    };
    let cycles = of(TRIAL)?.cycles()?.max(1.0);
    let turns = ((LENGTH / cycles * f64::from(TRIAL)).ceil() as u32).clamp(1, most);
    Ok((of(turns)?, turns))
}
