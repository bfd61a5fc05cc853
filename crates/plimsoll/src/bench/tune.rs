//! Tunes the plans of points before they are timed.

use std::sync::atomic::AtomicBool;

use plimsoll_core::Fault;
use plimsoll_core::probe::Instrument as _;
use plimsoll_cuda::elementwise::{Engine, Store, Subject, Tuned, tuner};
use plimsoll_gen::elementwise::{Choose, Table};
use plimsoll_suite::bench::DEPENDENT;

use super::{Device, Point, Variant};

/// Finds the fastest plan of each point in at most three seconds, for its launch and cache, and gives it to the point. `report` is called
/// after each. Plans are kept in `store`, and those that it has are used. A point keeps the planner's own plan if no other is clearly
/// faster, or if tuning ends early.
///
/// # Errors
/// [`Fault::Invalid`] on a device without plans, or for a plan that is impossible; faults of the device.
pub fn tune_points(
    device: &mut Device,
    points: &mut [Point],
    (table, store): (Option<&Table>, Option<Store>),
    stop: &AtomicBool,
    report: &mut dyn FnMut(&Point, &Tuned),
) -> Result<(), Fault> {
    let Device::Cuda(bench) = device else {
        return Err(Fault::Invalid("plans to tune need a GPU: leave --tune out here".to_owned()));
    };
    let window = bench.info().cold_window();
    let device = bench.device();
    let engine = match table {
        Some(table) => Engine::with_table(device, table.clone()),
        None => Engine::new(device),
    }?;
    let mut tuner = tuner(device, &engine).with_store(store).with_window(window);
    for point in points {
        let dependent = point.cell.launch == DEPENDENT;
        let base = Choose { dependent, cached: !point.cell.cache.is_cold(), ..point.variant.0 };
        let tuned = tuner.tune(&Subject::new(&point.problem)?, &base, stop)?;
        if tuned.is_other {
            // The point's launch and cache say the rest.
            point.variant = Variant(Choose { dependent: false, cached: false, ..tuned.choose });
            point.cell.plan = point.variant.to_string();
        }
        report(point, &tuned);
    }
    Ok(())
}
