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
//!
//! # Features
//!
//! All but `cudarc` are on by default. Programs that only run expressions link neither probes nor reports:
//! `default-features = false, features = ["cpu"]`, or `["cuda"]`, or both.
//!
//! | feature | what it brings |
//! | --- | --- |
//! | none | [`core`], [`expr`] and [`suite`]: expressions, the oracle, records, profiles, the model |
//! | `cpu` | expressions on the CPU: [`elementwise::cpu`]; with `probes` the CPU as a device |
//! | `cuda` | expressions on CUDA GPUs: [`elementwise`], what they should cost ([`predict`]), their machine code ([`sass`]); with `probes` CUDA devices |
//! | `vulkan` | Vulkan devices; turns on `probes` |
//! | `sim` | the simulated device; turns on `probes` |
//! | `probes` | [`open()`], [`measure`] and the [`probes`]. With `cpu`, `cuda` and `sim` also [`mod@bench`], [`explain`] and [`tune`], whose device may be any of the three |
//! | `report` | [`report`]: terminal, CSV, Markdown, JSON, SVG and HTML from records |
//! | `cudarc` | `elementwise::cudarc`: memory and streams of the crate cudarc; turns on `cuda` |
#![forbid(unsafe_code)]

#[cfg(all(feature = "cpu", feature = "cuda", feature = "probes", feature = "sim"))]
pub mod bench;
#[cfg(feature = "cuda")]
mod cuda;
pub mod elementwise;
#[cfg(all(feature = "cpu", feature = "cuda", feature = "probes", feature = "sim"))]
pub mod explain;
#[cfg(feature = "probes")]
mod host;
#[cfg(feature = "probes")]
mod open;
#[cfg(feature = "cuda")]
pub mod predict;
pub mod prelude;
#[cfg(feature = "probes")]
mod run;
#[cfg(feature = "cuda")]
pub mod sass;
#[cfg(feature = "probes")]
mod select;
#[cfg(all(feature = "cpu", feature = "cuda", feature = "probes", feature = "sim"))]
pub mod tune;

#[cfg(feature = "cuda")]
pub use cuda::cuda_devices;
#[cfg(all(feature = "cuda", feature = "probes"))]
pub use open::open_with;
#[cfg(feature = "vulkan")]
pub use open::vulkan_devices;
#[cfg(feature = "probes")]
pub use open::{OpenError, Opened, open, survey};
pub use plimsoll_core as core;
#[cfg(feature = "cuda")]
pub use plimsoll_cuda::{Options as CudaOptions, counters, tools as cuda_tools};
pub use plimsoll_expr as expr;
#[cfg(feature = "probes")]
pub use plimsoll_probes as probes;
#[cfg(feature = "report")]
pub use plimsoll_report as report;
pub use plimsoll_suite as suite;
#[cfg(feature = "vulkan")]
pub use plimsoll_vulkan::Adapter as VulkanAdapter;
#[cfg(feature = "probes")]
pub use run::{Plan, ProbeEnd, Summary, measure};
#[cfg(feature = "probes")]
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
