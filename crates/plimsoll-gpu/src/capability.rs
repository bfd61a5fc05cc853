//! What a GPU can do beyond plain launches: each capability is a value, or the reason why it is missing.

use plimsoll_core::Fault;
use plimsoll_core::probe::Requirement;
use plimsoll_gen::kernel::Source;

use crate::{Gpu, Unavailable};

/// Limits that launches and allocations are checked against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Threads per block.
    pub threads: u32,
    /// Blocks of a grid in x.
    pub blocks: u32,
    /// Bytes of all arguments of a kernel.
    pub argument_bytes: u32,
    /// Bytes of one allocation.
    pub allocation: u64,
    /// Allocations begin at multiples of this many bytes.
    pub alignment: u64,
    /// Bytes of shared memory per block, static and dynamic.
    pub shared_per_block: u32,
    /// Bytes of shared memory of all blocks on a multiprocessor; the limit per block where the driver doesn't report it.
    pub shared_per_multiprocessor: u32,
}

/// Time stamps in a stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stamps {
    /// Nanoseconds of one step, as reported by the driver or as measured.
    pub step: f64,
    /// Valid bits.
    pub bits: u32,
}

/// A clock that kernels read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelClock {
    /// Valid bits.
    pub bits: u32,
    /// Whether kernels can also read nanoseconds. If not, the clock's rate is measured between two time stamps.
    pub nanoseconds: bool,
}

/// Clusters of blocks that read each other's shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterSizes {
    /// Blocks per cluster that every device with clusters allows; more must be requested.
    pub portable: u32,
}

/// A capability that some probes need and a device may lack: a field of [`Capabilities`].
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
    /// Code for at least one kernel of this source.
    Code(&'static Source),
}

/// What a device can do.
#[derive(Clone, Debug)]
pub struct Capabilities {
    /// The device is a CPU that runs kernels. It is named as such and never chosen automatically.
    pub software: bool,
    /// Limits of launches and allocations.
    pub limits: Limits,
    /// Whether kernels can be compiled.
    pub kernels: Result<(), Unavailable>,
    /// Time stamps in a stream.
    pub stamps: Result<Stamps, Unavailable>,
    /// Clock for in-kernel timing.
    pub kernel_clock: Result<KernelClock, Unavailable>,
    /// Many launches submitted together.
    pub graphs: Result<(), Unavailable>,
    /// Programmatic dependent launch in a stream: a launch may begin before the one before has ended.
    pub dependent: Result<(), Unavailable>,
    /// Programmatic dependent launch in graphs.
    pub dependent_graphs: Result<(), Unavailable>,
    /// Cooperative launches: all blocks are resident and may wait for each other.
    pub cooperative: Result<(), Unavailable>,
    /// Clusters of blocks.
    pub clusters: Result<ClusterSizes, Unavailable>,
    /// More streams, whose work may overlap with that of the first.
    pub second_stream: Result<(), Unavailable>,
    /// Host memory that kernels read in place.
    pub host_memory: Result<(), Unavailable>,
}

impl<G: Gpu> Requirement<G> for Need {
    fn check_ready(device: &G::Device) -> Result<(), Fault> {
        Ok(G::capabilities(device).kernels.clone()?)
    }

    fn check(self, device: &G::Device) -> Result<(), Fault> {
        Ok(find::<G>(device, self)?)
    }
}

fn find<G: Gpu>(device: &G::Device, need: Need) -> Result<(), Unavailable> {
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
