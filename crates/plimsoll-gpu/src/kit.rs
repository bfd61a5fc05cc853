//! What a probe works with: its kernels, the checker, the stream, and workloads made from them. Probes choose points and
//! arguments.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::Fault;
use plimsoll_core::probe::{Backend, Session};
use plimsoll_core::sample::{Check, Work};
use plimsoll_gen::kernel::{KernelDesc, Source};

use crate::checker::Checker;
use crate::load::{Action, Load, Shape};
use crate::unit::Unit;
use crate::{Gpu, Span, Trust};

/// Every slice of an array is a multiple of this many bytes, so that vectors are aligned in it and pages are whole.
const GRAIN: u64 = 4096;

/// The kernels, checker and stream of one probe.
pub struct Kit<G: Gpu> {
    /// The probe's kernels.
    pub unit: Unit<G>,
    /// Fills and checks arrays.
    pub checker: Rc<Checker<G>>,
    stream: Arc<G::Stream>,
    blocker: Option<Arc<G::Blocker>>,
    clock_hz: Option<f64>,
}

impl<G: Gpu> Kit<G> {
    /// Compiles `kernels` of one source.
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

    /// Clock of the streaming multiprocessors when the device was opened, hertz; `None` if its timer didn't show it.
    pub fn clock_hz(&self) -> Option<f64> {
        self.clock_hz
    }

    /// The stream of all this work.
    pub fn stream(&self) -> &Arc<G::Stream> {
        &self.stream
    }

    /// Allocates an array.
    ///
    /// # Errors
    /// [`Fault::OutOfMemory`].
    pub fn array(&self, bytes: u64) -> Result<G::Buffer, Fault> {
        G::allocate(&self.stream, bytes)
    }

    /// Enqueues some actions, untimed.
    pub fn run(&self, actions: &[Action<G>]) -> Result<(), Fault> {
        G::bind(&self.stream)?;
        actions.iter().try_for_each(|action| action.enqueue(&self.stream))
    }

    /// Enqueues one launch, untimed.
    pub fn run_once(&self, launch: &G::Launch) -> Result<(), Fault> {
        G::bind(&self.stream)?;
        G::launch(&self.stream, launch)
    }

    /// Reads memory after everything that was enqueued before.
    pub fn download(&self, from: Span) -> Result<Vec<u8>, Fault> {
        let mut bytes = vec![0; usize::try_from(from.bytes()).unwrap_or(usize::MAX)];
        G::download(&self.stream, from, &mut bytes)?;
        Ok(bytes)
    }

    /// Runs the blocking kernel for `length`, so that work queued meanwhile starts without waiting for the host. Does nothing where
    /// the device has no blocking kernel.
    pub fn block(&self, length: Duration) -> Result<(), Fault> {
        self.blocker.as_ref().map_or(Ok(()), |blocker| G::block(blocker, &self.stream, length))
    }

    /// Makes a workload that repeats the launches in order, with the blocking kernel where there is one.
    ///
    /// # Errors
    /// Those of [`Load::new`].
    pub fn load(&self, shape: Shape, launches: Vec<G::Launch>, work: Work) -> Result<Load<G>, Fault> {
        self.load_actions(shape, launches.into_iter().map(Action::Launch).collect(), work)
    }

    /// The same for any actions.
    ///
    /// # Errors
    /// Those of [`Load::new`].
    pub fn load_actions(&self, shape: Shape, actions: Vec<Action<G>>, work: Work) -> Result<Load<G>, Fault> {
        let load = Load::new(&self.stream, shape, actions, work)?;
        Ok(match &self.blocker {
            Some(blocker) => load.with_blocker(blocker),
            None => load,
        })
    }
}

/// All launches of a throughput sample in one graph, each after the one before has ended.
pub const GRAPH: Shape = Shape::Graph { dependent: false };

/// Bytes per array: what the user requested, else `usual`. A request is rounded up to a multiple of 4 KiB.
///
/// # Errors
/// [`Fault::Invalid`] for 0 bytes, or for more than 64 bits can count.
pub fn requested_bytes<B: Backend>(session: &Session<'_, B>, usual: u64) -> Result<u64, Fault> {
    match session.request.bytes {
        Some(0) => Err(Fault::Invalid("nothing can be measured on 0 bytes; ask for more".to_owned())),
        Some(bytes) => bytes
            .checked_next_multiple_of(GRAIN)
            .ok_or_else(|| Fault::Invalid(format!("{bytes} bytes are more than any memory holds; ask for less"))),
        None => Ok(usual),
    }
}

/// Keeps the points whose kernels this device has code for.
pub fn runnable<G: Gpu, P>(
    device: &G::Device,
    points: impl IntoIterator<Item = P>,
    kernel: impl Fn(&P) -> KernelDesc,
) -> Vec<P> {
    points.into_iter().filter(|point| G::runs(device, &kernel(point)).is_ok()).collect()
}

/// Combines checks: the first failure, or passed if there is none.
///
/// # Errors
/// That of the first check that could not be made.
pub fn combine_checks(checks: impl IntoIterator<Item = Result<Check, Fault>>) -> Result<Check, Fault> {
    for check in checks {
        if let failed @ Check::Failed(_) = check? {
            return Ok(failed);
        }
    }
    Ok(Check::Passed)
}

/// Bytes of dynamic shared memory per block that leave no room for a second block on its multiprocessor, in addition to the
/// kernel's `fixed` bytes of static shared memory. Less if no block may have that much.
pub fn exclusive_shared_bytes<G: Gpu>(device: &G::Device, fixed: u32) -> u32 {
    let limits = G::capabilities(device).limits;
    let wanted = (limits.shared_per_multiprocessor / 2 + 1024).saturating_sub(fixed);
    wanted.min(limits.shared_per_block.saturating_sub(fixed))
}
