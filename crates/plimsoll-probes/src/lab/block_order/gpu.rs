//! block-order on a GPU: one kernel over all tiles of two matrices, in several orders of its blocks. `crate::lab::block_order`
//! defines the figures; `kernel.cu` has the kernel.

use plimsoll_core::sample::Workload as _;
use plimsoll_gpu::checker::POISON;
use plimsoll_gpu::kit::exclusive_shared_bytes;

use super::kernels::{self, ITERATION, THREADS};
use super::{AFRESH, AllTiles, LEAST, ORDERS, Order};
use crate::lab::block_order;
use crate::prelude::gpu::*;
use crate::{TRUST, folds};

/// Rows of tiles in a group.
const GROUPS: [u32; 5] = [4, 8, 12, 16, 32];
/// Size of a matrix in multiples of the last-level cache: too large for it, yet a launch takes only a few milliseconds.
const CACHE_MULTIPLE: f64 = 2.2;
/// Size of the last-level cache if the device doesn't report one, bytes.
const USUAL: u64 = 40 << 20;
/// Warps of a block.
const WARPS: u32 = THREADS / 32;
/// Tiles compared with the oracle after a measurement; for all others only their completion is checked.
const LOOK: usize = 5;

/// An order, and the rows of a group: 0 means diagonals.
type Grouped = (Order, u32);

impl<G: Gpu> Run<G> for super::GpuRunner {
    const NEEDS: &'static [Need] = &[Need::Code(&kernels::SOURCE), Need::Graphs];

    fn points(&self, device: &G::Device, request: &Request) -> usize {
        let multiprocessors = G::machine(device).map_or(0, |machine| machine.multiprocessors);
        orders(Size::for_device(multiprocessors, USUAL).rows, request.effort).len() + 3
    }

    fn run(&self, session: &mut Session<'_, G>) -> Result<(), Fault> {
        let cache = Some(session.info().last_level_cache()).filter(|bytes| *bytes > 0).unwrap_or(USUAL);
        let size = Size::for_device(G::machine(session.device)?.multiprocessors, cache);
        let (bytes, flags) = fit_arrays::<G>(session.device, 2, size.matrix())?;
        let size = size.within(bytes);
        let bench = Bench::<G>::new(session.device, size, session.request.seed)?;
        let points = orders(size.rows, session.request.effort);
        let coordinates = |grouped: &Grouped| AllTiles { order: grouped.0 };
        let sweep = Sweep { series: block_order::orders(ORDERS), points: &points, share: 0.7, flags };
        let chosen = block_order::chosen(session.sweep(sweep, coordinates, |_, order| bench.load(order.1, LOOK))?);
        let wanted = |grouped: &Grouped| chosen.is_some_and(|chosen| chosen.contains(&grouped.0));
        let points: Vec<Grouped> = points.into_iter().filter(wanted).collect();
        let sweep = Sweep { series: block_order::orders(AFRESH), points: &points, share: 0.3, flags };
        session.sweep(sweep, coordinates, |_, order| bench.load(order.1, LOOK)).map(drop)
    }

    fn verify(&self, device: &mut G::Device, depth: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        let sizes: &[(u32, u32, u64)] = match depth {
            Depth::Small => &[(1, 1, 1), (5, 3, 2)],
            _ => &[(1, 1, 1), (1, 7, 3), (7, 1, 1), (5, 3, 2), (13, 17, 1), (33, 31, 2)],
        };
        for (rows, columns, iterations) in sizes.iter().copied() {
            let bench = Bench::<G>::new(device, Size { rows, columns, panel: iterations * u64::from(ITERATION) }, 1)?;
            for (order, group) in orders(rows, Effort::Thorough) {
                let mut load = bench.load(group, usize::MAX)?;
                load.launch_once()?;
                let on =
                    format!("{rows} × {columns} tiles, panels of {} B, {order}", iterations * u64::from(ITERATION));
                report(Case::new(kernels::product(1).name, on, load.check()?));
            }
        }
        Ok(())
    }
}

/// Rows, columns, diagonals and groups; `quick` has fewer groups.
fn orders(rows: u32, effort: Effort) -> Vec<Grouped> {
    let mut orders = vec![(Order::Rows, 1), (Order::Columns, rows), (Order::Diagonals, 0)];
    let some = GROUPS.into_iter().filter(|group| effort != Effort::Quick || matches!(group, 4 | 12 | 32));
    orders.extend(some.map(|group| (Order::Groups(group), group)));
    orders
}

/// Number of panels of each matrix, and their size in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Size {
    rows: u32,
    columns: u32,
    panel: u64,
}

impl Size {
    /// Square, with at least as many panels as there are SMs, so that a whole wave shares nothing along a diagonal.
    fn for_device(multiprocessors: u32, cache: u64) -> Self {
        let panels = multiprocessors.clamp(16, 256).next_multiple_of(8);
        let panel = (cache as f64 * CACHE_MULTIPLE / f64::from(panels)) as u64;
        Self {
            rows: panels,
            columns: panels,
            panel: panel.next_multiple_of(u64::from(ITERATION)).max(ITERATION.into()),
        }
    }

    /// Bytes of the larger matrix.
    fn matrix(self) -> u64 {
        u64::from(self.rows.max(self.columns)) * self.panel
    }

    /// The same with panels that fit into `bytes` per matrix.
    fn within(self, bytes: u64) -> Self {
        let most = bytes / u64::from(self.rows.max(self.columns)) / u64::from(ITERATION) * u64::from(ITERATION);
        Self { panel: self.panel.min(most.max(ITERATION.into())), ..self }
    }

    fn tiles(self) -> u32 {
        self.rows * self.columns
    }

    /// Bytes that blocks read, and the least that memory must deliver.
    fn bytes(self) -> (u64, u64) {
        (2 * u64::from(self.tiles()) * self.panel, u64::from(self.rows + self.columns) * self.panel)
    }
}

/// The exclusive or of the words that a warp reads of a panel.
fn fold(seed: u64, panel: u64, warp: u32, bytes: u64) -> u32 {
    let lanes = u64::from(32 * warp)..u64::from(32 * warp + 32);
    let vectors = lanes.flat_map(|lane| (lane..bytes / 16).step_by(THREADS as usize));
    let words = vectors.flat_map(|vector| (0..4).map(move |word| panel * bytes / 4 + 4 * vector + word));
    words.fold(0, |bits, word| bits ^ pattern::bits(seed, word))
}

/// State shared by all points.
struct Bench<G: Gpu> {
    kit: Kit<G>,
    size: Size,
    /// Dynamic shared memory that keeps a block alone on its SM, so that a wave has one tile per SM.
    shared: u32,
    seed: u64,
    matrices: Rc<[G::Buffer; 2]>,
    left: Rc<G::Buffer>,
}

impl<G: Gpu> Bench<G> {
    fn new(device: &G::Device, size: Size, seed: u64) -> Result<Self, Fault> {
        let kit = Kit::<G>::new(device, &kernels::SOURCE, &kernels::kernels(), TRUST)?;
        let matrix = |panels: u32| kit.array(u64::from(panels) * size.panel);
        let matrices = Rc::new([matrix(size.rows)?, matrix(size.columns)?]);
        for (matrix, seed) in matrices.iter().zip(seeds(seed)) {
            kit.checker.fill(Data::Bits, Element::Word, matrix.whole(), seed)?;
        }
        let left = kit.array(4 * u64::from(size.tiles()) * u64::from(WARPS))?;
        let shared = exclusive_shared_bytes::<G>(device, 0);
        Ok(Self { kit, size, shared, seed, matrices, left: Rc::new(left) })
    }

    /// One launch over all tiles; `look` of them are compared with the oracle.
    fn load(&self, group: u32, look: usize) -> Result<Load<G>, Fault> {
        let size = self.size;
        let (read, least) = size.bytes();
        let work = Work { traffic: Traffic::new(read, 0), operations: f64::from(size.tiles()), ..Work::default() };
        let list = Arguments::new().buffer(&self.left).buffer(&self.matrices[0]).buffer(&self.matrices[1]);
        let list = list.u32(size.rows).u32(size.columns).u32(group).u32((size.panel / 16) as u32);
        let launch = self.kit.unit.launch_with_shared(&kernels::product(size.tiles()), 1, list, self.shared)?;
        self.kit.checker.poison(self.left.whole())?;
        let load = self.kit.load(GRAPH, vec![launch], work)?.with_extra(LEAST, least as f64);
        let (left, matrices, seed) = (Rc::clone(&self.left), Rc::clone(&self.matrices), self.seed);
        Ok(load.with_check(move |stream| {
            // Keeps the matrices allocated while launches read them.
            let _ = &matrices;
            Ok(check(size, seed, &folds::words::<G>(stream, left.whole())?, look))
        }))
    }
}

/// The seeds of the two matrices.
fn seeds(seed: u64) -> [u64; 2] {
    [seed, seed ^ 0x5eed_000b]
}

/// Whether every tile was written, and about `look` of them are right: the first, the last, and some in between.
fn check(size: Size, seed: u64, found: &[u32], look: usize) -> Check {
    let locate = |word: usize| {
        let (tile, warp) = (word as u32 / WARPS, word as u32 % WARPS);
        (tile / size.columns, tile % size.columns, warp)
    };
    if let Some(word) = found.iter().position(|word| *word == POISON) {
        let (row, column, warp) = locate(word);
        return Check::Failed(format!("warp {warp} of tile {row}, {column} wrote nothing"));
    }
    let tiles = size.tiles() as usize;
    let step = tiles.div_ceil(look.clamp(1, tiles)).max(1);
    let some = (0..tiles).step_by(step).chain([tiles - 1]);
    let words = some.flat_map(|tile| tile * WARPS as usize..(tile + 1) * WARPS as usize);
    let wrong = words.into_iter().find_map(|word| {
        let (row, column, warp) = locate(word);
        let [a, b] = seeds(seed);
        let right = fold(a, row.into(), warp, size.panel) ^ fold(b, column.into(), warp, size.panel);
        (found[word] != right)
            .then(|| format!("warp {warp} of tile {row}, {column} folded to {:#010x}, not {right:#010x}", found[word]))
    });
    wrong.map_or(Check::Passed, Check::Failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matrices_exceed_the_cache_and_shrink_to_fit_memory() {
        for (multiprocessors, cache) in [(132, 60 << 20), (108, 40 << 20), (58, 48 << 20), (20, 2 << 20)] {
            let size = Size::for_device(multiprocessors, cache);
            assert!(size.matrix() >= 2 * cache && size.rows >= multiprocessors.min(256), "{size:?}");
            assert!(size.panel.is_multiple_of(ITERATION.into()));
            let small = size.within(cache);
            assert!(small.matrix() <= cache.max(u64::from(ITERATION * size.rows)), "{small:?}");
        }
        assert_eq!(ITERATION, 16 * THREADS * kernels::UNROLL);
    }

    #[test]
    fn check_finds_a_skipped_tile_and_a_wrong_panel() {
        let size = Size { rows: 3, columns: 2, panel: ITERATION.into() };
        let [a, b] = seeds(7);
        let right = |word: u32| {
            let (tile, warp) = (word / WARPS, word % WARPS);
            fold(a, (tile / 2).into(), warp, size.panel) ^ fold(b, (tile % 2).into(), warp, size.panel)
        };
        let mut found: Vec<u32> = (0..6 * WARPS).map(right).collect();
        assert_eq!(check(size, 7, &found, usize::MAX), Check::Passed);
        found[3 * WARPS as usize + 1] = POISON;
        assert!(matches!(check(size, 7, &found, 1), Check::Failed(what) if what.contains("warp 1 of tile 1, 1 wrote")));
        found[3 * WARPS as usize + 1] = 17;
        assert!(
            matches!(check(size, 7, &found, usize::MAX), Check::Failed(what) if what.contains("folded to 0x00000011"))
        );
    }
}
