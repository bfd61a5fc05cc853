//! A workload whose every sample comes after something was pinned in the second-level cache and let go: that part is the
//! host's as well as the device's, and untimed.

use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_core::Fault;
use plimsoll_core::sample::{Batch, Check, Work, Workload};

use plimsoll_cuda::Load;
use plimsoll_cuda::driver::Stream;
use plimsoll_cuda::launch::Launch;
use plimsoll_cuda::wait;

/// Launches of a sample: few, so that what is timed still meets what was pinned.
const MOST: u32 = 8;

/// How what was pinned is let go.
pub(crate) enum End {
    /// It isn't.
    Nothing,
    /// The limit is set to 0 and the lines are reset.
    Reset,
    /// A kernel accesses it as ordinary data.
    Launch(Box<Launch>),
}

/// Sets the limit to the most there is, or to 0.
type SetLimit = Box<dyn Fn(bool) -> Result<(), Fault>>;

/// Samples of a load, each after pinning and letting go.
pub(crate) struct LettingGo {
    load: Load,
    stream: Arc<Stream>,
    pin: Option<Launch>,
    end: End,
    /// Brings into the cache what is timed.
    warm: Launch,
    limit: SetLimit,
}

impl LettingGo {
    /// `pin` is launched first, where there is one; then it is ended; then `warm` is launched; then the load is timed.
    pub(crate) fn new(
        load: Load,
        stream: &Arc<Stream>,
        pin: Option<Launch>,
        end: End,
        warm: Launch,
        limit: SetLimit,
    ) -> Self {
        Self { load: load.limit_launches(MOST), stream: Arc::clone(stream), pin, end, warm, limit }
    }

    fn before(&self) -> Result<(), Fault> {
        self.stream.context().bind()?;
        self.stream.context().reset_persisting()?;
        if let Some(pin) = &self.pin {
            (self.limit)(true)?;
            // Twice: the second finds in the cache what the first brought.
            self.stream.launch(pin)?;
            self.stream.launch(pin)?;
        }
        match &self.end {
            End::Nothing => {}
            End::Reset => {
                wait::stream(&self.stream)?;
                (self.limit)(false)?;
                self.stream.context().reset_persisting()?;
            }
            End::Launch(launch) => self.stream.launch(launch)?,
        }
        self.stream.launch(&self.warm)
    }
}

impl Workload for LettingGo {
    fn work(&self) -> Work {
        self.load.work()
    }

    fn batch(&self) -> Batch {
        self.load.batch()
    }

    fn prepare(&mut self, k: u32) -> Result<(), Fault> {
        self.load.prepare(k)
    }

    fn sample(&mut self, k: u32, out: &mut [u64]) -> Result<(), Fault> {
        for sample in out {
            self.before()?;
            self.load.sample(k, std::slice::from_mut(sample))?;
        }
        Ok(())
    }

    fn check(&mut self) -> Result<Check, Fault> {
        self.load.check()
    }

    fn prepare_count(&mut self) -> Result<u32, Fault> {
        self.before()?;
        self.load.prepare_count()
    }

    fn launch_once(&mut self) -> Result<(), Fault> {
        self.load.launch_once()
    }

    fn extra(&self, out: &mut BTreeMap<String, f64>) {
        self.load.extra(out);
    }
}
