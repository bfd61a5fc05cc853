//! topology on a GPU: atomics from every SM at lines of the last-level cache. `crate::topology` explains the figures; the
//! kernels are in `kernel.cu`.
//!
//! First, random lines of an array are sorted by their distance from one SM; the nearest and the farthest are kept, so that
//! each group of lines is on one side of the cache.

use plimsoll_core::stats::Rng;
use plimsoll_gen::kernel::chain::LINE;
use plimsoll_gpu::in_kernel::{BlockReport, ReportSlot, check_ran_on};

use super::kernels::{self, TIMES};
use crate::prelude::gpu::*;
use crate::topology::{self, Reach};

/// Bytes of the array with the lines: enough for lines in every part of the cache, few enough to fit in it.
const SPREAD: u64 = 16 << 20;
/// Lines of a group.
const LINES: u32 = 8;
/// Lines tried for each one kept.
const CANDIDATES: u32 = 2;
/// Consecutive atomics at each line.
const REPEATS: u32 = 2 * TIMES;
/// Bytes of an offset in the kernel's list.
const OFFSET: u64 = 8;
/// Bytes of a launch's report.
const REPORT: u64 = 32;

impl<G: Gpu> Run<G> for super::GpuRunner {
    const NEEDS: &'static [Need] = &[Need::Code(&kernels::SOURCE), Need::KernelClock];

    fn points(&self, device: &G::Device, request: &Request) -> usize {
        let multiprocessors = G::machine(device).map_or(0, |machine| machine.multiprocessors);
        (multiprocessors * groups(request.effort)) as usize
    }

    fn run(&self, session: &mut Session<'_, G>) -> Result<(), Fault> {
        let effort = session.request.effort;
        let bench = Bench::<G>::new(session.device, groups(effort), session.request.seed)?;
        bench.survey()?;
        let multiprocessors = bench.kit.unit.machine().multiprocessors;
        let cells =
            (0..multiprocessors).flat_map(|multiprocessor| (0..bench.groups).map(move |group| (multiprocessor, group)));
        let cells: Vec<(u32, u32)> = cells.collect();
        let sweep = Sweep { series: topology::map(), points: &cells, share: 0.9, flags: Flags::NONE };
        let coordinates = |cell: &(u32, u32)| Reach { multiprocessor: cell.0.into(), group: cell.1.into() };
        session.sweep(sweep, coordinates, |_, (multiprocessor, group)| bench.load(*multiprocessor, *group))?;
        Ok(())
    }

    fn verify(&self, device: &mut G::Device, depth: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        let bench = Bench::<G>::new(device, 1, 1)?;
        bench.survey()?;
        let all = bench.kit.unit.machine().multiprocessors;
        let wanted = if depth == Depth::Small { vec![0, all - 1] } else { (0..all).collect() };
        for multiprocessor in wanted {
            for count in [1, LINES] {
                let wrong = bench.verify(multiprocessor, count)?;
                let on = format!("multiprocessor {multiprocessor}, {count} lines");
                report(Case { kernel: kernels::reach().name, on, wrong });
            }
        }
        Ok(())
    }
}

/// Number of groups of lines.
fn groups(effort: Effort) -> u32 {
    if effort == Effort::Thorough { 8 } else { 4 }
}

/// Shared by all points: memory that holds 0, and the offsets of the lines.
struct Bench<G: Gpu> {
    kit: Kit<G>,
    kernel: KernelDesc,
    memory: G::Buffer,
    offsets: G::Buffer,
    groups: u32,
    seed: u64,
}

impl<G: Gpu> Bench<G> {
    fn new(device: &G::Device, groups: u32, seed: u64) -> Result<Self, Fault> {
        let kit = Kit::<G>::new(device, &kernels::SOURCE, &kernels::kernels(), TRUST)?;
        let memory = kit.array(SPREAD)?;
        let offsets = kit.array(OFFSET * u64::from(CANDIDATES * groups * LINES))?;
        kit.checker.fill_words(memory.whole(), 0)?;
        Ok(Self { kit, kernel: kernels::reach(), memory, offsets, groups, seed })
    }

    /// A launch on SM `wanted` over `count` lines, from line number `first` on.
    fn launch(&self, wanted: u32, (first, count): (u32, u32), place: ReportSlot) -> Result<G::Launch, Fault> {
        let lines = self.offsets.part(OFFSET * u64::from(first), OFFSET * u64::from(count))?;
        let arguments = Arguments::new().span(place.out).span(place.state).u32(place.launch as u32).u32(wanted);
        let arguments = arguments.buffer(&self.memory).span(lines).u32(count).u32(REPEATS);
        self.kit.unit.launch(&self.kernel, 1, arguments)
    }

    /// Chooses lines at random and keeps those nearest to and farthest from the first SM, in that order.
    fn survey(&self) -> Result<(), Fault> {
        let count = CANDIDATES * self.groups * LINES;
        let mut rng = Rng::new(self.seed);
        let mut lines: Vec<u64> = (0..count).map(|_| rng.below(SPREAD / LINE) * LINE).collect();
        self.upload(&lines)?;
        let mut distances: Vec<(u64, u64)> = Vec::with_capacity(lines.len());
        for (place, &line) in (0..).zip(&lines) {
            distances.push((self.run_once(0, (place, 1))?.cycles, line));
        }
        distances.sort_unstable();
        let half = lines.len() / 2 / CANDIDATES as usize;
        let kept = distances[..half].iter().chain(&distances[distances.len() - half..]);
        lines = kept.map(|(_, line)| *line).collect();
        self.upload(&lines)
    }

    fn upload(&self, lines: &[u64]) -> Result<(), Fault> {
        let bytes: Vec<u8> = lines.iter().flat_map(|line| line.to_le_bytes()).collect();
        G::upload(self.kit.stream(), self.offsets.whole(), &bytes)
    }

    /// Runs one launch and returns its report.
    fn run_once(&self, wanted: u32, lines: (u32, u32)) -> Result<BlockReport, Fault> {
        let out = self.kit.array(REPORT + 4)?;
        self.kit.checker.fill_words(out.whole(), u32::MAX)?;
        let place = ReportSlot { out: out.part(0, REPORT)?, state: out.part(REPORT, 4)?, launch: 0 };
        self.kit.run_once(&self.launch(wanted, lines, place)?)?;
        Ok(BlockReport::from_bytes(&self.kit.download(out.part(0, REPORT)?)?))
    }

    fn load(&self, multiprocessor: u32, group: u32) -> Result<InKernel<G>, Fault> {
        let work = Work { operations: f64::from(LINES * REPEATS), ..Work::default() };
        let lines = (group * LINES, LINES);
        let load = InKernel::new_one_block(&self.kit, topology::CYCLES, work, |place| {
            self.launch(multiprocessor, lines, place)
        })?;
        let ran = check_ran_on(multiprocessor);
        Ok(load.with_check(move |last| match ran(last.reports) {
            Check::Passed => Ok(check_answers(last.reports, LINES)),
            failed => Ok(failed),
        }))
    }

    /// Checks where one launch ran, what the atomics returned, and that the lines still hold 0; empty if all is right.
    fn verify(&self, multiprocessor: u32, count: u32) -> Result<String, Fault> {
        let timed = self.run_once(multiprocessor, (0, count))?;
        let checks = [check_ran_on(multiprocessor)(&[timed]), check_answers(&[timed], count)];
        if let Some(Check::Failed(wrong)) = checks.into_iter().find(|check| *check != Check::Passed) {
            return Ok(wrong);
        }
        let left = self.kit.checker.xor_words(self.memory.whole())?;
        Ok(if left == 0 { String::new() } else { format!("the lines' XOR is {left:#x}, not 0") })
    }
}

/// Checks that every atomic returned 0: the kernel adds one more than the last return value for each line.
fn check_answers(last: &[BlockReport], count: u32) -> Check {
    match last.iter().find(|report| report.count != u64::from(count)) {
        None => Check::Passed,
        Some(report) => Check::Failed(format!("atomics returned 0 at {} lines instead of {count}", report.count)),
    }
}
