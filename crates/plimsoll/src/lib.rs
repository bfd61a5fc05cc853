#![doc = include_str!("../README.md")]
//!
//! # Modules
//!
//! [`open()`] and [`measure`] find devices and run probes on them, exactly like the command. This crate combines the backends and
//! controls the order of a run. [`probes`] defines the measurements, [`core`] the timing; tables, pictures and files are up to the
//! caller.
//!
//! # Features
//!
//! All features except `cudarc` are on by default. A program that only runs expressions needs neither probes nor reports:
//! `default-features = false, features = ["cpu"]`, or `["cuda"]`, or both.
//!
//! | feature | what it adds |
//! | --- | --- |
//! | none | [`core`], [`expr`] and [`suite`]: expressions, the oracle, records, profiles, the model |
//! | `cpu` | expressions on the CPU: [`elementwise::Device`], [`elementwise::cpu`]; with `probes` the CPU as a device |
//! | `cuda` | expressions on CUDA GPUs: [`elementwise::Device`], [`elementwise::gpu`], their predicted cost ([`predict`]), their machine code ([`sass`]); your own kernels ([`custom`]); with `probes` CUDA devices |
//! | `vulkan` | Vulkan devices; turns on `probes` |
//! | `sim` | the simulated device; turns on `probes` |
//! | `probes` | [`open()`], [`measure`] and the [`probes`]. With `cpu`, `cuda` and `sim` also [`mod@bench`], [`explain`] and [`tune`], for any of the three devices |
//! | `report` | [`report`]: terminal, CSV, Markdown, JSON, SVG and HTML from records |
//! | `cudarc` | `elementwise::gpu::cudarc`: memory and streams of the cudarc crate; turns on `cuda` |
//!
//! # Errors
//!
//! Functions that use a device return [`core::Fault`], or an error that wraps it, for whatever the device or its driver reports.
//! Their `# Errors` sections list only further causes.
#![deny(unsafe_code)]

#[cfg(all(feature = "cpu", feature = "cuda", feature = "probes", feature = "sim"))]
pub mod bench;
#[cfg(feature = "probes")]
mod candidate;
#[cfg(feature = "cuda")]
mod cuda;
#[cfg(feature = "cuda")]
pub mod custom;
pub mod elementwise;
#[cfg(all(feature = "cpu", feature = "cuda", feature = "probes", feature = "sim"))]
pub mod explain;
#[cfg(feature = "probes")]
mod host;
#[cfg(any(
    all(feature = "probes", not(all(feature = "cpu", feature = "cuda", feature = "sim", feature = "vulkan"))),
    all(any(feature = "cpu", feature = "cuda"), not(all(feature = "cpu", feature = "cuda")))
))]
mod missing;
#[cfg(feature = "probes")]
mod open;
#[cfg(feature = "cuda")]
mod parts;
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

#[cfg(feature = "probes")]
pub use candidate::{Candidate, SelectError, candidates};
#[cfg(feature = "cuda")]
pub use cuda::cuda_devices;
#[cfg(all(feature = "cuda", feature = "probes"))]
pub use open::open_with;
#[cfg(feature = "vulkan")]
pub use open::vulkan_devices;
#[cfg(feature = "probes")]
pub use open::{OpenError, Opened, open, survey};
#[cfg(feature = "cuda")]
pub use parts::{Part, parts};
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
pub use run::{EndedProbe, Plan, ProbeEnd, Summary, measure, measure_observed};
#[cfg(feature = "probes")]
pub use select::{DeviceSelector, ParseSelectorError};

/// The code in `docs/elementwise.md`, compiled and run with the documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/elementwise.md")]
mod elementwise_page {}

/// The code in `docs/explain.md`.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/explain.md")]
mod explain_page {}

/// The code in the readme.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
mod readme {}

/// The version of plimsoll that records contain.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
