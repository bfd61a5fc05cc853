//! The kernel that keeps blocks busy for a given time and counts their cycles: it measures the kernels' clock, settles it, and holds the
//! device while the host queues work.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::Fault;
use plimsoll_gen::kernel::{KernelDesc, clock};
use plimsoll_gpu::{Arguments, Form, Geometry, Kernel, Memory as _};

use crate::adapter::Kind;
use crate::core::Core;
use crate::device::Vulkan;
use crate::event::Event;
use crate::function::Function;
use crate::launch::Launch;
use crate::memory::Buffer;
use crate::stream::Stream;

/// Threads of a block that keeps a multiprocessor busy.
const THREADS: u32 = 256;
/// A step of a nanosecond, as kernels take it: times 2²⁴.
const NANOSECOND: f64 = (1 << 24) as f64;
/// A clock is measured over at least this long.
const LONG_ENOUGH: u64 = 10_000_000;
/// Steps of the first try, and how much more the next ones have.
const FIRST: u64 = 1 << 10;
const TRIES: u32 = 24;
/// Two clocks that agree to this are one.
const ALIKE: f64 = 0.01;

/// The kernel and where it writes.
pub struct Spinner {
    kernel: Kernel<Vulkan>,
    out: Buffer,
    /// Blocks and their threads that keep the device busy.
    all: [u32; 2],
    /// Threads of a block that run together: a CPU runs them group by group, each for the whole time.
    together: u32,
    marks: (Event, Event),
    /// Kernels tell cycles, and nanoseconds by a timer.
    cycles: bool,
    timer: bool,
}

impl fmt::Debug for Spinner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spinner").field("all", &self.all).finish()
    }
}

/// What one launch left and how long it took by time stamps.
struct Seen {
    cycles: u64,
    nanoseconds: u64,
    by_stamps: u64,
}

impl Spinner {
    /// Measures the clock by which kernels tell time, and makes the kernel with it: from then on every kernel has it.
    ///
    /// # Errors
    /// [`Fault::Hung`]; the driver's.
    pub(crate) fn new(stream: &Stream) -> Result<Self, Fault> {
        let raw = Self::of_step(stream.core())?;
        // Some drivers compile at the first launch.
        raw.measure(stream, FIRST)?;
        let mut steps = FIRST;
        for _ in 0..TRIES {
            let seen = raw.measure(stream, steps)?;
            if seen.by_stamps >= LONG_ENOUGH && seen.nanoseconds > 0 {
                stream.core().set_step(step(seen, &raw));
                break;
            }
            // A third more than would have been enough, by what was seen; at most sixteen times as much.
            let wanted = steps.saturating_mul(4 * LONG_ENOUGH / 3) / seen.by_stamps.max(1);
            steps = wanted.clamp(2 * steps, 16 * steps);
        }
        Self::of_step(stream.core())
    }

    /// The kernel with the step that the device has now.
    fn of_step(core: &Arc<Core>) -> Result<Self, Fault> {
        let facts = &core.physical.facts;
        let (features, together) = (facts.features, facts.subgroup.clamp(1, THREADS));
        // Any block will do.
        let stated = KernelDesc { threads_fixed: false, ..clock::spin() };
        let threads = if facts.kind == Kind::Software { together } else { THREADS };
        Ok(Self {
            kernel: crate::gpu::trusted(Function::new(core, &stated)?, &stated),
            out: Buffer::new(core, 16)?,
            all: [facts.machine().multiprocessors.max(1), threads],
            together,
            marks: (Event::new(core, true), Event::new(core, true)),
            cycles: features.cycles,
            timer: features.timer,
        })
    }

    fn prepare(&self, [blocks, threads]: [u32; 2], length: u64) -> Result<Launch, Fault> {
        let arguments = Arguments::new().buffer(&self.out).u64(length);
        self.kernel.launch(Geometry::linear(blocks, threads), Form::default(), &arguments)
    }

    /// Queues one block that holds the stream for about `length`.
    pub(crate) fn hold(&self, stream: &Stream, length: Duration) -> Result<(), Fault> {
        stream.launch(&self.prepare([1, self.together], u64::try_from(length.as_nanos()).unwrap_or(u64::MAX))?)
    }

    /// One block for so many nanoseconds of the kernel's clock.
    fn measure(&self, stream: &Stream, length: u64) -> Result<Seen, Fault> {
        self.run(stream, [1, self.together], length)
    }

    fn run(&self, stream: &Stream, blocks: [u32; 2], length: u64) -> Result<Seen, Fault> {
        let launch = self.prepare(blocks, length)?;
        self.marks.0.record(stream)?;
        stream.launch(&launch)?;
        self.marks.1.record(stream)?;
        stream.wait()?;
        let by_stamps = self.marks.1.nanoseconds_since(&self.marks.0)?;
        let mut bytes = [0_u8; 16];
        stream.download(self.out.whole(), &mut bytes)?;
        let [cycles, nanoseconds] =
            [0, 8].map(|place| u64::from_le_bytes(std::array::from_fn(|byte| bytes[place + byte])));
        Ok(Seen { cycles, nanoseconds, by_stamps })
    }

    /// The clock that kernels count while all multiprocessors work for `length`, hertz: cycles over nanoseconds of the kernel's timer, or
    /// over time stamps where it has none. `None` where kernels count no cycles.
    pub(crate) fn clock_hz(&self, stream: &Stream, length: Duration) -> Result<Option<f64>, Fault> {
        if !self.cycles {
            return Ok(None);
        }
        let seen = self.run(stream, self.all, u64::try_from(length.as_nanos()).unwrap_or(u64::MAX))?;
        let nanoseconds = if self.timer { seen.nanoseconds } else { seen.by_stamps };
        let hz = seen.cycles as f64 / nanoseconds as f64 * 1e9;
        Ok(Some(hz).filter(|hz| hz.is_finite() && *hz > 0.0))
    }
}

/// The step of the clock, from what a launch saw: exactly that of time stamps or a nanosecond where it is about that, because then it is
/// the same clock.
fn step(seen: Seen, spinner: &Spinner) -> u32 {
    let measured = seen.by_stamps as f64 / seen.nanoseconds as f64;
    let period = f64::from(spinner.kernel.function().core().physical.facts.limits.timestamp_period);
    let known = [period, 1.0].into_iter().find(|known| spinner.timer && (measured / known - 1.0).abs() < ALIKE);
    (known.unwrap_or(measured) * NANOSECOND).round().clamp(1.0, f64::from(u32::MAX)) as u32
}
