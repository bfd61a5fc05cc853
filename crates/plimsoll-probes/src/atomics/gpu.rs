//! atomics on a GPU: chains of additions and additions of all threads. `mod.rs` defines the figures,
//! `kernel.cu` the kernels.

use plimsoll_core::sample::Workload as _;

use super::kernels::{self, Number, Space, THREADS, UNROLL};
use crate::atomics::{self, Addresses, Memory, Rate};
use crate::folds;
use crate::prelude::gpu::*;

/// Iterations of a launch, by how many threads contend for one word: all of the device, all of a block, none.
const ITERATIONS: (u32, u32, u32) = (2, 8, 64);
/// Iterations of a chain.
const CHAIN: u32 = 64;
/// Untimed iterations before the timed ones.
const WARM: u32 = 1;
/// Bytes of the largest number.
const WIDEST: u64 = 8;

impl<G: Gpu> Run<G> for super::GpuRunner {
    const NEEDS: &'static [Need] = &[Need::Code(&kernels::SOURCE), Need::KernelClock];

    fn points(&self, _: &G::Device, _: &Request) -> usize {
        chains().len() + Space::ALL.map(|space| points(space).len()).iter().sum::<usize>()
    }

    fn run(&self, session: &mut Session<'_, G>) -> Result<(), Fault> {
        let bench = Bench::<G>::new(session.device)?;

        let chains = chains();
        let sweep = Sweep { series: atomics::latency(), points: &chains, share: 0.2, flags: Flags::NONE };
        let coordinates = |(space, number): &(Space, Number)| {
            let memory = memory(*space);
            atomics::Chain { memory, number: number.name().into() }
        };
        session.sweep(sweep, coordinates, |_, (space, number)| bench.chain(*space, *number))?;
        for space in Space::ALL {
            let points = points(space);
            let sweep = Sweep { series: atomics::rate(memory(space)), points: &points, share: 0.4, flags: Flags::NONE };
            session.sweep(sweep, Point::coordinates, |_, point| bench.rate(point))?;
        }
        Ok(())
    }

    fn verify(&self, device: &mut G::Device, _: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        let bench = Bench::<G>::new(device)?;
        let mut case = |kernel: KernelDesc, on: &str, mut load: InKernel<G>| {
            let wrong = load.check()?.into_wrong();
            report(Case { kernel: kernel.name, on: on.to_owned(), wrong });
            Ok::<_, Fault>(())
        };
        for (space, number) in chains() {
            case(kernels::chain(space, number), "one thread", bench.chain(space, number)?)?;
        }
        for point in Space::ALL.into_iter().flat_map(points) {
            case(point.kernel(), point.addresses().name(), bench.rate(&point)?)?;
        }
        Ok(())
    }
}

fn memory(space: Space) -> Memory {
    match space {
        Space::Shared => Memory::Shared,
        Space::Global => Memory::Global,
    }
}

fn chains() -> Vec<(Space, Number)> {
    Space::ALL.into_iter().flat_map(|space| Number::ALL.map(|number| (space, number))).collect()
}

fn points(space: Space) -> Vec<Point> {
    let forms = [(false, false), (false, true), (true, false), (true, true)];
    let by_number = |number| forms.map(|(wanted, same)| Point { space, number, wanted, same });
    Number::ALL.into_iter().flat_map(by_number).collect()
}

/// Additions of all threads.
#[derive(Clone, Copy, Debug)]
struct Point {
    space: Space,
    number: Number,
    wanted: bool,
    same: bool,
}

impl Point {
    fn kernel(&self) -> KernelDesc {
        kernels::rate(self.space, self.number, self.wanted)
    }

    fn addresses(&self) -> Addresses {
        if self.same { Addresses::Same } else { Addresses::Distinct }
    }

    fn coordinates(&self) -> Rate {
        let form = if self.wanted { "atom" } else { "red" };
        Rate { addition: format!("{form} {}", self.number.name()).into(), addresses: self.addresses() }
    }

    /// Few where additions to one word are serialised.
    fn iterations(&self) -> u32 {
        match (self.same, self.space) {
            (true, Space::Global) => ITERATIONS.0,
            (true, Space::Shared) => ITERATIONS.1,
            (false, _) => ITERATIONS.2,
        }
    }
}

/// State shared by all points.
struct Bench<G: Gpu> {
    kit: Kit<G>,
    /// One number for each thread.
    numbers: Rc<G::Buffer>,
    left: G::Buffer,
    blocks: u32,
}

impl<G: Gpu> Bench<G> {
    fn new(device: &G::Device) -> Result<Self, Fault> {
        let kit = Kit::<G>::new(device, &kernels::SOURCE, &kernels::kernels(), TRUST)?;
        let blocks = kit.unit.machine().multiprocessors;
        let threads = u64::from(blocks) * u64::from(THREADS);
        let (numbers, left) = (kit.array(WIDEST * threads)?, kit.array(4 * threads)?);
        kit.checker.fill_words(numbers.whole(), 0)?;
        Ok(Self { kit, numbers: Rc::new(numbers), left, blocks })
    }

    fn chain(&self, space: Space, number: Number) -> Result<InKernel<G>, Fault> {
        let kernel = kernels::chain(space, number);
        let shared = if space == Space::Shared { number.bytes() } else { 0 };
        let launch = |cycles: Span| {
            let list = Arguments::new().span(cycles).buffer(&self.numbers).u32(0).u32(1).u32(WARM).u32(CHAIN);
            self.kit.unit.launch_with_shared(&kernel, 0, list, shared)
        };
        let work = Work { operations: f64::from(CHAIN * UNROLL), ..Work::default() };
        let load = InKernel::new_cycles_only(&self.kit, (1, LaunchCycles::Median), work, launch)?;
        let additions = u64::from((WARM + CHAIN) * UNROLL);
        self.checked(load, number, (1, additions), &launch)
    }

    fn rate(&self, point: &Point) -> Result<InKernel<G>, Fault> {
        let kernel = point.kernel();
        let (in_shared, number) = (point.space == Space::Shared, point.number);
        // Numbers of a block in shared memory, of the device in global memory.
        let threads = if in_shared { THREADS } else { self.blocks * THREADS };
        let numbers = if point.same { 1 } else { threads };
        let shared = if in_shared { numbers * number.bytes() } else { 0 };
        let launch = |cycles: Span| {
            let list = Arguments::new().buffer(&self.left).span(cycles).buffer(&self.numbers).u32(numbers);
            let list = list.u32(u32::from(!point.same)).u32(1).u32(WARM).u32(point.iterations());
            self.kit.unit.launch_with_shared(&kernel, 0, list, shared)
        };
        let each = u64::from(point.iterations() * UNROLL);
        let work = Work { operations: f64::from(threads) * each as f64, ..Work::default() };
        let reduction = if in_shared { LaunchCycles::Median } else { LaunchCycles::Slowest };
        let load = InKernel::new_cycles_only(&self.kit, (self.blocks, reduction), work, launch)?;
        let additions = u64::from((WARM + point.iterations()) * UNROLL);
        let sharing = if point.same { u64::from(threads) } else { 1 };
        let all = u64::from(numbers) * if in_shared { u64::from(self.blocks) } else { 1 };
        self.checked(load, number, (all, additions * sharing), &launch)
    }

    /// Checks with a separate launch on cleared numbers: each of `numbers` must then have received `additions`.
    fn checked(
        &self,
        load: InKernel<G>,
        number: Number,
        (numbers, additions): (u64, u64),
        launch: &dyn Fn(Span) -> Result<G::Launch, Fault>,
    ) -> Result<InKernel<G>, Fault> {
        let cycles = self.kit.array(8 * u64::from(self.blocks))?;
        let launch = launch(cycles.whole())?;
        let (checker, all) = (Rc::clone(&self.kit.checker), Rc::clone(&self.numbers));
        Ok(load.with_check(move |last| {
            // Keeps the buffer alive: the launch stores its cycles there.
            let _counted = &cycles;
            checker.fill_words(all.whole(), 0)?;
            G::bind(last.stream)?;
            G::launch(last.stream, &launch)?;
            let words = u64::from(number.bytes() / 4);
            let found = folds::words::<G>(last.stream, all.part(0, 4 * numbers * words)?)?;
            let value = |words: &[u32]| words.iter().rev().fold(0, |value, word| value << 32 | u64::from(*word));
            let expected = number.sum(additions);
            let wrong = found.chunks(words as usize).map(value).enumerate().find(|(_, found)| *found != expected);
            Ok(wrong.map_or(Check::Passed, |(place, found)| {
                Check::Failed(format!("number {place} is {found:#x} after {additions} additions, not {expected:#x}"))
            }))
        }))
    }
}
