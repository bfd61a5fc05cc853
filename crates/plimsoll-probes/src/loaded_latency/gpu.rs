//! loaded-latency on a GPU: one thread chases pointers, alone on its SM, while all others read or copy and pause
//! after every piece. What the curve shows is `crate::loaded_latency`'s; the kernels are
//! `kernel.cu`'s.

use std::cell::Cell;

use plimsoll_gen::kernel::chain::{Chain, LINE};
use plimsoll_gpu::in_kernel::{BlockReport, LastLaunches, ReportSlot};
use plimsoll_gpu::kit::{combine_checks, exclusive_shared_bytes};

use super::kernels::{self, Background, LEAD_HOPS, THREADS, VECTORS_PER_ROUND};
use crate::loaded_latency::{self, BACKGROUND_BANDWIDTH, Load};
use crate::prelude::gpu::*;

/// Bytes of the chain, and of each array of the background.
const BYTES: u64 = 1 << 30;
/// Hops of a launch that are counted: some tenths of a millisecond.
const HOPS: u64 = 512;
/// Cycles of the pause after every round. At full speed all rounds of an iteration take some 4,000.
const DELAYS: [u32; 11] = [65_536, 32_768, 16_384, 12_288, 8_192, 6_144, 4_096, 3_072, 2_048, 1_024, 0];
/// Bytes of one round of a warp, read.
const ROUND: u64 = VECTORS_PER_ROUND * 16;
/// Rounds of every warp when verified.
const ROUNDS: u32 = 3;

/// The probe.
#[derive(Debug)]
pub struct Runner;

/// What the others do: nothing, or work with a pause of so many cycles.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Spot {
    background: Background,
    delay: Option<u32>,
}

impl<G: Gpu> Probe<G> for Runner {
    fn spec(&self) -> &'static ProbeSpec {
        &loaded_latency::SPEC
    }

    fn needs(&self) -> &'static [Need] {
        const { &[Need::Code(&kernels::SOURCE), Need::Cooperative, Need::KernelClock] }
    }

    fn points(&self, _: &G::Device, request: &Request) -> usize {
        spots(request.effort).len()
    }

    fn run(&self, session: &mut Session<'_, G>) -> Result<(), Fault> {
        let begin = session.clock().now();
        let wanted = requested_bytes(session, BYTES)?.max(1 << 20);
        let (bytes, flags) = fit_arrays::<G>(session.device, 4, wanted)?;
        let bench = Rc::new(Bench::<G>::new(session.device, bytes.min(wanted), session.request.seed)?);
        let spots = spots(session.request.effort);
        let late = elapsed_share(session, begin, loaded_latency::SPEC.budget(session.request.effort));
        let sweep = Sweep { series: loaded_latency::load(), points: &spots, share: 1.0 + late, flags };
        let multiprocessors = bench.multiprocessors();
        let at = |spot: &Spot| {
            let generators = spot.delay.map_or(0, |_| u64::from(multiprocessors - 1) * u64::from(THREADS));
            let (background, delay) = (name(spot.background), spot.delay.unwrap_or(0).into());
            Load { background, delay, threads: generators.into() }
        };
        session.sweep(sweep, at, |_, spot| bench.load(*spot))?;
        Ok(())
    }

    fn verify(&self, device: &mut G::Device, _: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        let multiprocessors = u64::from(G::machine(device)?.multiprocessors);
        let bytes = (multiprocessors * u64::from(THREADS / 32) * ROUND * u64::from(ROUNDS)).next_power_of_two();
        let bench = Rc::new(Bench::<G>::new(device, bytes, 1)?);
        for background in Background::ALL {
            let kernel = kernels::chase(background).name;
            let on = format!("{ROUNDS} rounds beside {HOPS} hops");
            report(Case { kernel, on, wrong: bench.verify(background)?.into_wrong() });
        }
        let on = format!("{} lines", bench.chain.elements());
        report(Case { kernel: kernels::chain().name, on, wrong: bench.verify_chain()?.into_wrong() });
        Ok(())
    }
}

fn name(background: Background) -> loaded_latency::Background {
    match background {
        Background::Read => loaded_latency::Background::Read,
        Background::Copy => loaded_latency::Background::Copy,
    }
}

/// Each background from nobody at work to all of it.
fn spots(effort: Effort) -> Vec<Spot> {
    let step = if effort == Effort::Quick { 2 } else { 1 };
    let delays = move || std::iter::once(None).chain(DELAYS.into_iter().step_by(step).map(Some));
    Background::ALL.into_iter().flat_map(|background| delays().map(move |delay| Spot { background, delay })).collect()
}

/// Shared by all points.
struct Bench<G: Gpu> {
    kit: Kit<G>,
    lines: G::Buffer,
    chain: Chain,
    to: G::Buffer,
    from: G::Buffer,
    /// Launches so far: the chaser walks on from point to point, so that it never meets lines that it has just been at.
    walked: Cell<u64>,
    /// Shared memory that keeps the chaser alone.
    shared: u32,
}

impl<G: Gpu> Bench<G> {
    /// A chain over at most so many bytes, and arrays of the largest power of two within them.
    fn new(device: &G::Device, bytes: u64, seed: u64) -> Result<Self, Fault> {
        let kit = Kit::<G>::new(device, &kernels::SOURCE, &kernels::kernels(), TRUST)?;
        let bytes = 1 << bytes.max(16 * kernels::VECTORS_PER_ROUND).ilog2();
        let (lines, to, from) = (kit.array(bytes)?, kit.array(bytes)?, kit.array(bytes)?);
        kit.checker.fill(Data::Bits, Element::Word, from.whole(), seed)?;
        kit.checker.poison(to.whole())?;
        let chain = Chain::lines(u32::try_from(bytes / LINE).unwrap_or(u32::MAX), seed as u32);
        let arguments = Arguments::new().buffer(&lines).u32(chain.visits).u32(chain.seed);
        kit.run(&[Action::Launch(kit.unit.launch(&kernels::chain(), chain.elements(), arguments)?)])?;
        Ok(Self { kit, lines, chain, to, from, walked: Cell::new(0), shared: exclusive_shared_bytes::<G>(device, 0) })
    }

    fn multiprocessors(&self) -> u32 {
        self.kit.unit.machine().multiprocessors
    }

    /// Where the chaser is after so many launches.
    fn place(&self, iterations: u64) -> Result<Span, Fault> {
        self.lines.part(self.chain.offset(iterations * (LEAD_HOPS + HOPS)), LINE)
    }

    fn launch(&self, spot: Spot, limit: u32, place: ReportSlot) -> Result<G::Launch, Fault> {
        let iteration = self.walked.replace(self.walked.get() + 1);
        let arguments = Arguments::new().span(place.out).span(self.place(iteration)?).u64(HOPS);
        let arguments = arguments.buffer(&self.to).buffer(&self.from).u64(self.from.bytes() / 16);
        let arguments = arguments.u32(spot.delay.unwrap_or(0)).u32(limit).span(place.state);
        let kernel = kernels::chase(spot.background);
        let kernel = if spot.delay.is_some() { kernel } else { kernel.with_grid(Grid::Blocks(1)) };
        self.kit.unit.launch_with_shared(&kernel, 0, arguments, self.shared)
    }

    fn telling(self: &Rc<Self>, spot: Spot, limit: u32) -> Result<InKernel<G>, Fault> {
        let blocks = spot.delay.map_or(1, |_| self.multiprocessors());
        let work = Work { operations: HOPS as f64, ..Work::default() };
        let own = Rc::clone(self);
        InKernel::new_full_reports(&self.kit, (blocks, LaunchCycles::First), work, move |place| {
            own.launch(spot, limit, place)
        })
    }

    fn load(self: &Rc<Self>, spot: Spot) -> Result<InKernel<G>, Fault> {
        let bytes = if spot.background == Background::Copy { 2 * ROUND } else { ROUND };
        let moved = move |told: &[BlockReport]| {
            let rate = |told: &BlockReport| (told.count * bytes) as f64 / (told.nanoseconds as f64 * 1e-9);
            told.iter().skip(1).map(rate).sum()
        };
        let own = Rc::clone(self);
        let check = move |last: &LastLaunches<'_, G>| own.check(last.reports);
        Ok(self.telling(spot, 0)?.with_figure(BACKGROUND_BANDWIDTH, moved).with_check(check))
    }

    /// Did the chaser end where the chain leads, and did everybody else work?
    fn check(&self, told: &[BlockReport]) -> Result<Check, Fault> {
        let end = self.place(self.walked.get())?.pointer();
        let chaser = told.first().copied().unwrap_or_default();
        if (chaser.count, chaser.found) != (HOPS, end) {
            let (hops, off) = (chaser.count, chaser.found.wrapping_sub(self.lines.pointer()));
            let expected = end - self.lines.pointer();
            let why = format!("the chase of {hops} hops ended at byte {off} instead of {expected}");
            return Ok(Check::Failed(why));
        }
        Ok(match told.iter().skip(1).position(|told| told.count == 0) {
            Some(idle) => Check::Failed(format!("block {} did nothing", idle + 1)),
            None => Check::Passed,
        })
    }

    /// A few rounds of the background, whose sum and copy are compared with the array's own.
    fn verify(self: &Rc<Self>, background: Background) -> Result<Check, Fault> {
        self.kit.checker.poison(self.to.whole())?;
        let mut telling = self.telling(Spot { background, delay: Some(0) }, ROUNDS)?;
        let told = telling.run_once()?.to_vec();
        let rounds: u64 = told.iter().skip(1).map(|told| told.count).sum();
        let warps = u64::from(self.multiprocessors() - 1) * u64::from(THREADS / 32);
        if rounds != warps * u64::from(ROUNDS) {
            return Ok(Check::Failed(format!("{rounds} rounds of {warps} warps, where each should do {ROUNDS}")));
        }
        let bytes = rounds * ROUND;
        let (from, to) = (self.from.part(0, bytes)?, self.to.part(0, bytes)?);
        let bits = told.iter().skip(1).fold(0, |bits, told| bits ^ told.found as u32);
        let expected = self.kit.checker.xor_words(from)?;
        let read = Checker::<G>::compare_folds("what the others read", bits, expected);
        let copied = match background {
            Background::Copy => self.kit.checker.check_map(Op::Copy, Element::Word, to, [from; 3], 0.0)?,
            Background::Read => Check::Passed,
        };
        combine_checks([self.check(&told), Ok(read), Ok(copied)])
    }

    /// Does every line lead to the next one?
    fn verify_chain(&self) -> Result<Check, Fault> {
        let mut bytes = vec![0; usize::try_from(self.lines.bytes()).unwrap_or(0)];
        G::download(self.kit.stream(), self.lines.whole(), &mut bytes)?;
        let word = |at: u64| {
            let at = usize::try_from(at).unwrap_or(usize::MAX);
            bytes.get(at..at + 8).map(|word| u64::from_le_bytes(std::array::from_fn(|byte| word[byte])))
        };
        let base = self.lines.pointer();
        let leads = |i: &u64| word(self.chain.offset(*i)) == Some(base + self.chain.offset(i + 1));
        let wrong = (0..self.chain.elements()).find(|i| !leads(i));
        Ok(wrong.map_or(Check::Passed, |i| Check::Failed(format!("element {i} of the chain leads elsewhere"))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_background_goes_from_nobody_to_full_speed() {
        for effort in Effort::ALL {
            for background in Background::ALL {
                let of: Vec<Spot> = spots(effort).into_iter().filter(|spot| spot.background == background).collect();
                assert_eq!((of[0].delay, of[of.len() - 1].delay), (None, Some(0)), "{effort:?}");
            }
        }
    }
}
