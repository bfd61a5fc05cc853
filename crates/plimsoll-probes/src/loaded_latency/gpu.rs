//! loaded-latency on a GPU: one thread chases pointers, alone on its SM, while all other SMs read or copy and pause after
//! every round. `crate::loaded_latency` explains the curve; the kernels are in `kernel.cu`.

use std::cell::Cell;

use plimsoll_gen::kernel::chain::{Chain, LINE};
use plimsoll_gpu::in_kernel::{BlockReport, LastLaunches, ReportSlot};
use plimsoll_gpu::kit::{combine_checks, exclusive_shared_bytes};

use super::kernels::{self, Background, LEAD_HOPS, THREADS, VECTORS_PER_ROUND};
use crate::chains::BuiltChain;
use crate::loaded_latency::{self, BACKGROUND_BANDWIDTH, Load};
use crate::prelude::gpu::*;

/// Bytes of the chain, and of each array of the background.
const BYTES: u64 = 1 << 30;
/// Timed hops of a launch: some tenths of a millisecond.
pub(crate) const HOPS: u64 = 512;
/// Cycles of the pause after every round. At full speed one round of all warps takes about 4,000.
const DELAYS: [u32; 11] = [65_536, 32_768, 16_384, 12_288, 8_192, 6_144, 4_096, 3_072, 2_048, 1_024, 0];
/// Bytes of one round of a warp, read.
const ROUND: u64 = VECTORS_PER_ROUND * 16;
/// Rounds of every warp in verification.
const ROUNDS: u32 = 3;

/// The other SMs' load. `delay` is their pause in cycles; `None` means that they are idle.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Spot {
    background: Background,
    delay: Option<u32>,
}

impl<G: Gpu> Run<G> for super::GpuRunner {
    const NEEDS: &'static [Need] = &[Need::Code(&kernels::SOURCE), Need::Cooperative, Need::KernelClock];

    fn points(&self, _: &G::Device, request: &Request) -> usize {
        spots(request.effort).len()
    }

    fn run(&self, session: &mut Session<'_, G>) -> Result<(), Fault> {
        let wanted = requested_bytes(session, BYTES)?.max(1 << 20);
        let (bytes, flags) = fit_arrays::<G>(session.device, 4, wanted)?;
        let bench = Rc::new(Bench::<G>::new(session.device, bytes.min(wanted), session.request.seed)?);
        let spots = spots(session.request.effort);
        let sweep = Sweep { series: loaded_latency::load(), points: &spots, share: 1.0, flags };
        let multiprocessors = bench.multiprocessors();
        let coordinates = |spot: &Spot| {
            let generators = spot.delay.map_or(0, |_| u64::from(multiprocessors - 1) * u64::from(THREADS));
            let (background, delay) = (to_axis(spot.background), spot.delay.unwrap_or(0).into());
            Load { background, delay, threads: generators.into() }
        };
        session.sweep(sweep, coordinates, |_, spot| bench.load(*spot))?;
        Ok(())
    }

    fn verify(&self, device: &mut G::Device, _: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        let multiprocessors = u64::from(G::machine(device)?.multiprocessors);
        let bytes = (multiprocessors * u64::from(THREADS / 32) * ROUND * u64::from(ROUNDS)).next_power_of_two();
        let bench = Rc::new(Bench::<G>::new(device, bytes, 1)?);
        for background in Background::ALL {
            let kernel = kernels::chase(background).name;
            let on = format!("{ROUNDS} rounds during {HOPS} hops");
            report(Case { kernel, on, wrong: bench.verify(background)?.into_wrong() });
        }
        let on = format!("{} lines", bench.course.lines.bytes() / LINE);
        let wrong = bench.course.chain.check_links::<G>(bench.kit.stream())?.into_wrong();
        report(Case { kernel: kernels::chain().name, on, wrong });
        Ok(())
    }
}

fn to_axis(background: Background) -> loaded_latency::Background {
    match background {
        Background::Read => loaded_latency::Background::Read,
        Background::Copy => loaded_latency::Background::Copy,
    }
}

/// Each background, from idle to full speed.
fn spots(effort: Effort) -> Vec<Spot> {
    let step = if effort == Effort::Quick { 2 } else { 1 };
    let delays = move || std::iter::once(None).chain(DELAYS.into_iter().step_by(step).map(Some));
    Background::ALL.into_iter().flat_map(|background| delays().map(move |delay| Spot { background, delay })).collect()
}

/// A chain in its own memory, with more elements than a launch makes hops, so that the end of a chase shows every lost hop. Each
/// launch begins where the one before ended.
pub(crate) struct Course<G: Gpu> {
    /// Its memory.
    pub(crate) lines: G::Buffer,
    /// The chain.
    pub(crate) chain: BuiltChain,
}

impl<G: Gpu> Course<G> {
    /// Builds a chain over so many bytes.
    pub(crate) fn new(kit: &Kit<G>, bytes: u64, seed: u64) -> Result<Self, Fault> {
        let (lines, chain) =
            (kit.array(bytes)?, Chain::lines(u32::try_from(bytes / LINE).unwrap_or(u32::MAX), seed as u32));
        let arguments = Arguments::new().buffer(&lines).u32(chain.visits).u32(chain.seed);
        kit.run_once(&kit.unit.launch(&kernels::chain(), chain.elements(), arguments)?)?;
        let chain = BuiltChain::new(chain, lines.whole())?;
        Ok(Self { lines, chain })
    }

    /// Where launch number `launch` begins.
    pub(crate) fn begin(&self, launch: u64) -> Result<Span, Fault> {
        self.chain.line(launch * (LEAD_HOPS + HOPS))
    }

    /// Checks that the chaser, which is the first block, made all its hops and ended where launch number `next` begins.
    pub(crate) fn check(&self, reports: &[BlockReport], next: u64) -> Check {
        let chaser = reports.first().copied().unwrap_or_default();
        if chaser.count != HOPS {
            return Check::Failed(format!("the chaser made {} hops, not {HOPS}", chaser.count));
        }
        self.chain.check_end(chaser.found, next * (LEAD_HOPS + HOPS))
    }
}

/// Shared by all points.
struct Bench<G: Gpu> {
    kit: Kit<G>,
    course: Course<G>,
    to: G::Buffer,
    from: G::Buffer,
    /// Launches so far: the chaser continues from point to point, so that it never revisits recent lines.
    launches: Cell<u64>,
    /// Bytes of shared memory per block that leave room for one block per SM.
    shared: u32,
}

impl<G: Gpu> Bench<G> {
    /// Builds a chain and arrays, each of the largest power of two up to `bytes`.
    fn new(device: &G::Device, bytes: u64, seed: u64) -> Result<Self, Fault> {
        let kit = Kit::<G>::new(device, &kernels::SOURCE, &kernels::kernels(), TRUST)?;
        let bytes = 1 << bytes.max(16 * kernels::VECTORS_PER_ROUND).ilog2();
        let (course, to, from) = (Course::new(&kit, bytes, seed)?, kit.array(bytes)?, kit.array(bytes)?);
        kit.checker.fill(Data::Bits, Element::Word, from.whole(), seed)?;
        kit.checker.poison(to.whole())?;
        Ok(Self { kit, course, to, from, launches: Cell::new(0), shared: exclusive_shared_bytes::<G>(device, 0) })
    }

    fn multiprocessors(&self) -> u32 {
        self.kit.unit.machine().multiprocessors
    }

    fn launch(&self, spot: Spot, limit: u32, place: ReportSlot) -> Result<G::Launch, Fault> {
        let number = self.launches.replace(self.launches.get() + 1);
        let arguments = Arguments::new().span(place.out).span(self.course.begin(number)?).u64(HOPS);
        let arguments = arguments.buffer(&self.to).buffer(&self.from).u64(self.from.bytes() / 16);
        let arguments = arguments.u32(spot.delay.unwrap_or(0)).u32(limit).span(place.state);
        let kernel = kernels::chase(spot.background);
        let kernel = if spot.delay.is_some() { kernel } else { kernel.with_grid(Grid::Blocks(1)) };
        self.kit.unit.launch_with_shared(&kernel, 0, arguments, self.shared)
    }

    fn in_kernel(self: &Rc<Self>, spot: Spot, limit: u32) -> Result<InKernel<G>, Fault> {
        let blocks = spot.delay.map_or(1, |_| self.multiprocessors());
        let work = Work { operations: HOPS as f64, ..Work::default() };
        let own = Rc::clone(self);
        InKernel::new_full_reports(&self.kit, (blocks, LaunchCycles::First), work, move |place| {
            own.launch(spot, limit, place)
        })
    }

    fn load(self: &Rc<Self>, spot: Spot) -> Result<InKernel<G>, Fault> {
        let bytes = if spot.background == Background::Copy { 2 * ROUND } else { ROUND };
        let bandwidth = move |reports: &[BlockReport]| {
            let rate = |report: &BlockReport| (report.count * bytes) as f64 / (report.nanoseconds as f64 * 1e-9);
            reports.iter().skip(1).map(rate).sum()
        };
        let own = Rc::clone(self);
        let check = move |last: &LastLaunches<'_, G>| own.check(last.reports);
        Ok(self.in_kernel(spot, 0)?.with_figure(BACKGROUND_BANDWIDTH, bandwidth).with_check(check))
    }

    /// Checks that the chaser ended where the chain leads and that every other block did some work.
    fn check(&self, reports: &[BlockReport]) -> Result<Check, Fault> {
        let chase = self.course.check(reports, self.launches.get());
        let idle = reports.iter().skip(1).position(|report| report.count == 0);
        let idle = idle.map_or(Check::Passed, |idle| Check::Failed(format!("block {} did nothing", idle + 1)));
        combine_checks([Ok(chase), Ok(idle)])
    }

    /// Runs a few rounds of the background and compares its XOR and its copy with the array's.
    fn verify(self: &Rc<Self>, background: Background) -> Result<Check, Fault> {
        self.kit.checker.poison(self.to.whole())?;
        let mut load = self.in_kernel(Spot { background, delay: Some(0) }, ROUNDS)?;
        let reports = load.run_once()?.to_vec();
        let rounds: u64 = reports.iter().skip(1).map(|report| report.count).sum();
        let warps = u64::from(self.multiprocessors() - 1) * u64::from(THREADS / 32);
        if rounds != warps * u64::from(ROUNDS) {
            return Ok(Check::Failed(format!("{warps} warps did {rounds} rounds instead of {ROUNDS} each")));
        }
        let bytes = rounds * ROUND;
        let (from, to) = (self.from.part(0, bytes)?, self.to.part(0, bytes)?);
        let bits = reports.iter().skip(1).fold(0, |bits, report| bits ^ report.found as u32);
        let expected = self.kit.checker.xor_words(from)?;
        let read = Checker::<G>::compare_folds("background reads", bits, expected);
        let copied = match background {
            Background::Copy => self.kit.checker.check_map(Op::Copy, Element::Word, to, [from; 3], 0.0)?,
            Background::Read => Check::Passed,
        };
        combine_checks([self.check(&reports), Ok(read), Ok(copied)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_background_goes_from_idle_to_full_speed() {
        for effort in Effort::ALL {
            for background in Background::ALL {
                let delays: Vec<Spot> =
                    spots(effort).into_iter().filter(|spot| spot.background == background).collect();
                assert_eq!((delays[0].delay, delays[delays.len() - 1].delay), (None, Some(0)), "{effort:?}");
            }
        }
    }
}
