//! The CPU backend: topology, pinned memory and threads, kernels and probes.
#![deny(unsafe_code)]

#[allow(unsafe_code)]
pub mod arch;
#[allow(unsafe_code)]
pub mod memory;
pub mod steal;
#[allow(unsafe_code)]
pub mod threads;
pub mod timer;
pub mod topology;
