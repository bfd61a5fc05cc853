//! What a bandwidth probe works with: its kernels, the checker, the stream, and loads made of them. Points and
//! arguments are the probes'.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::Fault;
use plimsoll_core::probe::{Backend, Session};
use plimsoll_core::sample::{Check, Clock as _, Work};
use plimsoll_gen::kernel::{KernelDesc, Source};

use crate::checker::Checker;
use crate::load::{Action, Load, Shape};
use crate::unit::Unit;
use crate::{Gpu, Trust};

/// Bytes that every slice of an array is a multiple of: any vector is aligned in it, and pages of a cache are whole.
const GRAIN: u64 = 4096;

/// Kernels, checker and stream of one probe.
pub struct Kit<G: Gpu> {
    /// The probe's kernels.
    pub unit: Unit<G>,
    /// What fills and checks.
    pub checker: Rc<Checker<G>>,
    stream: Arc<G::Stream>,
    blocker: Option<Arc<G::Blocker>>,
    clock_hz: Option<f64>,
}

impl<G: Gpu> Kit<G> {
    /// Compiles what the probe wants of one source.
    ///
    /// # Errors
    /// Those of [`Unit::new`].
    pub fn new(
        device: &G::Device,
        source: &'static Source,
        kernels: &[KernelDesc],
        trust: Trust,
    ) -> Result<Self, Fault> {
        Ok(Self {
            unit: Unit::new(device, source, kernels, trust)?,
            checker: Checker::new(device, trust)?,
            stream: Arc::clone(G::stream(device)),
            blocker: G::blocker(device).cloned(),
            clock_hz: G::clock_hz(device),
        })
    }

    /// The multiprocessors' clock when the device was opened, hertz, where its timer told.
    pub fn clock_hz(&self) -> Option<f64> {
        self.clock_hz
    }

    /// The stream that all of it works on.
    pub fn stream(&self) -> &Arc<G::Stream> {
        &self.stream
    }

    /// An array of so many bytes.
    ///
    /// # Errors
    /// [`Fault::OutOfMemory`]; the driver's.
    pub fn array(&self, bytes: u64) -> Result<G::Buffer, Fault> {
        G::allocate(&self.stream, bytes)
    }

    /// Does some actions now, untimed.
    ///
    /// # Errors
    /// The driver's.
    pub fn run(&self, actions: &[Action<G>]) -> Result<(), Fault> {
        G::bind(&self.stream)?;
        actions.iter().try_for_each(|action| action.enqueue(&self.stream))
    }

    /// Keeps the device busy for so long, so that what is queued meanwhile begins without the host's part of it.
    ///
    /// # Errors
    /// The driver's.
    pub fn lead(&self, length: Duration) -> Result<(), Fault> {
        self.blocker.as_ref().map_or(Ok(()), |blocker| G::block(blocker, &self.stream, length))
    }

    /// A workload of launches in turn, in graphs or, where graphs can't hold them, in the stream.
    ///
    /// # Errors
    /// Those of [`Load::new`].
    pub fn load(&self, shape: Shape, launches: Vec<G::Launch>, work: Work) -> Result<Load<G>, Fault> {
        let load = Load::new(&self.stream, shape, launches.into_iter().map(Action::Launch).collect(), work)?;
        Ok(match &self.blocker {
            Some(blocker) => load.with_lead(blocker),
            None => load,
        })
    }
}

/// Launches of a throughput sample in one graph, each after the other has ended.
pub const GRAPH: Shape = Shape::Graph { dependent: false };

/// Bytes per array that the user asked for, else `usual`, in whole grains.
///
/// # Errors
/// [`Fault::Invalid`] for none, or for more than can be counted.
pub fn asked<B: Backend>(session: &Session<'_, B>, usual: u64) -> Result<u64, Fault> {
    match session.request.bytes {
        Some(0) => Err(Fault::Invalid("nothing can be measured on 0 bytes; ask for more".to_owned())),
        Some(bytes) => bytes
            .checked_next_multiple_of(GRAIN)
            .ok_or_else(|| Fault::Invalid(format!("{bytes} bytes are more than any memory has; ask for less"))),
        None => Ok(usual),
    }
}

/// Share of the budget that went by since `begin`: what compiling and filling took, which the first sweep gets on top.
pub fn late<B: Backend>(session: &mut Session<'_, B>, begin: f64, budget: f64) -> f64 {
    (session.clock().now() - begin) / budget.max(1e-9)
}

/// The first failure of some checks, else that all passed.
///
/// # Errors
/// The first check's that could not be made.
pub fn all(checks: impl IntoIterator<Item = Result<Check, Fault>>) -> Result<Check, Fault> {
    for check in checks {
        if let failed @ Check::Failed(_) = check? {
            return Ok(failed);
        }
    }
    Ok(Check::Passed)
}

/// Dynamic shared memory that keeps all other blocks off a block's multiprocessor, beside `fixed` bytes that the kernel
/// has of its own; less where no block may have so much.
pub fn alone<G: Gpu>(device: &G::Device, fixed: u32) -> u32 {
    let limits = G::capabilities(device).limits;
    let wanted = (limits.shared_per_multiprocessor / 2 + 1024).saturating_sub(fixed);
    wanted.min(limits.shared_per_block.saturating_sub(fixed))
}
