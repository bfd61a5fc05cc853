//! latency on a GPU: one thread follows chains through footprints of every size, in three orders. `device.rs` defines the
//! figures, `kernel.cu` the kernels.
//!
//! The first sweep is coarse; a second one measures between the neighbours of every knee that it shows.

use plimsoll_core::flag::Flag;
use plimsoll_gen::kernel::chain::{Chain, HOPS, LINE, PAGE};
use plimsoll_gpu::in_kernel::{LastLaunches, ReportSlot};
use plimsoll_gpu::kit::combine_checks;
use plimsoll_suite::findings::levels;

use super::TOLERANCE;
use super::device::{self, Chase, Order};
use super::kernels::{self, Nearest};
use crate::prelude::gpu::*;

/// The probe.
#[derive(Debug)]
pub struct Runner;

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
/// Points added at each knee, at most.
const PER_KNEE: usize = 14;
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

impl<G: Gpu> Run<G> for Runner {
    const NEEDS: &'static [Need] = &[Need::KernelClock];

    fn points(&self, _: &G::Device, request: &Request) -> usize {
        plan(request.effort, request.bytes.unwrap_or(LARGEST), LARGEST_SPARSE).len() + 3 * PER_KNEE
    }

    fn run(&self, session: &mut Session<'_, G>) -> Result<(), Fault> {
        let wanted = requested_bytes(session, LARGEST)?.max(LEAST);
        // The curve of one line per page goes as far as memory allows, unless a size was requested.
        let sparse = if session.request.bytes.is_some() { wanted } else { LARGEST_SPARSE };
        let (room, _) = fit_arrays::<G>(session.device, 1, wanted.max(sparse))?;
        let shrunk: Flags = (room < wanted).then_some(Flag::Shrunk).into_iter().collect();
        let bench = Bench::new(session, room)?;
        let points = plan(session.request.effort, wanted.min(room), sparse.min(room));
        let shares = SHARES[usize::from(session.request.effort != Effort::Quick)];
        let sweep = Sweep { series: device::chase(), points: &points, share: shares[0], flags: shrunk };
        let series = session.sweep(sweep, |spot| spot.into(), |_, spot| bench.load(spot))?;
        let points = knees(series);
        if points.is_empty() {
            return Ok(());
        }
        let sweep = Sweep { series: device::knees(), points: &points, share: shares[1], flags: shrunk };
        session.sweep(sweep, |spot| spot.into(), |_, spot| bench.load(spot)).map(drop)
    }

    fn verify(&self, device: &mut G::Device, depth: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        let mut sizes = vec![LINE, 2 * LINE, 3 * LINE, 31 * LINE, 33 * LINE, 1025 * LINE, PAGE, 3 * PAGE];
        match depth {
            Depth::Small => {}
            Depth::Usual => sizes.push(64 * PAGE),
            Depth::Exhaustive => sizes.extend((1..=600).map(|lines| lines * LINE)),
        }
        let largest = sizes.iter().copied().max().unwrap_or(PAGE).max(PAGE);
        let bench = Bench::<G>::with_memory(device, largest, 1)?;
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
        footprints(least, largest, per_octave, grain).into_iter().map(move |bytes| Spot { order, bytes })
    };
    let random = curve(Order::PageRandom, LEAST, largest, random, LINE);
    let local = curve(Order::PageLocal, 2 * PAGE, largest, local, PAGE);
    random.chain(local).chain(curve(Order::Sparse, 2 * PAGE, sparse, pages, PAGE)).collect()
}

/// From `least` to `largest` inclusive, so many per octave, in whole grains.
fn footprints(least: u64, largest: u64, per_octave: u32, grain: u64) -> Vec<u64> {
    let step = |i: u32| (least as f64 * (f64::from(i) / f64::from(per_octave)).exp2() / grain as f64).round() as u64;
    let sizes = (0..64 * per_octave).map(|i| step(i).max(1).saturating_mul(grain));
    let mut sizes: Vec<u64> = sizes.take_while(|bytes| *bytes <= largest).collect();
    sizes.dedup();
    sizes
}

/// What the refinement measures: between the neighbours of every knee of each curve.
fn knees(series: &plimsoll_core::series::Series) -> Vec<Spot> {
    let refine = |order: Order, grain: u64| {
        let curve = device::curve(std::slice::from_ref(series), order);
        let found = levels::levels(&curve, TOLERANCE);
        let more = levels::refinement(&found, RESOLUTION, PER_KNEE);
        more.into_iter().map(move |bytes| Spot { order, bytes: ((bytes / grain as f64).round() as u64).max(1) * grain })
    };
    refine(Order::PageRandom, LINE).chain(refine(Order::Sparse, PAGE)).collect()
}

/// What all points share: the kernels and the memory that chains are built in.
struct Bench<G: Gpu> {
    kit: Kit<G>,
    memory: G::Buffer,
    cursor: Rc<G::Buffer>,
    seed: u32,
    /// The last cache, bytes.
    cache: u64,
}

impl<G: Gpu> Bench<G> {
    fn new(session: &Session<'_, G>, bytes: u64) -> Result<Self, Fault> {
        let bench = Self::with_memory(session.device, bytes, session.request.seed as u32)?;
        Ok(Self { cache: session.info().last_level_cache(), ..bench })
    }

    fn with_memory(device: &G::Device, bytes: u64, seed: u32) -> Result<Self, Fault> {
        let kit = Kit::new(device, &kernels::SOURCE, &kernels::kernels(), TRUST)?;
        let (memory, cursor) = (kit.array(bytes)?, Rc::new(kit.array(8)?));
        Ok(Self { kit, memory, cursor, seed, cache: 0 })
    }

    /// Builds a chain, and puts the cursor on its first element.
    fn build(&self, chain: &Chain) -> Result<(), Fault> {
        let base = self.memory.part(0, chain.span())?;
        let arguments = Arguments::new().span(base).u32(chain.pages).u32(chain.visits).u32(chain.pitch);
        let n = chain.elements();
        let launch = self.kit.unit.launch(&kernels::build(), n, arguments.u32(chain.seed).u64(n))?;
        self.kit.run(&[Action::Launch(launch)])?;
        G::upload(self.kit.stream(), self.cursor.whole(), &(base.pointer() + chain.offset(0)).to_le_bytes())
    }

    /// Hops before the timed ones: a whole cycle where L1 may hold it.
    fn warm(chain: &Chain) -> u64 {
        chain.elements().min(WARM_LINES).next_multiple_of(HOPS)
    }

    fn load(&self, spot: &Spot) -> Result<InKernel<G>, Fault> {
        let chain = spot.chain(self.seed);
        self.build(&chain)?;
        let (warm, kernel) = (Self::warm(&chain), kernels::chase(spot.nearest()));
        let around = chain.elements().next_multiple_of(HOPS);
        let work = Work { operations: LENGTH as f64, ..Work::default() };
        let launch = |place: ReportSlot| {
            let arguments = Arguments::new().span(place.out).buffer(&*self.cursor).u64(warm).u64(LENGTH);
            self.kit.unit.launch(&kernel, 1, arguments)
        };
        let load = InKernel::new_one_block(&self.kit, device::CYCLES, work, launch)?;
        let mut before = 0;
        if around > warm && (around * LINE) as f64 <= ROUND * self.cache as f64 {
            let out = self.kit.array(32)?;
            let arguments = Arguments::new().buffer(&out).buffer(&*self.cursor).u64(around).u64(HOPS);
            self.kit.run(&[Action::Launch(self.kit.unit.launch(&kernel, 1, arguments)?)])?;
            G::wait(self.kit.stream())?;
            before = around + HOPS;
        }
        let base = self.memory.pointer();
        let trap = self.trap(&chain, &kernel)?;
        Ok(load.with_check(move |last: &LastLaunches<'_, G>| {
            let hops = before + last.launches * (warm + LENGTH);
            let ended = last.reports.last().map_or(0, |report| report.count);
            let right = check_end(ended, base + chain.offset(hops), hops);
            combine_checks([Ok(right), trap.check(last.stream, base + chain.offset(hops))])
        }))
    }

    fn trap(&self, chain: &Chain, kernel: &KernelDesc) -> Result<Trap<G>, Fault> {
        let place = (chain.elements() - 1).min(HOPS - 1);
        let (out, base) = (self.kit.array(32)?, self.memory.pointer());
        let arguments = Arguments::new().buffer(&out).buffer(&*self.cursor).u64(0).u64(HOPS);
        Ok(Trap {
            chase: self.kit.unit.launch(kernel, 1, arguments)?,
            cursor: self.cursor.whole(),
            begin: base + chain.offset(0),
            element: self.memory.part(chain.offset(place), 8)?,
            next: base + chain.offset(place + 1),
            end: base + chain.offset(HOPS),
        })
    }

    /// Builds a chain, reads it back, follows it naively, and compares with where the chase of it ended.
    fn verify(&self, spot: &Spot, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        let chain = spot.chain(self.seed);
        let on = format!("{} lines, {}", chain.elements(), spot.order);
        self.build(&chain)?;
        let mut bytes = vec![0; usize::try_from(chain.span()).unwrap_or(0)];
        G::download(self.kit.stream(), self.memory.whole(), &mut bytes)?;
        let wrong = find_broken_link(&bytes, self.memory.pointer(), &chain);
        let broken = !wrong.is_empty();
        report(Case { kernel: "latency_build".to_owned(), on: on.clone(), wrong });
        for nearest in [Nearest::L1, Nearest::L2] {
            let kernel = kernels::chase(nearest);
            if broken {
                // A chase of a broken chain could read anywhere.
                let wrong = "the chain is broken, so it was not followed".to_owned();
                report(Case { kernel: kernel.name, on: on.clone(), wrong });
                continue;
            }
            self.build(&chain)?;
            let out = self.kit.array(32)?;
            let arguments = Arguments::new().buffer(&out).buffer(&*self.cursor).u64(2 * HOPS).u64(HOPS);
            self.kit.run(&[Action::Launch(self.kit.unit.launch(&kernel, 1, arguments)?)])?;
            let mut found = [0; 8];
            G::download(self.kit.stream(), self.cursor.whole(), &mut found)?;
            let (found, expected) = (u64::from_le_bytes(found), self.memory.pointer() + chain.offset(3 * HOPS));
            let wrong =
                if found == expected { String::new() } else { format!("ended at {found:#x}, not {expected:#x}") };
            report(Case { kernel: kernel.name, on: on.clone(), wrong });
        }
        Ok(())
    }
}

/// A trap: one element temporarily points to itself. A chase that makes no hops may end where a right one does if the chain's
/// length divides the hops; the trap shows it. A chase that loses some hops per loop iteration may also end right by chance: the
/// same few hops on the intact chain show it.
struct Trap<G: Gpu> {
    chase: G::Launch,
    cursor: Span,
    /// The chain's first element.
    begin: u64,
    element: Span,
    /// What the element leads to.
    next: u64,
    /// Where the trap's hops end on the whole chain.
    end: u64,
}

impl<G: Gpu> Trap<G> {
    /// Checks that a chase from the beginning ends at the element, and at the right place on the intact chain. Afterwards the chain
    /// is intact again and the cursor is at `place`.
    fn check(&self, stream: &Arc<G::Stream>, place: u64) -> Result<Check, Fault> {
        let put = |to, address: u64| G::upload(stream, to, &address.to_le_bytes());
        let follow = || -> Result<u64, Fault> {
            put(self.cursor, self.begin)?;
            G::launch(stream, &self.chase)?;
            let mut found = [0; 8];
            G::download(stream, self.cursor, &mut found)?;
            Ok(u64::from_le_bytes(found))
        };
        G::bind(stream)?;
        put(self.element, self.element.pointer())?;
        let trapped = follow()?;
        put(self.element, self.next)?;
        let whole = follow()?;
        put(self.cursor, place)?;
        combine_checks(
            [(trapped, self.element.pointer()), (whole, self.end)].map(|(at, right)| Ok(check_end(at, right, HOPS))),
        )
    }
}

/// Whether the last chase ended where so many hops lead: a chase that hops too little, or not at all, ends elsewhere.
fn check_end(ended: u64, expected: u64, hops: u64) -> Check {
    if ended == expected {
        return Check::Passed;
    }
    Check::Failed(format!("{hops} hops ended at {ended:#x}, not at {expected:#x}"))
}

/// Follows a chain in `bytes` naively and describes the first error; empty where there is none.
fn find_broken_link(bytes: &[u8], base: u64, chain: &Chain) -> String {
    let mut seen = std::collections::BTreeSet::new();
    let mut at = chain.offset(0);
    for hop in 0..chain.elements() {
        if !seen.insert(at) {
            return format!("the chain is back at byte {at} after {hop} hops");
        }
        let word = usize::try_from(at).ok().and_then(|at| bytes.get(at..at + 8));
        let Some(word) = word else { return format!("the chain leaves its memory after {hop} hops") };
        let next = u64::from_le_bytes(std::array::from_fn(|byte| word[byte]));
        at = next.wrapping_sub(base);
    }
    if at == chain.offset(0) { String::new() } else { "the chain doesn't close".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn footprints_are_whole_grains_that_grow_to_the_largest() {
        let sizes = footprints(LEAST, LARGEST, 3, LINE);
        assert_eq!((sizes[0], sizes.last().copied()), (LEAST, Some(LARGEST)));
        assert!(sizes.windows(2).all(|pair| pair[0] < pair[1] && pair[1] % LINE == 0));
        assert!(footprints(LEAST, LEAST - 1, 3, LINE).is_empty());
    }

    #[test]
    fn a_broken_chain_is_detected() {
        let (chain, base) = (Chain::lines(40, 3), 0x7000_0000);
        let mut bytes = vec![0; chain.span() as usize];
        for i in 0..chain.elements() {
            let at = chain.offset(i) as usize;
            bytes[at..at + 8].copy_from_slice(&(base + chain.offset(i + 1)).to_le_bytes());
        }
        assert_eq!(find_broken_link(&bytes, base, &chain), "");
        let at = chain.offset(7) as usize;
        bytes[at..at + 8].copy_from_slice(&(base + chain.offset(3)).to_le_bytes());
        assert!(find_broken_link(&bytes, base, &chain).contains("is back"));
        bytes[at..at + 8].copy_from_slice(&(base - LINE).to_le_bytes());
        assert!(find_broken_link(&bytes, base, &chain).contains("leaves"));
    }
}
