//! The host half of CUPTI: a chip's metrics, the counter configuration for some of them, and their values from the counted data.

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
    /// The arguments that the object was created with: the headers don't say that CUPTI copies them.
    _chip: CString,
    _availability: Vec<u8>,
    names: Vec<CString>,
    pub(super) config: Vec<u8>,
    pub(super) passes: usize,
}

// SAFETY: one thread at a time uses CUPTI's object, and it belongs to no thread (CUPTI's host calls need no particular one).
unsafe impl Send for Host {}

impl Host {
    /// A configuration for the metrics of `wanted` that the chip has, each by the first name that the chip knows. Also returns the
    /// index in `wanted` of each.
    ///
    /// # Errors
    /// CUPTI doesn't know the chip.
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
        // SAFETY: the chip's name ends with a zero byte; CUPTI wrote the image; both live as long as the object.
        unsafe { cupti.table.host_initialize(&mut params) }?;
        let (cupti, object) = (Arc::clone(cupti), params.host);
        let (names, config) = (vec![], vec![]);
        let mut host = Self { cupti, object, _chip: chip, _availability: availability, names, config, passes: 0 };
        let mut places = Vec::new();
        for (place, names) in wanted.iter().enumerate() {
            if let Some(name) = names.iter().find(|name| host.has_metric(name)) {
                host.names.push((*name).to_owned());
                places.push(place);
            }
        }
        if !host.names.is_empty() {
            host.configure()?;
        }
        Ok((host, places))
    }

    fn has_metric(&self, name: &CStr) -> bool {
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
        // SAFETY: the object is live; the list has the given length, and its names end with a zero byte.
        unsafe { self.cupti.table.add_metrics(&mut params) }?;
        let mut params = ConfigSize::new();
        params.host = self.object;
        // SAFETY: the object is live.
        unsafe { self.cupti.table.config_size(&mut params) }?;
        self.config = buffer(params.bytes)?;
        let mut params = Config::new();
        (params.host, params.bytes, params.image) = (self.object, self.config.len(), self.config.as_mut_ptr());
        // SAFETY: the object is live; the buffer has the given length, which CUPTI requested.
        unsafe { self.cupti.table.config(&mut params) }?;
        let mut params = Passes::new();
        (params.bytes, params.image) = (self.config.len(), self.config.as_ptr());
        // SAFETY: the buffer has the given length, and CUPTI wrote it.
        unsafe { self.cupti.table.passes(&mut params) }?;
        if params.passes > MOST_PASSES {
            return Err(broken(format!("it needs {} passes; at most {MOST_PASSES} are plausible", params.passes)));
        }
        self.passes = params.passes;
        Ok(())
    }

    /// Names of the metrics, valid as long as `self` is not changed.
    pub(super) fn pointers(&self) -> Vec<*const c_char> {
        self.names.iter().map(|name| name.as_ptr()).collect()
    }

    /// The metrics' values in the first range of the counted data.
    pub(super) fn evaluate(&self, data: &[u8]) -> Result<Vec<f64>, Unavailable> {
        let pointers = self.pointers();
        let mut values = vec![f64::NAN; pointers.len()];
        let mut params = Evaluate::new();
        (params.host, params.data, params.bytes, params.range) = (self.object, data.as_ptr(), data.len(), 0);
        (params.names, params.count, params.values) = (pointers.as_ptr(), pointers.len(), values.as_mut_ptr());
        // SAFETY: the object is live; data, names and values have the given lengths; the names end with a zero byte.
        unsafe { self.cupti.table.evaluate(&mut params) }?;
        Ok(values)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let mut params = HostDeinitialize::new();
        params.host = self.object;
        if !ptr::eq(self.object, ptr::null()) {
            // SAFETY: the object is live and not used again. A failure can't be handled here.
            let _ = unsafe { self.cupti.table.host_deinitialize(&mut params) };
        }
    }
}
