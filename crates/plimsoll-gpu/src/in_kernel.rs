//! In-kernel timing: a workload whose kernels time themselves. A sample is the cycles that the blocks of one launch counted, so
//! it excludes the cost of launching. The probe decides what the kernel does and checks that it did it.
//!
//! The engine takes samples in nanoseconds, so cycles are divided by the clock of the streaming multiprocessors. Where blocks
//! report nanoseconds of the device's timer next to their cycles, that clock is computed from both; otherwise it is the clock
//! measured when the device was opened. The engine gets the same clock as the point's clock, so figures in cycles are exactly
//! those that the blocks counted, whatever the clock did.

use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_core::Fault;
use plimsoll_core::sample::{Batch, Check, Work, Workload};
use plimsoll_core::stats::{MAX_SAMPLES, median_sorted};

use crate::kit::Kit;
use crate::{Gpu, Memory as _, Span};

/// Launches between two waits, each with its own slot for its reports.
const SLOTS: usize = 16;
/// Bytes of a full [`BlockReport`].
const FULL_REPORT: usize = 32;
/// Bytes of a report of cycles only.
const CYCLES_ONLY: usize = 8;
/// Bytes after the reports for the kernels' own state.
const STATE: u64 = 64;
/// Launches before the first sample, which the engine makes to warm up.
const WARM_UPS: usize = 2;
/// Nanoseconds that the timer must have covered before its clock is trusted: below this, one timer step may be 1 % of the total.
const CERTAIN: u64 = 200_000;

/// What one block reported: `Timed` of `clocks.h`, `tell` of `sync.h`, or cycles only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockReport {
    /// Cycles of its streaming multiprocessor; 0 if it did no work.
    pub cycles: u64,
    /// Nanoseconds of the device's timer.
    pub nanoseconds: u64,
    /// How much it did, or where it ended, in the kernel's own unit.
    pub count: u64,
    /// What it found, or on which multiprocessor it ran.
    pub found: u64,
}

impl BlockReport {
    /// Decodes a report; bytes missing at the end count as zeros.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let byte = |index: usize| bytes.get(index).copied().unwrap_or(0);
        let word = |index: usize| u64::from_le_bytes(std::array::from_fn(|offset| byte(8 * index + offset)));
        Self { cycles: word(0), nanoseconds: word(1), count: word(2), found: word(3) }
    }
}

/// Which block's cycles count as the length of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaunchCycles {
    /// The first block's, where it is the only one or the others only help it.
    First,
    /// The median block's, where blocks are independent of each other.
    Median,
    /// The mean of all blocks, where they share the measured resource and all of them count.
    Mean,
    /// The slowest block's, where blocks share the measured resource and the launch lasts until all are done.
    Slowest,
}

impl LaunchCycles {
    /// Cycles of a launch. `sorted` is scratch space.
    fn compute(self, reports: &[BlockReport], sorted: &mut Vec<f64>) -> f64 {
        let cycles = reports.iter().map(|report| report.cycles as f64);
        match self {
            Self::First => cycles.take(1).sum(),
            Self::Mean => cycles.sum::<f64>() / reports.len().max(1) as f64,
            Self::Slowest => cycles.fold(0.0, f64::max),
            Self::Median if reports.is_empty() => 0.0,
            Self::Median => {
                sorted.clear();
                sorted.extend(cycles);
                sorted.sort_by(f64::total_cmp);
                median_sorted(sorted)
            }
        }
    }
}

/// Where a launch writes its reports, and how it differs from the launch before.
#[derive(Clone, Copy, Debug)]
pub struct ReportSlot {
    /// The blocks' reports.
    pub out: Span,
    /// The kernel's own words: a ticket that holds the number of the launch before, or zeros.
    pub state: Span,
    /// Number of this launch.
    pub launch: u64,
}

/// What a check looks at after the last sample.
pub struct LastLaunches<'a, G: Gpu> {
    /// The blocks' reports of the latest launches, launch by launch.
    pub reports: &'a [BlockReport],
    /// Launches so far.
    pub launches: u64,
    /// The stream they ran on; all have ended.
    pub stream: &'a Arc<G::Stream>,
}

/// The clock of the streaming multiprocessors.
#[derive(Clone, Copy, Debug)]
struct ObservedClock {
    /// Cycles and nanoseconds of all launches.
    cycles: u64,
    nanoseconds: u64,
    /// Hertz when the device was opened.
    before: Option<f64>,
}

impl ObservedClock {
    fn add(&mut self, report: &BlockReport) {
        if report.nanoseconds > 0 {
            self.cycles = self.cycles.saturating_add(report.cycles);
            self.nanoseconds = self.nanoseconds.saturating_add(report.nanoseconds);
        }
    }

    /// The clock that the launches reported, once they covered enough time; before that, the one from when the device was opened.
    fn hertz(&self) -> Option<f64> {
        let own = (self.nanoseconds > 0).then(|| self.cycles as f64 / self.nanoseconds as f64 * 1e9);
        if self.nanoseconds >= CERTAIN { own } else { self.before.or(own) }
    }

    /// Converts cycles to nanoseconds, at least 1.
    fn to_nanoseconds(self, cycles: f64) -> Result<u64, Fault> {
        // A launch that counted nothing gets a length of 1, so that no estimate divides by 0; the check reports it.
        if cycles <= 0.0 {
            return Ok(1);
        }
        let unknown = || Fault::Unavailable {
            what: "the multiprocessors' clock",
            why: "the device's timer stood still while it was measured".to_owned(),
            hint:
                "Update the device's driver, or reset the device: cycles can't be converted to time without the clock"
                    .to_owned(),
        };
        let hertz = self.hertz().ok_or_else(unknown)?;
        Ok(((cycles / hertz * 1e9).round() as u64).max(1))
    }
}

type MakeLaunch<G> = Box<dyn Fn(u64) -> Result<<G as Gpu>::Launch, Fault>>;
type Prepare<G> = Box<dyn FnMut(&Arc<<G as Gpu>::Stream>) -> Result<(), Fault>>;
type CheckLaunches<G> = Box<dyn FnMut(&LastLaunches<'_, G>) -> Result<Check, Fault>>;
type Extra = Box<dyn Fn(&mut BTreeMap<String, f64>)>;
type Figure = (&'static str, Box<dyn Fn(&[BlockReport]) -> f64>, Vec<f64>);

/// Launches prepared in advance, one per slot, or a function that makes one for every launch number.
enum Launches<G: Gpu> {
    Prepared(Vec<G::Launch>),
    MadeEachTime(MakeLaunch<G>),
}

/// Device memory for the reports of all launches of a workload.
struct Reports<G: Gpu> {
    buffer: G::Buffer,
    blocks: usize,
    /// Bytes of a block's report.
    report_bytes: usize,
    slots: usize,
    /// Bytes that are set to zero before the launches of a slice.
    cleared: u64,
}

impl<G: Gpu> Reports<G> {
    fn new(kit: &Kit<G>, blocks: u32, report_bytes: usize, slots: usize) -> Result<Self, Fault> {
        let blocks = blocks.max(1) as usize;
        let bytes = (slots * blocks * report_bytes) as u64;
        Ok(Self { buffer: kit.array(bytes + STATE)?, blocks, report_bytes, slots, cleared: bytes })
    }

    fn slot(&self, launch: u64) -> Result<ReportSlot, Fault> {
        let each = (self.blocks * self.report_bytes) as u64;
        let out = self.buffer.part(launch % self.slots as u64 * each, each)?;
        Ok(ReportSlot { out, state: self.buffer.part(each * self.slots as u64, STATE)?, launch })
    }
}

/// A workload that is timed by its own kernels.
pub struct InKernel<G: Gpu> {
    stream: Arc<G::Stream>,
    launches: Launches<G>,
    reports: Reports<G>,
    length: LaunchCycles,
    work: Work,
    clock: ObservedClock,
    bytes: Vec<u8>,
    last: Vec<BlockReport>,
    sorted: Vec<f64>,
    launched: u64,
    sampled: usize,
    figures: Vec<Figure>,
    extra: Option<Extra>,
    prepare: Option<Prepare<G>>,
    check: Option<CheckLaunches<G>>,
}

impl<G: Gpu> InKernel<G> {
    fn new(kit: &Kit<G>, reports: Reports<G>, length: LaunchCycles, work: Work, launches: Launches<G>) -> Self {
        let most_reports = reports.slots * reports.blocks;
        Self {
            stream: Arc::clone(kit.stream()),
            launches,
            length,
            work: Work { in_kernel: true, ..work },
            clock: ObservedClock { cycles: 0, nanoseconds: 0, before: kit.clock_hz() },
            bytes: vec![0; most_reports * reports.report_bytes],
            last: Vec::with_capacity(most_reports),
            sorted: Vec::with_capacity(reports.blocks),
            reports,
            launched: 0,
            sampled: 0,
            figures: Vec::new(),
            extra: None,
            prepare: None,
            check: None,
        }
    }

    /// Times launches in which one block works, the first that arrives on the wanted multiprocessor, and writes a full report.
    /// The slot's state is its ticket. `metric` names the figure for cycles per operation.
    ///
    /// # Errors
    /// Those of the allocation and of `launch`.
    pub fn new_one_block(
        kit: &Kit<G>,
        metric: &'static str,
        work: Work,
        launch: impl Fn(ReportSlot) -> Result<G::Launch, Fault>,
    ) -> Result<Self, Fault> {
        let reports = Reports::new(kit, 1, FULL_REPORT, SLOTS)?;
        kit.checker.fill_words(reports.buffer.whole(), u32::MAX)?;
        let launches =
            (0..SLOTS as u64).map(|number| launch(reports.slot(number)?)).collect::<Result<Vec<_>, Fault>>()?;
        let workload = Self::new(kit, reports, LaunchCycles::First, work, Launches::Prepared(launches));
        if work.operations <= 0.0 {
            return Ok(workload);
        }
        let figure =
            move |reports: &[BlockReport]| LaunchCycles::First.compute(reports, &mut Vec::new()) / work.operations;
        Ok(workload.with_figure(metric, figure))
    }

    /// Times launches of `blocks` blocks, each of which writes only its cycles, 8 bytes, to the span. `work` is the work of the
    /// blocks whose cycles count.
    ///
    /// # Errors
    /// Those of the allocation and of `launch`.
    pub fn new_cycles_only(
        kit: &Kit<G>,
        (blocks, length): (u32, LaunchCycles),
        work: Work,
        launch: impl Fn(Span) -> Result<G::Launch, Fault>,
    ) -> Result<Self, Fault> {
        let reports = Reports::new(kit, blocks, CYCLES_ONLY, SLOTS)?;
        let launches =
            (0..SLOTS as u64).map(|number| launch(reports.slot(number)?.out)).collect::<Result<Vec<_>, Fault>>()?;
        Ok(Self::new(kit, reports, length, work, Launches::Prepared(launches)))
    }

    /// Times launches of `blocks` blocks, each of which writes a full report. `make` builds every launch anew; the slot's state is
    /// zero before each.
    ///
    /// # Errors
    /// Those of the allocation.
    pub fn new_full_reports(
        kit: &Kit<G>,
        (blocks, length): (u32, LaunchCycles),
        work: Work,
        make: impl Fn(ReportSlot) -> Result<G::Launch, Fault> + 'static,
    ) -> Result<Self, Fault> {
        let mut reports = Reports::new(kit, blocks, FULL_REPORT, 1)?;
        reports.cleared += STATE;
        let slot = reports.slot(0)?;
        let make = move |launch| make(ReportSlot { launch, ..slot });
        Ok(Self::new(kit, reports, length, work, Launches::MadeEachTime(Box::new(make))))
    }

    /// Adds a metric to the point's time: the median over the launches of `figure`, which is given the reports of one launch.
    #[must_use]
    pub fn with_figure(mut self, metric: &'static str, figure: impl Fn(&[BlockReport]) -> f64 + 'static) -> Self {
        self.figures.push((metric, Box::new(figure), Vec::with_capacity(MAX_SAMPLES)));
        self
    }

    /// Adds figures to the point. `extra` is given those collected so far, from which it may derive others.
    #[must_use]
    pub fn with_extra(mut self, extra: impl Fn(&mut BTreeMap<String, f64>) + 'static) -> Self {
        self.extra = Some(Box::new(extra));
        self
    }

    /// Runs `prepare` before every slice of samples, untimed.
    #[must_use]
    pub fn with_prepare(mut self, prepare: impl FnMut(&Arc<G::Stream>) -> Result<(), Fault> + 'static) -> Self {
        self.prepare = Some(Box::new(prepare));
        self
    }

    /// Runs `check` after the last sample, to see whether the kernels did what they claim.
    #[must_use]
    pub fn with_check(mut self, check: impl FnMut(&LastLaunches<'_, G>) -> Result<Check, Fault> + 'static) -> Self {
        self.check = Some(Box::new(check));
        self
    }

    /// Launches once, waits, and returns the blocks' reports.
    ///
    /// # Errors
    /// Those of making the launch.
    pub fn run_once(&mut self) -> Result<&[BlockReport], Fault> {
        G::bind(&self.stream)?;
        self.slice(1)?;
        Ok(&self.last)
    }

    /// Launches once, waits, and returns the cycles of the launch.
    ///
    /// # Errors
    /// Those of [`InKernel::run_once`].
    pub fn measure_cycles(&mut self) -> Result<f64, Fault> {
        self.run_once()?;
        Ok(self.length.compute(&self.last, &mut self.sorted))
    }

    fn clear(&self) -> Result<(), Fault> {
        G::fill(&self.stream, self.reports.buffer.part(0, self.reports.cleared)?, 0)
    }

    fn launch(&mut self) -> Result<(), Fault> {
        match &self.launches {
            Launches::Prepared(launches) => {
                G::launch(&self.stream, &launches[self.launched as usize % launches.len()])?;
            }
            Launches::MadeEachTime(make) => G::launch(&self.stream, &make(self.launched)?)?,
        }
        self.launched += 1;
        Ok(())
    }

    /// Queues `launches` launches, waits once, and reads their reports.
    fn slice(&mut self, launches: usize) -> Result<(), Fault> {
        self.clear()?;
        let first = self.launched as usize;
        (0..launches).try_for_each(|_| self.launch())?;
        G::wait(&self.stream)?;
        G::download(&self.stream, self.reports.buffer.whole(), &mut self.bytes)?;
        self.last.clear();
        let each = self.reports.blocks * self.reports.report_bytes;
        for number in first..first + launches {
            let begin = number % self.reports.slots * each;
            let reports = self.bytes[begin..begin + each].chunks_exact(self.reports.report_bytes);
            self.last.extend(reports.map(BlockReport::from_bytes));
        }
        self.last.iter().for_each(|report| self.clock.add(report));
        Ok(())
    }

    /// Converts the reports of the last slice to samples, one per launch.
    fn read_samples(&mut self, out: &mut [u64]) -> Result<(), Fault> {
        for (sample, reports) in out.iter_mut().zip(self.last.chunks_exact(self.reports.blocks)) {
            *sample = self.clock.to_nanoseconds(self.length.compute(reports, &mut self.sorted))?;
            self.sampled += 1;
            let counts = self.sampled > WARM_UPS;
            for (_, figure, values) in self.figures.iter_mut().filter(|_| counts) {
                if values.len() < values.capacity() {
                    values.push(figure(reports));
                }
            }
        }
        Ok(())
    }
}

impl<G: Gpu> Workload for InKernel<G> {
    fn work(&self) -> Work {
        self.work
    }

    fn batch(&self) -> Batch {
        Batch { cycle: 1, max: 1 }
    }

    fn prepare(&mut self, _: u32) -> Result<(), Fault> {
        G::bind(&self.stream)?;
        self.prepare.as_mut().map_or(Ok(()), |prepare| prepare(&self.stream))
    }

    fn sample(&mut self, _: u32, out: &mut [u64]) -> Result<(), Fault> {
        G::bind(&self.stream)?;
        for out in out.chunks_mut(self.reports.slots) {
            self.slice(out.len())?;
            self.read_samples(out)?;
        }
        Ok(())
    }

    fn check(&mut self) -> Result<Check, Fault> {
        G::wait(&self.stream)?;
        let (length, sorted) = (self.length, &mut self.sorted);
        if self.last.chunks_exact(self.reports.blocks).any(|reports| length.compute(reports, sorted) <= 0.0) {
            return Ok(Check::Failed("a launch counted no cycles: no block worked".to_owned()));
        }
        let last = LastLaunches { reports: &self.last, launches: self.launched, stream: &self.stream };
        self.check.as_mut().map_or(Ok(Check::Passed), |check| check(&last))
    }

    fn clock_hz(&self) -> Option<f64> {
        self.clock.hertz()
    }

    fn prepare_count(&mut self) -> Result<u32, Fault> {
        G::bind(&self.stream)?;
        self.clear()?;
        self.launch()?;
        self.clear()?;
        G::wait(&self.stream)?;
        Ok(1)
    }

    fn launch_once(&mut self) -> Result<(), Fault> {
        self.launch()?;
        G::wait(&self.stream)
    }

    fn extra(&self, out: &mut BTreeMap<String, f64>) {
        for (metric, _, values) in self.figures.iter().filter(|(_, _, values)| !values.is_empty()) {
            let mut sorted = values.clone();
            sorted.sort_by(f64::total_cmp);
            out.insert((*metric).to_owned(), median_sorted(&sorted));
        }
        if let Some(extra) = &self.extra {
            extra(out);
        }
    }
}

/// A check that all launches ran on the wanted multiprocessor.
pub fn check_ran_on(wanted: u32) -> impl Fn(&[BlockReport]) -> Check {
    move |reports| {
        let other = reports.iter().find(|report| report.found != u64::from(wanted));
        other.map_or(Check::Passed, |report| {
            Check::Failed(format!("a launch for multiprocessor {wanted} ran on {}", report.found))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launch_length_follows_the_blocks_that_count() {
        let reports = [10, 60, 20].map(|cycles| BlockReport { cycles, ..BlockReport::default() });
        let cycles = |length: LaunchCycles, reports: &[BlockReport]| length.compute(reports, &mut Vec::new());
        let all = [LaunchCycles::First, LaunchCycles::Median, LaunchCycles::Mean, LaunchCycles::Slowest];
        assert_eq!(all.map(|length| cycles(length, &reports)), [10.0, 20.0, 30.0, 60.0]);
        assert_eq!(all.map(|length| cycles(length, &[])), [0.0; 4]);
    }

    #[test]
    fn time_uses_the_reported_clock_once_it_covered_enough_time_and_never_a_guess() {
        let report = |cycles, nanoseconds| BlockReport { cycles, nanoseconds, ..BlockReport::default() };
        let mut clock = ObservedClock { cycles: 0, nanoseconds: 0, before: Some(2e9) };
        assert_eq!(clock.to_nanoseconds(4000.0).unwrap(), 2000);
        clock.add(&report(1_000, 1_000));
        assert_eq!(clock.to_nanoseconds(4000.0).unwrap(), 2000);
        clock.add(&report(299_000, 299_000));
        assert_eq!(clock.to_nanoseconds(4000.0).unwrap(), 4000);
        // Blocks that report cycles only say nothing about the clock.
        clock.add(&report(1 << 40, 0));
        assert_eq!(clock.to_nanoseconds(4000.0).unwrap(), 4000);

        let mut unknown = ObservedClock { cycles: 0, nanoseconds: 0, before: None };
        assert_eq!(unknown.to_nanoseconds(0.0).unwrap(), 1);
        assert!(matches!(unknown.to_nanoseconds(4000.0), Err(Fault::Unavailable { .. })));
        unknown.add(&report(1_000, 500));
        assert_eq!(unknown.to_nanoseconds(4000.0).unwrap(), 2000);
    }

    #[test]
    fn missing_bytes_of_a_report_read_as_zero() {
        assert_eq!(BlockReport::from_bytes(&7_u64.to_le_bytes()), BlockReport { cycles: 7, ..BlockReport::default() });
    }
}
