//! The CUDA backend: loads the driver at run time, compiles kernels at run time and caches them on disk, and provides memory,
//! streams, graphs, telemetry, hardware counters and elementwise expressions. Kernel sources and geometry come from
//! `plimsoll-gen`; `plimsoll-core` decides when to stop sampling.
//!
//! # Errors
//! Anything the machine lacks is an [`Unavailable`]: the reason and a hint what to do. A device that fails or hangs is a
//! [`plimsoll_core::Fault`]. No driver behaviour causes a panic. Any function that calls the driver, NVRTC, CUPTI, cuBLAS or NCCL may
//! return an error of that library; `# Errors` sections list only the others.
#![deny(unsafe_code)]

pub mod cache;
#[allow(unsafe_code)]
pub mod compile;
pub mod counters;
pub mod cublas;
#[allow(unsafe_code)]
pub mod cupti;
pub mod custom;
mod device;
pub mod disassembler;
#[allow(unsafe_code)]
pub mod driver;
pub mod elementwise;
#[allow(unsafe_code)]
mod gpu;
mod info;
#[allow(unsafe_code)]
pub mod launch;
#[allow(unsafe_code)]
mod library;
pub mod machine_code;
#[allow(unsafe_code)]
pub mod memory;
pub mod nccl;
pub mod nodes;
pub mod nvrtc;
mod spin;
mod telemetry;
mod toolkit;
mod tools;
pub mod wait;

pub use counters::{Counter, Counters, Counts};
pub use device::{Cuda, CudaClock, CudaDevice, Options, Probes, devices, open, open_with};
pub use gpu::StreamAction;
pub use plimsoll_gpu::Unavailable;
pub use plimsoll_gpu::calibrate::Replay;
pub use plimsoll_gpu::elementwise::bench;
pub use spin::Spinner;
pub use tools::tools;

/// A workload of this backend.
pub type Load = plimsoll_gpu::load::Load<Cuda>;
/// An operation that a stream of this backend performs.
pub type Action = plimsoll_gpu::load::Action<Cuda>;
pub use plimsoll_gpu::load::Shape;
