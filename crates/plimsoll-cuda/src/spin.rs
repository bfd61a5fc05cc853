//! The spin kernel, which keeps SMs busy for a given time and counts their cycles. It warms up the clock, measures it, and blocks
//! the device while the host queues work.

use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::Fault;
use plimsoll_gen::kernel::clock;

use crate::compile::Kernels;
use crate::driver::{Context, Stream};
use crate::launch::{Arguments, Geometry, Kernel, Launch, TRUST};
use crate::memory::DeviceBuffer;
use crate::wait;

/// Threads per block; `clock.cu` is written for this number.
const THREADS: u32 = 256;

/// The loaded kernel and its output buffer.
#[derive(Debug)]
pub struct Spinner {
    kernel: Kernel,
    out: DeviceBuffer,
    multiprocessors: u32,
}

impl Spinner {
    /// Compiles it for a device with this many SMs.
    ///
    /// # Errors
    /// [`Fault::Unavailable`] if kernels can't be compiled; a failed allocation of its 16 bytes.
    pub fn compile(context: &Arc<Context>, kernels: &Kernels, multiprocessors: u32) -> Result<Self, Fault> {
        Ok(Self::with_empty(context, kernels, multiprocessors)?.0)
    }

    /// As [`Spinner::compile`], together with the empty kernel of the same source.
    pub(crate) fn with_empty(
        context: &Arc<Context>,
        kernels: &Kernels,
        multiprocessors: u32,
    ) -> Result<(Self, Kernel), Fault> {
        let loaded = kernels.load_described(
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
    pub fn spin(&self, stream: &Stream, length: Duration) -> Result<(), Fault> {
        self.launch(stream, 1, length)
    }

    /// The SM clock in hertz while all SMs are busy for `length`: cycles of `clock64` over nanoseconds of `%globaltimer`, both read
    /// in the kernel. `None` if the device's timer did not advance.
    ///
    /// # Errors
    /// [`Fault::Hung`].
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
