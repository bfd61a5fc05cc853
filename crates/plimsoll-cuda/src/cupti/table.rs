//! The table of CUPTI calls, each with its symbol in the headers. Callers are responsible for the arguments.

use std::path::Path;

use super::error::{SUCCESS, refusal};
use super::types::*;
use super::{sanitize, search};
use crate::library::ResidentLibrary;
use plimsoll_gpu::Unavailable;

/// The first CUDA whose library has all of them.
const NEEDED: &str = "12.6";

macro_rules! table {
    ($($name:ident [$symbol:literal] ($ty:ty);)*) => {
        /// The library and its calls. It is never closed: it has hooks in the driver.
        pub(super) struct Table {
            version: unsafe extern "C" fn(*mut u32) -> Code,
            $($name: unsafe extern "C" fn(*mut $ty) -> Code,)*
            _library: ResidentLibrary,
        }

        impl Table {
            /// Every call that takes a structure, by its symbol.
            pub(super) const CALLS: &[&str] = &[$($symbol),*];

            fn resolve(library: ResidentLibrary) -> Result<Self, String> {
                // SAFETY: the types are those of the headers for these symbols; the library is never closed, so the
                // pointers stay valid.
                unsafe {
                    Ok(Self {
                        version: library.symbol("cuptiGetVersion", NEEDED)?,
                        $($name: library.symbol($symbol, NEEDED)?,)*
                        _library: library,
                    })
                }
            }

            $(
                #[doc = concat!("`", $symbol, "`.")]
                ///
                /// # Safety
                /// Every pointer and object in `params` must be live, with the lengths that it gives, until the call returns.
                pub(super) unsafe fn $name(&self, params: &mut $ty) -> Result<(), Unavailable> {
                    // SAFETY: `params` is live, of the call's type and size; the caller guarantees the rest.
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

impl Table {
    /// Opens the library.
    pub(super) fn open(library: &Path) -> Result<Self, String> {
        Self::resolve(open(library)?)
    }

    /// A number that identifies the library, however often it was opened.
    pub(super) fn identity(&self) -> usize {
        self.initialize as usize
    }

    /// CUPTI's interface version: 24 belongs to CUDA 12.6, 130001 to CUDA 13.0.
    pub(super) fn version(&self) -> u32 {
        let mut version = 0;
        // SAFETY: the pointer is valid for one write. A failure leaves 0, which counts as oldest.
        unsafe { (self.version)(&raw mut version) };
        version
    }
}

/// Opens the libraries that CUPTI loads by bare name once a session starts. They are large and not needed before.
pub(super) fn open_companions(library: &Path) -> Result<(), String> {
    for companion in search::companions(library) {
        // CUPTI finds it by name among the loaded libraries.
        open(&companion)?;
    }
    Ok(())
}

fn open(path: &Path) -> Result<ResidentLibrary, String> {
    ResidentLibrary::open(path).map_err(|error| sanitize(&error))
}
