//! A GPU to program with: memory, kernels and order in one stream. Nothing is measured here, so opening one takes no
//! calibration.

use std::path::Path;
use std::sync::Arc;

use plimsoll_expr::Traced;

use super::buffer::Buffer;
use super::call::Kernel;
use super::engine::Engine;
use super::error::Error;
use super::lane::{Lane, Recorded};
use crate::device::{Options, light};
use crate::driver::{Driver, Stream};
use crate::memory::Plain;
use crate::{Cuda, CudaDevice, wait};

/// A device and one stream of it. Clones are the same stream; [`Gpu::fork`] makes another.
#[derive(Clone)]
pub struct Gpu {
    pub(super) engine: Engine,
    pub(super) lane: Arc<Lane>,
}

impl Cuda {
    /// `cuda:index` of this machine, to run expressions on.
    ///
    /// # Errors
    /// No driver, no such device, or one that can't be used, with the way out.
    pub fn device(index: u32) -> Result<Gpu, Error> {
        let driver = Driver::system().map_err(plimsoll_core::Fault::from)?;
        Gpu::open(&driver, index, &Options::default())
    }
}

impl Gpu {
    /// A device of a driver.
    ///
    /// # Errors
    /// Those of [`Cuda::device`].
    pub fn open(driver: &Arc<Driver>, index: u32, options: &Options) -> Result<Self, Error> {
        let (context, kernels) = light(driver, index, options)?;
        let stream = Arc::new(Stream::new(&context)?);
        Self::on(Engine::over(&context, kernels, None)?, stream)
    }

    /// A device of the driver in a library: for tests with a stand-in.
    ///
    /// # Errors
    /// Those of [`Cuda::device`].
    pub fn open_library(library: &Path, index: u32, options: &Options) -> Result<Self, Error> {
        Self::open(&Driver::open(library).map_err(plimsoll_core::Fault::from)?, index, options)
    }

    /// A device that was opened to be measured, and the stream that its probes work on.
    ///
    /// # Errors
    /// The driver's.
    pub fn of(device: &CudaDevice) -> Result<Self, Error> {
        Self::on(Engine::new(device)?, Arc::clone(&device.stream))
    }

    /// An engine's device and a stream of it.
    ///
    /// # Errors
    /// The driver's.
    pub fn on(engine: Engine, stream: Arc<Stream>) -> Result<Self, Error> {
        let lane = Lane::new(stream, &engine)?;
        Ok(Self { engine, lane })
    }

    /// The same device and kernels with a stream of its own, which is in order with this one only where they share memory.
    ///
    /// # Errors
    /// The driver's.
    pub fn fork(&self) -> Result<Self, Error> {
        Self::on(self.engine.clone(), Arc::new(Stream::new(self.engine.context())?))
    }

    /// The stream.
    #[must_use]
    pub fn stream(&self) -> &Arc<Stream> {
        self.lane.stream()
    }

    /// Its kernels, for expressions without types.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Copies elements to the device; waits until they are there.
    ///
    /// # Errors
    /// Out of memory, with the sizes; the driver's.
    pub fn upload<T: Plain>(&self, values: &[T]) -> Result<Buffer<T>, Error> {
        Buffer::of(&self.lane, values)
    }

    /// So many elements of 0.
    ///
    /// # Errors
    /// Out of memory, with the sizes; the driver's.
    pub fn zeros<T: Plain>(&self, length: usize) -> Result<Buffer<T>, Error> {
        Buffer::zeros(&self.lane, length)
    }

    /// All elements of a buffer, once everything asked of its stream is done: waits.
    ///
    /// # Errors
    /// The driver's, among them those of kernels that ran before.
    pub fn download<T: Plain>(&self, buffer: &Buffer<T>) -> Result<Vec<T>, Error> {
        buffer.to_vec()
    }

    /// An expression for this device. Kernels are compiled when they are first needed, and kept on disk.
    ///
    /// # Errors
    /// Where kernels can't be compiled here at all.
    pub fn compile<Args, R>(&self, traced: &Traced<Args, R>) -> Result<Kernel<Args, R>, Error> {
        Ok(Kernel::new(self.engine.expression(traced.graph())?, self))
    }

    /// Records the calls that `task` makes on this stream, without making them. Memory is allocated, copied and waited for
    /// before or after.
    ///
    /// # Errors
    /// The task's; the driver's: what the task asked can't be recorded.
    pub fn record(&self, task: impl FnOnce() -> Result<(), Error>) -> Result<Recorded, Error> {
        self.lane.record(task)
    }

    /// Waits until everything asked of the stream is done.
    ///
    /// # Errors
    /// The driver's, among them those of kernels that ran before.
    pub fn wait(&self) -> Result<(), Error> {
        Ok(wait::stream(self.lane.stream())?)
    }
}
