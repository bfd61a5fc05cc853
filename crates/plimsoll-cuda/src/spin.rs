//! The kernel that keeps multiprocessors busy for a given time and counts their cycles: it settles the clock, measures
//! it, and holds the device while the host queues work.

use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::Fault;
use plimsoll_gen::kernel::clock;

use crate::compile::Kernels;
use crate::driver::{Context, Stream};
use crate::launch::{Arguments, Geometry, Kernel, Launch, TRUST};
use crate::memory::DeviceBuffer;
use crate::wait;

/// Threads of a block, as `clock.cu` is written for.
const THREADS: u32 = 256;

/// The loaded kernel and where it writes.
#[derive(Debug)]
pub struct Spinner {
    kernel: Kernel,
    out: DeviceBuffer,
    multiprocessors: u32,
}

impl Spinner {
    /// Compiled for a device with so many multiprocessors.
    ///
    /// # Errors
    /// [`Fault::Unavailable`] where kernels can't be compiled; those of the allocation of its 16 bytes.
    pub fn compile(context: &Arc<Context>, kernels: &Kernels, multiprocessors: u32) -> Result<Self, Fault> {
        Ok(Self::with_empty(context, kernels, multiprocessors)?.0)
    }

    /// The same, with the kernel that does nothing, of the same source.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn with_empty(
        context: &Arc<Context>,
        kernels: &Kernels,
        multiprocessors: u32,
    ) -> Result<(Self, Kernel), Fault> {
        let loaded = kernels.load_stated(
            kernels.target(),
            &plimsoll_gen::kernel::clock::SOURCE,
            &[clock::spin(), clock::empty()],
            TRUST,
        )?;
        let [kernel, empty]: [Kernel; 2] = loaded.try_into().map_err(|_| Fault::Invalid("two kernels".to_owned()))?;
        let out = DeviceBuffer::new(context, 16)?;
        Ok((Self { kernel, out, multiprocessors: multiprocessors.max(1) }, empty))
    }

    fn launch(&self, stream: &Stream, blocks: u32, length: Duration) -> Result<(), Fault> {
        let nanoseconds = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
        let arguments = Arguments::new().buffer(&self.out).u64(nanoseconds);
        let launch = Launch::new(&self.kernel, Geometry::linear(blocks, THREADS), arguments)?;
        stream.launch(&launch)
    }

    /// Queues one block that holds the stream for `length`.
    ///
    /// # Errors
    /// The driver's.
    pub fn spin(&self, stream: &Stream, length: Duration) -> Result<(), Fault> {
        self.launch(stream, 1, length)
    }

    /// The multiprocessors' clock in hertz while all of them work for `length`: cycles of `clock64` over nanoseconds of
    /// `%globaltimer`, both read in the kernel. `None` where the device's timer stood still.
    ///
    /// # Errors
    /// [`Fault::Hung`]; the driver's.
    pub fn clock_hz(&self, stream: &Stream, length: Duration) -> Result<Option<f64>, Fault> {
        stream.context().bind()?;
        self.launch(stream, self.multiprocessors, length)?;
        wait::stream(stream)?;
        let mut bytes = [0_u8; 16];
        self.out.download(stream, &mut bytes)?;
        let words = [0, 8].map(|at| u64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte])));
        let [cycles, nanoseconds] = words.map(|word| word as f64);
        let hz = cycles / nanoseconds * 1e9;
        Ok(Some(hz).filter(|hz| hz.is_finite() && *hz > 0.0))
    }
}
