//! Types of the driver's ABI: opaque handles and the few structures that cross the boundary. The names in backticks are those of
//! cuda.h. Each structure is the oldest version with the fields that we need, and its layout is asserted here.

use std::ffi::c_void;
use std::mem::{align_of, offset_of, size_of};

/// A result code, `CUresult`.
pub type Code = u32;
/// `CUdevice`.
pub type DeviceNumber = i32;
/// `CUdeviceptr`.
pub type DevicePointer = u64;

/// An opaque object of the driver: `CUcontext`, `CUstream`, `CUevent`, `CUmodule`, `CUfunction`, `CUgraph`, …
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Handle(pub(crate) *mut c_void);

impl Handle {
    /// No object.
    pub(crate) const NULL: Self = Self(std::ptr::null_mut());
}

// SAFETY: a handle is a token that only the driver dereferences, and the driver may be called from any thread (CUDA Driver API,
// "Thread Safety"). No Rust code reads through it.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

/// `CUuuid`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Uuid(pub [u8; 16]);

/// `CUDA_KERNEL_NODE_PARAMS_v1`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct KernelNodeParams {
    /// `CUfunction`.
    pub function: Handle,
    /// Blocks, x y z.
    pub grid: [u32; 3],
    /// Threads per block, x y z.
    pub block: [u32; 3],
    /// Dynamic shared memory per block, bytes.
    pub shared: u32,
    /// One pointer per kernel parameter.
    pub parameters: *mut *mut c_void,
    /// Unused.
    pub extra: *mut *mut c_void,
}

/// `CUlaunchAttribute`: an id and a union of 64 bytes.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
pub struct LaunchAttribute {
    /// `CUlaunchAttributeID`.
    pub id: u32,
    padding: u32,
    /// The union, as words.
    pub value: [u32; 16],
}

impl LaunchAttribute {
    /// An attribute whose value starts with `words`; the rest is 0.
    #[must_use]
    pub fn new(id: u32, words: &[u32]) -> Self {
        let mut value = [0; 16];
        for (slot, word) in value.iter_mut().zip(words) {
            *slot = *word;
        }
        Self { id, padding: 0, value }
    }
}

/// `CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW`: a pointer, a size, a float, two ints.
pub const ATTRIBUTE_WINDOW: u32 = 1;
/// `CU_LAUNCH_ATTRIBUTE_COOPERATIVE`: one int.
pub const ATTRIBUTE_COOPERATIVE: u32 = 2;
/// `CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION`: three unsigned ints.
pub const ATTRIBUTE_CLUSTER: u32 = 4;
/// `CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION`: one int.
pub const ATTRIBUTE_DEPENDENT: u32 = 6;

/// `CUlaunchConfig`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct LaunchConfig {
    /// Blocks, x y z.
    pub grid: [u32; 3],
    /// Threads per block, x y z.
    pub block: [u32; 3],
    /// Dynamic shared memory per block, bytes.
    pub shared: u32,
    /// `CUstream`.
    pub stream: Handle,
    /// Attributes, or null.
    pub attributes: *mut LaunchAttribute,
    /// How many of them.
    pub attribute_count: u32,
}

/// `CUgraphEdgeData` (driver 12.3).
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct GraphEdge {
    /// `CU_GRAPH_KERNEL_NODE_PORT_…` of the earlier node.
    pub from_port: u8,
    /// Always 0.
    pub to_port: u8,
    /// `CUgraphDependencyType`.
    pub kind: u8,
    reserved: [u8; 5],
}

impl GraphEdge {
    /// The later kernel may start once every block of the earlier one has triggered it or ended:
    /// `CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC` with `CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC`.
    pub const DEPENDENT: Self = Self { from_port: 1, to_port: 0, kind: 1, reserved: [0; 5] };
}

/// `CUmemLocation`: the kind of memory and the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
struct MemoryLocation {
    /// `CU_MEM_LOCATION_TYPE_DEVICE` is 1.
    kind: u32,
    /// The device.
    id: DeviceNumber,
}

/// `CUmemAllocationProp_v1`: properties of memory, requested or granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct AllocationProperties {
    /// `CU_MEM_ALLOCATION_TYPE_PINNED` is 1.
    kind: u32,
    handles: u32,
    location: MemoryLocation,
    windows: *mut c_void,
    /// `CU_MEM_ALLOCATION_COMP_GENERIC` is 1.
    compression: u8,
    remote: u8,
    usage: u16,
    reserved: [u8; 4],
}

impl AllocationProperties {
    /// Memory of a device, with or without generic compression.
    #[must_use]
    pub fn new(device: DeviceNumber, compressible: bool) -> Self {
        let location = MemoryLocation { kind: 1, id: device };
        Self { kind: 1, location, compression: u8::from(compressible), ..Self::default() }
    }

    /// Whether it has generic compression.
    #[must_use]
    pub fn is_compressible(&self) -> bool {
        self.compression == 1
    }
}

impl Default for AllocationProperties {
    fn default() -> Self {
        let (location, windows) = (MemoryLocation::default(), std::ptr::null_mut());
        Self { kind: 0, handles: 0, location, windows, compression: 0, remote: 0, usage: 0, reserved: [0; 4] }
    }
}

/// `CUmemAccessDesc`: which device may access a mapping, and how.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct MappedAccess {
    location: MemoryLocation,
    /// `CU_MEM_ACCESS_FLAGS_PROT_READWRITE` is 3.
    flags: u32,
}

impl MappedAccess {
    /// Read and write access for a device.
    #[must_use]
    pub fn new(device: DeviceNumber) -> Self {
        Self { location: MemoryLocation { kind: 1, id: device }, flags: 3 }
    }
}

/// Sizes, alignments and offsets in cuda.h of CUDA 11.8 to 13.0 on 64-bit Linux.
const _: () = {
    assert!(size_of::<Handle>() == 8 && size_of::<Uuid>() == 16);
    assert!(size_of::<KernelNodeParams>() == 56 && offset_of!(KernelNodeParams, parameters) == 40);
    assert!(offset_of!(KernelNodeParams, grid) == 8 && offset_of!(KernelNodeParams, shared) == 32);
    assert!(size_of::<LaunchAttribute>() == 72 && align_of::<LaunchAttribute>() == 8);
    assert!(offset_of!(LaunchAttribute, value) == 8);
    assert!(size_of::<LaunchConfig>() == 56 && offset_of!(LaunchConfig, stream) == 32);
    assert!(offset_of!(LaunchConfig, attributes) == 40 && offset_of!(LaunchConfig, attribute_count) == 48);
    assert!(size_of::<AllocationProperties>() == 32 && offset_of!(AllocationProperties, location) == 8);
    assert!(offset_of!(AllocationProperties, windows) == 16 && offset_of!(AllocationProperties, compression) == 24);
    assert!(size_of::<MappedAccess>() == 12 && offset_of!(MappedAccess, flags) == 8);
    assert!(size_of::<GraphEdge>() == 8 && offset_of!(GraphEdge, kind) == 2);
};
