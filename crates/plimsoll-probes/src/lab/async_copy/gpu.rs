//! async-copy on a GPU: one small block on each multiprocessor brings tiles into shared memory, by several ways. What the figures
//! mean is `crate::lab::async_copy`'s; the kernels are `lab/async_copy.cu`'s.

use std::rc::Rc;

use plimsoll_core::flag::Flags;
use plimsoll_core::probe::{Case, Depth, Probe, ProbeSpec, Request, Session, Sweep};
use plimsoll_core::sample::{Check, Clock as _, Effort, Work, Workload as _};
use plimsoll_core::{Fault, Traffic};
use plimsoll_gen::Target;
use plimsoll_gen::kernel::Element;
use plimsoll_gen::kernel::check::Data;
use plimsoll_gen::pattern;
use plimsoll_gpu::in_kernel::{Inside, Of};
use plimsoll_gpu::kit::{Kit, late};
use plimsoll_gpu::window::room;
use plimsoll_gpu::{Arguments, Gpu, Memory as _, Need};

use super::kernels::{self, STAGES, THREADS, TILES, Way};
use super::{AFRESH, FROM_L2, FROM_MEMORY, Tiles};
use crate::TRUST;
use crate::folds::{self, MANY, SOME};
use crate::lab::async_copy;

/// Share of the second level that all go round in together: little, for a cache in two parts keeps in both what both read.
const NEAR: u64 = 4;
/// Bytes that a multiprocessor brings in one launch from the second level: several times what its first level holds, which so
/// has nothing of them where they come again.
const BROUGHT: u32 = 1 << 20;
/// Slices are multiples of the largest tile.
const GRAIN: u64 = TILES[TILES.len() - 1] as u64;
/// Shared memory that is part of the kernels, bytes: the barriers.
const FIXED: u32 = 64;
/// Tiles before those that are timed.
const WARM: u32 = 4;
/// The last cache where a device doesn't tell, bytes.
const USUAL: u64 = 4 << 20;

/// The probe.
#[derive(Debug)]
pub struct Runner;

/// Tiles by one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Point {
    way: Way,
    tile: u32,
    /// Tiles that have room at once.
    stages: u32,
}

/// Where multiprocessors go: bytes from where one begins to where the next does, bytes that all go round in, and tiles of each in
/// one launch, untimed and timed.
#[derive(Clone, Copy, Debug)]
struct Walk {
    slice: u64,
    around: u64,
    iterations: [u32; 2],
}

impl<G: Gpu> Probe<G> for Runner {
    fn spec(&self) -> &'static ProbeSpec {
        &async_copy::SPEC
    }

    /// `cp.async` exists from compute capability 8.0 on, before which plimsoll compiles for no device.
    fn needs(&self) -> &'static [Need] {
        const { &[Need::Code(&kernels::SOURCE), Need::KernelClock] }
    }

    fn sized(&self) -> bool {
        false
    }

    fn points(&self, device: &G::Device, request: &Request) -> usize {
        let all = points(G::target(device), most::<G>(device), request.effort);
        let ways = all.iter().filter(|point| point.stages == 1).count();
        all.len() + ways + all.iter().filter(|point| point.goes_far()).count()
    }

    fn run(&self, session: &mut Session<'_, G>) -> Result<(), Fault> {
        let begin = session.clock().now();
        let (effort, blocks) = (session.request.effort, u64::from(G::machine(session.device)?.multiprocessors.max(1)));
        let window = session.info().cold_window().div_ceil(blocks).next_multiple_of(GRAIN);
        let (bytes, flags) = room::<G>(session.device, 1, window * blocks)?;
        let far = (bytes / blocks / GRAIN * GRAIN).clamp(GRAIN, window);
        let cache = Some(session.info().last_level_cache()).filter(|bytes| *bytes > 0).unwrap_or(USUAL);
        let near = (cache / NEAR / GRAIN * GRAIN).clamp(GRAIN, far * blocks);
        let bench = Bench::<G>::new(session.device, far * blocks, session.request.seed)?;
        let target = G::target(session.device);
        if !Way::Bulk.on(target) {
            let why =
                format!("the device has compute capability {}.{}", target.capability / 10, target.capability % 10);
            let hint = "Use a device of compute capability 9.0 or later".to_owned();
            session.tell(&Fault::Unavailable { what: "bulk copies", why, hint })?;
        }
        let points = points(target, most::<G>(session.device), effort);
        let from_memory: Vec<Point> = points.iter().copied().filter(|point| point.goes_far()).collect();
        let late = late(session, begin, async_copy::SPEC.budget(effort));

        let sweep =
            Sweep { series: async_copy::tiles(FROM_L2), points: &points, share: 0.6 + late, flags: Flags::NONE };
        let load = |point: &Point| bench.load(*point, point.near(near, blocks), SOME);
        let chosen = async_copy::chosen(session.sweep(sweep, Point::at, |_, point| load(point))?);
        let best: Vec<Point> = points.iter().copied().filter(|point| chosen.contains(&point.at())).collect();
        let sweep = Sweep { series: async_copy::tiles(AFRESH), points: &best, share: 0.2, flags: Flags::NONE };
        session.sweep(sweep, Point::at, |_, point| load(point))?;
        let sweep = Sweep { series: async_copy::tiles(FROM_MEMORY), points: &from_memory, share: 0.2, flags };
        session.sweep(sweep, Point::at, |_, point| bench.load(*point, point.far(far, blocks), SOME)).map(drop)
    }

    fn verify(&self, device: &mut G::Device, depth: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        let blocks = u64::from(G::machine(device)?.multiprocessors.max(1));
        let bench = Bench::<G>::new(device, 2 * GRAIN * blocks, 1)?;
        // Fewer tiles than have room, and more than a slice has, so that walks go round.
        let iterations: &[[u32; 2]] =
            if depth == Depth::Small { &[[1, 5]] } else { &[[0, 1], [1, 2], [3, 5], [2, 35]] };
        for point in points(G::target(device), most::<G>(device), Effort::Thorough) {
            for iterations in iterations {
                for (slice, around) in [(GRAIN, 2 * GRAIN), (2 * GRAIN, 2 * GRAIN * blocks)] {
                    let mut load = bench.load(point, Walk { slice, around, iterations: *iterations }, MANY)?;
                    load.sample(1, &mut [0])?;
                    let wrong = if let Check::Failed(wrong) = load.check()? { wrong } else { String::new() };
                    let on =
                        format!("{} stages, {} + {} tiles in {around} B", point.stages, iterations[0], iterations[1]);
                    report(Case { kernel: kernels::copy(point.way, point.tile).name, on, wrong });
                }
            }
        }
        Ok(())
    }
}

/// Shared memory that a block may have, bytes.
fn most<G: Gpu>(device: &G::Device) -> u32 {
    G::capabilities(device).limits.shared_per_block
}

/// Every way that a target has, with every size of tile and as many as have room; in a hurry fewer sizes and stages.
fn points(target: Target, shared: u32, effort: Effort) -> Vec<Point> {
    let quick = effort == Effort::Quick;
    let tiles = move |tile: &u32| !quick || [TILES[0], TILES[2], TILES[4]].contains(tile);
    let stages = move |stages: &u32| !quick || [1, STAGES].contains(stages);
    let of_way = |way: Way| {
        let of_tile = move |tile| (1..=way.stages()).filter(stages).map(move |stages| Point { way, tile, stages });
        TILES.into_iter().filter(tiles).flat_map(of_tile)
    };
    let all = Way::ALL.into_iter().filter(|way| way.on(target)).flat_map(of_way);
    all.filter(|point| point.shared() + FIXED <= shared).collect()
}

/// A way as the axis calls it.
fn way_axis(way: Way) -> async_copy::Way {
    match way {
        Way::Registers => async_copy::Way::Registers,
        Way::Async(bytes) => async_copy::Way::Through(bytes),
        Way::AsyncPast => async_copy::Way::Past,
        Way::Bulk => async_copy::Way::Bulk,
    }
}

impl Point {
    fn at(&self) -> Tiles {
        Tiles { way: way_axis(self.way), tile: self.tile.into(), stages: self.stages.into() }
    }

    fn shared(&self) -> u32 {
        self.tile * self.stages
    }

    /// Whether it is measured from memory as well: wide copies, with room for one tile and for as many as there are.
    fn goes_far(&self) -> bool {
        let wide = matches!(self.way, Way::Registers | Way::AsyncPast | Way::Bulk);
        wide && (self.stages == 1 || self.stages == STAGES)
    }

    /// Through part of what the second level holds: all multiprocessors through the same, each from a place of its own.
    fn near(&self, around: u64, blocks: u64) -> Walk {
        let slice = (around / blocks / GRAIN * GRAIN).max(GRAIN);
        Walk { slice, around, iterations: [WARM, BROUGHT / self.tile] }
    }

    /// Once over what it doesn't hold, each over its own.
    fn far(&self, slice: u64, blocks: u64) -> Walk {
        Walk { slice, around: slice * blocks, iterations: [0, (slice / u64::from(self.tile)) as u32] }
    }

    /// The exclusive or of all that a thread reads of its block's tiles, the timed ones behind the untimed.
    fn fold(&self, seed: u64, thread: usize, walk: Walk) -> u32 {
        let (block, lane) = (thread as u64 / u64::from(THREADS), thread as u64 % u64::from(THREADS));
        let tile = u64::from(self.tile);
        let words = |iteration: u32| {
            let begin = (block * walk.slice + u64::from(iteration) * tile) % walk.around;
            let vectors = (lane ^ 32..tile / 16).step_by(THREADS as usize);
            vectors.flat_map(move |vector| (0..4).map(move |word| begin / 4 + 4 * vector + word))
        };
        (0..walk.iterations[0] + walk.iterations[1])
            .flat_map(words)
            .fold(0, |bits, word| bits ^ pattern::bits(seed, word))
    }
}

/// What all points share.
struct Bench<G: Gpu> {
    kit: Kit<G>,
    seed: u64,
    input: Rc<G::Buffer>,
    left: Rc<G::Buffer>,
}

impl<G: Gpu> Bench<G> {
    fn new(device: &G::Device, bytes: u64, seed: u64) -> Result<Self, Fault> {
        let kit = Kit::<G>::new(device, &kernels::SOURCE, &kernels::kernels(G::target(device)), TRUST)?;
        let threads = u64::from(kit.unit.machine().multiprocessors) * u64::from(THREADS);
        let (input, left) = (kit.array(bytes)?, kit.array(4 * threads)?);
        kit.checker.fill(Data::Bits, Element::Word, input.whole(), seed)?;
        Ok(Self { kit, seed, input: Rc::new(input), left: Rc::new(left) })
    }

    fn load(&self, point: Point, walk: Walk, every: usize) -> Result<Inside<G>, Fault> {
        let kernel = kernels::copy(point.way, point.tile);
        let blocks = self.kit.unit.machine().multiprocessors;
        let bytes = u64::from(walk.iterations[1]) * u64::from(point.tile);
        let work = Work {
            traffic: Traffic::new(bytes * u64::from(blocks), 0),
            operations: bytes as f64,
            window: if walk.iterations[0] == 0 { walk.around } else { 0 },
            ..Work::default()
        };
        self.kit.checker.poison(self.left.whole())?;
        let inside = Inside::counted(&self.kit, (blocks, Of::Typical), work, |cycles| {
            let list = Arguments::new().buffer(&self.left).span(cycles).buffer(&self.input).u32(walk.slice as u32);
            let list = list.u32(walk.around as u32).u32(point.stages).u32(walk.iterations[0]).u32(walk.iterations[1]);
            self.kit.unit.launch_with_shared(&kernel, 0, list, point.shared())
        })?;
        let (left, input, seed) = (Rc::clone(&self.left), Rc::clone(&self.input), self.seed);
        Ok(inside.with_check(move |last| {
            // The array is on the device as long as launches read it.
            let _ = &input;
            let found = folds::words::<G>(last.stream, left.whole())?;
            Ok(folds::check(&found, every, |thread| point.fold(seed, thread, walk)))
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARED: u32 = 227 << 10;

    #[test]
    fn every_way_has_points_and_old_devices_have_no_bulk_copies() {
        let all = points(Target::plain(90), SHARED, Effort::Standard);
        assert_eq!(all.len(), TILES.len() * (1 + 5 * STAGES as usize));
        assert!(all.iter().all(|point| point.shared() <= 128 << 10));
        let old = points(Target::plain(80), SHARED, Effort::Quick);
        assert!(old.iter().all(|point| point.way != Way::Bulk) && old.len() < 40);
        // 99 KiB hold three of the largest tiles.
        let small = points(Target::plain(86), 99 << 10, Effort::Standard);
        assert_eq!(small.iter().map(Point::shared).max(), Some(96 << 10));
    }

    #[test]
    fn all_threads_together_read_every_word_of_a_tile_once() {
        let point = Point { way: Way::AsyncPast, tile: 8 << 10, stages: 2 };
        let walk = Walk { slice: GRAIN, around: GRAIN, iterations: [1, 3] };
        let all = (0..THREADS as usize).fold(0, |bits, thread| bits ^ point.fold(5, thread, walk));
        let naive = (0..GRAIN / 4).fold(0, |bits, word| bits ^ pattern::bits(5, word));
        assert_eq!(all, naive);
        assert_eq!(point.near(15 << 20, 132).iterations[1] * point.tile, BROUGHT);
    }

    #[test]
    fn near_walks_begin_apart_and_never_meet_what_they_brought() {
        for point in points(Target::plain(90), SHARED, Effort::Standard) {
            let walk = point.near(15 << 20, 132);
            assert!(walk.slice % GRAIN == 0 && walk.around % GRAIN == 0 && walk.slice * 132 <= walk.around);
            assert!(u64::from((walk.iterations[0] + walk.iterations[1]) * point.tile) < walk.around);
        }
    }
}
