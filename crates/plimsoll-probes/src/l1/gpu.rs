//! l1 on a GPU: one block per SM traverses its own piece of memory. `mod.rs` defines the figures,
//! `kernel.cu` the kernels.

use super::kernels::{self, THREADS, WIDTHS};
use crate::folds::{self, MANY, SOME, Walk};
use crate::l1::{self, Access, Kind, Piece};
use crate::prelude::gpu::*;
use crate::sizes;

/// Smallest and largest piece, bytes.
const PIECES: (u64, u64) = (4 << 10, 384 << 10);
/// Bytes of L1 and shared memory together, where the driver doesn't report them.
const USUAL: u64 = 128 << 10;
/// Bytes that a block moves in one launch: some 130 µs of loads and as many of stores, which are slower, and one warp.
const MOVED: (u64, u64) = (32 << 20, 4 << 20);
/// Threads of a warp.
const WARP: u32 = 32;
/// Iterations of a verified launch: untimed and timed.
const VERIFIED: [u64; 2] = [1, 3];

impl<G: Gpu> Run<G> for super::GpuRunner {
    const NEEDS: &'static [Need] = &[Need::Code(&kernels::SOURCE), Need::KernelClock];

    fn points(&self, device: &G::Device, request: &Request) -> usize {
        points::<G>(device, request.effort, PIECES.1).len()
    }

    fn run(&self, session: &mut Session<'_, G>) -> Result<(), Fault> {
        let (effort, seed) = (session.request.effort, session.request.seed);
        let pieces = u64::from(G::machine(session.device)?.multiprocessors);
        let (bytes, flags) = fit_arrays::<G>(session.device, 2, PIECES.1 * pieces)?;
        let bench = Bench::<G>::new(session.device, seed, bytes)?;
        let points = points::<G>(session.device, effort, bytes / pieces);
        let sweep = Sweep { series: l1::curve(), points: &points, share: 1.0, flags };
        session.sweep(sweep, Point::coordinates, |_, point| bench.load(point)).map(drop)
    }

    fn verify(&self, device: &mut G::Device, depth: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        let chunks: &[u64] = if depth == Depth::Small { &[1, 5] } else { &[1, 2, 5, 11] };
        let most = 12 * 4096 * u64::from(G::machine(device)?.multiprocessors);
        let bench = Bench::<G>::new(device, 1, most)?;
        for kind in Kind::ALL {
            for width in kind.widths() {
                for chunks in chunks {
                    let kernel = kind.kernel(*width);
                    let point = Point { kind, width: *width, piece: chunks * folds::chunk(&kernel) };
                    let wrong = bench.once(&point)?.into_wrong();
                    report(Case { kernel: kernel.name, on: format!("{} B per block", point.piece), wrong });
                }
            }
        }
        Ok(())
    }
}

impl Kind {
    fn kernel(self, width: u32) -> KernelDesc {
        match self {
            Self::Load => kernels::load(width),
            Self::LoadAlone => KernelDesc { threads: WARP, ..kernels::load(width) },
            Self::Store => kernels::store(width),
            Self::Shared => kernels::shared(width),
            Self::SharedAtomic => kernels::shared_atomic(),
        }
    }

    /// The widths of this kind of access.
    fn widths(self) -> &'static [u32] {
        match self {
            Self::LoadAlone => &WIDTHS[2..],
            Self::SharedAtomic => &WIDTHS[..1],
            _ => &WIDTHS,
        }
    }

    fn in_shared(self) -> bool {
        matches!(self, Self::Shared | Self::SharedAtomic)
    }

    fn reads(self) -> bool {
        matches!(self, Self::Load | Self::LoadAlone | Self::Shared)
    }
}

/// An access over a piece.
#[derive(Clone, Debug)]
struct Point {
    kind: Kind,
    width: u32,
    /// Bytes of the piece.
    piece: u64,
}

impl Point {
    fn coordinates(&self) -> Piece {
        Piece { access: Access { kind: self.kind, bytes: self.width }, footprint: self.piece.into() }
    }
}

/// Pieces up to `most`: octaves for all, and for the widest loads closely spaced ones around where L1 may end.
fn points<G: Gpu>(device: &G::Device, effort: Effort, most: u64) -> Vec<Point> {
    let limits = G::capabilities(device).limits;
    let together = match limits.shared_per_multiprocessor {
        0 => USUAL,
        bytes => bytes.into(),
    };
    let shared = u64::from(limits.shared_per_block);
    let mut points = Vec::new();
    for kind in Kind::ALL {
        for width in kind.widths() {
            let least = if kind.in_shared() { shared } else { most };
            let finest = kind == Kind::LoadAlone || (kind == Kind::Load && *width == 16);
            let pieces = if finest { close(together, effort, most) } else { octaves(effort, least.min(most)) };
            points.extend(pieces.into_iter().map(|piece| Point { kind, width: *width, piece }));
        }
    }
    points
}

/// Octaves of pieces; every other one where time is short.
fn octaves(effort: Effort, most: u64) -> Vec<u64> {
    sizes::octaves(PIECES.0, most, if effort == Effort::Quick { 2 } else { 1 }).collect()
}

/// Octaves, and closely spaced pieces from half to 1.7 times the memory that L1 and shared memory have together, in whole chunks.
fn close(together: u64, effort: Effort, most: u64) -> Vec<u64> {
    let factor = if effort == Effort::Quick { 1.05 } else { 1.03 };
    let (together, chunk) = (together as f64, folds::chunk(&kernels::load(16)));
    let close = sizes::growing(0.5 * together, 1.7 * together, |_| factor, chunk).filter(|piece| *piece <= most);
    let mut pieces: Vec<u64> = sizes::octaves(PIECES.0, most, 1).chain(close).collect();
    pieces.sort_unstable();
    pieces.dedup();
    pieces
}

/// State shared by all points.
struct Bench<G: Gpu>(folds::Bench<G>);

impl<G: Gpu> Bench<G> {
    /// Arrays of so many bytes for all pieces.
    fn new(device: &G::Device, seed: u64, bytes: u64) -> Result<Self, Fault> {
        let kit = Kit::<G>::new(device, &kernels::SOURCE, &kernels::kernels(), TRUST)?;
        for width in WIDTHS {
            G::prefer_cache(kit.unit.function(&kernels::load(width))?.function())?;
            G::prefer_cache(kit.unit.function(&kernels::store(width))?.function())?;
        }
        let threads = u64::from(kit.unit.machine().multiprocessors) * u64::from(THREADS);
        Ok(Self(folds::Bench::new(kit, bytes, threads, seed)?))
    }

    /// A workload of one point: the first pass untimed, then many.
    fn load(&self, point: &Point) -> Result<InKernel<G>, Fault> {
        let walk = Walk::new(&point.kind.kernel(point.width), point.piece, 0, self.0.kit.unit.machine());
        let moved = if matches!(point.kind, Kind::Load | Kind::Shared) { MOVED.0 } else { MOVED.1 };
        let phases = [walk.pass(), (moved / walk.iteration()).max(walk.pass())];
        self.build_load(point, walk, phases, SOME)
    }

    /// One launch, checked.
    fn once(&self, point: &Point) -> Result<Check, Fault> {
        use plimsoll_core::sample::Workload as _;
        let walk = Walk::new(&point.kind.kernel(point.width), point.piece, 0, self.0.kit.unit.machine());
        let mut load = self.build_load(point, walk, VERIFIED, MANY)?;
        load.sample(1, &mut [0])?;
        load.check()
    }

    fn build_load(&self, point: &Point, walk: Walk, phases: [u64; 2], every: usize) -> Result<InKernel<G>, Fault> {
        let kernel = point.kind.kernel(point.width);
        let blocks = self.0.kit.unit.machine().multiprocessors;
        let all_pieces = |buffer: &G::Buffer| buffer.part(0, walk.bytes());
        let moved = walk.iteration() * phases[1];
        let traffic = if point.kind.reads() { Traffic::new(moved, 0) } else { Traffic::new(0, moved) };
        let shared = if point.kind.in_shared() { walk.slice as u32 } else { 0 };
        self.0.kit.checker.poison(self.0.left.whole())?;
        self.0.kit.checker.poison(all_pieces(&self.0.out)?)?;
        let launch = |cycles| {
            let list = Arguments::new();
            let list = match point.kind {
                Kind::Load | Kind::LoadAlone | Kind::Shared => {
                    list.buffer(&self.0.left).span(cycles).buffer(&self.0.input)
                }
                Kind::Store => list.buffer(&self.0.out).span(cycles),
                Kind::SharedAtomic => list.buffer(&self.0.out).span(cycles).u32(1),
            };
            let list = walk.arguments(list, false).u32(phases[0] as u32).u32(phases[1] as u32);
            self.0.kit.unit.launch_with_shared(&kernel, 0, list, shared)
        };
        let reduction = if point.kind == Kind::Store { LaunchCycles::Slowest } else { LaunchCycles::Median };
        let load =
            InKernel::new_cycles_only(&self.0.kit, (blocks, reduction), Work { traffic, ..Work::default() }, launch)?;
        let threads = u64::from(blocks) * u64::from(kernel.threads);
        let (checker, left, seed) = (Rc::clone(&self.0.kit.checker), Rc::clone(&self.0.left), self.0.seed);
        let (kind, out) = (point.kind, all_pieces(&self.0.out)?);
        let check_counters = self.build_counter_check(point, &walk, phases);
        Ok(load.with_check(move |last| match kind {
            Kind::Load | Kind::LoadAlone | Kind::Shared => {
                let found = folds::words::<G>(last.stream, left.part(0, 4 * threads)?)?;
                Ok(folds::check(&found, every, |thread| walk.fold(seed, thread, &phases)))
            }
            Kind::Store => checker.check_marks(out),
            Kind::SharedAtomic => check_counters(last.stream),
        }))
    }

    /// Checks the counters of the first and the last block against the traversal.
    fn build_counter_check(
        &self,
        point: &Point,
        walk: &Walk,
        phases: [u64; 2],
    ) -> impl Fn(&Arc<G::Stream>) -> Result<Check, Fault> + use<G> {
        let words = (folds::chunk(&point.kind.kernel(point.width)) / 4) as usize;
        let visits = if point.kind == Kind::SharedAtomic { walk.visits(&phases) } else { Vec::new() };
        let part = |block: u64| self.0.out.part(block * walk.slice, walk.slice);
        let parts = [part(0), part(walk.bytes() / walk.slice - 1)];
        move |stream| {
            for part in &parts {
                let part = match part {
                    Ok(part) => *part,
                    Err(_) => return Err(Fault::Invalid("a piece lies outside its array".to_owned())),
                };
                let found = folds::words::<G>(stream, part)?;
                let wrong = found.iter().enumerate().find(|(place, count)| visits[place / words] != **count);
                if let Some((place, count)) = wrong {
                    let expected = visits[place / words];
                    return Ok(Check::Failed(format!("counter {place} is {count}, not {expected}")));
                }
            }
            Ok(Check::Passed)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_whole_chunks_and_close_together_where_l1_may_end() {
        for (effort, ratio) in [(Effort::Quick, 1.08), (Effort::Standard, 1.06)] {
            let pieces = close(228 << 10, effort, PIECES.1);
            assert!(pieces.iter().all(|piece| piece % 4096 == 0) && pieces.is_sorted());
            let close = pieces.windows(2).filter(|pair| pair[0] >= 128 << 10 && pair[1] <= 300 << 10);
            assert!(close.clone().count() > 10);
            assert!(close.clone().all(|pair| pair[1] as f64 / (pair[0] as f64) < ratio), "{pieces:?}");
        }
        assert_eq!(octaves(Effort::Quick, 100 << 10), [4 << 10, 16 << 10, 64 << 10]);
        assert!(close(228 << 10, Effort::Quick, 64 << 10).iter().all(|piece| *piece <= 64 << 10));
    }
}
