//! A workload whose kernels time themselves: a sample is what the blocks of one launch counted inside, so that launching is no
//! part of it. What the kernel does, and whether it did it, is the probe's business.
//!
//! Samples are nanoseconds, because all of the engine's are: cycles over the multiprocessors' clock. That is the clock which the
//! blocks saw, where they tell nanoseconds of the device's timer beside their cycles; else it is the one that was measured when
//! the device was opened. Either is told to the engine as the point's clock, so that figures in cycles are those that were
//! counted, whatever the clock did.

use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_core::Fault;
use plimsoll_core::sample::{Batch, Check, Work, Workload};
use plimsoll_core::stats::{MAX_SAMPLES, median_sorted};

use crate::kit::Kit;
use crate::{Gpu, Memory as _, Span};

/// Launches between two waits, each with a place of its own for what it tells.
const SLOTS: usize = 16;
/// Bytes that a block tells: all of [`Told`], or its cycles alone.
const ALL: usize = 32;
const CYCLES: usize = 8;
/// Bytes behind them for the kernels' own words.
const STATE: u64 = 64;
/// Launches before the first sample, which the engine makes to warm up.
const WARM_UPS: usize = 2;
/// Until the device's timer saw this much, its steps may be a percent of it, nanoseconds.
const CERTAIN: u64 = 200_000;

/// What one block told: `Timed` of `clocks.h`, `tell` of `sync.h`, or cycles alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Of its multiprocessor; none where it did no work.
    pub cycles: u64,
    /// Of the device's timer.
    pub nanoseconds: u64,
    /// What it did, or where it ended, by the kernel's own measure.
    pub count: u64,
    /// What it found, or where it ran.
    pub found: u64,
}

impl Told {
    /// From what a block left, of which missing bytes are zeros.
    pub fn read(bytes: &[u8]) -> Self {
        let byte = |at: usize| bytes.get(at).copied().unwrap_or(0);
        let word = |place: usize| u64::from_le_bytes(std::array::from_fn(|at| byte(8 * place + at)));
        Self { cycles: word(0), nanoseconds: word(1), count: word(2), found: word(3) }
    }
}

/// Whose cycles are a launch's length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// The first block's: others help it, or there are none.
    First,
    /// The median block's: blocks that have nothing to do with each other.
    Typical,
    /// The mean of all: blocks that share what is measured, and of which all count.
    Mean,
    /// The slowest block's: blocks that share what is measured, and work until all is done.
    Slowest,
}

impl Of {
    /// Cycles of a launch; `sorted` is room to work in.
    fn length(self, told: &[Told], sorted: &mut Vec<f64>) -> f64 {
        let cycles = told.iter().map(|told| told.cycles as f64);
        match self {
            Self::First => cycles.take(1).sum(),
            Self::Mean => cycles.sum::<f64>() / told.len().max(1) as f64,
            Self::Slowest => cycles.fold(0.0, f64::max),
            Self::Typical if told.is_empty() => 0.0,
            Self::Typical => {
                sorted.clear();
                sorted.extend(cycles);
                sorted.sort_by(f64::total_cmp);
                median_sorted(sorted)
            }
        }
    }
}

/// Where a launch tells, and what tells it from the one before.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The blocks' reports.
    pub out: Span,
    /// Words of the kernels' own: a ticket that holds the iteration of the launch before, or zeros.
    pub state: Span,
    /// Of this launch.
    pub iteration: u64,
}

/// What a check is made from.
pub struct Last<'a, G: Gpu> {
    /// What the blocks of the latest launches told, launch by launch.
    pub told: &'a [Told],
    /// Launches so far.
    pub iterations: u64,
    /// Where they were launched; all are done.
    pub stream: &'a Arc<G::Stream>,
}

/// The multiprocessors' clock.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// Cycles and nanoseconds of all launches.
    cycles: u64,
    nanoseconds: u64,
    /// Hertz when the device was opened.
    before: Option<f64>,
}

impl Seen {
    fn add(&mut self, told: &Told) {
        if told.nanoseconds > 0 {
            self.cycles = self.cycles.saturating_add(told.cycles);
            self.nanoseconds = self.nanoseconds.saturating_add(told.nanoseconds);
        }
    }

    /// The launches' own once enough of it was seen.
    fn hertz(&self) -> Option<f64> {
        let own = (self.nanoseconds > 0).then(|| self.cycles as f64 / self.nanoseconds as f64 * 1e9);
        if self.nanoseconds >= CERTAIN { own } else { self.before.or(own) }
    }

    /// Nanoseconds of so many cycles, at least one.
    fn time(&self, cycles: f64) -> Result<u64, Fault> {
        // Nothing counted is a length that no estimate divides by; the check tells of it.
        if cycles <= 0.0 {
            return Ok(1);
        }
        let unknown = || Fault::Unavailable {
            what: "the multiprocessors' clock",
            why: "the device's timer stood still while it was measured".to_owned(),
            hint: "Update the device's driver, or reset the device: without the clock, cycles are no time".to_owned(),
        };
        let hertz = self.hertz().ok_or_else(unknown)?;
        Ok(((cycles / hertz * 1e9).round() as u64).max(1))
    }
}

type Make<G> = Box<dyn Fn(u64) -> Result<<G as Gpu>::Launch, Fault>>;
type Prepare<G> = Box<dyn FnMut(&Arc<<G as Gpu>::Stream>) -> Result<(), Fault>>;
type Verify<G> = Box<dyn FnMut(&Last<'_, G>) -> Result<Check, Fault>>;
type Extra = Box<dyn Fn(&mut BTreeMap<String, f64>)>;
type Figure = (&'static str, Box<dyn Fn(&[Told]) -> f64>, Vec<f64>);

/// Launches made beforehand, each with a slot of its own, or one made anew for every iteration.
enum Launches<G: Gpu> {
    Ready(Vec<G::Launch>),
    Anew(Make<G>),
}

/// Where all launches of a workload tell.
struct Room<G: Gpu> {
    buffer: G::Buffer,
    blocks: usize,
    /// Bytes of a block's report.
    report: usize,
    slots: usize,
    /// Bytes that are zero before the launches of a slice.
    cleared: u64,
}

impl<G: Gpu> Room<G> {
    fn new(kit: &Kit<G>, blocks: u32, report: usize, slots: usize) -> Result<Self, Fault> {
        let blocks = blocks.max(1) as usize;
        let reports = (slots * blocks * report) as u64;
        Ok(Self { buffer: kit.array(reports + STATE)?, blocks, report, slots, cleared: reports })
    }

    fn place(&self, iteration: u64) -> Result<Place, Fault> {
        let each = (self.blocks * self.report) as u64;
        let out = self.buffer.part(iteration % self.slots as u64 * each, each)?;
        Ok(Place { out, state: self.buffer.part(each * self.slots as u64, STATE)?, iteration })
    }
}

/// The workload.
pub struct Inside<G: Gpu> {
    stream: Arc<G::Stream>,
    launches: Launches<G>,
    room: Room<G>,
    of: Of,
    work: Work,
    clock: Seen,
    bytes: Vec<u8>,
    last: Vec<Told>,
    sorted: Vec<f64>,
    iteration: u64,
    sampled: usize,
    figures: Vec<Figure>,
    extra: Option<Extra>,
    prepare: Option<Prepare<G>>,
    check: Option<Verify<G>>,
}

impl<G: Gpu> Inside<G> {
    fn new(kit: &Kit<G>, room: Room<G>, of: Of, work: Work, launches: Launches<G>) -> Self {
        let reports = room.slots * room.blocks;
        Self {
            stream: Arc::clone(kit.stream()),
            launches,
            of,
            work: Work { in_kernel: true, ..work },
            clock: Seen { cycles: 0, nanoseconds: 0, before: kit.clock_hz() },
            bytes: vec![0; reports * room.report],
            last: Vec::with_capacity(reports),
            sorted: Vec::with_capacity(room.blocks),
            room,
            iteration: 0,
            sampled: 0,
            figures: Vec::new(),
            extra: None,
            prepare: None,
            check: None,
        }
    }

    /// Launches of which one block works, the first on a wanted multiprocessor, and tells all: the place's state is its ticket.
    /// `metric` is the cycles per operation.
    ///
    /// # Errors
    /// Those of the allocation; the maker's.
    pub fn alone(
        kit: &Kit<G>,
        metric: &'static str,
        work: Work,
        launch: impl Fn(Place) -> Result<G::Launch, Fault>,
    ) -> Result<Self, Fault> {
        let room = Room::new(kit, 1, ALL, SLOTS)?;
        kit.checker.words(room.buffer.whole(), u32::MAX)?;
        let launches =
            (0..SLOTS as u64).map(|iteration| launch(room.place(iteration)?)).collect::<Result<Vec<_>, Fault>>()?;
        let inside = Self::new(kit, room, Of::First, work, Launches::Ready(launches));
        if work.operations <= 0.0 {
            return Ok(inside);
        }
        Ok(inside.with_figure(metric, move |told| Of::First.length(told, &mut Vec::new()) / work.operations))
    }

    /// Launches of so many blocks, each of which leaves 8 bytes in the span, its cycles. `work` is that of the blocks whose
    /// cycles count.
    ///
    /// # Errors
    /// Those of the allocation; the maker's.
    pub fn counted(
        kit: &Kit<G>,
        (blocks, of): (u32, Of),
        work: Work,
        launch: impl Fn(Span) -> Result<G::Launch, Fault>,
    ) -> Result<Self, Fault> {
        let room = Room::new(kit, blocks, CYCLES, SLOTS)?;
        let launches =
            (0..SLOTS as u64).map(|iteration| launch(room.place(iteration)?.out)).collect::<Result<Vec<_>, Fault>>()?;
        Ok(Self::new(kit, room, of, work, Launches::Ready(launches)))
    }

    /// Launches of so many blocks, each of which tells all, made anew for every iteration: the place's state is zero before each.
    ///
    /// # Errors
    /// Those of the allocation.
    pub fn telling(
        kit: &Kit<G>,
        (blocks, of): (u32, Of),
        work: Work,
        make: impl Fn(Place) -> Result<G::Launch, Fault> + 'static,
    ) -> Result<Self, Fault> {
        let mut room = Room::new(kit, blocks, ALL, 1)?;
        room.cleared += STATE;
        let place = room.place(0)?;
        let make = move |iteration| make(Place { iteration, ..place });
        Ok(Self::new(kit, room, of, work, Launches::Anew(Box::new(make))))
    }

    /// A metric of the point beside its time: the median over the launches, of what their blocks told.
    #[must_use]
    pub fn with_figure(mut self, metric: &'static str, of: impl Fn(&[Told]) -> f64 + 'static) -> Self {
        self.figures.push((metric, Box::new(of), Vec::with_capacity(MAX_SAMPLES)));
        self
    }

    /// Figures that belong to the point beside its time, some of which may follow from what was counted of it: that is given.
    #[must_use]
    pub fn with_extra(mut self, extra: impl Fn(&mut BTreeMap<String, f64>) + 'static) -> Self {
        self.extra = Some(Box::new(extra));
        self
    }

    /// Runs before every slice of samples, untimed.
    #[must_use]
    pub fn with_prepare(mut self, prepare: impl FnMut(&Arc<G::Stream>) -> Result<(), Fault> + 'static) -> Self {
        self.prepare = Some(Box::new(prepare));
        self
    }

    /// Runs after the last sample: did the kernels do what they claim?
    #[must_use]
    pub fn with_check(mut self, check: impl FnMut(&Last<'_, G>) -> Result<Check, Fault> + 'static) -> Self {
        self.check = Some(Box::new(check));
        self
    }

    /// One launch, waited for; what its blocks told.
    ///
    /// # Errors
    /// The driver's; those of making the launch.
    pub fn tell(&mut self) -> Result<&[Told], Fault> {
        G::bind(&self.stream)?;
        self.slice(1)?;
        Ok(&self.last)
    }

    /// Cycles of one launch, waited for.
    ///
    /// # Errors
    /// Those of [`Inside::tell`].
    pub fn cycles(&mut self) -> Result<f64, Fault> {
        self.tell()?;
        Ok(self.of.length(&self.last, &mut self.sorted))
    }

    fn clear(&self) -> Result<(), Fault> {
        G::fill(&self.stream, self.room.buffer.part(0, self.room.cleared)?, 0)
    }

    fn launch(&mut self) -> Result<(), Fault> {
        match &self.launches {
            Launches::Ready(launches) => G::launch(&self.stream, &launches[self.iteration as usize % launches.len()])?,
            Launches::Anew(make) => G::launch(&self.stream, &make(self.iteration)?)?,
        }
        self.iteration += 1;
        Ok(())
    }

    /// Queues so many launches, waits once, and reads what they told.
    fn slice(&mut self, launches: usize) -> Result<(), Fault> {
        self.clear()?;
        let first = self.iteration as usize;
        (0..launches).try_for_each(|_| self.launch())?;
        G::wait(&self.stream)?;
        G::download(&self.stream, self.room.buffer.whole(), &mut self.bytes)?;
        self.last.clear();
        let each = self.room.blocks * self.room.report;
        for iteration in first..first + launches {
            let begin = iteration % self.room.slots * each;
            let reports = self.bytes[begin..begin + each].chunks_exact(self.room.report);
            self.last.extend(reports.map(Told::read));
        }
        self.last.iter().for_each(|told| self.clock.add(told));
        Ok(())
    }

    /// A sample of each launch of the last slice.
    fn read(&mut self, out: &mut [u64]) -> Result<(), Fault> {
        for (sample, told) in out.iter_mut().zip(self.last.chunks_exact(self.room.blocks)) {
            *sample = self.clock.time(self.of.length(told, &mut self.sorted))?;
            self.sampled += 1;
            let counts = self.sampled > WARM_UPS;
            for (_, of, values) in self.figures.iter_mut().filter(|_| counts) {
                if values.len() < values.capacity() {
                    values.push(of(told));
                }
            }
        }
        Ok(())
    }
}

impl<G: Gpu> Workload for Inside<G> {
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
        for out in out.chunks_mut(self.room.slots) {
            self.slice(out.len())?;
            self.read(out)?;
        }
        Ok(())
    }

    fn check(&mut self) -> Result<Check, Fault> {
        G::wait(&self.stream)?;
        let (of, sorted) = (self.of, &mut self.sorted);
        if self.last.chunks_exact(self.room.blocks).any(|told| of.length(told, sorted) <= 0.0) {
            return Ok(Check::Failed("a launch counted no cycles: no block worked".to_owned()));
        }
        let last = Last { told: &self.last, iterations: self.iteration, stream: &self.stream };
        self.check.as_mut().map_or(Ok(Check::Passed), |check| check(&last))
    }

    fn clock_hz(&self) -> Option<f64> {
        self.clock.hertz()
    }

    fn ready(&mut self) -> Result<u32, Fault> {
        G::bind(&self.stream)?;
        self.clear()?;
        self.launch()?;
        self.clear()?;
        G::wait(&self.stream)?;
        Ok(1)
    }

    fn once(&mut self) -> Result<(), Fault> {
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

/// Whether all launches ran where they were meant to.
pub fn ran_on(wanted: u32) -> impl Fn(&[Told]) -> Check {
    move |told| {
        let other = told.iter().find(|told| told.found != u64::from(wanted));
        other.map_or(Check::Passed, |told| {
            Check::Failed(format!("a launch for multiprocessor {wanted} ran on {}", told.found))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launch_is_as_long_as_the_blocks_that_count() {
        let told = [10, 60, 20].map(|cycles| Told { cycles, ..Told::default() });
        let length = |of: Of, told: &[Told]| of.length(told, &mut Vec::new());
        let all = [Of::First, Of::Typical, Of::Mean, Of::Slowest];
        assert_eq!(all.map(|of| length(of, &told)), [10.0, 20.0, 30.0, 60.0]);
        assert_eq!(all.map(|of| length(of, &[])), [0.0; 4]);
    }

    #[test]
    fn time_is_by_the_launches_own_clock_once_they_saw_enough_of_it_and_never_by_a_guess() {
        let told = |cycles, nanoseconds| Told { cycles, nanoseconds, ..Told::default() };
        let mut clock = Seen { cycles: 0, nanoseconds: 0, before: Some(2e9) };
        assert_eq!(clock.time(4000.0).unwrap(), 2000);
        clock.add(&told(1_000, 1_000));
        assert_eq!(clock.time(4000.0).unwrap(), 2000);
        clock.add(&told(299_000, 299_000));
        assert_eq!(clock.time(4000.0).unwrap(), 4000);
        // Blocks that tell cycles alone say nothing of the clock.
        clock.add(&told(1 << 40, 0));
        assert_eq!(clock.time(4000.0).unwrap(), 4000);

        let mut unknown = Seen { cycles: 0, nanoseconds: 0, before: None };
        assert_eq!(unknown.time(0.0).unwrap(), 1);
        assert!(matches!(unknown.time(4000.0), Err(Fault::Unavailable { .. })));
        unknown.add(&told(1_000, 500));
        assert_eq!(unknown.time(4000.0).unwrap(), 2000);
    }

    #[test]
    fn what_a_block_left_unwritten_reads_as_nothing() {
        assert_eq!(Told::read(&7_u64.to_le_bytes()), Told { cycles: 7, ..Told::default() });
    }
}
