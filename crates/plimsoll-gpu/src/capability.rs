//! What a GPU can do beyond plain launches: each a value, or the reason why there is none.

use plimsoll_gen::kernel::Source;

use crate::{Gpu, Unavailable};

/// Limits that launches and allocations are checked against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Threads per block.
    pub threads: u32,
    /// Blocks of a grid in x.
    pub blocks: u32,
    /// Bytes of a kernel's arguments together.
    pub argument_bytes: u32,
    /// Bytes of one allocation.
    pub allocation: u64,
    /// Allocations begin at multiples of this many bytes.
    pub alignment: u64,
    /// Bytes of shared memory that a block may have, its kernel's own included.
    pub shared_per_block: u32,
    /// Bytes of shared memory that all blocks on a multiprocessor have together; the block's limit where the driver doesn't tell.
    pub shared_per_multiprocessor: u32,
}

/// Time stamps in a stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stamps {
    /// Nanoseconds of one step, as the driver reports or as measured.
    pub step: f64,
    /// Bits that count.
    pub bits: u32,
}

/// A clock that kernels read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelClock {
    /// Bits that count.
    pub bits: u32,
    /// Whether kernels read nanoseconds too. Where not, the clock's rate is what it counted between two stamps.
    pub nanoseconds: bool,
}

/// Clusters of blocks that read each other's shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterSizes {
    /// Blocks that every device of the kind allows; more must be asked for.
    pub portable: u32,
}

/// What a device may lack that some probes need: a field of [`Capabilities`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// [`Capabilities::kernel_clock`].
    KernelClock,
    /// [`Capabilities::graphs`].
    Graphs,
    /// [`Capabilities::cooperative`].
    Cooperative,
    /// [`Capabilities::clusters`].
    Clusters,
    /// Code for a kernel of this source at least.
    Code(&'static Source),
}

/// What a device can do.
#[derive(Clone, Debug)]
pub struct Capabilities {
    /// A CPU that runs kernels: named as such, and never chosen by itself.
    pub software: bool,
    /// Limits.
    pub limits: Limits,
    /// Whether kernels can be made ready.
    pub kernels: Result<(), Unavailable>,
    /// Time stamps.
    pub stamps: Result<Stamps, Unavailable>,
    /// Clocks inside kernels.
    pub kernel_clock: Result<KernelClock, Unavailable>,
    /// Many launches submitted at once.
    pub graphs: Result<(), Unavailable>,
    /// Launches in a stream that begin before the one before has ended.
    pub dependent: Result<(), Unavailable>,
    /// The same in graphs.
    pub dependent_graphs: Result<(), Unavailable>,
    /// Grids whose blocks are all resident and may wait for each other.
    pub cooperative: Result<(), Unavailable>,
    /// Clusters of blocks.
    pub clusters: Result<ClusterSizes, Unavailable>,
    /// Further streams, whose work may overlap with that of the first.
    pub second_stream: Result<(), Unavailable>,
    /// Memory of the host that kernels read where it is.
    pub host_memory: Result<(), Unavailable>,
}

/// Whether a device has what is needed.
///
/// # Errors
/// Why not.
pub fn has<G: Gpu>(device: &G::Device, need: Need) -> Result<(), Unavailable> {
    let known = G::capabilities(device);
    match need {
        Need::KernelClock => known.kernel_clock.clone().map(drop),
        Need::Graphs => known.graphs.clone(),
        Need::Cooperative => known.cooperative.clone(),
        Need::Clusters => known.clusters.clone().map(drop),
        Need::Code(source) => {
            let mut reason = None;
            for kernel in source.kernels(G::target(device)) {
                match G::runs(device, &kernel) {
                    Ok(()) => return Ok(()),
                    Err(why) => reason = reason.or(Some(why)),
                }
            }
            let none = || format!("{} has no kernel for this device", source.name());
            Err(reason.unwrap_or_else(|| Unavailable::new("kernels", none(), "Measure another device")))
        }
    }
}
