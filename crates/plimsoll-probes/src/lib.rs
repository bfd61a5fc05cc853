//! The probes, a folder each. `mod.rs` is what a probe means: its spec, axes and series, and its findings as pure functions of them.
//! `cpu.rs` (feature `cpu`) is how a CPU runs it, `gpu.rs` (feature `gpu`) how any GPU does, whose kernels are `plimsoll-gen`'s.
//! How a device is driven is each backend's business. Probes that aren't here yet are `plimsoll-suite`'s and the backends'.
#![deny(unsafe_code)]

pub mod cluster;
pub mod copy;
pub mod latency;
pub mod launch;
mod registry;
pub mod stream;

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
