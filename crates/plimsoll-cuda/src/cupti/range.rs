//! The device half of CUPTI: counts one range.

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

/// Number of ranges, and of nodes in the tree of ranges.
const RANGES: usize = 1;

/// The profiler enabled for a context, until it is dropped.
pub(super) struct Enabled {
    cupti: Arc<Cupti>,
    context: Arc<Context>,
    profiler: Object,
    /// Buffers that CUPTI reads and writes, and may hold on to even if a call fails: kept until the profiler is off, and leaked if
    /// it can't be switched off.
    config: Vec<u8>,
    data: Vec<u8>,
    /// Whether a pass has started and not ended.
    started: bool,
    /// Whether a range has started and not ended.
    pushed: bool,
    claim: Claim,
}

impl Enabled {
    /// Switches the profiler on to count the host's metrics in one range.
    ///
    /// # Errors
    /// Counting is already under way in the context; another profiler is active.
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

    /// Configures the profiler, once: CUPTI 13.0 crashes on a second configuration of the same profiler.
    fn configure(&mut self, host: &Host) -> Result<(), Unavailable> {
        self.allocate_data(host)?;
        self.config.clone_from(&host.config);
        let mut params = SetConfig::new();
        params.profiler = self.profiler;
        (params.config_bytes, params.config) = (self.config.len(), self.config.as_ptr());
        (params.data_bytes, params.data) = (self.data.len(), self.data.as_mut_ptr());
        (params.range, params.replay) = (USER_RANGE, USER_REPLAY);
        (params.ranges, params.levels, params.least_level, params.level) = (RANGES, 1, 1, 1);
        // SAFETY: the profiler is live; both buffers have the given lengths, and `self` keeps them, unmoved, until the profiler is
        // off.
        unsafe { self.cupti.table.set_config(&mut params) }
    }

    /// Allocates the buffer for the counted data.
    fn allocate_data(&mut self, host: &Host) -> Result<(), Unavailable> {
        let names = host.pointers();
        let mut params = DataSize::new();
        (params.profiler, params.names, params.count) = (self.profiler, names.as_ptr(), names.len());
        (params.ranges, params.nodes) = (RANGES, RANGES as u32);
        // SAFETY: the profiler is live; the list has the given length, and its names end with a zero byte.
        unsafe { self.cupti.table.data_size(&mut params) }?;
        self.data = buffer(params.bytes)?;
        let mut params = DataInitialize::new();
        (params.profiler, params.bytes, params.image) = (self.profiler, self.data.len(), self.data.as_mut_ptr());
        // SAFETY: the profiler is live; the buffer has the length that CUPTI requested, and `self` keeps it, unmoved, until the
        // profiler is off.
        unsafe { self.cupti.table.data_initialize(&mut params) }
    }

    /// Counts one pass around `launch`, which launches and waits. Returns whether more passes are needed.
    ///
    /// # Errors
    /// Those of `launch`.
    pub(super) fn run_pass(&mut self, launch: impl FnOnce() -> Result<(), Fault>) -> Result<bool, Fault> {
        self.start()?;
        let launched = match self.push() {
            Ok(()) => launch(),
            Err(refused) => Err(refused.into()),
        };
        if self.context.is_given_up() {
            // Popping and stopping would wait for a device that no longer answers.
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

    /// Ends the range, if it was started.
    fn pop(&mut self) -> Result<(), Unavailable> {
        if !mem::take(&mut self.pushed) {
            return Ok(());
        }
        let mut params = self.params();
        // SAFETY: the profiler is live.
        unsafe { self.cupti.table.pop(&mut params) }
    }

    /// Ends the pass, if it was started. Returns whether it was the last one.
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

    /// Ends a range and pass left open by a panic in a launch, and switches the profiler off.
    fn switch_off(&mut self) -> Result<(), Unavailable> {
        let _ = self.pop();
        let _ = self.stop();
        if self.profiler.is_null() {
            return Ok(());
        }
        let mut params = self.params();
        // SAFETY: the profiler is live and not used again.
        unsafe { self.cupti.table.disable(&mut params) }
    }

    /// Decodes and returns the counted data.
    ///
    /// # Errors
    /// Some of the data was lost.
    pub(super) fn data(&mut self) -> Result<&[u8], Unavailable> {
        let mut params = Decode::new();
        params.profiler = self.profiler;
        // SAFETY: the profiler is live, and so are the buffers that it was configured with.
        unsafe { self.cupti.table.decode(&mut params) }?;
        if params.dropped > 0 {
            return Err(broken("it lost some of the counted data".to_owned()));
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
            // The profiler stays on and may still write to its buffers, so they are leaked.
            mem::forget(mem::take(&mut self.config));
            mem::forget(mem::take(&mut self.data));
            self.claim.keep_forever();
        }
    }
}
