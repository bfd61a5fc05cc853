//! The table of driver calls. Each call is looked up by name on first use, so that an older driver lacks only the features of newer
//! calls. If a call has several ABI versions, the first one found is used, in the order written; the oldest sufficient one comes
//! first. Callers are responsible for the arguments.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::mem::ManuallyDrop;
use std::sync::OnceLock;

use libloading::os::unix::Library;

use super::error::{DriverError, SUCCESS};
use super::types::{
    AllocationProperties, Code, DeviceNumber, DevicePointer, GraphEdge, Handle, KernelNodeParams, LaunchConfig,
    MappedAccess, Uuid,
};
use plimsoll_gpu::Unavailable;

/// Looks up the first of `symbols` that the library has.
///
/// # Safety
/// `F` must be the type of the function that all of `symbols` name.
pub(super) unsafe fn resolve<F: Copy>(
    library: &Library,
    what: &'static str,
    symbols: &[&str],
) -> Result<F, Unavailable> {
    for symbol in symbols {
        // SAFETY: the caller guarantees that the symbol has the type `F`.
        if let Ok(found) = unsafe { library.get::<F>(symbol.as_bytes()) } {
            return Ok(*found);
        }
    }
    let name = symbols.first().copied().unwrap_or_default();
    Err(Unavailable::new(what, format!("the installed library has no {name}"), "Update the NVIDIA driver"))
}

macro_rules! table {
    ($($name:ident [$symbol:literal $(, $later:literal)*] ($($arg:ident: $ty:ty),*);)*) => {
        /// The library and the calls looked up so far.
        pub(crate) struct Table {
            library: ManuallyDrop<Library>,
            $($name: OnceLock<Result<unsafe extern "C" fn($($ty),*) -> Code, Unavailable>>,)*
        }

        impl Table {
            /// Takes ownership of an opened library. It is never closed: its own threads may still run in it.
            pub(super) fn new(library: Library) -> Self {
                Self { library: ManuallyDrop::new(library), $($name: OnceLock::new(),)* }
            }

            /// The symbol of every call; of several versions, the oldest.
            pub(crate) const CALLS: &[&str] = &[$($symbol),*];

            /// Checks that this driver has the call.
            pub(crate) fn has(&self, symbol: &str) -> Result<(), Unavailable> {
                match symbol {
                    $($symbol => self.$name().map(drop),)*
                    _ => Err(Unavailable::new("CUDA driver", format!("{symbol} is not used here"), "")),
                }
            }

            $(
                #[doc = concat!("The entry point of `", $symbol, "`.")]
                #[allow(clippy::type_complexity)]
                fn $name(&self) -> Result<unsafe extern "C" fn($($ty),*) -> Code, Unavailable> {
                    let found = self.$name.get_or_init(|| {
                        // SAFETY: the types are those of cuda.h for these symbols, all of which share one signature;
                        // the library is never unloaded, so the pointer stays valid.
                        unsafe { resolve(&self.library, "CUDA driver", &[$symbol $(, $later)*]) }
                    });
                    found.clone()
                }
            )*
        }

        /// The calls, with checked results: any result other than success is an error that names the call.
        ///
        /// Each is `unsafe`: the arguments must satisfy cuda.h's requirements for the call, that is live handles, and pointers that
        /// are valid for its reads and writes until it is done with them.
        #[derive(Clone, Copy)]
        pub(crate) struct Calls<'t>(pub(super) &'t Table);

        impl Calls<'_> {
            $(
                #[allow(clippy::too_many_arguments)]
                pub(crate) unsafe fn $name(self, $($arg: $ty),*) -> Result<(), DriverError> {
                    let function = self.0.$name()?;
                    // SAFETY: the caller guarantees the arguments.
                    match unsafe { function($($arg),*) } {
                        SUCCESS => Ok(()),
                        code => Err(DriverError::Call { call: $symbol, code }),
                    }
                }
            )*
        }
    };
}

table! {
    init ["cuInit"] (flags: c_uint);
    driver_version ["cuDriverGetVersion"] (version: *mut c_int);

    device_count ["cuDeviceGetCount"] (count: *mut c_int);
    device_get ["cuDeviceGet"] (device: *mut DeviceNumber, ordinal: c_int);
    device_name ["cuDeviceGetName"] (name: *mut c_char, length: c_int, device: DeviceNumber);
    // _v2 (11.4) names the MIG instance; the plain one names the whole device.
    device_uuid ["cuDeviceGetUuid_v2", "cuDeviceGetUuid"] (uuid: *mut Uuid, device: DeviceNumber);
    device_memory ["cuDeviceTotalMem_v2"] (bytes: *mut usize, device: DeviceNumber);
    device_attribute ["cuDeviceGetAttribute"] (value: *mut c_int, attribute: c_int, device: DeviceNumber);
    device_pci ["cuDeviceGetPCIBusId"] (text: *mut c_char, length: c_int, device: DeviceNumber);

    context_retain ["cuDevicePrimaryCtxRetain"] (context: *mut Handle, device: DeviceNumber);
    context_release ["cuDevicePrimaryCtxRelease", "cuDevicePrimaryCtxRelease_v2"] (device: DeviceNumber);
    context_set ["cuCtxSetCurrent"] (context: Handle);
    context_get ["cuCtxGetCurrent"] (context: *mut Handle);

    limit_get ["cuCtxGetLimit"] (value: *mut usize, limit: c_uint);
    limit_set ["cuCtxSetLimit"] (limit: c_uint, value: usize);
    persisting_reset ["cuCtxResetPersistingL2Cache"] ();

    peer_can ["cuDeviceCanAccessPeer"] (can: *mut c_int, device: DeviceNumber, peer: DeviceNumber);
    peer_enable ["cuCtxEnablePeerAccess"] (peer: Handle, flags: c_uint);
    copy_peer ["cuMemcpyPeerAsync"] (
        to: DevicePointer, to_context: Handle, from: DevicePointer, from_context: Handle, bytes: usize, stream: Handle
    );

    pointer_attributes ["cuPointerGetAttributes"] (
        count: c_uint, attributes: *const c_uint, values: *mut *mut c_void, pointer: DevicePointer
    );

    memory_info ["cuMemGetInfo_v2"] (free: *mut usize, total: *mut usize);
    memory_alloc ["cuMemAlloc_v2"] (pointer: *mut DevicePointer, bytes: usize);
    memory_free ["cuMemFree_v2"] (pointer: DevicePointer);
    // 11.2; without them memory is allocated and freed outside the stream's order.
    memory_alloc_async ["cuMemAllocAsync"] (pointer: *mut DevicePointer, bytes: usize, stream: Handle);
    memory_free_async ["cuMemFreeAsync"] (pointer: DevicePointer, stream: Handle);
    managed_alloc ["cuMemAllocManaged"] (pointer: *mut DevicePointer, bytes: usize, flags: c_uint);
    managed_prefetch ["cuMemPrefetchAsync"] (
        pointer: DevicePointer, bytes: usize, device: DeviceNumber, stream: Handle
    );
    managed_advise ["cuMemAdvise"] (pointer: DevicePointer, bytes: usize, advice: c_uint, device: DeviceNumber);
    mapped_granularity ["cuMemGetAllocationGranularity"] (
        bytes: *mut usize, wanted: *const AllocationProperties, flags: c_uint
    );
    mapped_create ["cuMemCreate"] (handle: *mut u64, bytes: usize, wanted: *const AllocationProperties, flags: u64);
    mapped_release ["cuMemRelease"] (handle: u64);
    mapped_properties ["cuMemGetAllocationPropertiesFromHandle"] (found: *mut AllocationProperties, handle: u64);
    mapped_reserve ["cuMemAddressReserve"] (
        pointer: *mut DevicePointer, bytes: usize, alignment: usize, place: DevicePointer, flags: u64
    );
    mapped_address_free ["cuMemAddressFree"] (pointer: DevicePointer, bytes: usize);
    mapped_map ["cuMemMap"] (pointer: DevicePointer, bytes: usize, offset: usize, handle: u64, flags: u64);
    mapped_unmap ["cuMemUnmap"] (pointer: DevicePointer, bytes: usize);
    mapped_access ["cuMemSetAccess"] (
        pointer: DevicePointer, bytes: usize, access: *const MappedAccess, count: usize
    );
    host_alloc ["cuMemHostAlloc"] (pointer: *mut *mut c_void, bytes: usize, flags: c_uint);
    host_free ["cuMemFreeHost"] (pointer: *mut c_void);
    host_register ["cuMemHostRegister_v2"] (pointer: *mut c_void, bytes: usize, flags: c_uint);
    host_unregister ["cuMemHostUnregister"] (pointer: *mut c_void);
    copy_up ["cuMemcpyHtoDAsync_v2"] (to: DevicePointer, from: *const c_void, bytes: usize, stream: Handle);
    copy_down ["cuMemcpyDtoHAsync_v2"] (to: *mut c_void, from: DevicePointer, bytes: usize, stream: Handle);
    copy_across ["cuMemcpyDtoDAsync_v2"] (to: DevicePointer, from: DevicePointer, bytes: usize, stream: Handle);
    fill_bytes ["cuMemsetD8Async"] (to: DevicePointer, value: u8, count: usize, stream: Handle);

    stream_create ["cuStreamCreate"] (stream: *mut Handle, flags: c_uint);
    stream_destroy ["cuStreamDestroy_v2"] (stream: Handle);
    stream_query ["cuStreamQuery"] (stream: Handle);
    capture_status ["cuStreamIsCapturing"] (stream: Handle, status: *mut c_uint);
    stream_wait_event ["cuStreamWaitEvent"] (stream: Handle, event: Handle, flags: c_uint);
    stream_attribute ["cuStreamSetAttribute"] (stream: Handle, attribute: c_uint, value: *const c_void);
    capture_begin ["cuStreamBeginCapture_v2"] (stream: Handle, mode: c_uint);
    capture_end ["cuStreamEndCapture"] (stream: Handle, graph: *mut Handle);
    capture_mode ["cuThreadExchangeStreamCaptureMode"] (mode: *mut c_uint);

    event_create ["cuEventCreate"] (event: *mut Handle, flags: c_uint);
    event_destroy ["cuEventDestroy_v2"] (event: Handle);
    event_record ["cuEventRecord"] (event: Handle, stream: Handle);
    event_query ["cuEventQuery"] (event: Handle);
    event_elapsed ["cuEventElapsedTime"] (milliseconds: *mut f32, from: Handle, to: Handle);

    module_load ["cuModuleLoadData"] (module: *mut Handle, image: *const c_void);
    module_unload ["cuModuleUnload"] (module: Handle);
    module_function ["cuModuleGetFunction"] (function: *mut Handle, module: Handle, name: *const c_char);
    module_global ["cuModuleGetGlobal_v2"] (
        pointer: *mut DevicePointer, bytes: *mut usize, module: Handle, name: *const c_char
    );
    function_attribute ["cuFuncGetAttribute"] (value: *mut c_int, attribute: c_int, function: Handle);
    function_set ["cuFuncSetAttribute"] (function: Handle, attribute: c_int, value: c_int);
    // 12.4; without it, parameter layouts are checked against the cubin only.
    function_parameter ["cuFuncGetParamInfo"] (function: Handle, index: usize, offset: *mut usize, size: *mut usize);
    occupancy ["cuOccupancyMaxActiveBlocksPerMultiprocessor"] (
        blocks: *mut c_int, function: Handle, threads: c_int, shared: usize
    );

    // 11.8.
    clusters ["cuOccupancyMaxActiveClusters"] (count: *mut c_int, function: Handle, config: *const LaunchConfig);

    launch ["cuLaunchKernel"] (
        function: Handle, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint,
        block_z: c_uint, shared: c_uint, stream: Handle, parameters: *mut *mut c_void, extra: *mut *mut c_void
    );
    // 11.8; needed only for attributes.
    launch_with ["cuLaunchKernelEx"] (
        config: *const LaunchConfig, function: Handle, parameters: *mut *mut c_void, extra: *mut *mut c_void
    );

    graph_create ["cuGraphCreate"] (graph: *mut Handle, flags: c_uint);
    graph_destroy ["cuGraphDestroy"] (graph: Handle);
    graph_kernel ["cuGraphAddKernelNode"] (
        node: *mut Handle, graph: Handle, after: *const Handle, after_count: usize, parameters: *const KernelNodeParams
    );
    // 12.3; needed only for dependent launch.
    graph_edges ["cuGraphAddDependencies_v2"] (
        graph: Handle, from: *const Handle, to: *const Handle, edges: *const GraphEdge, count: usize
    );
    graph_node_attribute ["cuGraphKernelNodeSetAttribute"] (node: Handle, attribute: c_uint, value: *const c_void);
    // 11.4.
    graph_instantiate ["cuGraphInstantiateWithFlags"] (executable: *mut Handle, graph: Handle, flags: u64);
    graph_upload ["cuGraphUpload"] (executable: Handle, stream: Handle);
    graph_launch ["cuGraphLaunch"] (executable: Handle, stream: Handle);
    graph_free ["cuGraphExecDestroy"] (executable: Handle);
}
