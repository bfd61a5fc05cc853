//! The GPU's probes, one file each, and the registry. What they share is in `unit` (a probe's kernels, compiled as one),
//! `checker` (fills, poison and checks by kernels compiled apart), `window` (how large arrays are and how launches walk
//! through them), `kit`, which joins these for the bandwidth probes, and `verify`, which holds every kernel to its oracle.
//! Experiments on the architecture are `lab`'s. Workloads whose kernels time themselves are `inside`'s; `folds` holds what walks read to a naive one. What the figures mean is
//! `plimsoll-suite`'s.

mod atomics;
pub mod bench;
mod checker;
mod cluster;
mod copy;
mod dispatch;
pub(crate) mod elementwise_verify;
mod folds;
mod footprint;
mod gather;
mod incore;
mod incore_oracle;
mod inside;
mod interference;
mod kit;
mod l1;
mod l2;
mod lab;
mod latency;
mod launch;
mod loaded_latency;
mod managed;
mod meter;
mod mix;
mod peer;
mod roofline;
mod steady;
mod stream;
mod strides;
mod sync;
mod tensor;
mod tensor_oracle;
mod topology;
mod transfer;
mod turns;
mod uniformity;
mod unit;
mod verify;
mod window;

use plimsoll_core::probe::Probe;

use crate::Cuda;

/// Every probe of this backend, in the order of `plimsoll_suite::probes::ALL`.
pub static PROBES: &[&dyn Probe<Cuda>] = &[
    &stream::Stream,
    &mix::Mix,
    &copy::Copy,
    &launch::Launch,
    &dispatch::Dispatch,
    &gather::Gather,
    &footprint::Footprint,
    &uniformity::Uniformity,
    &latency::Latency,
    &loaded_latency::LoadedLatency,
    &topology::Topology,
    &atomics::Atomics,
    &cluster::Cluster,
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
