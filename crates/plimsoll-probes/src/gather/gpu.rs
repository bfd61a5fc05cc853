//! gather on a GPU: reads, writes and additions at random places. `mod.rs` defines the figures,
//! `kernel.cu` the kernels.

use plimsoll_gpu::checker::POISON;

use super::kernels::{self, ADDED, LINE, SIZES, THREADS, UNROLL, place};
use crate::folds::{self, MANY, SOME};
use crate::gather::{self, Accesses, CASES, wasted};
use crate::prelude::gpu::*;
use crate::sizes;

/// Smallest and largest footprint, bytes.
const FOOTPRINTS: (u64, u64) = (16 << 20, 64 << 30);
/// The largest footprint of a quick run: allocating more would take longer than the measurement.
const LARGEST_QUICK: u64 = 16 << 30;
/// Iterations of a launch: some 10⁸ accesses of one thread each.
const ITERATIONS: u32 = 32;
/// Iterations of a verified launch, and lines of its array: few enough that each is hit.
const VERIFIED: (u32, u32) = (3, 5000);
/// Locations that are checked after writes and additions.
const LOOKS: u32 = 8;

/// The kind of access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Read,
    Write,
    Add,
}

impl<G: Gpu> Run<G> for super::GpuRunner {
    const NEEDS: &'static [Need] = &[Need::Code(&kernels::SOURCE), Need::Graphs];

    fn points(&self, _: &G::Device, request: &Request) -> usize {
        let most = request.bytes.unwrap_or(default_bytes(request.effort));
        [Kind::Read, Kind::Write, Kind::Add].map(|kind| points(kind, request.effort, most).len()).iter().sum()
    }

    fn run(&self, session: &mut Session<'_, G>) -> Result<(), Fault> {
        let effort = session.request.effort;
        let most = requested_bytes(session, default_bytes(effort))?;
        let (bytes, flags) = fit_arrays::<G>(session.device, 1, most)?;
        let bench = Bench::<G>::new(session.device, session.request.seed, bytes.min(most))?;
        let kinds = [(Kind::Read, 0.5), (Kind::Write, 0.3), (Kind::Add, 0.2)];
        for ((kind, share), case) in kinds.into_iter().zip(CASES) {
            let points = points(kind, effort, bench.array.bytes());
            let sweep = Sweep { series: gather::accesses(case), points: &points, share, flags };
            session.sweep(sweep, Point::coordinates, |_, point| bench.load(point))?;
        }
        Ok(())
    }

    fn verify(&self, device: &mut G::Device, _: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        let bench = Bench::<G>::new(device, 1, u64::from(VERIFIED.1) * u64::from(LINE))?;
        let kinds = SIZES.into_iter().flat_map(|size| [(Kind::Read, size), (Kind::Write, size)]);
        for (kind, size) in kinds.chain(ADDED.map(|size| (Kind::Add, size))) {
            let point = Point { kind, size, footprint: bench.array.bytes() };
            let wrong = bench.once(&point)?.into_wrong();
            report(Case { kernel: point.kernel().name, on: format!("{} lines", VERIFIED.1), wrong });
        }
        Ok(())
    }
}

/// Accesses of a size over a footprint.
#[derive(Clone, Copy, Debug)]
struct Point {
    kind: Kind,
    size: u32,
    footprint: u64,
}

impl Point {
    fn kernel(&self) -> KernelDesc {
        match self.kind {
            Kind::Read => kernels::read(self.size),
            Kind::Write => kernels::write(self.size),
            Kind::Add => kernels::add(self.size),
        }
    }

    fn coordinates(&self) -> Accesses {
        Accesses { access: self.size.into(), footprint: self.footprint.into() }
    }

    /// Threads of one access.
    fn lanes(&self) -> u32 {
        kernels::lanes(self.size)
    }

    /// Lines of the footprint, which the kernels count in 32 bits.
    fn lines(&self) -> u32 {
        u32::try_from(self.footprint / u64::from(LINE)).unwrap_or(u32::MAX)
    }
}

fn default_bytes(effort: Effort) -> u64 {
    if effort == Effort::Quick { LARGEST_QUICK } else { FOOTPRINTS.1 }
}

/// Octaves for reads of a sector, every other one for the rest; the largest always.
fn points(kind: Kind, effort: Effort, most: u64) -> Vec<Point> {
    let sizes: &[u32] = match (kind, effort) {
        (Kind::Read, Effort::Quick) => &[4, 32, 128],
        (Kind::Write, Effort::Quick) => &[4, 32],
        (Kind::Add, Effort::Quick) => &ADDED[..1],
        // One small size stands for the others: each access takes a sector.
        (Kind::Read | Kind::Write, Effort::Standard) => &[4, 16, 32, 64, 128],
        (Kind::Read | Kind::Write, _) => &SIZES,
        (Kind::Add, _) => &ADDED,
    };
    let by_size = |&size: &u32| {
        let step = if kind == Kind::Read && size == 32 { 1 } else { 2 };
        footprints(step, most).into_iter().map(move |footprint| Point { kind, size, footprint })
    };
    sizes.iter().flat_map(by_size).collect()
}

fn footprints(step: u32, most: u64) -> Vec<u64> {
    let mut all: Vec<u64> = sizes::octaves(FOOTPRINTS.0, most, step).collect();
    let last = most / u64::from(LINE) * u64::from(LINE);
    if all.last() != Some(&last) {
        all.push(last.max(u64::from(LINE)));
    }
    all
}

/// State shared by all points.
struct Bench<G: Gpu> {
    kit: Kit<G>,
    seed: u64,
    array: G::Buffer,
    left: Rc<G::Buffer>,
    threads: u32,
}

impl<G: Gpu> Bench<G> {
    fn new(device: &G::Device, seed: u64, bytes: u64) -> Result<Self, Fault> {
        let kit = Kit::<G>::new(device, &kernels::SOURCE, &kernels::kernels(), TRUST)?;
        let threads = kit.unit.machine().multiprocessors * kernels::BLOCKS * THREADS;
        let (array, left) = (kit.array(bytes.max(u64::from(LINE)))?, kit.array(4 * u64::from(threads))?);
        kit.checker.fill(Data::Bits, Element::Word, array.whole(), seed)?;
        Ok(Self { kit, seed, array, left: Rc::new(left), threads })
    }

    /// Accesses of a launch.
    fn accesses(&self, point: &Point, iterations: u32) -> u64 {
        u64::from(self.threads / point.lanes()) * u64::from(UNROLL) * u64::from(iterations)
    }

    fn launch(&self, point: &Point, iterations: u32) -> Result<G::Launch, Fault> {
        let list = Arguments::new();
        let list = if point.kind == Kind::Read { list.buffer(&self.left) } else { list };
        let list = list.buffer(&self.array).u32(point.lines()).u32(self.seed as u32).u32(iterations);
        self.kit.unit.launch(&point.kernel(), 0, list)
    }

    fn load(&self, point: &Point) -> Result<Load<G>, Fault> {
        let accesses = self.accesses(point, ITERATIONS);
        let (bytes, waste) = (accesses * u64::from(point.size), accesses * wasted(point.size.into()));
        let traffic = match point.kind {
            Kind::Read => Traffic::new(bytes, 0),
            Kind::Write => Traffic::new(0, bytes),
            Kind::Add => Traffic::new(bytes, bytes),
        };
        let waste = if point.kind == Kind::Add { 2 * waste } else { waste };
        let work = Work { traffic, write_allocate: waste, operations: accesses as f64, ..Work::default() };
        let launch = self.launch(point, ITERATIONS)?;
        self.clear(point, ITERATIONS)?;
        let load = self.kit.load(GRAPH, vec![launch], work)?;
        let check = self.build_check(point, ITERATIONS);
        Ok(load.with_check(check))
    }

    /// The location of the first thread's access number `look`, spread over all iterations.
    fn look(&self, point: &Point, look: u32, iterations: u32) -> u64 {
        let groups = self.threads / point.lanes();
        let number = look * (UNROLL * iterations - 1) / LOOKS.max(2).wrapping_sub(1);
        place((self.seed as u32).wrapping_add(number.wrapping_mul(groups)), point.size, point.lines())
    }

    /// Clears what could pass for a result: poisons the output of reads, and zeroes checked words before writes and additions.
    fn clear(&self, point: &Point, iterations: u32) -> Result<(), Fault> {
        if point.kind == Kind::Read {
            return self.kit.checker.poison(self.left.whole());
        }
        for look in 0..LOOKS {
            let part = self.array.part(self.look(point, look, iterations), point.size.into())?;
            G::fill(self.kit.stream(), part, 0)?;
        }
        Ok(())
    }

    /// Checks what some threads read, or what some locations hold.
    fn build_check(&self, point: &Point, iterations: u32) -> impl Fn(&Arc<G::Stream>) -> Result<Check, Fault> + use<G> {
        let (seed, left, point, fold) = (self.seed, Rc::clone(&self.left), *point, self.fold(point, iterations));
        let places: Vec<_> = (0..LOOKS).map(|look| self.look(&point, look, iterations)).collect();
        let parts: Result<Vec<_>, Fault> =
            places.iter().map(|place| Ok((*place, self.array.part(*place, point.size.into())?))).collect();
        move |stream| {
            if point.kind == Kind::Read {
                let found = folds::words::<G>(stream, left.whole())?;
                return Ok(folds::check(&found, SOME, |thread| fold(seed, thread)));
            }
            let Ok(parts) = &parts else {
                return Err(Fault::Invalid("a checked location lies outside its array".to_owned()));
            };
            for (place, part) in parts {
                let words = folds::words::<G>(stream, *part)?;
                let right = match point.kind {
                    Kind::Add => words.iter().any(|word| *word != 0),
                    _ => words.iter().zip(place / 4..).all(|(word, place)| *word == place as u32),
                };
                if !right {
                    return Ok(Check::Failed(format!(
                        "{}: unexpected words {words:?} at byte {place}",
                        point.kernel().name
                    )));
                }
            }
            Ok(Check::Passed)
        }
    }

    /// The XOR of all words that a thread reads.
    fn fold(&self, point: &Point, iterations: u32) -> impl Fn(u64, usize) -> u32 + use<G> {
        let (point, groups, base) = (*point, self.threads / point.lanes(), self.seed as u32);
        let bytes = u64::from(point.size / point.lanes());
        move |seed, thread| {
            let (group, lane) = (thread as u32 / point.lanes(), thread as u64 % u64::from(point.lanes()));
            let numbers = (0..iterations * UNROLL).map(|number| base.wrapping_add(group).wrapping_add(number * groups));
            let begins = numbers.map(|i| place(i, point.size, point.lines()) + lane * bytes);
            let words = begins.flat_map(|begin| begin / 4..(begin + bytes) / 4);
            words.fold(0, |bits, word| bits ^ pattern::bits(seed, word))
        }
    }

    /// One launch on a small array, every word of which is checked.
    fn once(&self, point: &Point) -> Result<Check, Fault> {
        let iterations = VERIFIED.0;
        let launch = self.launch(point, iterations)?;
        let (checker, array, stream) = (&self.kit.checker, self.array.whole(), self.kit.stream());
        match point.kind {
            Kind::Read => checker.fill(Data::Bits, Element::Word, array, self.seed)?,
            Kind::Write => checker.poison(array)?,
            Kind::Add => checker.fill_words(array, 0)?,
        }
        checker.poison(self.left.whole())?;
        G::bind(stream)?;
        G::launch(stream, &launch)?;
        G::wait(stream)?;
        if point.kind == Kind::Read {
            let found = folds::words::<G>(stream, self.left.whole())?;
            let fold = self.fold(point, iterations);
            return Ok(folds::check(&found, MANY, |thread| fold(self.seed, thread)));
        }
        let found = folds::words::<G>(stream, self.array.whole())?;
        let expected = self.expected(point, iterations, found.len());
        let wrong = found.iter().zip(&expected).position(|(found, expected)| found != expected);
        Ok(wrong.map_or(Check::Passed, |at| {
            Check::Failed(format!("word {at} is {:#x}, not {:#x}", found[at], expected[at]))
        }))
    }

    /// What writes or additions leave in each word of an array that was poison or zeros.
    fn expected(&self, point: &Point, iterations: u32, words: usize) -> Vec<u32> {
        let blank = if point.kind == Kind::Add { 0 } else { POISON };
        let mut all = vec![blank; words];
        for number in 0..self.accesses(point, iterations) as u32 {
            let begin = (place((self.seed as u32).wrapping_add(number), point.size, point.lines()) / 4) as usize;
            if point.kind == Kind::Add {
                all[begin] += 1;
            } else {
                (begin..begin + point.size as usize / 4).for_each(|word| all[word] = word as u32);
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn footprints_are_octaves_and_end_with_the_largest() {
        assert_eq!(footprints(2, 1 << 30), [16 << 20, 64 << 20, 256 << 20, 1 << 30]);
        assert_eq!(footprints(1, 40 << 20), [16 << 20, 32 << 20, 40 << 20]);
        assert_eq!(footprints(1, 100), [128]);
        let largest = points(Kind::Read, Effort::Standard, FOOTPRINTS.1).into_iter().map(|point| point.lines()).max();
        assert_eq!(u64::from(largest.unwrap()) * u64::from(LINE), FOOTPRINTS.1);
    }
}
