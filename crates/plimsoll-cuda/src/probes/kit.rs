//! What a bandwidth probe works with: its kernels, the checker, the stream, and loads made of them. Points and
//! arguments are the probes'.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::Fault;
use plimsoll_core::probe::Session;
use plimsoll_core::sample::{Check, Clock as _, Work};
use plimsoll_gen::kernel::{KernelDesc, Source};

use super::checker::Checker;
use super::unit::Unit;
use crate::driver::{Attribute, Stream};
use crate::launch::Launch;
use crate::load::{Action, Load, Shape};
use crate::memory::DeviceBuffer;
use crate::spin::Spinner;
use crate::{Cuda, CudaDevice};

/// Bytes that every slice of an array is a multiple of: any vector is aligned in it, and pages of a cache are whole.
const GRAIN: u64 = 4096;

/// Kernels, checker and stream of one probe.
#[derive(Debug)]
pub(super) struct Kit {
    /// The probe's kernels.
    pub(super) unit: Unit,
    /// What fills and checks.
    pub(super) checker: Rc<Checker>,
    stream: Arc<Stream>,
    spinner: Option<Arc<Spinner>>,
    clock_hz: Option<f64>,
}

impl Kit {
    /// Compiles what the probe wants of one source.
    ///
    /// # Errors
    /// Those of [`Unit::new`].
    pub(super) fn new(device: &CudaDevice, source: Source, kernels: &[KernelDesc]) -> Result<Self, Fault> {
        Ok(Self {
            unit: Unit::new(device, source, kernels)?,
            checker: Checker::new(device)?,
            stream: Arc::clone(&device.stream),
            spinner: device.spinner.as_ref().ok().cloned(),
            clock_hz: device.clock_hz,
        })
    }

    /// The multiprocessors' clock when the device was opened, hertz, where its timer told.
    pub(super) fn clock_hz(&self) -> Option<f64> {
        self.clock_hz
    }

    /// The stream that all of it works on.
    pub(super) fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }

    /// An array of so many bytes.
    ///
    /// # Errors
    /// [`Fault::OutOfMemory`]; the driver's.
    pub(super) fn array(&self, bytes: u64) -> Result<DeviceBuffer, Fault> {
        DeviceBuffer::new(self.stream.context(), bytes)
    }

    /// Does some actions now, untimed.
    ///
    /// # Errors
    /// The driver's.
    pub(super) fn run(&self, actions: &[Action]) -> Result<(), Fault> {
        self.stream.context().bind()?;
        actions.iter().try_for_each(|action| action.enqueue(&self.stream))
    }

    /// Keeps the device busy for so long, so that what is queued meanwhile begins without the host's part of it.
    ///
    /// # Errors
    /// The driver's.
    pub(super) fn lead(&self, length: Duration) -> Result<(), Fault> {
        self.spinner.as_ref().map_or(Ok(()), |spinner| spinner.spin(&self.stream, length))
    }

    /// A workload of launches in turn, in graphs or, where graphs can't hold them, in the stream.
    ///
    /// # Errors
    /// Those of [`Load::new`].
    pub(super) fn load(&self, shape: Shape, launches: Vec<Launch>, work: Work) -> Result<Load, Fault> {
        let load = Load::new(&self.stream, shape, launches.into_iter().map(Action::Launch).collect(), work)?;
        Ok(match &self.spinner {
            Some(spinner) => load.with_lead(spinner),
            None => load,
        })
    }
}

/// Launches of a throughput sample in one graph, each after the other has ended.
pub(super) const GRAPH: Shape = Shape::Graph { dependent: false };

/// Bytes per array that the user asked for, else `usual`, in whole grains.
///
/// # Errors
/// [`Fault::Invalid`] for none, or for more than can be counted.
pub(super) fn asked(session: &Session<'_, Cuda>, usual: u64) -> Result<u64, Fault> {
    match session.request.bytes {
        Some(0) => Err(Fault::Invalid("nothing can be measured on 0 bytes; ask for more".to_owned())),
        Some(bytes) => bytes
            .checked_next_multiple_of(GRAIN)
            .ok_or_else(|| Fault::Invalid(format!("{bytes} bytes are more than any memory has; ask for less"))),
        None => Ok(usual),
    }
}

/// Share of the budget that went by since `begin`: what compiling and filling took, which the first sweep gets on top.
pub(super) fn late(session: &mut Session<'_, Cuda>, begin: f64, budget: f64) -> f64 {
    (session.clock().now() - begin) / budget.max(1e-9)
}

/// The first failure of some checks, else that all passed.
///
/// # Errors
/// The first check's that could not be made.
pub(super) fn all(checks: impl IntoIterator<Item = Result<Check, Fault>>) -> Result<Check, Fault> {
    for check in checks {
        if let failed @ Check::Failed(_) = check? {
            return Ok(failed);
        }
    }
    Ok(Check::Passed)
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
