//! Probes that run on every GPU backend: a folder each. What their figures mean is `plimsoll-suite`'s, their kernels are
//! `plimsoll-gen`'s, and how a device is driven is each backend's.
#![deny(unsafe_code)]

pub mod cluster;
pub mod copy;
pub mod latency;
pub mod launch;
pub mod stream;

use plimsoll_gpu::Trust;

// SAFETY: these probes launch kernels of plimsoll-gen alone, which keep to their descriptions: `cargo xtask sass` and the sanitizers
// hold them to it.
#[allow(unsafe_code)]
pub(crate) const TRUST: Trust = unsafe { Trust::new() };
