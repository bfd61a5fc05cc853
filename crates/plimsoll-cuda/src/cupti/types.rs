//! The parameter structures of CUPTI's calls, as in its headers of CUDA 12.6 to 13.0 on 64-bit Linux. Each starts with its own
//! size: the end of its last field, not `size_of`, which includes trailing padding and is refused.

use std::ffi::{c_char, c_void};
use std::mem::size_of;

/// `CUptiResult`.
pub(super) type Code = u32;
/// An object of CUPTI or the driver, opaque.
pub(super) type Object = *mut c_void;

macro_rules! params {
    ($($(#[$doc:meta])* $name:ident $size:literal { $($field:ident: $ty:ty,)* })*) => {$(
        $(#[$doc])*
        #[repr(C)]
        pub(super) struct $name {
            size: usize,
            private: *mut c_void,
            $(pub(super) $field: $ty,)*
        }

        impl $name {
            /// The size that CUPTI expects.
            const SIZE: usize = {
                let ends = [2 * size_of::<usize>() $(, std::mem::offset_of!(Self, $field) + size_of::<$ty>())*];
                ends[ends.len() - 1]
            };

            /// All zero except the size.
            pub(super) fn new() -> Self {
                // SAFETY: every field is an integer or a raw pointer, for which zero is a valid value.
                let mut params: Self = unsafe { std::mem::zeroed() };
                params.size = Self::SIZE;
                params
            }
        }

        /// Checks the size against the headers.
        const _: () = assert!($name::SIZE == $size);
    )*};
}

params! {
    /// `CUpti_Profiler_Initialize_Params`, and `…DeInitialize…`.
    Initialize 16 {}
    /// `CUpti_Profiler_GetCounterAvailability_Params`.
    Availability 40 { context: Object, size_of_image: usize, image: *mut u8, }
    /// `CUpti_Device_GetChipName_Params`.
    ChipName 32 { device: usize, name: *const c_char, }
    /// `CUpti_Profiler_Host_Initialize_Params`.
    HostInitialize 48 { kind: u32, chip: *const c_char, availability: *const u8, host: Object, }
    /// `CUpti_Profiler_Host_Deinitialize_Params`.
    HostDeinitialize 24 { host: Object, }
    /// `CUpti_Profiler_Host_GetMetricProperties_Params`.
    Properties 60 {
        host: Object, name: *const c_char, description: *const c_char, hardware: *const c_char, dimension: *const c_char,
        kind: u32,
    }
    /// `CUpti_Profiler_Host_ConfigAddMetrics_Params`.
    AddMetrics 40 { host: Object, names: *const *const c_char, count: usize, }
    /// `CUpti_Profiler_Host_GetConfigImageSize_Params`.
    ConfigSize 32 { host: Object, bytes: usize, }
    /// `CUpti_Profiler_Host_GetConfigImage_Params`.
    Config 40 { host: Object, bytes: usize, image: *mut u8, }
    /// `CUpti_Profiler_Host_GetNumOfPasses_Params`.
    Passes 40 { bytes: usize, image: *const u8, passes: usize, }
    /// `CUpti_Profiler_Host_EvaluateToGpuValues_Params`.
    Evaluate 72 {
        host: Object, data: *const u8, bytes: usize, range: usize, names: *const *const c_char, count: usize,
        values: *mut f64,
    }
    /// `CUpti_RangeProfiler_Enable_Params`.
    Enable 32 { context: Object, profiler: Object, }
    /// `CUpti_RangeProfiler_Disable_Params`, `…Start…` and `…PopRange…`.
    Profiler 24 { profiler: Object, }
    /// `CUpti_RangeProfiler_Stop_Params`.
    Stop 41 { profiler: Object, pass: usize, level: usize, all_submitted: u8, }
    /// `CUpti_RangeProfiler_PushRange_Params`.
    PushRange 32 { profiler: Object, name: *const c_char, }
    /// `CUpti_RangeProfiler_DecodeData_Params`.
    Decode 32 { profiler: Object, dropped: usize, }
    /// `CUpti_RangeProfiler_GetCounterDataSize_Params`.
    DataSize 64 {
        profiler: Object, names: *const *const c_char, count: usize, ranges: usize, nodes: u32, bytes: usize,
    }
    /// `CUpti_RangeProfiler_CounterDataImage_Initialize_Params`.
    DataInitialize 40 { profiler: Object, bytes: usize, image: *mut u8, }
    /// `CUpti_RangeProfiler_SetConfig_Params`.
    SetConfig 90 {
        profiler: Object, config_bytes: usize, config: *const u8, data_bytes: usize, data: *mut u8, range: u32, replay: u32,
        ranges: usize, levels: u16, least_level: u16, pass: usize, level: u16,
    }
}

/// `CUPTI_PROFILER_TYPE_RANGE_PROFILER`.
pub(super) const RANGE_PROFILER: u32 = 0;
/// `CUPTI_UserRange`: everything launched between push and pop is one range.
pub(super) const USER_RANGE: u32 = 2;
/// `CUPTI_UserReplay`: the caller launches again for further passes, and prepares the state before each. Replay by CUPTI restores
/// memory between passes, which changes the contents of the caches.
pub(super) const USER_REPLAY: u32 = 3;
