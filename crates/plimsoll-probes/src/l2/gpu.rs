//! l2 on a GPU: reads, writes and copies that bypass L1, on lines private to each SM or shared in turn. `mod.rs` defines the
//! figures, `kernel.cu` the kernels.

use super::kernels::{self, THREADS};
use crate::folds::{self, MANY, SOME, Walk};
use crate::l2::{self, Access, Spread};
use crate::prelude::gpu::*;

/// Smallest and largest footprint, bytes.
const FOOTPRINTS: (u64, u64) = (1 << 20, 512 << 20);
/// Shares of the cache between which footprints are closely spaced.
const CLOSE: [f64; 2] = [0.4, 1.2];
/// Bytes that the device moves in one launch.
const MOVED: u64 = 2 << 30;
/// Iterations of a verified launch.
const VERIFIED: u64 = 5;

/// A pattern over a footprint.
#[derive(Clone, Copy, Debug)]
struct Point {
    access: Access,
    footprint: u64,
}

impl<G: Gpu> Run<G> for super::GpuRunner {
    const NEEDS: &'static [Need] = &[Need::Code(&kernels::SOURCE), Need::Graphs];

    fn points(&self, _: &G::Device, request: &Request) -> usize {
        // The cache is known once the device's description is; most have some 40 MB.
        points(40 << 20, request.effort, request.bytes.unwrap_or(FOOTPRINTS.1)).len()
    }

    fn run(&self, session: &mut Session<'_, G>) -> Result<(), Fault> {
        let effort = session.request.effort;
        let most = requested_bytes(session, FOOTPRINTS.1)?;
        let (bytes, flags) = fit_arrays::<G>(session.device, 2, most)?;
        let bench = Bench::<G>::new(session.device, session.request.seed, bytes)?;
        let points = points(session.info().last_level_cache(), effort, bytes.min(most));
        let sweep = Sweep { series: l2::curve(), points: &points, share: 1.0, flags };
        let footprint = |point: &Point| bench.walk(point).bytes() * point.arrays();
        let coordinates = |point: &Point| Spread { access: point.access, footprint: footprint(point).into() };
        session.sweep(sweep, coordinates, |_, point| bench.load(point)).map(drop)
    }

    fn verify(&self, device: &mut G::Device, depth: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        let chunks: &[u64] = if depth == Depth::Small { &[1, 33] } else { &[1, 3, 32, 33, 65] };
        let pieces = u64::from(G::machine(device)?.multiprocessors);
        let most = 2 * 65 * pieces * folds::chunk(&kernels::read());
        let bench = Bench::<G>::new(device, 1, most)?;
        for access in Access::ALL {
            for chunks in chunks {
                let kernel = kernel(access);
                let footprint = chunks * pieces * folds::chunk(&kernel);
                let point = Point { access, footprint: footprint * Point { access, footprint }.arrays() };
                let wrong = bench.once(&point)?.into_wrong();
                report(Case { kernel: kernel.name, on: format!("{access}, {footprint} B"), wrong });
            }
        }
        Ok(())
    }
}

fn kernel(access: Access) -> KernelDesc {
    match access {
        Access::ReadShared | Access::ReadUnique | Access::ReadTogether => kernels::read(),
        Access::Write => kernels::write(),
        Access::Copy => kernels::copy(),
    }
}

impl Point {
    /// Arrays that share the footprint.
    fn arrays(&self) -> u64 {
        if self.access == Access::Copy { 2 } else { 1 }
    }
}

/// Reads of shared and of unique lines at all footprints; the others by octaves.
fn points(cache: u64, effort: Effort, most: u64) -> Vec<Point> {
    let points =
        |access, footprints: Vec<u64>| footprints.into_iter().map(move |footprint| Point { access, footprint });
    let (close, wide) = (footprints(cache, effort, most), footprints(0, effort, most));
    let reads = [Access::ReadShared, Access::ReadUnique].into_iter().flat_map(|access| points(access, close.clone()));
    let others =
        [Access::ReadTogether, Access::Write, Access::Copy].into_iter().flat_map(|access| points(access, wide.clone()));
    reads.chain(others).collect()
}

/// Half octaves up to `most`, and closer ones around where a cache of so many bytes, or a half of it, may end.
fn footprints(cache: u64, effort: Effort, most: u64) -> Vec<u64> {
    let factor = match effort {
        Effort::Thorough => 1.03,
        Effort::Standard => 1.04,
        _ => 1.06,
    };
    let mut all = Vec::new();
    let mut footprint = FOOTPRINTS.0 as f64;
    let [from, to] = CLOSE.map(|share| share * cache as f64);
    while footprint <= most as f64 {
        all.push(footprint as u64);
        let close = (from..to).contains(&footprint);
        let next = footprint * if close { factor } else { std::f64::consts::SQRT_2 };
        // The closely spaced ones begin exactly at `from`.
        footprint = if footprint < from { next.min(from) } else { next };
    }
    if all.is_empty() {
        all.push(most);
    }
    all
}

/// How many pieces an SM moves on after a pass: about three eighths of all, so that neighbours aren't at the same
/// lines at the same time, and coprime to their number, so that it visits every piece.
fn shift(pieces: u32) -> u64 {
    let pieces = u64::from(pieces);
    let common = |a: u64| (2..=a).any(|divisor| a.is_multiple_of(divisor) && pieces.is_multiple_of(divisor));
    (pieces * 3 / 8 + 1..pieces).find(|shift| !common(*shift)).unwrap_or(1)
}

/// State shared by all points.
struct Bench<G: Gpu>(folds::Bench<G>);

impl<G: Gpu> Bench<G> {
    fn new(device: &G::Device, seed: u64, bytes: u64) -> Result<Self, Fault> {
        let kit = Kit::<G>::new(device, &kernels::SOURCE, &kernels::kernels(), TRUST)?;
        let blocks = u64::from(kit.unit.machine().multiprocessors);
        // Pieces are whole chunks, at least one each.
        let bytes = bytes.max(blocks * folds::chunk(&kernels::read()));
        Ok(Self(folds::Bench::new(kit, bytes, blocks * u64::from(THREADS), seed)?))
    }

    fn walk(&self, point: &Point) -> Walk {
        let machine = self.0.kit.unit.machine();
        let slice = point.footprint / point.arrays() / u64::from(machine.multiprocessors);
        let shift = match point.access {
            Access::ReadShared => shift(machine.multiprocessors),
            Access::ReadTogether => 1,
            Access::ReadUnique | Access::Write | Access::Copy => 0,
        };
        Walk::new(&kernel(point.access), slice, shift, machine)
    }

    fn launch(&self, point: &Point, walk: &Walk, iterations: u64) -> Result<G::Launch, Fault> {
        let left = if matches!(point.access, Access::Write | Access::Copy) { &self.0.out } else { &*self.0.left };
        let list = walk.arguments(Arguments::new().buffer(left).buffer(&self.0.input), true);
        self.0.kit.unit.launch(&kernel(point.access), 0, list.u32(iterations as u32))
    }

    /// A workload of one point: about 2 GB in whole passes.
    fn load(&self, point: &Point) -> Result<Load<G>, Fault> {
        let walk = self.walk(point);
        let of_all = walk.iteration() * u64::from(self.0.kit.unit.machine().multiprocessors);
        let iterations = (MOVED / of_all).max(1).next_multiple_of(walk.pass());
        self.poison(&walk)?;
        let (read, written) = match point.access {
            Access::ReadShared | Access::ReadUnique | Access::ReadTogether => (1, 0),
            Access::Write => (0, 1),
            Access::Copy => (1, 1),
        };
        let traffic = Traffic::new(read * iterations * of_all, written * iterations * of_all);
        let launch = self.launch(point, &walk, iterations)?;
        let load = self.0.kit.load(GRAPH, vec![launch], Work { traffic, ..Work::default() })?;
        let check = self.check(point, walk, iterations, SOME)?;
        Ok(load.with_check(move |_| check()))
    }

    fn once(&self, point: &Point) -> Result<Check, Fault> {
        let walk = self.walk(point);
        let iterations = VERIFIED.max(walk.pass());
        self.poison(&walk)?;
        self.0.kit.run_once(&self.launch(point, &walk, iterations)?)?;
        G::wait(self.0.kit.stream())?;
        self.check(point, walk, iterations, MANY)?()
    }

    fn poison(&self, walk: &Walk) -> Result<(), Fault> {
        self.0.kit.checker.poison(self.0.left.whole())?;
        self.0.kit.checker.poison(self.0.out.part(0, walk.bytes())?)
    }

    fn check(
        &self,
        point: &Point,
        walk: Walk,
        iterations: u64,
        every: usize,
    ) -> Result<impl Fn() -> Result<Check, Fault> + use<G>, Fault> {
        let (checker, left, stream) =
            (Rc::clone(&self.0.kit.checker), Rc::clone(&self.0.left), self.0.kit.stream().clone());
        let (out, input) = (self.0.out.part(0, walk.bytes())?, self.0.input.part(0, walk.bytes())?);
        let (access, seed) = (point.access, self.0.seed);
        Ok(move || match access {
            Access::Write => checker.check_marks(out),
            Access::Copy => checker.check_map(Op::Copy, Element::Word, out, [input; 3], 0.0),
            Access::ReadShared | Access::ReadUnique | Access::ReadTogether => {
                let found = folds::words::<G>(&stream, left.whole())?;
                Ok(folds::check(&found, every, |thread| walk.fold(seed, thread, &[iterations])))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shifts_visit_every_piece() {
        for pieces in [1, 2, 8, 80, 108, 132, 144] {
            let shift = shift(pieces);
            let seen: std::collections::BTreeSet<u64> =
                (0..u64::from(pieces)).map(|pass| pass * shift % u64::from(pieces)).collect();
            assert_eq!(seen.len(), pieces as usize, "{pieces}");
        }
        assert_eq!(shift(132), 53);
    }

    #[test]
    fn footprints_are_closely_spaced_around_the_cache_and_its_half() {
        let all = footprints(60 << 20, Effort::Standard, FOOTPRINTS.1);
        assert!(all.is_sorted() && all[0] == FOOTPRINTS.0 && *all.last().unwrap() > 300 << 20);
        let close = all.windows(2).filter(|pair| pair[0] > 26 << 20 && pair[1] < 70 << 20);
        assert!(close.clone().count() > 20 && close.clone().all(|pair| pair[1] * 100 <= pair[0] * 105), "{all:?}");
        assert_eq!(footprints(60 << 20, Effort::Quick, 1 << 10), [1 << 10]);
        let points = points(60 << 20, Effort::Quick, FOOTPRINTS.1);
        assert!(points.len() < 130, "{}", points.len());
    }
}
