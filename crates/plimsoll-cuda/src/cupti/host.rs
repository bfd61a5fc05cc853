//! The half of CUPTI that runs on the host: which metrics a chip has, how counters are set up for some of them, and what
//! the counted numbers amount to.

use std::ffi::{CStr, CString, c_char};
use std::ptr;
use std::sync::Arc;

use super::error::broken;
use super::types::{
    AddMetrics, Config, ConfigSize, Evaluate, HostDeinitialize, HostInitialize, Object, Passes, Properties,
    RANGE_PROFILER,
};
use super::{Cupti, MOST_PASSES, buffer};
use plimsoll_gpu::Unavailable;

/// A configuration for some metrics of one chip.
pub(super) struct Host {
    cupti: Arc<Cupti>,
    object: Object,
    /// What the object was made with: the headers don't say that CUPTI copies it.
    _chip: CString,
    _availability: Vec<u8>,
    names: Vec<CString>,
    pub(super) config: Vec<u8>,
    pub(super) passes: usize,
}

// SAFETY: the object is CUPTI's, is used by one thread at a time, and belongs to none (CUPTI's host calls ask for no
// particular thread).
unsafe impl Send for Host {}

impl Host {
    /// A configuration for those of `wanted` that the chip has: of each, the first name that it knows. Returns beside it
    /// the place of each in `wanted`.
    ///
    /// # Errors
    /// CUPTI's: it doesn't know the chip.
    pub(super) fn new(
        cupti: &Arc<Cupti>,
        chip: &CStr,
        availability: &[u8],
        wanted: &[&[&CStr]],
    ) -> Result<(Self, Vec<usize>), Unavailable> {
        let (chip, availability) = (chip.to_owned(), availability.to_vec());
        let mut params = HostInitialize::new();
        params.kind = RANGE_PROFILER;
        params.chip = chip.as_ptr();
        params.availability = availability.as_ptr();
        // SAFETY: the chip's name ends with a zero byte; the image is as CUPTI wrote it; both live as long as the object.
        unsafe { cupti.table.host_initialize(&mut params) }?;
        let (cupti, object) = (Arc::clone(cupti), params.host);
        let (names, config) = (vec![], vec![]);
        let mut host = Self { cupti, object, _chip: chip, _availability: availability, names, config, passes: 0 };
        let mut places = Vec::new();
        for (place, names) in wanted.iter().enumerate() {
            if let Some(name) = names.iter().find(|name| host.knows(name)) {
                host.names.push((*name).to_owned());
                places.push(place);
            }
        }
        if !host.names.is_empty() {
            host.configure()?;
        }
        Ok((host, places))
    }

    fn knows(&self, name: &CStr) -> bool {
        let mut params = Properties::new();
        params.host = self.object;
        params.name = name.as_ptr();
        // SAFETY: the object is live, and the name ends with a zero byte.
        unsafe { self.cupti.table.properties(&mut params) }.is_ok()
    }

    fn configure(&mut self) -> Result<(), Unavailable> {
        let pointers = self.pointers();
        let mut params = AddMetrics::new();
        (params.host, params.names, params.count) = (self.object, pointers.as_ptr(), pointers.len());
        // SAFETY: the object is live; the list is as long as said, and its names end with a zero byte.
        unsafe { self.cupti.table.add_metrics(&mut params) }?;
        let mut params = ConfigSize::new();
        params.host = self.object;
        // SAFETY: the object is live.
        unsafe { self.cupti.table.config_size(&mut params) }?;
        self.config = buffer(params.bytes)?;
        let mut params = Config::new();
        (params.host, params.bytes, params.image) = (self.object, self.config.len(), self.config.as_mut_ptr());
        // SAFETY: the object is live, and the buffer as long as CUPTI asked and as said.
        unsafe { self.cupti.table.config(&mut params) }?;
        let mut params = Passes::new();
        (params.bytes, params.image) = (self.config.len(), self.config.as_ptr());
        // SAFETY: the buffer is as long as said, and what CUPTI wrote.
        unsafe { self.cupti.table.passes(&mut params) }?;
        if params.passes > MOST_PASSES {
            return Err(broken(format!(
                "it wants to count in {} passes, where {MOST_PASSES} are more than enough",
                params.passes
            )));
        }
        self.passes = params.passes;
        Ok(())
    }

    /// Names of the metrics, valid as long as `self` is not changed.
    pub(super) fn pointers(&self) -> Vec<*const c_char> {
        self.names.iter().map(|name| name.as_ptr()).collect()
    }

    /// The metrics' values in a range of what was counted.
    ///
    /// # Errors
    /// CUPTI's.
    pub(super) fn evaluate(&self, data: &[u8]) -> Result<Vec<f64>, Unavailable> {
        let pointers = self.pointers();
        let mut values = vec![f64::NAN; pointers.len()];
        let mut params = Evaluate::new();
        (params.host, params.data, params.bytes, params.range) = (self.object, data.as_ptr(), data.len(), 0);
        (params.names, params.count, params.values) = (pointers.as_ptr(), pointers.len(), values.as_mut_ptr());
        // SAFETY: the object is live; data, names and values are as long as said; the names end with a zero byte.
        unsafe { self.cupti.table.evaluate(&mut params) }?;
        Ok(values)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let mut params = HostDeinitialize::new();
        params.host = self.object;
        if !ptr::eq(self.object, ptr::null()) {
            // SAFETY: the object is live and is used no more. A refusal leaves nothing to do.
            let _ = unsafe { self.cupti.table.host_deinitialize(&mut params) };
        }
    }
}
