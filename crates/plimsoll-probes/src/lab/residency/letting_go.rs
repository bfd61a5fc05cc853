//! A workload that pins data in the L2 and releases them before every sample. This preparation runs on host and device and is not
//! timed.

use std::sync::Arc;

use plimsoll_core::sample::Workload;
use plimsoll_core::{Fault, forward_workload};
use plimsoll_cuda::Load;
use plimsoll_cuda::driver::Stream;
use plimsoll_cuda::launch::Launch;
use plimsoll_cuda::wait;

/// Launches of a sample: few, so that the timed kernel still meets the pinned lines.
const MOST: u32 = 8;

/// How pinned lines are released.
pub(crate) enum End {
    /// Not at all.
    Nothing,
    /// The limit is set to 0 and the lines are reset.
    Reset,
    /// A kernel accesses them as ordinary data.
    Launch(Box<Launch>),
}

/// Sets the limit to the device's maximum (`true`) or to 0.
type SetLimit = Box<dyn Fn(bool) -> Result<(), Fault>>;

/// A load whose samples each follow pinning and release.
pub(crate) struct LettingGo {
    load: Load,
    stream: Arc<Stream>,
    pin: Option<Launch>,
    end: End,
    /// Warms the cache with the data of the timed kernel.
    warm: Launch,
    limit: SetLimit,
}

impl LettingGo {
    /// Each sample launches `pin` if there is one, releases its lines as `end` says, launches `warm`, and times the load.
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

    fn pin_and_release(&self) -> Result<(), Fault> {
        self.stream.context().bind()?;
        self.stream.context().reset_persisting()?;
        if let Some(pin) = &self.pin {
            (self.limit)(true)?;
            // Twice: the second launch hits the lines that the first brought in.
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
    forward_workload!(load: work, batch, prepare, check, extra, launch_once);

    fn sample(&mut self, k: u32, out: &mut [u64]) -> Result<(), Fault> {
        for sample in out {
            self.pin_and_release()?;
            self.load.sample(k, std::slice::from_mut(sample))?;
        }
        Ok(())
    }

    fn prepare_count(&mut self) -> Result<u32, Fault> {
        self.pin_and_release()?;
        self.load.prepare_count()
    }
}
