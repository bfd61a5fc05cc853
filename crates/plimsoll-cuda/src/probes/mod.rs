//! The GPU's probes, one file each, and the registry. What they share is in `unit` (a probe's kernels, compiled as one),
//! `checker` (fills, poison and checks by kernels compiled apart), `window` (how large arrays are and how launches walk
//! through them), `kit`, which joins these for the bandwidth probes, and `verify`, which holds every kernel to its oracle.
//! What the figures mean is `plimsoll-suite`'s.

mod checker;
mod clocked;
mod copy;
mod counted;
mod dispatch;
mod footprint;
mod incore;
mod incore_oracle;
mod kit;
mod latency;
mod launch;
mod loaded_latency;
mod mix;
mod stream;
mod sync;
mod told;
mod transfer;
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
    &footprint::Footprint,
    &latency::Latency,
    &loaded_latency::LoadedLatency,
    &incore::Incore,
    &sync::Sync,
    &launch::Launch,
    &dispatch::Dispatch,
    &transfer::Transfer,
];
