//! A workload in which every block counts the cycles of its own multiprocessor between two barriers: a sample is what the
//! blocks of one launch counted, so that launching is no part of it. What the kernel does, and whether it did it, is the
//! probe's business; launches of one block that tell more of themselves are `clocked`'s.
//!
//! Samples are nanoseconds, because all of the engine's are: cycles over the calibrated clock, which is told to the engine as
//! the point's clock, so that figures in cycles are those that were counted.

use std::sync::Arc;

use plimsoll_core::Fault;
use plimsoll_core::sample::{Batch, Check, Work, Workload};
use plimsoll_core::stats::median_sorted;

use super::kit::Kit;
use crate::driver::Stream;
use crate::launch::Launch;
use crate::memory::{DeviceBuffer, Span};
use crate::wait;

/// Launches between two waits, each with a place of its own for what it counted.
const SLOTS: usize = 16;
/// The clock where none was calibrated, hertz: cycles stay cycles, times are wrong by as much as it is.
const USUAL_HZ: f64 = 1e9;

type Verify = Box<dyn FnMut(&Arc<Stream>) -> Result<Check, Fault>>;

/// Whose cycles count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    /// The median block's: blocks that have nothing to do with each other.
    Typical,
    /// The slowest block's: blocks that share what is measured.
    Slowest,
}

/// The workload.
pub(super) struct Counted {
    stream: Arc<Stream>,
    launches: Vec<Launch>,
    cycles: DeviceBuffer,
    blocks: usize,
    of: Of,
    hertz: f64,
    work: Work,
    bytes: Vec<u8>,
    counted: Vec<f64>,
    check: Option<Verify>,
}

impl Counted {
    /// From what makes a launch of so many blocks, each of which leaves 8 bytes in the span. `work` is that of the blocks whose
    /// cycles count, `hertz` the calibrated clock.
    ///
    /// # Errors
    /// Those of the allocation; the maker's.
    pub(super) fn new(
        kit: &Kit,
        (blocks, of): (u32, Of),
        hertz: Option<f64>,
        work: Work,
        launch: impl Fn(Span) -> Result<Launch, Fault>,
    ) -> Result<Self, Fault> {
        let slot = 8 * u64::from(blocks);
        let cycles = kit.array(slot * SLOTS as u64)?;
        let launches =
            (0..SLOTS as u64).map(|place| launch(cycles.part(place * slot, slot)?)).collect::<Result<_, Fault>>()?;
        Ok(Self {
            stream: Arc::clone(kit.stream()),
            launches,
            bytes: vec![0; cycles.bytes() as usize],
            cycles,
            blocks: blocks as usize,
            of,
            hertz: hertz.unwrap_or(USUAL_HZ),
            work: Work { in_kernel: true, ..work },
            counted: Vec::with_capacity(blocks as usize),
            check: None,
        })
    }

    /// Runs after the last sample: did the kernels do what they claim?
    #[must_use]
    pub(super) fn with_check(mut self, check: impl FnMut(&Arc<Stream>) -> Result<Check, Fault> + 'static) -> Self {
        self.check = Some(Box::new(check));
        self
    }

    /// Cycles of one launch: those of its blocks, 8 bytes each.
    fn cycles_of(&mut self, place: usize) -> f64 {
        let begin = 8 * self.blocks * place;
        let words = self.bytes[begin..begin + 8 * self.blocks].as_chunks::<8>().0;
        self.counted.clear();
        self.counted.extend(words.iter().map(|word| u64::from_le_bytes(*word) as f64));
        self.counted.sort_by(f64::total_cmp);
        match self.of {
            Of::Typical => median_sorted(&self.counted),
            Of::Slowest => self.counted.last().copied().unwrap_or(0.0),
        }
    }

    /// Queues a launch for each of `out`, waits once, and reads what they counted.
    fn slice(&mut self, out: &mut [u64]) -> Result<(), Fault> {
        for launch in &self.launches[..out.len()] {
            self.stream.launch(launch)?;
        }
        wait::stream(&self.stream)?;
        self.cycles.download(&self.stream, &mut self.bytes[..8 * self.blocks * out.len()])?;
        for (place, sample) in out.iter_mut().enumerate() {
            // Nothing counted is a length that no estimate divides by; the check tells of it.
            *sample = ((self.cycles_of(place) / self.hertz * 1e9).round() as u64).max(1);
        }
        Ok(())
    }
}

impl Workload for Counted {
    fn work(&self) -> Work {
        self.work
    }

    fn batch(&self) -> Batch {
        Batch { cycle: 1, max: 1 }
    }

    fn sample(&mut self, _: u32, out: &mut [u64]) -> Result<(), Fault> {
        self.stream.context().bind()?;
        out.chunks_mut(SLOTS).try_for_each(|out| self.slice(out))
    }

    fn check(&mut self) -> Result<Check, Fault> {
        wait::stream(&self.stream)?;
        self.check.as_mut().map_or(Ok(Check::Passed), |check| check(&self.stream))
    }

    fn ready(&mut self) -> Result<u32, Fault> {
        self.stream.context().bind()?;
        Workload::once(self).map(|()| 1)
    }

    fn once(&mut self) -> Result<(), Fault> {
        self.stream.launch(&self.launches[0])?;
        wait::stream(&self.stream)
    }

    fn clock_hz(&self) -> Option<f64> {
        Some(self.hertz)
    }
}
