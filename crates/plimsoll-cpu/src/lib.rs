//! The CPU backend: topology, pinned memory and threads, kernels and probes.
#![deny(unsafe_code)]

#[allow(unsafe_code)]
pub mod arch;
mod clock;
mod device;
pub mod elementwise;
#[allow(unsafe_code)]
pub mod memory;
pub mod probes;
pub mod steal;
#[allow(unsafe_code)]
pub mod threads;
pub mod timer;
pub mod topology;

pub use clock::CpuClock;
pub use device::{Cpu, CpuDevice, open};
