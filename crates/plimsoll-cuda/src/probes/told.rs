//! A workload whose kernel times itself in every block: each tells cycles, nanoseconds and two numbers of its own (`tell`
//! of `sync.h`), and the probe says which of them count. One launch is one sample; launching is no part of it.
//! `clocked` is the same for kernels of which one block works.
//!
//! Samples are nanoseconds: cycles over the clock that all blocks of all launches saw, which is also the point's clock.

use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_core::Fault;
use plimsoll_core::sample::{Batch, Check, Work, Workload};
use plimsoll_core::stats::{MAX_SAMPLES, median_sorted};

use super::kit::Kit;
use crate::CudaDevice;
use crate::driver::{Attribute, Stream};
use crate::launch::Launch;
use crate::memory::{DeviceBuffer, Span};

/// Bytes that a block tells.
const REPORT: u64 = 32;
/// Bytes behind the blocks' for words that are zero before each launch.
const STATE: u64 = 64;

/// What one block told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    /// Of its multiprocessor.
    pub(super) cycles: u64,
    /// Of the device's timer.
    pub(super) nanoseconds: u64,
    /// What it did, by the kernel's own measure.
    pub(super) count: u64,
    /// What it found.
    pub(super) found: u64,
}

/// Where a launch tells: the blocks' reports, and words that are zero before it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    /// A report per block.
    pub(super) out: Span,
    /// Zeroed words.
    pub(super) state: Span,
}

type Make = Box<dyn Fn(u64) -> Result<Launch, Fault>>;
type Verify = Box<dyn FnMut(&[Told], u64) -> Result<Check, Fault>>;
type OfBlocks = Box<dyn Fn(&[Told]) -> f64>;

/// The workload.
pub(super) struct Telling {
    stream: Arc<Stream>,
    make: Make,
    places: DeviceBuffer,
    work: Work,
    bytes: Vec<u8>,
    told: Vec<Told>,
    turn: u64,
    /// Cycles and nanoseconds of all blocks so far.
    seen: (u64, u64),
    length: fn(&[Told]) -> f64,
    figures: Vec<(&'static str, OfBlocks, Vec<f64>)>,
    check: Option<Verify>,
}

/// Cycles of the first block: others help it.
pub(super) fn of_first(told: &[Told]) -> f64 {
    told.first().map_or(0.0, |told| told.cycles as f64)
}

/// Mean cycles of all blocks.
pub(super) fn of_all(told: &[Told]) -> f64 {
    told.iter().map(|told| told.cycles as f64).sum::<f64>() / told.len().max(1) as f64
}

impl Telling {
    /// Launches of so many blocks, made anew for every turn; `length` says how many cycles a launch took.
    ///
    /// # Errors
    /// Those of the allocation.
    pub(super) fn new(
        kit: &Kit,
        blocks: u32,
        work: Work,
        length: fn(&[Told]) -> f64,
        make: impl Fn(Places, u64) -> Result<Launch, Fault> + 'static,
    ) -> Result<Self, Fault> {
        let reports = REPORT * u64::from(blocks.max(1));
        let buffer = kit.array(reports + STATE)?;
        let places = Places { out: buffer.part(0, reports)?, state: buffer.part(reports, STATE)? };
        Ok(Self {
            stream: Arc::clone(kit.stream()),
            make: Box::new(move |turn| make(places, turn)),
            places: buffer,
            work: Work { in_kernel: true, ..work },
            bytes: vec![0; usize::try_from(reports).unwrap_or(0)],
            told: vec![Told::default(); blocks.max(1) as usize],
            turn: 0,
            seen: (0, 0),
            length,
            figures: Vec::new(),
            check: None,
        })
    }

    /// A metric of the point beside its time: the median over the launches.
    #[must_use]
    pub(super) fn with_figure(mut self, metric: &'static str, of: impl Fn(&[Told]) -> f64 + 'static) -> Self {
        self.figures.push((metric, Box::new(of), Vec::with_capacity(MAX_SAMPLES)));
        self
    }

    /// Runs after the last sample, with what the last launch told and how many launches there were.
    #[must_use]
    pub(super) fn with_check(mut self, check: impl FnMut(&[Told], u64) -> Result<Check, Fault> + 'static) -> Self {
        self.check = Some(Box::new(check));
        self
    }

    /// One launch, waited for; what its blocks told.
    ///
    /// # Errors
    /// The driver's; those of making the launch.
    pub(super) fn once(&mut self) -> Result<&[Told], Fault> {
        self.stream.context().bind()?;
        let launch = (self.make)(self.turn)?;
        self.turn += 1;
        self.places.whole().fill(&self.stream, 0)?;
        self.stream.launch(&launch)?;
        self.places.download(&self.stream, &mut self.bytes)?;
        for (told, bytes) in self.told.iter_mut().zip(self.bytes.chunks_exact(REPORT as usize)) {
            let word = |place: usize| u64::from_le_bytes(std::array::from_fn(|byte| bytes[8 * place + byte]));
            *told = Told { cycles: word(0), nanoseconds: word(1), count: word(2), found: word(3) };
            self.seen.0 = self.seen.0.saturating_add(told.cycles);
            self.seen.1 = self.seen.1.saturating_add(told.nanoseconds);
        }
        Ok(&self.told)
    }

    fn hertz(&self) -> Option<f64> {
        let (cycles, nanoseconds) = self.seen;
        (cycles > 0 && nanoseconds > 0).then(|| cycles as f64 / nanoseconds as f64 * 1e9)
    }
}

impl Workload for Telling {
    fn work(&self) -> Work {
        self.work
    }

    fn batch(&self) -> Batch {
        Batch { cycle: 1, max: 1 }
    }

    fn sample(&mut self, _: u32, out: &mut [u64]) -> Result<(), Fault> {
        for sample in out {
            self.once()?;
            let cycles = (self.length)(&self.told);
            // A kernel that counted nothing took no time; its check tells of it.
            let nanoseconds = cycles * 1e9 / self.hertz().unwrap_or(1e9);
            *sample = (nanoseconds.round() as u64).max(1);
            for (_, of, values) in &mut self.figures {
                if values.len() < values.capacity() {
                    values.push(of(&self.told));
                }
            }
        }
        Ok(())
    }

    fn check(&mut self) -> Result<Check, Fault> {
        let (told, turns) = (&self.told, self.turn);
        self.check.as_mut().map_or(Ok(Check::Passed), |check| check(told, turns))
    }

    fn ready(&mut self) -> Result<u32, Fault> {
        self.stream.context().bind()?;
        Workload::once(self).map(|()| 1)
    }

    fn once(&mut self) -> Result<(), Fault> {
        Self::once(self).map(drop)
    }

    fn extra(&self, out: &mut BTreeMap<String, f64>) {
        for (metric, _, values) in &self.figures {
            let mut sorted = values.clone();
            sorted.sort_by(f64::total_cmp);
            out.insert((*metric).to_owned(), median_sorted(&sorted));
        }
    }

    fn clock_hz(&self) -> Option<f64> {
        self.hertz()
    }
}

/// Dynamic shared memory that keeps all other blocks off a block's multiprocessor, beside `fixed` bytes that the kernel
/// has of its own; less where no block may have so much.
///
/// # Errors
/// The driver's.
pub(super) fn alone(device: &CudaDevice, fixed: u32) -> Result<u32, Fault> {
    let number = |attribute| device.context.device().attribute(attribute).map(|n| u32::try_from(n).unwrap_or(0));
    let (all, most) = (number(Attribute::SharedPerMultiprocessor)?, number(Attribute::SharedPerBlock)?);
    let wanted = (all / 2 + 1024).saturating_sub(fixed);
    Ok(wanted.min(most.saturating_sub(fixed)))
}

/// Why kernels that all blocks must be resident for, or that come in clusters, can't be launched; nothing where they can.
///
/// # Errors
/// [`Fault::Unavailable`]; the driver's.
pub(super) fn cooperative(device: &CudaDevice) -> Result<(), Fault> {
    device.kernels.compiler()?;
    device.context.driver().has("cuLaunchKernelEx")?;
    if device.context.device().attribute(Attribute::Cooperative)? == 1 {
        return Ok(());
    }
    let why = "the device has no cooperative launches".to_owned();
    Err(Fault::Unavailable { what: "cooperative launch", why, mend: "Use another device".to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_block_or_the_mean_of_all_is_what_counts() {
        let told = [10, 20, 60].map(|cycles| Told { cycles, ..Told::default() });
        assert_eq!((of_first(&told), of_all(&told)), (10.0, 30.0));
        assert_eq!((of_first(&[]), of_all(&[])), (0.0, 0.0));
    }
}
