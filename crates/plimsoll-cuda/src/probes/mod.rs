//! The GPU runners of probes whose folder in `plimsoll-probes` has no `gpu.rs`, one file each, and the registry of all. What they share is in `unit` (a probe's kernels, compiled as one),
//! `checker` (fills, poison and checks by kernels compiled apart), `window` (how large arrays are and how launches walk
//! through them), `kit`, which joins these for the bandwidth probes, and `verify`, which holds every kernel to its oracle.
//! Experiments on the architecture are `lab`'s. Workloads whose kernels time themselves are `inside`'s; `folds` holds what walks read to a naive one. What the figures mean is
//! `plimsoll-probes`'.

mod atomics;
pub mod bench;
mod dispatch;
pub(crate) mod elementwise_verify;
mod folds;
mod footprint;
mod gather;
mod incore;
mod incore_oracle;
mod interference;
mod l1;
mod l2;
mod lab;
mod loaded_latency;
mod managed;
mod meter;
mod mix;
mod peer;
mod roofline;
mod strides;
mod sync;
mod tensor;
mod tensor_oracle;
mod topology;
mod transfer;
mod turns;
mod uniformity;

use std::sync::LazyLock;

use plimsoll_core::probe::Probe;

use crate::Cuda;

/// The generic parts, of this backend.
mod checker {
    pub(super) use plimsoll_gpu::checker::POISON;
    pub(super) type Checker = plimsoll_gpu::checker::Checker<crate::Cuda>;
}
mod inside {
    pub(super) use plimsoll_gpu::in_kernel::{Of, Place, Told, ran_on};
    pub(super) type Inside = plimsoll_gpu::in_kernel::Inside<crate::Cuda>;
    pub(super) type Last<'a> = plimsoll_gpu::in_kernel::Last<'a, crate::Cuda>;
}
mod kit {
    pub(super) use plimsoll_gpu::kit::{GRAPH, all, asked, late};
    pub(super) type Kit = plimsoll_gpu::kit::Kit<crate::Cuda>;

    /// See [`plimsoll_gpu::kit::alone`].
    pub(super) fn alone(device: &crate::CudaDevice, fixed: u32) -> u32 {
        plimsoll_gpu::kit::alone::<crate::Cuda>(device, fixed)
    }
}
mod steady {
    pub(super) type Steady = plimsoll_gpu::steady::Steady<crate::Cuda>;
}
mod unit {
    pub(super) type Unit = plimsoll_gpu::unit::Unit<crate::Cuda>;
}
mod verify {
    pub(super) use plimsoll_gpu::verify::{Leaves, Rules, sizes, source};
}
mod window {
    use plimsoll_core::Fault;
    use plimsoll_core::flag::Flags;
    pub(super) use plimsoll_gpu::window::Rotation;

    pub(super) type Flush = plimsoll_gpu::window::Flush<crate::Cuda>;

    /// See [`plimsoll_gpu::window::room`].
    pub(super) fn room(device: &crate::CudaDevice, arrays: u64, wanted: u64) -> Result<(u64, Flags), Fault> {
        plimsoll_gpu::window::room::<crate::Cuda>(device, arrays, wanted)
    }
}

/// Every probe of this backend, in the order of [`plimsoll_probes::ALL`].
pub static PROBES: LazyLock<Vec<&'static dyn Probe<Cuda>>> =
    LazyLock::new(|| plimsoll_probes::in_order(&[OWN, &plimsoll_probes::gpu_probes()]));

/// Those whose folder in `plimsoll-probes` has no `gpu.rs`.
static OWN: &[&dyn Probe<Cuda>] = &[
    &mix::Mix,
    &dispatch::Dispatch,
    &gather::Gather,
    &footprint::Footprint,
    &uniformity::Uniformity,
    &loaded_latency::LoadedLatency,
    &topology::Topology,
    &atomics::Atomics,
    &incore::Incore,
    &l1::L1,
    &l2::L2,
    &strides::Strides,
    &sync::Sync,
    &transfer::Transfer,
    &interference::Interference,
    &managed::Managed,
    &peer::Peer,
    &roofline::Roofline,
    &tensor::Tensor,
    &lab::sectors::Sectors,
    &lab::fetch_granularity::FetchGranularity,
    &lab::l2_reuse::L2Reuse,
    &lab::residency::Residency,
    &lab::compression::Compression,
    &lab::rtm::Rtm,
    &lab::async_copy::AsyncCopy,
    &lab::tti::Tti,
    &lab::write_path::WritePath,
    &lab::block_order::BlockOrder,
    &lab::formats::Formats,
    &lab::gemm::Gemm,
    &lab::pic::Pic,
];

#[cfg(test)]
mod tests {
    use super::PROBES;

    #[test]
    fn every_probe_that_there_is_runs_here_in_the_order_on_screen() {
        let names: Vec<&str> = PROBES.iter().map(|probe| probe.spec().name).collect();
        let all: Vec<&str> = plimsoll_probes::ALL.iter().map(|spec| spec.name).collect();
        assert_eq!(names, all);
    }
}
