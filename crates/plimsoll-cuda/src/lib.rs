//! The CUDA backend: the driver opened at run time, kernels compiled at run time and kept on disk, memory, streams and
//! graphs, telemetry, and the workloads and probes over them. Sources and geometry of kernels are `plimsoll-gen`'s; when
//! to stop sampling is `plimsoll-core`'s.
//!
//! Whatever a machine lacks is a typed reason with the way out ([`Unavailable`]); a device that fails or hangs is a
//! [`plimsoll_core::Fault`]. Nothing here panics because of a driver.
#![deny(unsafe_code)]

pub mod cache;
mod calibrate;
mod clock;
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
mod info;
#[allow(unsafe_code)]
pub mod launch;
#[allow(unsafe_code)]
mod library;
pub mod load;
pub mod machine_code;
#[allow(unsafe_code)]
pub mod memory;
pub mod nvrtc;
pub mod probes;
mod spin;
mod telemetry;
mod toolkit;
mod tools;
mod unavailable;
pub mod wait;

pub use calibrate::Replay;
pub use clock::CudaClock;
pub use counters::{Counter, Counters, Counts};
pub use device::{Cuda, CudaDevice, Options, devices, open, open_with};
pub use load::{Action, Load, Shape};
pub use spin::Spinner;
pub use tools::tools;
pub use unavailable::Unavailable;
