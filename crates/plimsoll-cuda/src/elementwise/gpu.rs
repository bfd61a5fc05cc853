//! A GPU for computing rather than measuring: memory, kernels and one stream. Opening one needs no calibration.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use plimsoll_expr::Traced;

use super::buffer::Buffer;
use super::call::Kernel;
use super::lane::{Lane, Recorded};
use super::{Engine, Error, Store};
use crate::device::{Options, open_uncalibrated};
use crate::driver::{Driver, Stream};
use crate::memory::Plain;
use crate::{Cuda, CudaDevice, wait};

/// A device and one of its streams. Clones share the stream; [`Gpu::fork`] makes another.
#[derive(Clone)]
pub struct Gpu {
    pub(super) engine: Engine,
    pub(super) lane: Arc<Lane>,
    /// Where tuned plans are kept.
    pub(super) store: Option<Store>,
    /// Ends tuning early.
    pub(super) stop: Arc<AtomicBool>,
}

impl Cuda {
    /// Opens `cuda:index` of this machine to run expressions on.
    ///
    /// # Errors
    /// No driver, no such device, or an unusable one.
    pub fn device(index: u32) -> Result<Gpu, Error> {
        let driver = Driver::system().map_err(plimsoll_core::Fault::from)?;
        Gpu::open(&driver, index, &Options::default())
    }
}

impl Gpu {
    /// Opens a device of a driver.
    ///
    /// # Errors
    /// Those of [`Cuda::device`].
    pub fn open(driver: &Arc<Driver>, index: u32, options: &Options) -> Result<Self, Error> {
        let (context, kernels) = open_uncalibrated(driver, index, options)?;
        let stream = Arc::new(Stream::new(&context)?);
        Self::new(Engine::from_compiler(kernels, None)?, stream)
    }

    /// Opens a device of the driver in `library`, for tests with a fake driver.
    ///
    /// # Errors
    /// Those of [`Cuda::device`].
    pub fn open_library(library: &Path, index: u32, options: &Options) -> Result<Self, Error> {
        Self::open(&Driver::open(library).map_err(plimsoll_core::Fault::from)?, index, options)
    }

    /// A device opened for measuring, with the stream of its probes.
    pub fn from_device(device: &CudaDevice) -> Result<Self, Error> {
        Self::new(Engine::new(device)?, Arc::clone(&device.stream))
    }

    /// An engine's device with one of its streams.
    pub fn new(engine: Engine, stream: Arc<Stream>) -> Result<Self, Error> {
        let lane = Lane::new(stream, &engine)?;
        Ok(Self { engine, lane, store: Store::of_user(), stop: Arc::default() })
    }

    /// The same device and kernels with a separate stream. The two streams are ordered only by uses of the same memory.
    pub fn fork(&self) -> Result<Self, Error> {
        let stream = Arc::new(Stream::new(self.stream().context())?);
        Ok(Self::new(self.engine.clone(), stream)?.with_store(self.store.clone()).with_stop(&self.stop))
    }

    /// Keeps the plans of [`Kernel::tuned`] elsewhere than in the user's folder, or nowhere.
    #[must_use]
    pub fn with_store(self, store: Option<Store>) -> Self {
        Self { store, ..self }
    }

    /// Ends [`Kernel::tuned`] early once this is set, for example by a signal handler: then the planner's own plan stays, with a note.
    #[must_use]
    pub fn with_stop(self, stop: &Arc<AtomicBool>) -> Self {
        Self { stop: Arc::clone(stop), ..self }
    }

    /// The stream.
    #[must_use]
    pub fn stream(&self) -> &Arc<Stream> {
        self.lane.stream()
    }

    /// Its driver.
    #[must_use]
    pub fn driver(&self) -> &Driver {
        self.stream().context().driver()
    }

    /// Its engine, for untyped expressions.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Copies elements to the device and waits for the copy.
    ///
    /// # Errors
    /// Out of memory, with the sizes.
    pub fn upload<T: Plain>(&self, values: &[T]) -> Result<Buffer<T>, Error> {
        Buffer::from_values(&self.lane, values)
    }

    /// A buffer of `length` zeros.
    ///
    /// # Errors
    /// Out of memory, with the sizes.
    pub fn zeros<T: Plain>(&self, length: usize) -> Result<Buffer<T>, Error> {
        Buffer::zeros(&self.lane, length)
    }

    /// Waits for all work of the buffer's stream and copies its elements to the host.
    ///
    /// # Errors
    /// Includes faults of kernels launched earlier.
    pub fn download<T: Plain>(&self, buffer: &Buffer<T>) -> Result<Vec<T>, Error> {
        buffer.to_vec()
    }

    /// Prepares a traced closure for this device. Its kernels are compiled on first use and cached on disk.
    ///
    /// # Errors
    /// Kernels can't be compiled on this machine.
    pub fn compile<Args, R>(&self, traced: &Traced<Args, R>) -> Result<Kernel<Args, R>, Error> {
        Ok(Kernel::new(self.engine.expression(traced.graph())?, self))
    }

    /// Records the calls that `task` makes on this stream instead of executing them. Allocations, copies and waits must happen
    /// before or after the recording.
    ///
    /// # Errors
    /// The task's; a driver error if something that the task does can't be recorded.
    pub fn record(&self, task: impl FnOnce() -> Result<(), Error>) -> Result<Recorded, Error> {
        self.lane.record(task)
    }

    /// Waits until all work of the stream is done.
    ///
    /// # Errors
    /// Includes faults of kernels launched earlier.
    pub fn wait(&self) -> Result<(), Error> {
        Ok(wait::stream(self.lane.stream())?)
    }
}
