//! sectors on a GPU: warps whose lanes read at the places of a table, through the L1 and bypassing it. `crate::lab::sectors`
//! defines the figures; `kernel.cu` has the kernels.

use std::collections::BTreeMap;

use plimsoll_core::counted;

use super::kernels::{self, THREADS, UNROLL};
use super::{ACCESSES, COUNTED, FIRST, LANES, LINE, LINES, Pattern, RULES, SECOND, SECTOR, Shape, touched};
use crate::folds::{MANY, Readers, SOME};
use crate::lab::sectors;
use crate::prelude::gpu::*;

/// Bytes that a warp advances per loop iteration.
const ITERATION: u32 = UNROLL * LINE;
/// Bytes that all warps cycle through, for loads from the L1 and from the L2: two iterations, and the size of a small L2.
const ROUND: [u32; 2] = [2 * ITERATION, 4 << 20];
/// Bytes between the starting points of two warps, bypassing the L1: an odd number of iterations, so that no two warps of a device
/// start at the same place.
const APART: u32 = 37 * ITERATION;
/// Bytes past the round that patterns reach: 32 elements of 16 bytes at stride 32, and an iteration.
const BEHIND: u64 = 32 * 32 * 16 + ITERATION as u64;
/// Fewest and most loop iterations of a launch: fewer for patterns that touch more sectors, and enough that accesses around the
/// loop are less than a twentieth of a sector per load.
const ITERATIONS: (u64, u64) = (24, 192);
/// Approximate number of sectors that a launch's iterations touch.
const TOUCHED: u64 = 1024;
/// Untimed iterations before the timed ones.
const WARM: u32 = 4;
/// Untimed and timed iterations of a verified launch.
const VERIFIED: [u32; 2] = [1, 5];
/// Sectors that a warp touches around its loop: four of its table and four of its output.
const AROUND: u64 = 8;

impl<G: Gpu> Run<G> for super::GpuRunner {
    const NEEDS: &'static [Need] = &[Need::Code(&kernels::SOURCE), Need::KernelClock];

    fn points(&self, _: &G::Device, request: &Request) -> usize {
        2 * loads(false, request.effort).len()
    }

    fn run(&self, session: &mut Session<'_, G>) -> Result<(), Fault> {
        let effort = session.request.effort;
        let bench = Bench::<G>::new(session.device, session.request.seed)?;
        for (case, past, share) in [(FIRST, false, 0.4), (SECOND, true, 0.6)] {
            let points = loads(past, effort);
            let sweep = Sweep { series: sectors::level(case), points: &points, share, flags: Flags::NONE };
            let coordinates = |load: &Load| Shape { access: load.access.into(), pattern: load.pattern };
            session.sweep(sweep, coordinates, |_, load| bench.load(*load, [WARM, load.iterations()], SOME))?;
        }
        sectors::disagreements(session.series()).into_iter().try_for_each(|what| session.report_mismatch(what))
    }

    fn verify(&self, device: &mut G::Device, depth: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        let bench = Bench::<G>::new(device, 1)?;
        let effort = if depth == Depth::Small { Effort::Quick } else { Effort::Standard };
        for load in [false, true].into_iter().flat_map(|past| loads(past, effort)) {
            let mut inside = bench.load(load, VERIFIED, MANY)?;
            let kernel = kernels::load(load.past, load.access).name;
            report(Case::from_sample(kernel, load.pattern.name(), &mut inside)?);
        }
        Ok(())
    }
}

/// Every pattern of every width; `quick` has only those that differ most.
fn loads(past: bool, effort: Effort) -> Vec<Load> {
    let some =
        |pattern: &Pattern| effort != Effort::Quick || !matches!(pattern, Pattern::Stride(3) | Pattern::Reversed);
    let loads_of = |access| {
        Pattern::for_access(access).into_iter().filter(some).map(move |pattern| Load { past, access, pattern })
    };
    ACCESSES.into_iter().flat_map(loads_of).collect()
}

/// The load of a warp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Load {
    /// Whether it bypasses the L1.
    past: bool,
    access: u32,
    pattern: Pattern,
}

impl Load {
    /// Pieces (sectors or lines) that a warp's load touches.
    fn touches(self, piece: u32, together: usize) -> u64 {
        touched(&self.pattern.places(self.access), self.access, piece, together)
    }

    fn iterations(self) -> u32 {
        (TOUCHED / self.touches(SECTOR, LANES)).clamp(ITERATIONS.0, ITERATIONS.1) as u32
    }

    fn round(self) -> u32 {
        ROUND[usize::from(self.past)]
    }

    fn apart(self) -> u32 {
        if self.past { APART } else { 0 }
    }

    /// Byte offsets in the array that lane `lane` of warp `warp` reads in an iteration.
    fn places(self, warp: u32, lane: usize, iteration: u32) -> impl Iterator<Item = u32> {
        let at = warp.wrapping_mul(self.apart()).wrapping_add(iteration * ITERATION) & (self.round() - 1);
        let first = at + self.pattern.places(self.access)[lane];
        (0..UNROLL).map(move |load| first + load * LINE)
    }

    /// The exclusive or of everything that a thread reads in the given iterations; each phase restarts at the first.
    fn fold(self, seed: u64, thread: usize, phases: [u32; 2]) -> u32 {
        let (warp, lane) = ((thread / LANES) as u32, thread % LANES);
        let read = |at: u32| {
            let word = |at: u32| pattern::bits(seed, u64::from(at / 4));
            match self.access {
                // Little-endian, as all of CUDA is.
                1 => word(at) >> (8 * (at % 4)) & 0xff,
                2 => word(at) >> (8 * (at % 4)) & 0xffff,
                wide => (0..wide / 4).fold(0, |bits, i| bits ^ word(at + 4 * i)),
            }
        };
        let iterations = phases.into_iter().flat_map(|iterations| 0..iterations);
        iterations.flat_map(|iteration| self.places(warp, lane, iteration)).fold(0, |bits, at| bits ^ read(at))
    }
}

/// State shared by all points.
struct Bench<G: Gpu>(Readers<G>);

impl<G: Gpu> Bench<G> {
    fn new(device: &G::Device, seed: u64) -> Result<Self, Fault> {
        let kit = Kit::<G>::new(device, &kernels::SOURCE, &kernels::kernels(), TRUST)?;
        for access in ACCESSES {
            G::prefer_cache(kit.unit.function(&kernels::load(false, access))?.function())?;
        }
        Ok(Self(Readers::new(kit, u64::from(ROUND[1]) + BEHIND, THREADS, seed)?))
    }

    fn load(&self, load: Load, phases: [u32; 2], every: usize) -> Result<InKernel<G>, Fault> {
        let Readers { kit, input, left, .. } = &self.0;
        let kernel = kernels::load(load.past, load.access);
        let warps = u64::from(THREADS / 32);
        let loads = warps * u64::from(UNROLL) * u64::from(phases[1]);
        let bytes = loads * LANES as u64 * u64::from(load.access);
        let work = Work { traffic: Traffic::new(bytes, 0), operations: loads as f64, ..Work::default() };
        let places = kit.array(4 * LANES as u64)?;
        let table = load.pattern.places(load.access);
        let table: Vec<u8> = table.iter().flat_map(|at| at.to_le_bytes()).collect();
        G::upload(kit.stream(), places.whole(), &table)?;
        let launch = |cycles| {
            let list = Arguments::new().buffer(left).span(cycles).buffer(input).buffer(&places);
            let list = list.u32(load.apart()).u32(load.round() - 1).u32(phases[0]).u32(phases[1]);
            kit.unit.launch(&kernel, 0, list)
        };
        let inside = self.0.load(work, every, launch, move |seed, thread| load.fold(seed, thread, phases))?;
        let blocks = kit.unit.machine().multiprocessors;
        let launched = u64::from(blocks) * warps * u64::from(UNROLL * (phases[0] + phases[1]));
        // Sectors of all warps around their loops, and one more per block for its cycles.
        let around = u64::from(blocks) * (warps * AROUND + 1);
        Ok(inside.with_extra(move |out| {
            // Keeps the table allocated while launches read it.
            let _ = &places;
            insert_sectors(load, out, (launched, around));
        }))
    }
}

/// Adds the computed sectors of a load and, if the launch was counted, the counted ones. `loads` and `around` are the launch's
/// loads and the sectors around its loops.
fn insert_sectors(load: Load, out: &mut BTreeMap<String, f64>, (loads, around): (u64, u64)) {
    for (together, name) in RULES {
        out.insert(name.to_owned(), load.touches(SECTOR, together) as f64);
    }
    out.insert(LINES.to_owned(), load.touches(LINE, LANES) as f64);
    if let Some(sectors) = out.get(counted::L1_SECTORS) {
        out.insert(COUNTED.to_owned(), (sectors - around as f64) / loads as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_load_is_aligned_and_inside_the_array() {
        for load in [false, true].into_iter().flat_map(|past| loads(past, Effort::Thorough)) {
            for (warp, iteration) in [(0, 0), (1, 3), (4223, 191), (u32::MAX / 32, 7)] {
                for at in (0..LANES).flat_map(|lane| load.places(warp, lane, iteration)) {
                    assert!(u64::from(at + load.access) <= u64::from(load.round()) + BEHIND, "{load:?}");
                    assert_eq!(at % load.access, 0, "{load:?}");
                }
            }
        }
    }

    #[test]
    fn accesses_around_the_loop_add_less_than_a_twentieth_of_a_sector_per_load() {
        for load in loads(true, Effort::Thorough) {
            let loads = u64::from(UNROLL * (WARM + load.iterations()));
            assert!((AROUND + 1) as f64 / loads as f64 <= 0.05, "{load:?}: {loads} loads");
        }
    }

    #[test]
    fn counts_of_a_launch_are_divided_by_its_loads() {
        let load = Load { past: true, access: 4, pattern: Pattern::Offset(4) };
        let mut out = BTreeMap::from([(counted::L1_SECTORS.to_owned(), 5.0 * 1000.0 + 17.0)]);
        insert_sectors(load, &mut out, (1000, 17));
        assert_eq!((out[COUNTED], out["sectors"], out[LINES]), (5.0, 5.0, 2.0));
        let mut uncounted = BTreeMap::new();
        insert_sectors(load, &mut uncounted, (1000, 17));
        assert!(!uncounted.contains_key(COUNTED));
    }
}
