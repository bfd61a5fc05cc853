//! Probes that have no folder in `plimsoll-probes` yet, a file each: the [`ProbeSpec`](plimsoll_core::probe::ProbeSpec), its series
//! (names, axes, metrics, picture) and its findings as pure functions of them. How such a probe is run is each backend's business.

pub mod atomics;
pub mod dispatch;
pub mod footprint;
pub mod gather;
pub mod incore;
pub mod interference;
pub mod l1;
pub mod l2;
pub mod lab;
pub mod loaded_latency;
pub mod managed;
pub mod mix;
pub mod peer;
pub mod roofline;
pub mod strides;
pub mod sync;
pub mod tensor;
pub mod topology;
pub mod transfer;
pub mod uniformity;
