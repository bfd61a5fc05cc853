//! uniformity on a GPU: each multiprocessor alone, each part of the memory alone. What the figures mean is
//! `crate::uniformity`'s; the kernels are `uniformity.cu`'s.

use std::rc::Rc;

use super::kernels;
use crate::latency::kernels as latency;
use crate::uniformity::{self, CYCLES, LINE_CYCLES};
use plimsoll_core::flag::Flags;
use plimsoll_core::probe::{Case, Depth, Probe, ProbeSpec, Request, Session, Sweep};
use plimsoll_core::sample::{Check, Clock as _, Effort, Work};
use plimsoll_core::{Fault, Traffic};
use plimsoll_gen::kernel::Element;
use plimsoll_gen::kernel::chain::{Chain, LINE, PAGE};
use plimsoll_gen::kernel::check::Data;
use plimsoll_gpu::Need;

use crate::TRUST;
use crate::cuda::checker::Checker;
use crate::cuda::inside::{Inside, Last, Place, ran_on};
use crate::cuda::kit::{GRAPH, Kit, asked, late};
use crate::cuda::unit::Unit;
use crate::cuda::window::{Flush, room};
use plimsoll_cuda::launch::{Arguments, Launch};
use plimsoll_cuda::memory::{DeviceBuffer, Span};
use plimsoll_cuda::{Action, Load};
use plimsoll_cuda::{Cuda, CudaDevice};

/// The probe.
#[derive(Debug)]
pub struct Runner;

/// Bytes that one multiprocessor reads in a launch, from the last cache.
const DRAWN: u64 = 4 << 20;
/// Bytes of the chain that each multiprocessor follows in the last cache.
const CHAIN: u64 = 128 << 10;
/// Hops of a launch in the last cache, the whole chain, and in memory.
const HOPS: [u64; 2] = [CHAIN / LINE, 128];
/// How often all together read what one will read alone, some 60 ms in all: on an H200 the first multiprocessors that read alone
/// were up to a third slower than the same ones later, for about as long.
const WARM_UPS: usize = 8192;
/// Regions of the memory in a first look and otherwise, at most.
const REGIONS: [u64; 2] = [16, 32];
/// Pages of the memory in a first look and otherwise, at most.
const PAGES: [u64; 2] = [64, 128];
/// Shares of the budget: draws, distances, regions, pages.
const SHARES: [f64; 4] = [0.2, 0.2, 0.35, 0.2];

impl Probe<Cuda> for Runner {
    fn spec(&self) -> &'static ProbeSpec {
        &uniformity::SPEC
    }

    fn needs(&self) -> &'static [Need] {
        &[Need::Graphs]
    }

    fn points(&self, device: &CudaDevice, request: &Request) -> usize {
        let most = usize::from(request.effort != Effort::Quick);
        2 * device.multiprocessors as usize + (REGIONS[most] + PAGES[most]) as usize
    }

    fn run(&self, session: &mut Session<'_, Cuda>) -> Result<(), Fault> {
        let begin = session.clock().now();
        let effort = session.request.effort;
        let flush = Flush::new(session.device, session.info().last_level_cache())?;
        let (bytes, _) = room(session.device, 1, u64::MAX / 4)?;
        let bytes = asked(session, bytes)?.min(bytes).max(PAGE).max(DRAWN);
        let bench = Bench::new(session.device, bytes, session.request.seed)?;
        let most = usize::from(effort != Effort::Quick);
        let late = late(session, begin, uniformity::SPEC.budget(effort));

        let all: Vec<u32> = (0..session.device.multiprocessors).collect();
        let at = |multiprocessor: &u32| vec![u64::from(*multiprocessor).into()];
        let warm = Action::Launch(bench.kit.checker.read(bench.memory.part(0, DRAWN)?)?);
        (0..WARM_UPS).try_for_each(|_| bench.kit.run(std::slice::from_ref(&warm)))?;
        let sweep = Sweep { series: uniformity::draws(), points: &all, share: SHARES[0] + late, flags: Flags::NONE };
        session.sweep(sweep, at, |_, multiprocessor| bench.draw(*multiprocessor))?;

        bench.chain(0, CHAIN)?;
        let sweep = Sweep { series: uniformity::distances(), points: &all, share: SHARES[1], flags: Flags::NONE };
        session.sweep(sweep, at, |_, multiprocessor| bench.distance(*multiprocessor))?;

        let region = session.info().cold_window().min(bytes);
        let regions = places(bytes, region, REGIONS[most]);
        let at = |offset: &u64| vec![(*offset).into()];
        let sweep = Sweep { series: uniformity::regions(), points: &regions, share: SHARES[2], flags: Flags::NONE };
        session.sweep(sweep, at, |_, offset| bench.region(*offset, region))?;

        let pages = places(bytes, PAGE, PAGES[most]);
        let flush = flush.actions(&bench.kit.checker)?;
        let sweep = Sweep { series: uniformity::pages(), points: &pages, share: SHARES[3], flags: Flags::NONE };
        session.sweep(sweep, at, |_, offset| bench.page(*offset, &flush))?;
        Ok(())
    }

    fn verify(&self, device: &mut CudaDevice, depth: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        let bench = Bench::new(device, 2 * DRAWN, 1)?;
        let vectors: &[u64] = match depth {
            Depth::Small => &[1, 1025, 8 * 1024 + 1],
            _ => &[1, 31, 32, 1023, 1025, 8 * 1024 - 1, 8 * 1024, 8 * 1024 + 1, DRAWN / 16],
        };
        let mut told = |kernel: String, on: String, check: Check| {
            let wrong = match check {
                Check::Passed => String::new(),
                Check::Failed(wrong) => wrong,
            };
            report(Case { kernel, on, wrong });
        };
        for &n in vectors {
            let input = bench.memory.part(0, 16 * n)?;
            told(
                kernels::region().name,
                format!("{n} vectors"),
                bench.once(&bench.reading(input)?, input, bench.all())?,
            );
            let out = bench.kit.array(64)?;
            bench.kit.checker.words(out.whole(), u32::MAX)?;
            let place = Place { out: out.part(0, 32)?, state: out.part(32, 4)?, turn: 0 };
            let launch = bench.alone(0, input, place)?;
            told(kernels::read().name, format!("{n} vectors"), bench.once(&launch, input, bench.one())?);
        }
        let start = bench.chain(0, CHAIN)?;
        let out = bench.kit.array(64)?;
        bench.kit.checker.words(out.whole(), u32::MAX)?;
        let place = Place { out: out.part(0, 32)?, state: out.part(32, 4)?, turn: 0 };
        bench.kit.run(&[Action::Launch(bench.hop(device.multiprocessors - 1, HOPS[0], place)?)])?;
        let mut found = [0; 8];
        bench.cursor.download(bench.kit.stream(), &mut found)?;
        let (found, expected) = (u64::from_le_bytes(found), bench.memory.pointer() + start.at(HOPS[0]));
        let wrong = || Check::Failed(format!("the chase ended at {found:#x}, not {expected:#x}"));
        let check = if found == expected { Check::Passed } else { wrong() };
        told(kernels::chase().name, format!("{} hops", HOPS[0]), check);
        Ok(())
    }
}

/// At most so many places of `each` bytes, evenly over `bytes`, on whole pages.
fn places(bytes: u64, each: u64, most: u64) -> Vec<u64> {
    let room = bytes.saturating_sub(each);
    let count = (bytes / each.max(1)).clamp(1, most);
    let step = if count > 1 { room / (count - 1) } else { 0 };
    (0..count).map(|place| place * step / PAGE * PAGE).collect()
}

/// What all points share.
struct Bench {
    kit: Kit,
    /// Builds chains.
    chains: Unit,
    memory: DeviceBuffer,
    /// One word per warp of whatever reads.
    bits: Rc<DeviceBuffer>,
    cursor: DeviceBuffer,
    seed: u32,
}

impl Bench {
    fn new(device: &CudaDevice, bytes: u64, seed: u64) -> Result<Self, Fault> {
        let kit = Kit::new(device, &crate::uniformity::kernels::SOURCE, &kernels::kernels(), TRUST)?;
        let chains = Unit::new(device, &crate::latency::kernels::SOURCE, &[latency::build()], TRUST)?;
        let warps = kernels::region().geometry(1, kit.unit.machine())?.warps();
        let (memory, bits) = (kit.array(bytes)?, Rc::new(kit.array(4 * warps.max(32))?));
        let cursor = kit.array(8)?;
        kit.checker.fill(Data::Bits, Element::Word, memory.whole(), seed)?;
        Ok(Self { kit, chains, memory, bits, cursor, seed: seed as u32 })
    }

    /// Words that the whole device leaves.
    fn all(&self) -> u64 {
        kernels::region().geometry(1, self.kit.unit.machine()).map_or(0, |geometry| geometry.warps())
    }

    /// Words that one block leaves.
    fn one(&self) -> u64 {
        u64::from(kernels::read().threads) / 32
    }

    fn alone(&self, wanted: u32, input: Span, place: Place) -> Result<Launch, Fault> {
        let arguments = Arguments::new().span(place.out).span(place.state).u32(place.turn as u32).u32(wanted);
        let arguments = arguments.buffer(&self.bits).span(input).u64(input.bytes() / 16);
        self.kit.unit.launch(&kernels::read(), 1, arguments)
    }

    fn reading(&self, input: Span) -> Result<Launch, Fault> {
        let arguments = Arguments::new().buffer(&self.bits).span(input).u64(input.bytes() / 16);
        self.kit.unit.launch(&kernels::region(), 1, arguments)
    }

    fn hop(&self, wanted: u32, hops: u64, place: Place) -> Result<Launch, Fault> {
        let arguments = Arguments::new().span(place.out).span(place.state).u32(place.turn as u32).u32(wanted);
        self.kit.unit.launch(&kernels::chase(), 1, arguments.buffer(&self.cursor).u64(hops))
    }

    /// Whether a launch that reads `input` leaves its exclusive or in so many words.
    fn once(&self, launch: &Launch, input: Span, words: u64) -> Result<Check, Fault> {
        let left = self.bits.part(0, 4 * words)?;
        self.kit.checker.poison(left)?;
        self.kit.run(&[Action::Launch(launch.clone())])?;
        folded(&self.kit.checker, left, input)
    }

    /// Builds a chain over `bytes` from `offset`, and puts the cursor on its first element.
    fn chain(&self, offset: u64, bytes: u64) -> Result<Chain, Fault> {
        let chain = Chain::lines((bytes / LINE) as u32, self.seed);
        let base = self.memory.part(offset, chain.span())?;
        let n = chain.elements();
        let arguments = Arguments::new().span(base).u32(chain.pages).u32(chain.visits).u32(chain.pitch);
        let launch = self.chains.launch(&latency::build(), n, arguments.u32(chain.seed).u64(n))?;
        self.kit.run(&[Action::Launch(launch)])?;
        self.cursor.upload(self.kit.stream(), &(base.pointer() + chain.at(0)).to_le_bytes())?;
        Ok(chain)
    }

    /// One multiprocessor reads what the last cache holds.
    fn draw(&self, multiprocessor: u32) -> Result<Inside, Fault> {
        let input = self.memory.part(0, DRAWN)?;
        let traffic = Traffic::new(DRAWN, 0);
        let work = Work { traffic, operations: (DRAWN / LINE) as f64, ..Work::default() };
        let left = self.bits.part(0, 4 * self.one())?;
        self.kit.checker.poison(left)?;
        let load = Inside::alone(&self.kit, LINE_CYCLES, work, |place| self.alone(multiprocessor, input, place))?;
        let (ran, checker) = (ran_on(multiprocessor), Rc::clone(&self.kit.checker));
        Ok(load.with_check(move |last| match ran(last.told) {
            Check::Passed => folded(&checker, left, input),
            failed => Ok(failed),
        }))
    }

    /// One multiprocessor follows the chain that the last cache holds.
    fn distance(&self, multiprocessor: u32) -> Result<Inside, Fault> {
        let work = Work { operations: HOPS[0] as f64, ..Work::default() };
        let load = Inside::alone(&self.kit, CYCLES, work, |place| self.hop(multiprocessor, HOPS[0], place))?;
        Ok(load.with_check(on(multiprocessor)))
    }

    /// All multiprocessors read one region.
    fn region(&self, offset: u64, bytes: u64) -> Result<Load, Fault> {
        let input = self.memory.part(offset, bytes)?;
        let work = Work { traffic: Traffic::new(bytes, 0), window: bytes, ..Work::default() };
        let left = self.bits.part(0, 4 * self.all())?;
        self.kit.checker.poison(left)?;
        let load = self.kit.load(GRAPH, vec![self.reading(input)?], work)?;
        let checker = Rc::clone(&self.kit.checker);
        Ok(load.with_check(move |_| folded(&checker, left, input)))
    }

    /// One multiprocessor follows a chain through a page that no cache holds.
    fn page(&self, offset: u64, flush: &[Action]) -> Result<Inside, Fault> {
        self.chain(offset, PAGE)?;
        let work = Work { operations: HOPS[1] as f64, window: PAGE, ..Work::default() };
        let load = Inside::alone(&self.kit, CYCLES, work, |place| self.hop(0, HOPS[1], place))?;
        let flush = flush.to_vec();
        let load = load.with_prepare(move |stream| flush.iter().try_for_each(|action| action.enqueue(stream)));
        Ok(load.with_check(on(0)))
    }
}

/// Whether all launches ran where they were meant to.
fn on(multiprocessor: u32) -> impl Fn(&Last<'_>) -> Result<Check, Fault> {
    let ran = ran_on(multiprocessor);
    move |last| Ok(ran(last.told))
}

/// Whether the words left fold to what the input does.
fn folded(checker: &Checker, left: Span, input: Span) -> Result<Check, Fault> {
    Ok(Checker::same_bits("read", checker.bits(left)?, checker.bits(input)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_lie_evenly_inside_on_whole_pages() {
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
