//! uniformity on a GPU: each SM alone and each part of the memory alone. `crate::uniformity` explains the figures; the
//! kernels are in `kernel.cu`.

use plimsoll_gen::kernel::chain::{self, Chain, LINE, PAGE};
use plimsoll_gpu::in_kernel::{ReportSlot, check_ran_on};
use plimsoll_gpu::kit::combine_checks;
use plimsoll_gpu::window::Flush;

use super::kernels;
use crate::chains::{BuiltChain, Chains, Trap};
use crate::prelude::gpu::*;
use crate::uniformity::{self, Alone, CYCLES, LINE_CYCLES, Part};

/// Bytes that one SM reads in a launch, from the last-level cache.
const READ_BYTES: u64 = 4 << 20;
/// Bytes of the chain that each SM follows in the last-level cache.
const CHAIN: u64 = 128 << 10;
/// Hops of a launch in the last-level cache (the whole chain) and in memory.
const HOPS: [u64; 2] = [CHAIN / LINE, 128];
/// Warm-up launches in which all SMs read the data of the first series, about 60 ms in all: on an H200 the first SMs that read
/// alone were up to a third slower than the same ones later, for about that time.
const WARM_UPS: usize = 8192;
/// Most regions of the memory, with quick effort and otherwise.
const REGIONS: [u64; 2] = [16, 32];
/// Most pages of the memory, with quick effort and otherwise.
const PAGES: [u64; 2] = [64, 128];
/// Shares of the budget: draws, distances, regions, pages.
const SHARES: [f64; 4] = [0.2, 0.2, 0.35, 0.2];

impl<G: Gpu> Run<G> for super::GpuRunner {
    const NEEDS: &'static [Need] = &[Need::Code(&kernels::SOURCE), Need::Graphs, Need::KernelClock];

    fn points(&self, device: &G::Device, request: &Request) -> usize {
        let multiprocessors = G::machine(device).map_or(1, |machine| machine.multiprocessors);
        let most = usize::from(request.effort != Effort::Quick);
        2 * multiprocessors as usize + (REGIONS[most] + PAGES[most]) as usize
    }

    fn run(&self, session: &mut Session<'_, G>) -> Result<(), Fault> {
        let effort = session.request.effort;
        let flush = Flush::new(session.device, session.info().last_level_cache())?;
        let (bytes, _) = fit_arrays::<G>(session.device, 1, u64::MAX / 4)?;
        let bytes = requested_bytes(session, bytes)?.min(bytes).max(PAGE).max(READ_BYTES);
        let bench = Bench::<G>::new(session.device, bytes, session.request.seed)?;
        let most = usize::from(effort != Effort::Quick);

        let all: Vec<u32> = (0..bench.kit.unit.machine().multiprocessors).collect();
        let coordinates = |multiprocessor: &u32| Alone { multiprocessor: (*multiprocessor).into() };
        let warm = Action::Launch(bench.kit.checker.prepare_read(bench.memory.part(0, READ_BYTES)?)?);
        (0..WARM_UPS).try_for_each(|_| bench.kit.run(std::slice::from_ref(&warm)))?;
        let sweep = Sweep { series: uniformity::draws(), points: &all, share: SHARES[0], flags: Flags::NONE };
        session.sweep(sweep, coordinates, |_, multiprocessor| bench.draw(*multiprocessor))?;

        let chain = bench.build_chain(0, CHAIN)?;
        let sweep = Sweep { series: uniformity::distances(), points: &all, share: SHARES[1], flags: Flags::NONE };
        session.sweep(sweep, coordinates, |_, multiprocessor| bench.distance(chain, *multiprocessor))?;

        let region = session.info().cold_window().min(bytes);
        let regions = places(bytes, region, REGIONS[most]);
        let coordinates = |offset: &u64| Part { offset: (*offset).into() };
        let sweep = Sweep { series: uniformity::regions(), points: &regions, share: SHARES[2], flags: Flags::NONE };
        session.sweep(sweep, coordinates, |_, offset| bench.region(*offset, region))?;

        let pages = places(bytes, PAGE, PAGES[most]);
        let flush = flush.actions(&bench.kit.checker)?;
        let sweep = Sweep { series: uniformity::pages(), points: &pages, share: SHARES[3], flags: Flags::NONE };
        session.sweep(sweep, coordinates, |_, offset| bench.page(*offset, &flush))?;
        Ok(())
    }

    fn verify(&self, device: &mut G::Device, depth: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        let bench = Bench::<G>::new(device, 2 * READ_BYTES, 1)?;
        let vectors: &[u64] = match depth {
            Depth::Small => &[1, 1025, 8 * 1024 + 1],
            _ => &[1, 31, 32, 1023, 1025, 8 * 1024 - 1, 8 * 1024, 8 * 1024 + 1, READ_BYTES / 16],
        };
        let mut add_case = |kernel: String, on: String, check: Check| {
            let wrong = check.into_wrong();
            report(Case { kernel, on, wrong });
        };
        for &n in vectors {
            let input = bench.memory.part(0, 16 * n)?;
            add_case(
                kernels::region().name,
                format!("{n} vectors"),
                bench.check_launch(&bench.read_on_all(input)?, input, bench.words_of_all())?,
            );
            let place = bench.place()?;
            let launch = bench.read_on_one(0, input, place)?;
            add_case(
                kernels::read().name,
                format!("{n} vectors"),
                bench.check_launch(&launch, input, bench.words_of_one())?,
            );
        }
        let (chain, last) = (bench.build_chain(0, CHAIN)?, bench.kit.unit.machine().multiprocessors - 1);
        let check = match chain.check_links::<G>(bench.kit.stream())? {
            Check::Passed => {
                bench.kit.run_once(&bench.hop(last, HOPS[0], bench.place()?)?)?;
                bench.trap(chain, last)?.check(bench.chains.read_cursor()?, HOPS[0])?
            }
            // A chase of a broken chain could read anywhere.
            broken => broken,
        };
        add_case(kernels::chase().name, format!("{} hops", HOPS[0]), check);
        Ok(())
    }
}

/// Offsets of at most `most` places of `each` bytes, evenly over `bytes`, at page boundaries.
fn places(bytes: u64, each: u64, most: u64) -> Vec<u64> {
    let room = bytes.saturating_sub(each);
    let count = (bytes / each.max(1)).clamp(1, most);
    let step = if count > 1 { room / (count - 1) } else { 0 };
    (0..count).map(|place| place * step / PAGE * PAGE).collect()
}

/// Shared by all points.
struct Bench<G: Gpu> {
    kit: Kit<G>,
    chains: Chains<G>,
    memory: G::Buffer,
    /// One word per warp of the reading kernel.
    bits: Rc<G::Buffer>,
    /// The report and the ticket of a launch that isn't timed.
    untimed: G::Buffer,
    seed: u32,
}

impl<G: Gpu> Bench<G> {
    fn new(device: &G::Device, bytes: u64, seed: u64) -> Result<Self, Fault> {
        let kit = Kit::<G>::new(device, &kernels::SOURCE, &kernels::kernels(), TRUST)?;
        let warps = kernels::region().geometry(1, kit.unit.machine())?.warps();
        let (memory, bits) = (kit.array(bytes)?, Rc::new(kit.array(4 * warps.max(32))?));
        let (chains, untimed) = (Chains::new(device)?, kit.array(64)?);
        kit.checker.fill(Data::Bits, Element::Word, memory.whole(), seed)?;
        Ok(Self { kit, chains, memory, bits, untimed, seed: seed as u32 })
    }

    /// Words that a launch on the whole device stores.
    fn words_of_all(&self) -> u64 {
        kernels::region().geometry(1, self.kit.unit.machine()).map_or(0, |geometry| geometry.warps())
    }

    /// Words that one block stores.
    fn words_of_one(&self) -> u64 {
        u64::from(kernels::read().threads) / 32
    }

    /// Where a launch that isn't timed reports, with a new ticket.
    fn place(&self) -> Result<ReportSlot, Fault> {
        self.kit.checker.fill_words(self.untimed.whole(), u32::MAX)?;
        Ok(ReportSlot { out: self.untimed.part(0, 32)?, state: self.untimed.part(32, 4)?, launch: 0 })
    }

    fn read_on_one(&self, wanted: u32, input: Span, place: ReportSlot) -> Result<G::Launch, Fault> {
        let arguments = Arguments::new().span(place.out).span(place.state).u32(place.launch as u32).u32(wanted);
        let arguments = arguments.buffer(&self.bits).span(input).u64(input.bytes() / 16);
        self.kit.unit.launch(&kernels::read(), 1, arguments)
    }

    fn read_on_all(&self, input: Span) -> Result<G::Launch, Fault> {
        let arguments = Arguments::new().buffer(&self.bits).span(input).u64(input.bytes() / 16);
        self.kit.unit.launch(&kernels::region(), 1, arguments)
    }

    fn hop(&self, wanted: u32, hops: u64, place: ReportSlot) -> Result<G::Launch, Fault> {
        let arguments = Arguments::new().span(place.out).span(place.state).u32(place.launch as u32).u32(wanted);
        self.kit.unit.launch(&kernels::chase(), 1, arguments.buffer(&self.chains.cursor).u64(hops))
    }

    /// Runs a launch that reads `input` and checks that the `words` words it stores XOR to the input's XOR.
    fn check_launch(&self, launch: &G::Launch, input: Span, words: u64) -> Result<Check, Fault> {
        let left = self.bits.part(0, 4 * words)?;
        self.kit.checker.poison(left)?;
        self.kit.run_once(launch)?;
        check_fold(&self.kit.checker, left, input)
    }

    /// Builds a chain over `bytes` from `offset`.
    fn build_chain(&self, offset: u64, bytes: u64) -> Result<BuiltChain, Fault> {
        self.chains.build(Chain::lines((bytes / LINE) as u32, self.seed), self.memory.part(offset, bytes)?)
    }

    /// A trap for the chases of one SM. Its ticket is new before each.
    fn trap(&self, chain: BuiltChain, multiprocessor: u32) -> Result<Trap<G>, Fault> {
        let place = self.place()?;
        let chase = Action::Launch(self.hop(multiprocessor, chain::HOPS, place)?);
        Ok(self.chains.trap(chain, vec![Action::Fill(place.state, 0xff), chase]))
    }

    /// One SM reads data in the last-level cache.
    fn draw(&self, multiprocessor: u32) -> Result<InKernel<G>, Fault> {
        let input = self.memory.part(0, READ_BYTES)?;
        let traffic = Traffic::new(READ_BYTES, 0);
        let work = Work { traffic, operations: (READ_BYTES / LINE) as f64, ..Work::default() };
        let left = self.bits.part(0, 4 * self.words_of_one())?;
        self.kit.checker.poison(left)?;
        let load = InKernel::new_one_block(&self.kit, LINE_CYCLES, work, |place| {
            self.read_on_one(multiprocessor, input, place)
        })?;
        let (ran, checker) = (check_ran_on(multiprocessor), Rc::clone(&self.kit.checker));
        Ok(load.with_check(move |last| match ran(last.reports) {
            Check::Passed => check_fold(&checker, left, input),
            failed => Ok(failed),
        }))
    }

    /// One SM follows a chain from the cursor on, so many hops a launch.
    fn follow(&self, chain: BuiltChain, multiprocessor: u32, hops: u64, window: u64) -> Result<InKernel<G>, Fault> {
        let work = Work { operations: hops as f64, window, ..Work::default() };
        let load = InKernel::new_one_block(&self.kit, CYCLES, work, |place| self.hop(multiprocessor, hops, place))?;
        let (ran, trap) = (check_ran_on(multiprocessor), self.trap(chain, multiprocessor)?);
        Ok(load.with_check(move |last| {
            combine_checks([Ok(ran(last.reports)), trap.check_last(last, last.launches * hops)])
        }))
    }

    /// One SM follows a chain in the last-level cache: all of it in every launch, so each begins at the first element.
    fn distance(&self, chain: BuiltChain, multiprocessor: u32) -> Result<InKernel<G>, Fault> {
        self.follow(chain, multiprocessor, HOPS[0], 0)
    }

    /// All SMs read one region.
    fn region(&self, offset: u64, bytes: u64) -> Result<Load<G>, Fault> {
        let input = self.memory.part(offset, bytes)?;
        let work = Work { traffic: Traffic::new(bytes, 0), window: bytes, ..Work::default() };
        let left = self.bits.part(0, 4 * self.words_of_all())?;
        self.kit.checker.poison(left)?;
        let load = self.kit.load(GRAPH, vec![self.read_on_all(input)?], work)?;
        let checker = Rc::clone(&self.kit.checker);
        Ok(load.with_check(move |_| check_fold(&checker, left, input)))
    }

    /// One SM follows a chain through a page that is in no cache.
    fn page(&self, offset: u64, flush: &[Action<G>]) -> Result<InKernel<G>, Fault> {
        let load = self.follow(self.build_chain(offset, PAGE)?, 0, HOPS[1], PAGE)?;
        let flush = flush.to_vec();
        Ok(load.with_prepare(move |stream| flush.iter().try_for_each(|action| action.enqueue(stream))))
    }
}

/// Checks that the stored words have the same XOR as the input.
fn check_fold<G: Gpu>(checker: &Checker<G>, left: Span, input: Span) -> Result<Check, Fault> {
    Ok(Checker::<G>::compare_folds("read", checker.xor_words(left)?, checker.xor_words(input)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_evenly_spaced_within_bounds_and_page_aligned() {
        for (bytes, each, most) in
            [(100 << 30, 512 << 20, 16), (PAGE, PAGE, 64), (3 * PAGE + 5, PAGE, 64), (1 << 20, 1 << 20, 4)]
        {
            let places = places(bytes, each, most);
            assert!(!places.is_empty() && places.len() as u64 <= most);
            assert!(places.iter().all(|place| place % PAGE == 0 && place + each <= bytes), "{places:?}");
            assert!(places.windows(2).all(|pair| pair[0] < pair[1]), "{places:?}");
        }
    }
}
