//! The half of CUPTI that runs on the device: one range, counted.

use std::mem;
use std::sync::Arc;

use plimsoll_core::Fault;

use super::error::broken;
use super::host::Host;
use super::profiling::Claim;
use super::types::{
    DataInitialize, DataSize, Decode, Enable, Object, Profiler, PushRange, SetConfig, Stop, USER_RANGE, USER_REPLAY,
};
use super::{Cupti, buffer};
use crate::driver::Context;
use plimsoll_gpu::Unavailable;

/// Nodes of the tree of ranges, and ranges: one.
const RANGES: usize = 1;

/// The profiler switched on for a context, and off again when dropped.
pub(super) struct Enabled {
    cupti: Arc<Cupti>,
    context: Arc<Context>,
    profiler: Object,
    /// What CUPTI was given to read and write, and may keep even where it refuses: kept until the profiler is off, and for good
    /// where it can't be switched off.
    config: Vec<u8>,
    data: Vec<u8>,
    /// A pass has begun and not ended.
    started: bool,
    /// A range has begun and not ended.
    pushed: bool,
    claim: Claim,
}

impl Enabled {
    /// Switches the profiler on to count the host's metrics in one range.
    ///
    /// # Errors
    /// Somebody counts in the context already; CUPTI's: another profiler is at work.
    pub(super) fn new(cupti: &Arc<Cupti>, context: &Arc<Context>, host: &Host) -> Result<Self, Unavailable> {
        let claim = Claim::new(cupti, context)?;
        let mut params = Enable::new();
        params.context = context.handle().0;
        // SAFETY: the context is live.
        unsafe { cupti.table.enable(&mut params) }?;
        let (cupti, context) = (Arc::clone(cupti), Arc::clone(context));
        let (profiler, config, data) = (params.profiler, Vec::new(), Vec::new());
        let mut on = Self { cupti, context, profiler, config, data, started: false, pushed: false, claim };
        on.configure(host)?;
        Ok(on)
    }

    /// Done once: CUPTI 13.0 does not survive a second configuration of the same profiler.
    fn configure(&mut self, host: &Host) -> Result<(), Unavailable> {
        self.make_room(host)?;
        self.config.clone_from(&host.config);
        let mut params = SetConfig::new();
        params.profiler = self.profiler;
        (params.config_bytes, params.config) = (self.config.len(), self.config.as_ptr());
        (params.data_bytes, params.data) = (self.data.len(), self.data.as_mut_ptr());
        (params.range, params.replay) = (USER_RANGE, USER_REPLAY);
        (params.ranges, params.levels, params.least_level, params.level) = (RANGES, 1, 1, 1);
        // SAFETY: the profiler is live; both buffers are as long as said, and `self` keeps them, unmoved, until the
        // profiler is off.
        unsafe { self.cupti.table.set_config(&mut params) }
    }

    /// Makes the buffer for what is counted.
    fn make_room(&mut self, host: &Host) -> Result<(), Unavailable> {
        let names = host.pointers();
        let mut params = DataSize::new();
        (params.profiler, params.names, params.count) = (self.profiler, names.as_ptr(), names.len());
        (params.ranges, params.nodes) = (RANGES, RANGES as u32);
        // SAFETY: the profiler is live; the list is as long as said, and its names end with a zero byte.
        unsafe { self.cupti.table.data_size(&mut params) }?;
        self.data = buffer(params.bytes)?;
        let mut params = DataInitialize::new();
        (params.profiler, params.bytes, params.image) = (self.profiler, self.data.len(), self.data.as_mut_ptr());
        // SAFETY: the profiler is live; the buffer is as long as CUPTI asked and as said, and `self` keeps it, unmoved,
        // until the profiler is off.
        unsafe { self.cupti.table.data_initialize(&mut params) }
    }

    /// Counts one pass over what `launch` launches and waits for. True where more passes are needed.
    ///
    /// # Errors
    /// CUPTI's and those of `launch`.
    pub(super) fn pass(&mut self, launch: impl FnOnce() -> Result<(), Fault>) -> Result<bool, Fault> {
        self.start()?;
        let launched = match self.push() {
            Ok(()) => launch(),
            Err(refused) => Err(refused.into()),
        };
        if self.context.is_given_up() {
            // Popping and stopping would wait for a device that answers no more.
            return launched.map(|()| false);
        }
        let (popped, stopped) = (self.pop(), self.stop());
        launched?;
        popped?;
        Ok(!stopped?)
    }

    fn start(&mut self) -> Result<(), Unavailable> {
        let mut params = self.params();
        // SAFETY: the profiler is live.
        unsafe { self.cupti.table.start(&mut params) }?;
        self.started = true;
        Ok(())
    }

    fn push(&mut self) -> Result<(), Unavailable> {
        let mut params = PushRange::new();
        (params.profiler, params.name) = (self.profiler, c"plimsoll".as_ptr());
        // SAFETY: the profiler is live, and the name ends with a zero byte and is never freed.
        unsafe { self.cupti.table.push(&mut params) }?;
        self.pushed = true;
        Ok(())
    }

    /// Ends a range that began.
    fn pop(&mut self) -> Result<(), Unavailable> {
        if !mem::take(&mut self.pushed) {
            return Ok(());
        }
        let mut params = self.params();
        // SAFETY: the profiler is live.
        unsafe { self.cupti.table.pop(&mut params) }
    }

    /// Ends a pass that began. True where it was the last one.
    fn stop(&mut self) -> Result<bool, Unavailable> {
        if !mem::take(&mut self.started) {
            return Ok(true);
        }
        let mut params = Stop::new();
        params.profiler = self.profiler;
        // SAFETY: the profiler is live.
        unsafe { self.cupti.table.stop(&mut params) }?;
        Ok(params.all_submitted != 0)
    }

    /// Ends what a launch that panicked left, and switches the profiler off.
    fn switch_off(&mut self) -> Result<(), Unavailable> {
        let _ = self.pop();
        let _ = self.stop();
        if self.profiler.is_null() {
            return Ok(());
        }
        let mut params = self.params();
        // SAFETY: the profiler is live and is used no more.
        unsafe { self.cupti.table.disable(&mut params) }
    }

    /// What was counted.
    ///
    /// # Errors
    /// CUPTI's; some of it was lost.
    pub(super) fn data(&mut self) -> Result<&[u8], Unavailable> {
        let mut params = Decode::new();
        params.profiler = self.profiler;
        // SAFETY: the profiler is live, and so are the buffers that it was configured with.
        unsafe { self.cupti.table.decode(&mut params) }?;
        if params.dropped > 0 {
            return Err(broken("it lost what was counted".to_owned()));
        }
        Ok(&self.data)
    }

    fn params(&self) -> Profiler {
        let mut params = Profiler::new();
        params.profiler = self.profiler;
        params
    }
}

impl Drop for Enabled {
    fn drop(&mut self) {
        if self.context.is_given_up() || self.switch_off().is_err() {
            // The profiler stays on, and may write to its buffers as long as the process lives.
            mem::forget(mem::take(&mut self.config));
            mem::forget(mem::take(&mut self.data));
            self.claim.keep();
        }
    }
}
