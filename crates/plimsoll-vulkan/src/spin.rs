//! The blocking kernel: it keeps blocks busy for a given time and counts their cycles. It measures the kernels' clock, settles it,
//! and occupies the device while the host queues work.

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
/// A clock step of 1 ns in the unit that kernels take: times 2²⁴.
const NANOSECOND: f64 = (1 << 24) as f64;
/// Shortest measurement of a clock, nanoseconds.
const LONG_ENOUGH: u64 = 10_000_000;
/// Steps of the first try.
const FIRST: u64 = 1 << 10;
/// Most tries, each longer than the one before.
const TRIES: u32 = 24;
/// Clocks within this relative difference are taken to be the same.
const ALIKE: f64 = 0.01;

/// The blocking kernel and its output.
pub struct Spinner {
    kernel: Kernel<Vulkan>,
    out: Buffer,
    /// Blocks, and threads per block, that keep the whole device busy.
    whole_device: [u32; 2],
    /// Threads of a subgroup. A CPU runs a block's subgroups one after the other, each for the whole time.
    subgroup: u32,
    events: (Event, Event),
    /// Whether kernels can count cycles.
    cycles: bool,
    /// Whether kernels can read a timer in nanoseconds.
    timer: bool,
}

impl fmt::Debug for Spinner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spinner").field("whole_device", &self.whole_device).finish()
    }
}

/// The output of one launch, and its length by time stamps.
struct Measured {
    cycles: u64,
    nanoseconds: u64,
    by_stamps: u64,
}

impl Spinner {
    /// Measures the clock by which kernels measure time, stores its step for all kernels, and makes the blocking kernel with it.
    ///
    /// # Errors
    /// [`Fault::Hung`].
    pub(crate) fn new(stream: &Stream) -> Result<Self, Fault> {
        let raw = Self::with_current_step(stream.core())?;
        // Some drivers compile at the first launch.
        raw.measure(stream, FIRST)?;
        let mut steps = FIRST;
        for _ in 0..TRIES {
            let measured = raw.measure(stream, steps)?;
            if measured.by_stamps >= LONG_ENOUGH && measured.nanoseconds > 0 {
                stream.core().set_step(compute_step(measured, &raw));
                break;
            }
            // Next, a third more than this try shows to be enough, but at most sixteen times as many steps.
            let wanted = steps.saturating_mul(4 * LONG_ENOUGH / 3) / measured.by_stamps.max(1);
            steps = wanted.clamp(2 * steps, 16 * steps);
        }
        Self::with_current_step(stream.core())
    }

    /// Makes the kernel with the device's current clock step.
    fn with_current_step(core: &Arc<Core>) -> Result<Self, Fault> {
        let facts = &core.physical.facts;
        let (features, subgroup) = (facts.features, facts.subgroup.clamp(1, THREADS));
        // Any block size works.
        let stated = KernelDesc { threads_fixed: false, ..clock::spin() };
        let threads = if facts.kind == Kind::Software { subgroup } else { THREADS };
        Ok(Self {
            kernel: crate::gpu::trusted_kernel(Function::new(core, &stated)?, &stated),
            out: Buffer::new(core, 16)?,
            whole_device: [facts.machine().multiprocessors.max(1), threads],
            subgroup,
            events: (Event::new(core, true), Event::new(core, true)),
            cycles: features.cycles,
            timer: features.timer,
        })
    }

    fn prepare(&self, [blocks, threads]: [u32; 2], length: u64) -> Result<Launch, Fault> {
        let arguments = Arguments::new().buffer(&self.out).u64(length);
        self.kernel.launch(Geometry::linear(blocks, threads), Form::default(), &arguments)
    }

    /// Queues one block that occupies the stream for about `length`.
    pub(crate) fn block(&self, stream: &Stream, length: Duration) -> Result<(), Fault> {
        stream.launch(&self.prepare([1, self.subgroup], u64::try_from(length.as_nanos()).unwrap_or(u64::MAX))?)
    }

    /// Runs one block for `length` nanoseconds of the kernel's clock.
    fn measure(&self, stream: &Stream, length: u64) -> Result<Measured, Fault> {
        self.run(stream, [1, self.subgroup], length)
    }

    fn run(&self, stream: &Stream, blocks: [u32; 2], length: u64) -> Result<Measured, Fault> {
        let launch = self.prepare(blocks, length)?;
        self.events.0.record(stream)?;
        stream.launch(&launch)?;
        self.events.1.record(stream)?;
        stream.wait()?;
        let by_stamps = self.events.1.nanoseconds_since(&self.events.0)?;
        let mut bytes = [0_u8; 16];
        stream.download(self.out.whole(), &mut bytes)?;
        let [cycles, nanoseconds] =
            [0, 8].map(|offset| u64::from_le_bytes(std::array::from_fn(|byte| bytes[offset + byte])));
        Ok(Measured { cycles, nanoseconds, by_stamps })
    }

    /// Measures the clock that kernels count while all multiprocessors work for `length`, hertz: cycles over nanoseconds of the
    /// kernel's timer, or over time stamps if it has none. `None` if kernels can't count cycles.
    pub(crate) fn clock_hz(&self, stream: &Stream, length: Duration) -> Result<Option<f64>, Fault> {
        if !self.cycles {
            return Ok(None);
        }
        let measured = self.run(stream, self.whole_device, u64::try_from(length.as_nanos()).unwrap_or(u64::MAX))?;
        let nanoseconds = if self.timer { measured.nanoseconds } else { measured.by_stamps };
        let hz = measured.cycles as f64 / nanoseconds as f64 * 1e9;
        Ok(Some(hz).filter(|hz| hz.is_finite() && *hz > 0.0))
    }
}

/// Computes the step of the kernels' clock from a launch. If it is within 1 % of the time stamps' step or of 1 ns, it is the same
/// clock, and the result is exactly that.
fn compute_step(launch: Measured, spinner: &Spinner) -> u32 {
    let measured = launch.by_stamps as f64 / launch.nanoseconds as f64;
    let period = f64::from(spinner.kernel.function().core().physical.facts.limits.timestamp_period);
    let known = [period, 1.0].into_iter().find(|known| spinner.timer && (measured / known - 1.0).abs() < ALIKE);
    (known.unwrap_or(measured) * NANOSECOND).round().clamp(1.0, f64::from(u32::MAX)) as u32
}
