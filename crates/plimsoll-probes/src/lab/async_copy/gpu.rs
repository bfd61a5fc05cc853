//! async-copy on a GPU: one small block on each SM brings tiles into shared memory in several ways. `crate::lab::async_copy`
//! defines the figures; `kernel.cu` has the kernels.

use plimsoll_gen::Target;

use super::kernels::{self, STAGES, THREADS, TILES, Way};
use super::{AFRESH, FROM_L2, FROM_MEMORY, Tiles};
use crate::folds::{MANY, Readers, SOME};
use crate::lab::async_copy;
use crate::prelude::gpu::*;

/// All SMs cycle through the same 1/`NEAR` of the L2. The share is small because an L2 in two partitions duplicates data that
/// both sides read.
const NEAR: u64 = 4;
/// Bytes that an SM brings from the L2 in one launch: several times the size of the L1, so that nothing is still there when it is
/// read again.
const BROUGHT: u32 = 1 << 20;
/// Slices are multiples of the largest tile.
const GRAIN: u64 = TILES[TILES.len() - 1] as u64;
/// Static shared memory of the kernels, bytes: the barriers.
const FIXED: u32 = 64;
/// Untimed tiles before the timed ones.
const WARM: u32 = 4;
/// Size of the last-level cache if the device doesn't report one, bytes.
const USUAL: u64 = 4 << 20;

/// One way, tile size and stage count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Point {
    way: Way,
    tile: u32,
    /// Tiles that fit in the buffer at once.
    stages: u32,
}

/// The addresses that SMs read: `slice` bytes between the starting points of neighbouring SMs, `around` bytes that all of them
/// wrap around in, and the untimed and timed tiles of each in one launch.
#[derive(Clone, Copy, Debug)]
struct Path {
    slice: u64,
    around: u64,
    iterations: [u32; 2],
}

impl<G: Gpu> Run<G> for super::GpuRunner {
    /// `cp.async` needs compute capability 8.0, the oldest that plimsoll compiles for.
    const NEEDS: &'static [Need] = &[Need::Code(&kernels::SOURCE), Need::KernelClock];

    fn points(&self, device: &G::Device, request: &Request) -> usize {
        let all = points(G::target(device), max_shared_bytes::<G>(device), request.effort);
        let ways = all.iter().filter(|point| point.stages == 1).count();
        all.len() + ways + all.iter().filter(|point| point.is_read_from_memory()).count()
    }

    fn run(&self, session: &mut Session<'_, G>) -> Result<(), Fault> {
        let (effort, blocks) = (session.request.effort, u64::from(G::machine(session.device)?.multiprocessors.max(1)));
        let window = session.info().cold_window().div_ceil(blocks).next_multiple_of(GRAIN);
        let (bytes, flags) = fit_arrays::<G>(session.device, 1, window * blocks)?;
        let far = (bytes / blocks / GRAIN * GRAIN).clamp(GRAIN, window);
        let cache = Some(session.info().last_level_cache()).filter(|bytes| *bytes > 0).unwrap_or(USUAL);
        let near = (cache / NEAR / GRAIN * GRAIN).clamp(GRAIN, far * blocks);
        let bench = Bench::<G>::new(session.device, far * blocks, session.request.seed)?;
        let target = G::target(session.device);
        if !Way::Bulk.is_supported_by(target) {
            let why =
                format!("the device has compute capability {}.{}", target.capability / 10, target.capability % 10);
            let hint = "Use a device of compute capability 9.0 or later".to_owned();
            session.report_fault(&Fault::Unavailable { what: "bulk copies", why, hint })?;
        }
        let points = points(target, max_shared_bytes::<G>(session.device), effort);
        let from_memory: Vec<Point> = points.iter().copied().filter(|point| point.is_read_from_memory()).collect();

        let sweep = Sweep { series: async_copy::tiles(FROM_L2), points: &points, share: 0.6, flags: Flags::NONE };
        let load = |point: &Point| bench.load(*point, point.path_in_l2(near, blocks), SOME);
        let chosen = async_copy::chosen(session.sweep(sweep, Point::coordinates, |_, point| load(point))?);
        let best: Vec<Point> = points.iter().copied().filter(|point| chosen.contains(&point.coordinates())).collect();
        let sweep = Sweep { series: async_copy::tiles(AFRESH), points: &best, share: 0.2, flags: Flags::NONE };
        session.sweep(sweep, Point::coordinates, |_, point| load(point))?;
        let sweep = Sweep { series: async_copy::tiles(FROM_MEMORY), points: &from_memory, share: 0.2, flags };
        session
            .sweep(sweep, Point::coordinates, |_, point| bench.load(*point, point.path_in_memory(far, blocks), SOME))
            .map(drop)
    }

    fn verify(&self, device: &mut G::Device, depth: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        let blocks = u64::from(G::machine(device)?.multiprocessors.max(1));
        let bench = Bench::<G>::new(device, 2 * GRAIN * blocks, 1)?;
        // Fewer tiles than stages, and more than a slice holds, so that paths wrap around.
        let iterations: &[[u32; 2]] =
            if depth == Depth::Small { &[[1, 5]] } else { &[[0, 1], [1, 2], [3, 5], [2, 35]] };
        for point in points(G::target(device), max_shared_bytes::<G>(device), Effort::Thorough) {
            for iterations in iterations {
                for (slice, around) in [(GRAIN, 2 * GRAIN), (2 * GRAIN, 2 * GRAIN * blocks)] {
                    let mut load = bench.load(point, Path { slice, around, iterations: *iterations }, MANY)?;
                    let on =
                        format!("{} stages, {} + {} tiles in {around} B", point.stages, iterations[0], iterations[1]);
                    report(Case::from_sample(kernels::copy(point.way, point.tile).name, on, &mut load)?);
                }
            }
        }
        Ok(())
    }
}

/// Most shared memory of a block, bytes.
fn max_shared_bytes<G: Gpu>(device: &G::Device) -> u32 {
    G::capabilities(device).limits.shared_per_block
}

/// Every way that a target supports, with every tile size and stage count that fits; `quick` has fewer of both.
fn points(target: Target, shared: u32, effort: Effort) -> Vec<Point> {
    let quick = effort == Effort::Quick;
    let tiles = move |tile: &u32| !quick || [TILES[0], TILES[2], TILES[4]].contains(tile);
    let stages = move |stages: &u32| !quick || [1, STAGES].contains(stages);
    let of_way = |way: Way| {
        let of_tile = move |tile| (1..=way.stages()).filter(stages).map(move |stages| Point { way, tile, stages });
        TILES.into_iter().filter(tiles).flat_map(of_tile)
    };
    let all = Way::ALL.into_iter().filter(|way| way.is_supported_by(target)).flat_map(of_way);
    all.filter(|point| point.shared() + FIXED <= shared).collect()
}

impl Point {
    fn coordinates(&self) -> Tiles {
        Tiles { way: self.way, tile: self.tile.into(), stages: self.stages.into() }
    }

    fn shared(&self) -> u32 {
        self.tile * self.stages
    }

    /// Whether the point is also measured from memory: wide copies with one stage and with the most.
    fn is_read_from_memory(&self) -> bool {
        let wide = matches!(self.way, Way::Registers | Way::Past | Way::Bulk);
        wide && (self.stages == 1 || self.stages == STAGES)
    }

    /// Through part of the L2: all SMs read the same bytes, each from its own starting point.
    fn path_in_l2(&self, around: u64, blocks: u64) -> Path {
        let slice = (around / blocks / GRAIN * GRAIN).max(GRAIN);
        Path { slice, around, iterations: [WARM, BROUGHT / self.tile] }
    }

    /// Once over more than the L2 holds; each SM reads its own part.
    fn path_in_memory(&self, slice: u64, blocks: u64) -> Path {
        Path { slice, around: slice * blocks, iterations: [0, (slice / u64::from(self.tile)) as u32] }
    }

    /// The exclusive or of everything that a thread reads of its block's tiles, untimed ones first.
    fn fold(&self, seed: u64, thread: usize, path: Path) -> u32 {
        let (block, lane) = (thread as u64 / u64::from(THREADS), thread as u64 % u64::from(THREADS));
        let tile = u64::from(self.tile);
        let words = |iteration: u32| {
            let begin = (block * path.slice + u64::from(iteration) * tile) % path.around;
            let vectors = (lane ^ 32..tile / 16).step_by(THREADS as usize);
            vectors.flat_map(move |vector| (0..4).map(move |word| begin / 4 + 4 * vector + word))
        };
        (0..path.iterations[0] + path.iterations[1])
            .flat_map(words)
            .fold(0, |bits, word| bits ^ pattern::bits(seed, word))
    }
}

/// State shared by all points.
struct Bench<G: Gpu>(Readers<G>);

impl<G: Gpu> Bench<G> {
    fn new(device: &G::Device, bytes: u64, seed: u64) -> Result<Self, Fault> {
        let kit = Kit::<G>::new(device, &kernels::SOURCE, &kernels::kernels(G::target(device)), TRUST)?;
        Ok(Self(Readers::new(kit, bytes, THREADS, seed)?))
    }

    fn load(&self, point: Point, path: Path, every: usize) -> Result<InKernel<G>, Fault> {
        let kernel = kernels::copy(point.way, point.tile);
        let Readers { kit, input, left, .. } = &self.0;
        let blocks = kit.unit.machine().multiprocessors;
        let bytes = u64::from(path.iterations[1]) * u64::from(point.tile);
        let work = Work {
            traffic: Traffic::new(bytes * u64::from(blocks), 0),
            operations: bytes as f64,
            window: if path.iterations[0] == 0 { path.around } else { 0 },
            ..Work::default()
        };
        let launch = |cycles| {
            let list = Arguments::new().buffer(left).span(cycles).buffer(input).u32(path.slice as u32);
            let list = list.u32(path.around as u32).u32(point.stages).u32(path.iterations[0]).u32(path.iterations[1]);
            kit.unit.launch_with_shared(&kernel, 0, list, point.shared())
        };
        self.0.load(work, every, launch, move |seed, thread| point.fold(seed, thread, path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARED: u32 = 227 << 10;

    #[test]
    fn every_way_has_points_and_bulk_copies_need_a_new_device() {
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
        let point = Point { way: Way::Past, tile: 8 << 10, stages: 2 };
        let path = Path { slice: GRAIN, around: GRAIN, iterations: [1, 3] };
        let all = (0..THREADS as usize).fold(0, |bits, thread| bits ^ point.fold(5, thread, path));
        let naive = (0..GRAIN / 4).fold(0, |bits, word| bits ^ pattern::bits(5, word));
        assert_eq!(all, naive);
        assert_eq!(point.path_in_l2(15 << 20, 132).iterations[1] * point.tile, BROUGHT);
    }

    #[test]
    fn paths_in_the_l2_start_apart_and_never_read_a_byte_twice() {
        for point in points(Target::plain(90), SHARED, Effort::Standard) {
            let path = point.path_in_l2(15 << 20, 132);
            assert!(path.slice % GRAIN == 0 && path.around % GRAIN == 0 && path.slice * 132 <= path.around);
            assert!(u64::from((path.iterations[0] + path.iterations[1]) * point.tile) < path.around);
        }
    }
}
