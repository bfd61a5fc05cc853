//! A workload whose kernels read their own clocks: a sample is what a kernel counted inside, so that launching is no part of
//! it. One launch is one sample. What the kernel does, and whether it did it, is the probe's business.
//!
//! Samples are nanoseconds, because all of the engine's are: the kernel's cycles over the multiprocessor's clock, which is
//! the cycles of all launches over the time that the device's own timer saw pass meanwhile. Cycles themselves are a
//! metric of their own, free of any clock.

use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_core::Fault;
use plimsoll_core::sample::{Batch, Check, Work, Workload};

use super::kit::Kit;
use crate::driver::Stream;
use crate::launch::Launch;
use crate::memory::{DeviceBuffer, Span};
use crate::wait;

/// Launches between two waits, each with a place of its own for what it counted.
const SLOTS: usize = 32;
/// Bytes of what a launch leaves: `Timed` of `clocks.h`.
const SLOT: u64 = 32;
/// Launches before the first sample, which the engine makes to warm up.
const WARM_UPS: usize = 2;
/// Until the device's timer saw this much, its steps may be a percent of it, nanoseconds.
const CERTAIN: u64 = 200_000;

type Verify = Box<dyn FnMut(&[Timed]) -> Result<Check, Fault>>;
type Prepare = Box<dyn FnMut(&Arc<Stream>) -> Result<(), Fault>>;

/// What one launch counted, as `clocks.h` has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Timed {
    /// Of its multiprocessor; none where no block worked.
    pub(super) cycles: u64,
    /// Of the device's timer.
    pub(super) nanoseconds: u64,
    /// Where it ended, by the kernel's own measure.
    pub(super) end: u64,
    /// Where it ran.
    pub(super) multiprocessor: u64,
}

impl Timed {
    /// From what a launch left, of which missing bytes are zeros.
    pub(super) fn read(bytes: &[u8]) -> Self {
        let byte = |at: usize| bytes.get(at).copied().unwrap_or(0);
        let word = |place: usize| u64::from_le_bytes(std::array::from_fn(|at| byte(8 * place + at)));
        Self { cycles: word(0), nanoseconds: word(1), end: word(2), multiprocessor: word(3) }
    }
}

/// Where a launch leaves what it counted, and what tells it from the launch before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// For `Timed`.
    pub(super) out: Span,
    /// A word that holds the turn of the launch before.
    pub(super) ticket: Span,
    /// Of this launch.
    pub(super) turn: u32,
}

/// The workload.
pub(super) struct Clocked {
    stream: Arc<Stream>,
    launches: Vec<Launch>,
    out: DeviceBuffer,
    work: Work,
    /// The metric of cycles per operation.
    metric: &'static str,
    cycles: Vec<f64>,
    last: Vec<Timed>,
    /// Place of the next launch.
    turn: usize,
    launched: usize,
    /// Cycles and nanoseconds of all launches.
    seen: (u64, u64),
    /// Hertz until enough was seen.
    calibrated: f64,
    prepare: Option<Prepare>,
    check: Option<Verify>,
}

impl Clocked {
    /// From what makes a launch that counts in a place. `work` has the operations by which `metric` divides cycles;
    /// `hertz` is the clock where the device's timer saw too little.
    ///
    /// # Errors
    /// Those of the allocation; the maker's.
    pub(super) fn new(
        kit: &Kit,
        (metric, hertz): (&'static str, Option<f64>),
        work: Work,
        launch: impl Fn(Place) -> Result<Launch, Fault>,
    ) -> Result<Self, Fault> {
        let out = kit.array(SLOT * (SLOTS as u64 + 1))?;
        kit.checker.words(out.whole(), u32::MAX)?;
        let ticket = out.part(SLOT * SLOTS as u64, 4)?;
        let place =
            |slot: usize| Ok::<_, Fault>(Place { out: out.part(SLOT * slot as u64, SLOT)?, ticket, turn: slot as u32 });
        let launches = (0..SLOTS).map(|slot| launch(place(slot)?)).collect::<Result<_, Fault>>()?;
        Ok(Self {
            stream: Arc::clone(kit.stream()),
            launches,
            out,
            work: Work { in_kernel: true, ..work },
            metric,
            cycles: Vec::with_capacity(plimsoll_core::stats::MAX_SAMPLES),
            last: Vec::with_capacity(SLOTS),
            turn: 0,
            launched: 0,
            seen: (0, 0),
            calibrated: hertz.unwrap_or(1e9),
            prepare: None,
            check: None,
        })
    }

    /// Runs before every slice of samples, untimed.
    #[must_use]
    pub(super) fn with_prepare(mut self, prepare: impl FnMut(&Arc<Stream>) -> Result<(), Fault> + 'static) -> Self {
        self.prepare = Some(Box::new(prepare));
        self
    }

    /// Runs after the last sample, with what the last launches left.
    #[must_use]
    pub(super) fn with_check(mut self, check: impl FnMut(&[Timed]) -> Result<Check, Fault> + 'static) -> Self {
        self.check = Some(Box::new(check));
        self
    }

    /// The clock by which cycles become time: its own once enough was seen.
    fn hertz(&self) -> f64 {
        let (seen, passed) = self.seen;
        if passed >= CERTAIN && seen > 0 { seen as f64 / passed as f64 * 1e9 } else { self.calibrated }
    }

    /// Nanoseconds of so many cycles.
    fn time(&self, cycles: u64) -> u64 {
        let hertz = self.hertz();
        // Nothing counted is a length that no estimate divides by; the check tells of it.
        ((cycles as f64 / hertz * 1e9).round() as u64).max(1)
    }

    /// Queues a launch for each of `out`, waits once, and reads what they counted.
    fn slice(&mut self, out: &mut [u64]) -> Result<(), Fault> {
        self.out.part(0, SLOT * SLOTS as u64)?.fill(&self.stream, 0)?;
        let first = self.turn;
        for _ in 0..out.len() {
            self.stream.launch(&self.launches[self.turn])?;
            self.turn = (self.turn + 1) % SLOTS;
        }
        wait::stream(&self.stream)?;
        let mut bytes = [0_u8; SLOT as usize * SLOTS];
        self.out.download(&self.stream, &mut bytes)?;
        self.last.clear();
        for at in 0..out.len() {
            let begin = (first + at) % SLOTS * SLOT as usize;
            let timed = Timed::read(&bytes[begin..begin + SLOT as usize]);
            self.seen.0 = self.seen.0.saturating_add(timed.cycles);
            self.seen.1 = self.seen.1.saturating_add(timed.nanoseconds);
            self.last.push(timed);
        }
        for (sample, timed) in out.iter_mut().zip(&self.last) {
            *sample = self.time(timed.cycles);
            self.launched += 1;
            if self.launched > WARM_UPS && self.cycles.len() < self.cycles.capacity() {
                self.cycles.push(timed.cycles as f64);
            }
        }
        Ok(())
    }
}

impl Workload for Clocked {
    fn work(&self) -> Work {
        self.work
    }

    fn batch(&self) -> Batch {
        Batch { cycle: 1, max: 1 }
    }

    fn prepare(&mut self, _: u32) -> Result<(), Fault> {
        self.stream.context().bind()?;
        self.prepare.as_mut().map_or(Ok(()), |prepare| prepare(&self.stream))
    }

    fn sample(&mut self, _: u32, out: &mut [u64]) -> Result<(), Fault> {
        self.stream.context().bind()?;
        out.chunks_mut(SLOTS).try_for_each(|out| self.slice(out))
    }

    fn check(&mut self) -> Result<Check, Fault> {
        if self.last.iter().any(|timed| timed.cycles == 0) {
            return Ok(Check::Failed("a launch counted no cycles: no block worked".to_owned()));
        }
        self.check.as_mut().map_or(Ok(Check::Passed), |check| check(&self.last))
    }

    fn clock_hz(&self) -> Option<f64> {
        Some(self.hertz())
    }

    fn ready(&mut self) -> Result<u32, Fault> {
        self.stream.context().bind()?;
        Workload::once(self).map(|()| 1)
    }

    fn once(&mut self) -> Result<(), Fault> {
        self.stream.launch(&self.launches[self.turn])?;
        self.turn = (self.turn + 1) % SLOTS;
        wait::stream(&self.stream)
    }

    fn extra(&self, out: &mut BTreeMap<String, f64>) {
        let mut sorted = self.cycles.clone();
        sorted.sort_by(f64::total_cmp);
        if let (Some(median), true) = (sorted.get(sorted.len() / 2), self.work.operations > 0.0) {
            out.insert(self.metric.to_owned(), median / self.work.operations);
        }
    }
}

/// Whether all launches ran where they were meant to.
pub(super) fn ran_on(wanted: u32) -> impl FnMut(&[Timed]) -> Result<Check, Fault> {
    move |last| {
        let other = last.iter().find(|timed| timed.multiprocessor != u64::from(wanted));
        Ok(other.map_or(Check::Passed, |timed| {
            Check::Failed(format!("a launch for multiprocessor {wanted} ran on {}", timed.multiprocessor))
        }))
    }
}
