//! The CUDA backend: the driver opened at run time, kernels compiled at run time and kept on disk, memory, streams and
//! graphs, telemetry, and the workloads and probes over them. Sources and geometry of kernels are `plimsoll-gen`'s; when
//! to stop sampling is `plimsoll-core`'s.
//!
//! Whatever a machine lacks is a typed reason with the way out ([`Unavailable`]); a device that fails or hangs is a
//! [`plimsoll_core::Fault`]. Nothing here panics because of a driver.
#![deny(unsafe_code)]

pub mod bench;
pub mod cache;
#[allow(unsafe_code)]
pub mod compile;
pub mod counters;
pub mod cublas;
#[allow(unsafe_code)]
pub mod cupti;
mod device;
pub mod disassembler;
#[allow(unsafe_code)]
pub mod driver;
pub mod elementwise;
mod elementwise_verify;
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
pub use spin::Spinner;
pub use tools::tools;

/// A workload of this backend.
pub type Load = plimsoll_gpu::load::Load<Cuda>;
/// What a stream of this backend does.
pub type Action = plimsoll_gpu::load::Action<Cuda>;
pub use plimsoll_gpu::load::Shape;
