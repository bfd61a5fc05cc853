//! latency on a GPU: one thread follows chains through footprints of every size, in three orders. `device.rs` defines the
//! figures, `kernel.cu` the kernels.
//!
//! The first sweep is coarse; a second one measures between the neighbours of every knee that it shows.

use plimsoll_core::flag::Flag;
use plimsoll_gen::kernel::chain::{Chain, HOPS, LINE, PAGE};

use super::device::{self, Chase};
use super::kernels::{self, Nearest};
use super::knees::{FINE_POINTS, between_neighbours, sweep_twice};
use super::{CHASE, KNEES, Order};
use crate::chains::{BuiltChain, Chains, Trap};
use crate::prelude::gpu::*;
use crate::sizes;

/// The smallest footprint, bytes.
const LEAST: u64 = 2 << 10;
/// The largest of whole lines by default, bytes.
const LARGEST: u64 = 2 << 30;
/// The largest of one line a page, bytes.
const LARGEST_SPARSE: u64 = 96 << 30;
/// Hops of a launch: some 70 µs in the first cache, 2 ms from memory.
const LENGTH: u64 = 4096;
/// Lines of the largest chain that a launch follows once before it is timed: more than L1 holds, which
/// forgets everything between launches.
const WARM_LINES: u64 = 4096;
/// Around knees, points are added until neighbours are within this ratio.
const RESOLUTION: f64 = 1.03;
/// Shares of the budget, which is sized for a CPU, for the two sweeps: in a quick run and otherwise.
const SHARES: [[f64; 2]; 2] = [[0.45, 0.25], [0.27, 0.15]];
/// Chains up to this multiple of the last cache are followed once around before they are measured, because a lone load
/// that visits a line for the first time leaves a copy in the nearer part of the cache, and one of many seldom does.
const ROUND: f64 = 1.25;

/// What is measured at one footprint.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Spot {
    order: Order,
    bytes: u64,
}

impl From<&Spot> for Chase {
    fn from(spot: &Spot) -> Self {
        Self { order: spot.order, footprint: spot.bytes.into() }
    }
}

impl Spot {
    fn chain(&self, seed: u32) -> Chain {
        let pages = (self.bytes / PAGE).max(1) as u32;
        match self.order {
            Order::PageLocal => Chain::local(pages, seed),
            Order::Sparse => Chain::sparse(pages, seed),
            Order::PageRandom => Chain::lines((self.bytes / LINE).max(1) as u32, seed),
        }
    }

    /// The nearest cache to use. With one line per page L1 is bypassed, because a hit there would hide the translation.
    fn nearest(&self) -> Nearest {
        if self.order == Order::Sparse { Nearest::L2 } else { Nearest::L1 }
    }
}

impl<G: Gpu> Run<G> for super::GpuRunner {
    const NEEDS: &'static [Need] = &[Need::KernelClock];

    fn points(&self, _: &G::Device, request: &Request) -> usize {
        plan(request.effort, request.bytes.unwrap_or(LARGEST), LARGEST_SPARSE).len() + FINE_POINTS
    }

    fn run(&self, session: &mut Session<'_, G>) -> Result<(), Fault> {
        let wanted = requested_bytes(session, LARGEST)?.max(LEAST);
        // The curve of one line per page goes as far as memory allows, unless a size was requested.
        let sparse = if session.request.bytes.is_some() { wanted } else { LARGEST_SPARSE };
        let (room, _) = fit_arrays::<G>(session.device, 1, wanted.max(sparse))?;
        let shrunk: Flags = (room < wanted).then_some(Flag::Shrunk).into_iter().collect();
        let cache = session.info().last_level_cache();
        let bench = Bench::<G>::new(session.device, room, session.request.seed as u32, cache)?;
        let points = plan(session.request.effort, wanted.min(room), sparse.min(room));
        let shares = SHARES[usize::from(session.request.effort != Effort::Quick)];
        let sweep = Sweep { series: device::hops(CHASE), points: &points, share: shares[0], flags: shrunk };
        sweep_twice(session, sweep, (device::hops(KNEES), shares[1]), knees, |spot| bench.load(spot))
    }

    fn verify(&self, device: &mut G::Device, depth: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        let mut sizes = vec![LINE, 2 * LINE, 3 * LINE, 31 * LINE, 33 * LINE, 1025 * LINE, PAGE, 3 * PAGE];
        match depth {
            Depth::Small => {}
            Depth::Usual => sizes.push(64 * PAGE),
            Depth::Exhaustive => sizes.extend((1..=600).map(|lines| lines * LINE)),
        }
        let largest = sizes.iter().copied().max().unwrap_or(PAGE).max(PAGE);
        let bench = Bench::<G>::new(device, largest, 1, 0)?;
        for bytes in sizes {
            for order in Order::ALL.into_iter().filter(|order| *order == Order::PageRandom || bytes >= PAGE) {
                bench.verify(&Spot { order, bytes }, report)?;
            }
        }
        Ok(())
    }
}

/// The coarse sweep.
fn plan(effort: Effort, largest: u64, sparse: u64) -> Vec<Spot> {
    let quick = matches!(effort, Effort::Quick | Effort::Unknown);
    let (random, local, pages) = if quick { (3, 1, 1) } else { (4, 2, 2) };
    let curve = |order, least: u64, largest: u64, per_octave: u32, grain: u64| {
        sizes::per_octave(least, largest, per_octave, grain).into_iter().map(move |bytes| Spot { order, bytes })
    };
    let random = curve(Order::PageRandom, LEAST, largest, random, LINE);
    let local = curve(Order::PageLocal, 2 * PAGE, largest, local, PAGE);
    random.chain(local).chain(curve(Order::Sparse, 2 * PAGE, sparse, pages, PAGE)).collect()
}

/// What the second sweep measures.
fn knees(series: &Series) -> Vec<Spot> {
    let refine = |order: Order, grain: u64| {
        let curve = device::curve(std::slice::from_ref(series), order);
        between_neighbours(&curve, RESOLUTION, grain).map(move |bytes| Spot { order, bytes })
    };
    refine(Order::PageRandom, LINE).chain(refine(Order::Sparse, PAGE)).collect()
}

/// What all points share: the kernels and the memory that chains are built in.
struct Bench<G: Gpu> {
    kit: Kit<G>,
    chains: Chains<G>,
    memory: G::Buffer,
    /// The report of a launch that isn't timed.
    untimed: G::Buffer,
    seed: u32,
    /// The last cache, bytes.
    cache: u64,
}

impl<G: Gpu> Bench<G> {
    fn new(device: &G::Device, bytes: u64, seed: u32, cache: u64) -> Result<Self, Fault> {
        let chases = [Nearest::L1, Nearest::L2].map(kernels::chase);
        let kit = Kit::new(device, &kernels::SOURCE, &chases, TRUST)?;
        let (chains, memory, untimed) = (Chains::new(device)?, kit.array(bytes)?, kit.array(32)?);
        Ok(Self { kit, chains, memory, untimed, seed, cache })
    }

    /// A chase that reports to `out`: so many hops untimed, then so many timed.
    fn chase(&self, nearest: Nearest, out: Span, hops: [u64; 2]) -> Result<G::Launch, Fault> {
        let arguments = Arguments::new().span(out).buffer(&self.chains.cursor).u64(hops[0]).u64(hops[1]);
        self.kit.unit.launch(&kernels::chase(nearest), 1, arguments)
    }

    fn trap(&self, chain: BuiltChain, nearest: Nearest) -> Result<Trap<G>, Fault> {
        let chase = self.chase(nearest, self.untimed.whole(), [0, HOPS])?;
        Ok(self.chains.trap(chain, vec![Action::Launch(chase)]))
    }

    fn load(&self, spot: &Spot) -> Result<InKernel<G>, Fault> {
        let (chain, nearest) = (spot.chain(self.seed), spot.nearest());
        let elements = chain.elements();
        let chain = self.chains.build(chain, self.memory.whole())?;
        // Hops before the timed ones: a whole cycle where L1 may hold it.
        let warm = elements.min(WARM_LINES).next_multiple_of(HOPS);
        let work = Work { operations: LENGTH as f64, ..Work::default() };
        let load = InKernel::new_one_block(&self.kit, device::CYCLES, work, |place| {
            self.chase(nearest, place.out, [warm, LENGTH])
        })?;
        let (around, mut before) = (elements.next_multiple_of(HOPS), 0);
        if around > warm && (around * LINE) as f64 <= ROUND * self.cache as f64 {
            self.kit.run_once(&self.chase(nearest, self.untimed.whole(), [around, HOPS])?)?;
            G::wait(self.kit.stream())?;
            before = around + HOPS;
        }
        let trap = self.trap(chain, nearest)?;
        Ok(load.with_check(move |last| trap.check_last(last, before + last.launches * (warm + LENGTH))))
    }

    /// Builds a chain, follows it naively, and compares with where the chase of it ended.
    fn verify(&self, spot: &Spot, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        let chain = spot.chain(self.seed);
        let on = format!("{} lines, {}", chain.elements(), spot.order);
        let mut add_case = |kernel: KernelDesc, wrong| report(Case { kernel: kernel.name, on: on.clone(), wrong });
        let links = self.chains.build(chain, self.memory.whole())?.check_links::<G>(self.kit.stream())?;
        let broken = links != Check::Passed;
        add_case(kernels::build(), links.into_wrong());
        for nearest in [Nearest::L1, Nearest::L2] {
            let wrong = if broken {
                // A chase of a broken chain could read anywhere.
                "the chain is broken, so it was not followed".to_owned()
            } else {
                let chain = self.chains.build(chain, self.memory.whole())?;
                self.kit.run_once(&self.chase(nearest, self.untimed.whole(), [2 * HOPS, HOPS])?)?;
                self.trap(chain, nearest)?.check(self.chains.read_cursor()?, 3 * HOPS)?.into_wrong()
            };
            add_case(kernels::chase(nearest), wrong);
        }
        Ok(())
    }
}
