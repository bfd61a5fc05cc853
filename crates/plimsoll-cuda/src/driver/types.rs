//! The driver's types as its ABI has them: opaque handles and the few structures that cross the boundary. Names are
//! cuda.h's; each structure is the oldest version that carries what we need, and its layout is asserted here.

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

// SAFETY: a handle is a token that only the driver dereferences, and the driver's calls may be made from any thread
// (CUDA Driver API, "Thread Safety"). No Rust code reads through it.
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
    /// The union, as its first words.
    pub value: [u32; 16],
}

impl LaunchAttribute {
    /// An attribute whose value begins with `words`.
    #[must_use]
    pub fn new(id: u32, words: &[u32]) -> Self {
        let mut value = [0; 16];
        for (slot, word) in value.iter_mut().zip(words) {
            *slot = *word;
        }
        Self { id, padding: 0, value }
    }
}

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

/// Sizes, alignments and offsets as cuda.h of CUDA 11.8 to 13.0 has them on 64-bit Linux.
const _: () = {
    assert!(size_of::<Handle>() == 8 && size_of::<Uuid>() == 16);
    assert!(size_of::<KernelNodeParams>() == 56 && offset_of!(KernelNodeParams, parameters) == 40);
    assert!(offset_of!(KernelNodeParams, grid) == 8 && offset_of!(KernelNodeParams, shared) == 32);
    assert!(size_of::<LaunchAttribute>() == 72 && align_of::<LaunchAttribute>() == 8);
    assert!(offset_of!(LaunchAttribute, value) == 8);
    assert!(size_of::<LaunchConfig>() == 56 && offset_of!(LaunchConfig, stream) == 32);
    assert!(offset_of!(LaunchConfig, attributes) == 40 && offset_of!(LaunchConfig, attribute_count) == 48);
    assert!(size_of::<GraphEdge>() == 8 && offset_of!(GraphEdge, kind) == 2);
};
