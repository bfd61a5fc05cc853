//! The library facade: find devices and run probes on them, exactly as the command does. It joins the backends and
//! owns the order of a run; what is measured is `plimsoll-probes`'s, how it is timed is `plimsoll-core`'s, and tables,
//! pictures and files belong to the caller.
//!
//! ```
//! use std::sync::atomic::AtomicBool;
//!
//! use plimsoll::prelude::*;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut devices = plimsoll::open(&"sim".parse()?)?.devices;
//! let plan = Plan { probes: vec!["latency".into()], ..Plan::default() };
//! let mut records: Vec<Record> = Vec::new();
//! let summary = plimsoll::measure(&mut devices, &plan, &mut records, &AtomicBool::new(false))?;
//! assert!(summary.complete);
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

pub mod bench;
mod cuda;
pub mod elementwise;
pub mod explain;
mod host;
mod open;
pub mod predict;
pub mod prelude;
mod run;
pub mod sass;
mod select;
pub mod tune;

pub use cuda::cuda_devices;
pub use open::{OpenError, Opened, open, open_with, survey, vulkan_devices};
pub use plimsoll_core as core;
pub use plimsoll_cuda::Options as CudaOptions;
pub use plimsoll_cuda::{counters, tools as cuda_tools};
pub use plimsoll_expr as expr;
pub use plimsoll_probes as probes;
pub use plimsoll_suite as suite;
pub use plimsoll_vulkan::Adapter as VulkanAdapter;
pub use run::{Plan, ProbeEnd, Summary, measure};
pub use select::{DeviceSelector, ParseSelectorError};

/// The chapter's code, compiled and run with the documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/elementwise.md")]
mod chapter {}

/// The code of the page of explanations.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/explain.md")]
mod explanations {}

/// The readme's code.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
mod readme {}

/// Version of plimsoll, as records name it.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
