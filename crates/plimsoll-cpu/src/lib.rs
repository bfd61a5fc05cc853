//! The CPU backend: topology, pinned memory and threads, timers, kernels and workloads. The probes are in `plimsoll-probes`.
//!
//! Errors are [`plimsoll_core::Fault`] unless a function names another type. A function without an `# Errors` section passes on
//! those of the functions that it calls.
#![deny(unsafe_code)]

#[allow(unsafe_code)]
pub mod arch;
mod clock;
mod device;
pub mod elementwise;
#[allow(unsafe_code)]
pub mod memory;
mod power;
pub mod steal;
#[allow(unsafe_code)]
pub mod threads;
pub mod timer;
pub mod topology;
pub mod workload;

pub use clock::CpuClock;
pub use device::{Cpu, CpuDevice, open};
