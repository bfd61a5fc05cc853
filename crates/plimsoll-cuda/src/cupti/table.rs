//! The calls of CUPTI that we use, each by its name in the headers. Arguments are the callers' duty.

use std::mem::ManuallyDrop;
use std::path::Path;

use libloading::os::unix::{self, RTLD_LOCAL, RTLD_NOW};

use super::error::{SUCCESS, refusal};
use super::types::*;
use super::{search, shown};
use crate::unavailable::Unavailable;

macro_rules! table {
    ($($name:ident [$symbol:literal] ($ty:ty);)*) => {
        /// The library and its calls. It is never closed: it has hooks in the driver.
        pub(super) struct Table {
            version: unsafe extern "C" fn(*mut u32) -> Code,
            $($name: unsafe extern "C" fn(*mut $ty) -> Code,)*
            _library: ManuallyDrop<unix::Library>,
        }

        impl Table {
            /// Every call that takes a structure, by its symbol.
            pub(super) const CALLS: &[&str] = &[$($symbol),*];

            fn resolve(library: unix::Library) -> Result<Self, String> {
                // SAFETY: the types are those of the headers for these symbols; the library is never closed, so the
                // pointers stay valid.
                unsafe {
                    Ok(Self {
                        version: symbol(&library, "cuptiGetVersion")?,
                        $($name: symbol(&library, $symbol)?,)*
                        _library: ManuallyDrop::new(library),
                    })
                }
            }

            $(
                #[doc = concat!("`", $symbol, "`.")]
                ///
                /// # Safety
                /// Every pointer and object in `params` must be live and as long as it says until the call returns.
                pub(super) unsafe fn $name(&self, params: &mut $ty) -> Result<(), Unavailable> {
                    // SAFETY: `params` is live, of the call's type and size; the rest is this function's own obligation.
                    match unsafe { (self.$name)(params) } {
                        SUCCESS => Ok(()),
                        code => Err(refusal($symbol, code)),
                    }
                }
            )*
        }
    };
}

table! {
    initialize ["cuptiProfilerInitialize"] (Initialize);
    deinitialize ["cuptiProfilerDeInitialize"] (Initialize);
    availability ["cuptiProfilerGetCounterAvailability"] (Availability);
    chip_name ["cuptiDeviceGetChipName"] (ChipName);

    host_initialize ["cuptiProfilerHostInitialize"] (HostInitialize);
    host_deinitialize ["cuptiProfilerHostDeinitialize"] (HostDeinitialize);
    properties ["cuptiProfilerHostGetMetricProperties"] (Properties);
    add_metrics ["cuptiProfilerHostConfigAddMetrics"] (AddMetrics);
    config_size ["cuptiProfilerHostGetConfigImageSize"] (ConfigSize);
    config ["cuptiProfilerHostGetConfigImage"] (Config);
    passes ["cuptiProfilerHostGetNumOfPasses"] (Passes);
    evaluate ["cuptiProfilerHostEvaluateToGpuValues"] (Evaluate);

    enable ["cuptiRangeProfilerEnable"] (Enable);
    disable ["cuptiRangeProfilerDisable"] (Profiler);
    data_size ["cuptiRangeProfilerGetCounterDataSize"] (DataSize);
    data_initialize ["cuptiRangeProfilerCounterDataImageInitialize"] (DataInitialize);
    set_config ["cuptiRangeProfilerSetConfig"] (SetConfig);
    start ["cuptiRangeProfilerStart"] (Profiler);
    stop ["cuptiRangeProfilerStop"] (Stop);
    push ["cuptiRangeProfilerPushRange"] (PushRange);
    pop ["cuptiRangeProfilerPopRange"] (Profiler);
    decode ["cuptiRangeProfilerDecodeData"] (Decode);
}

/// # Safety
/// `F` must be the type of the function that the symbol names.
unsafe fn symbol<F: Copy>(library: &unix::Library, name: &str) -> Result<F, String> {
    // SAFETY: this function's own obligation.
    let found = unsafe { library.get::<F>(name.as_bytes()) };
    found.map(|found| *found).map_err(|_| format!("it has no {name}: CUDA 12.6 or newer is needed"))
}

impl Table {
    /// Opens the library.
    pub(super) fn open(library: &Path) -> Result<Self, String> {
        Self::resolve(open(library)?)
    }

    /// The same number for the same library, however often it was opened.
    pub(super) fn identity(&self) -> usize {
        self.initialize as usize
    }

    /// CUPTI's version of its interface, as it counts: 24 is of CUDA 12.6, 130001 of CUDA 13.0.
    pub(super) fn version(&self) -> u32 {
        let mut version = 0;
        // SAFETY: the pointer is valid for one write. A refusal leaves 0, which is older than all.
        unsafe { (self.version)(&raw mut version) };
        version
    }
}

/// Opens what a library asks for by bare name once it works: large, and needed only then.
pub(super) fn open_companions(library: &Path) -> Result<(), String> {
    for companion in search::companions(library) {
        // Never closed: it is found by name among the libraries that are loaded.
        let _ = ManuallyDrop::new(open(&companion)?);
    }
    Ok(())
}

fn open(path: &Path) -> Result<unix::Library, String> {
    // SAFETY: loading runs the library's initialisers. The path is absolute, in a folder that the user or the system
    // chose, or a bare name that the loader looks up in the system's folders; never in the current one.
    let library = unsafe { unix::Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) };
    library.map_err(|error| shown(&error.to_string()))
}
