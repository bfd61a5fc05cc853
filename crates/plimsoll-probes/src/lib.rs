//! The probes, a folder each. `mod.rs` is what a probe means: its spec, axes and series, and its findings as pure functions of them.
//! `cpu.rs` (feature `cpu`) is how a CPU runs it, `gpu.rs` (feature `gpu`) how any GPU does, whose kernels are `plimsoll-gen`'s.
//! How a device is driven is each backend's business. Runners that aren't here yet are the backends'.
#![deny(unsafe_code)]

pub mod atomics;
pub mod cluster;
pub mod copy;
pub mod dispatch;
pub mod footprint;
pub mod gather;
pub mod incore;
pub mod interference;
pub mod l1;
pub mod l2;
pub mod lab;
pub mod latency;
pub mod launch;
pub mod loaded_latency;
pub mod managed;
pub mod mix;
pub mod peer;
mod registry;
pub mod roofline;
pub mod stream;
pub mod strides;
pub mod sync;
pub mod tensor;
pub mod topology;
pub mod transfer;
pub mod uniformity;

#[cfg(feature = "cpu")]
pub use registry::cpu_probes;
#[cfg(feature = "gpu")]
pub use registry::gpu_probes;
pub use registry::{ALL, find, in_order};

// SAFETY: these probes launch kernels of plimsoll-gen alone, which keep to their descriptions: `cargo xtask sass` and the sanitizers
// hold them to it.
#[cfg(feature = "gpu")]
#[allow(unsafe_code)]
pub(crate) const TRUST: plimsoll_gpu::Trust = unsafe { plimsoll_gpu::Trust::new() };
