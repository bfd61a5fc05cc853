//! The types that programs need to measure devices and to run expressions.

pub use half::{bf16, f16};
pub use plimsoll_core::device::DeviceInfo;
pub use plimsoll_core::probe::{Case, Depth, Instrument, Listing, Outcome, Request};
pub use plimsoll_core::record::{Record, Sink, Writer};
pub use plimsoll_core::sample::Effort;
pub use plimsoll_core::{Fault, Flag, Flags};
#[cfg(feature = "cpu")]
pub use plimsoll_cpu::elementwise::Cpu;
#[cfg(feature = "cuda")]
pub use plimsoll_cuda::Cuda;
#[cfg(feature = "cuda")]
pub use plimsoll_cuda::elementwise::{Gpu, Recorded};
pub use plimsoll_expr::{In, InOut, Layout, Scalar, Traced, trace};

#[cfg(any(feature = "cpu", feature = "cuda"))]
pub use crate::elementwise::{AnyBuffer, Buffer, Device, Kernel, View, ViewMut};
#[cfg(feature = "probes")]
pub use crate::{DeviceSelector, OpenError, Plan, Summary};
