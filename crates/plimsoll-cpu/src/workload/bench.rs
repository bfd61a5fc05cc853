//! The bench on the CPU: a user's expressions on all cores, with data hot in the caches or rotating through memory.
//! `crate::elementwise` runs the expressions; `plimsoll_suite::bench` interprets the figures.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use plimsoll_core::flag::Flags;
use plimsoll_core::probe::{Case, Depth, Probe, ProbeSpec, Request, Session, Sweep};
use plimsoll_core::sample::{CachePolicy, Workload};
use plimsoll_core::{Fault, forward_workload};
use plimsoll_expr::Problem;
use plimsoll_suite::bench::{CEILING, Cell, SPEC, series};

use crate::elementwise::{How, Load, StorePolicy};
use crate::{Cpu, CpuDevice};

/// One point.
#[derive(Clone, Debug)]
pub struct Point {
    /// Its axes.
    pub cell: Cell,
    /// The expression, its shapes and its scalars.
    pub problem: Arc<Problem>,
}

/// The points that a user requested.
#[derive(Debug)]
pub struct Bench {
    /// In the order in which they are measured.
    pub points: Vec<Point>,
}

impl Probe<Cpu> for Bench {
    fn spec(&self) -> &'static ProbeSpec {
        &SPEC
    }

    fn points(&self, _: &CpuDevice, _: &Request) -> usize {
        self.points.len()
    }

    fn run(&self, session: &mut Session<'_, Cpu>) -> Result<(), Fault> {
        let cores = session.device.cpus.len();
        let team = super::team(session, cores)?;
        let (window, caches) = (session.info().cold_window(), session.info().last_level_cache());
        let (seed, stop) = (session.request.seed, session.stop_signal());
        let how = How { stores: StorePolicy::Beyond(caches), ..How::for_threads(cores) };
        for cache in [CachePolicy::ColdRotate, CachePolicy::Hot] {
            let points: Vec<&Point> = self.points.iter().filter(|point| point.cell.cache == cache).collect();
            if points.is_empty() {
                continue;
            }
            // Filling memory takes as long as the measurement.
            let share = 2.0 * points.len() as f64;
            let sweep = Sweep { series: series(cache), points: &points, share, flags: Flags::NONE };
            session.sweep(
                sweep,
                |point| point.cell.coordinates(),
                |_, point| {
                    let window = if cache.is_cold() { window } else { 0 };
                    let load = Load::new(Rc::clone(&team), &point.problem, &how, (window, seed), stop)?;
                    Ok(LoadWithCeiling { load, ceiling: point.cell.ceiling })
                },
            )?;
        }
        Ok(())
    }

    fn verify(&self, _: &mut CpuDevice, _: Depth, _: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        Ok(())
    }
}

/// A load, and the bandwidth ceiling of its mix of reads and writes.
struct LoadWithCeiling {
    load: Load,
    ceiling: Option<f64>,
}

impl Workload for LoadWithCeiling {
    forward_workload!(load: work, batch, sample, check);

    fn extra(&self, out: &mut BTreeMap<String, f64>) {
        out.extend(self.ceiling.map(|ceiling| (CEILING.to_owned(), ceiling)));
    }
}
