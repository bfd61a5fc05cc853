//! Simulated `bench`: an elementwise expression runs at the bandwidth of memory, or of the caches if its data is hot.

use plimsoll_core::Fault;
use plimsoll_core::flag::Flags;
use plimsoll_core::probe::{Case, Depth, Probe, ProbeSpec, Request, Session, Sweep};
use plimsoll_core::sample::{CachePolicy, Work};
use plimsoll_suite::bench::{CEILING, Cell, SPEC, series};

use crate::Sim;
use crate::device::{Job, SimDevice};
use crate::machine::CORES;

/// Bytes per operand of a rotation.
const WINDOW: u64 = 512 << 20;

/// The points that the user requested, for any expressions.
#[derive(Debug)]
pub struct Bench {
    /// The points, in measuring order.
    pub cells: Vec<Cell>,
}

impl Probe<Sim> for Bench {
    fn spec(&self) -> &'static ProbeSpec {
        &SPEC
    }

    fn points(&self, _: &SimDevice, _: &Request) -> usize {
        self.cells.len()
    }

    fn run(&self, session: &mut Session<'_, Sim>) -> Result<(), Fault> {
        for cache in [CachePolicy::ColdRotate, CachePolicy::Hot] {
            let cells: Vec<Cell> = self.cells.iter().filter(|cell| cell.cache == cache).cloned().collect();
            if cells.is_empty() {
                continue;
            }
            let sweep = Sweep { series: series(cache), points: &cells, share: cells.len() as f64, flags: Flags::NONE };
            session.sweep(sweep, Cell::coordinates, |device, cell| {
                let wrong = device.scenario().wrong == Some(SPEC.name);
                device.load(&job(device, cell), wrong.then(|| super::WRONG.to_owned()))
            })?;
        }
        Ok(())
    }

    fn verify(&self, _: &mut SimDevice, _: Depth, _: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        Ok(())
    }
}

fn job(device: &SimDevice, cell: &Cell) -> Job {
    let traffic = cell.traffic;
    let (bandwidth, window) = match cell.cache {
        CachePolicy::Hot => (device.machine.bandwidth(traffic.total(), traffic), 0),
        _ => (device.machine.memory_bandwidth(traffic, CORES), WINDOW.max(cell.bytes)),
    };
    let operands = traffic.total().div_ceil(cell.bytes.max(1));
    Job {
        allocate: window.max(cell.bytes).saturating_mul(operands),
        seconds: traffic.total() as f64 / bandwidth,
        work: Work { traffic, window, ..Work::default() },
        extra: [cell.ceiling.map(|ceiling| (CEILING, ceiling)), None],
    }
}
