//! The probes, one folder each:
//!
//! - `mod.rs` defines a probe: its spec, axes and series, and its findings as pure functions of the series.
//! - `kernels.rs` (feature `kernels`) describes its GPU kernels.
//! - `cpu.rs` (feature `cpu`) runs it on a CPU, `gpu.rs` (feature `gpu`) on any GPU, `cuda.rs` (feature `cuda`) on CUDA only.
//!
//! The backend crates drive the devices. A function that returns a `Fault` passes on those of the backend and of its callees;
//! its docs list only what it adds.
#![deny(unsafe_code)]

#[cfg(feature = "gpu")]
mod chains;
#[cfg(feature = "cuda")]
mod cuda;
#[cfg(feature = "gpu")]
mod folds;
#[cfg(feature = "gpu")]
mod iterations;
#[cfg(feature = "gpu")]
mod meter;

mod metrics;
#[cfg(any(feature = "cpu", feature = "gpu"))]
mod pace;
mod prelude;
#[cfg(any(feature = "cpu", feature = "gpu"))]
mod sizes;
#[cfg(all(test, feature = "cpu"))]
mod verified;
#[macro_use]
mod registry;
pub mod lab;

// `launch` and `dispatch` come early: after the other probes in the same process, an empty kernel in a graph took 0.68 µs
// instead of 0.50 µs on an H200. The reason is unknown.
registry! {
    stream,
    mix,
    copy,
    launch,
    dispatch,
    gather,
    footprint,
    uniformity,
    latency,
    loaded_latency,
    topology,
    atomics,
    cluster,
    constant,
    incore,
    l1,
    l2,
    strides,
    sync,
    transfer,
    numa,
    interference,
    managed,
    peer,
    neighbours,
    nccl,
    pattern,
    digest,
    roofline,
    tensor,
}

#[cfg(feature = "cpu")]
pub use registry::cpu_probes;
#[cfg(feature = "cuda")]
pub use registry::cuda_probes;
#[cfg(feature = "gpu")]
pub use registry::gpu_probes;
#[cfg(feature = "kernels")]
pub use registry::sources;
pub use registry::{ALL, find, in_order};

// SAFETY: these probes launch only kernels of this crate and of plimsoll-gen. These keep to their descriptions, which
// `cargo xtask sass` and the sanitizers check.
#[cfg(feature = "gpu")]
#[allow(unsafe_code)]
pub(crate) const TRUST: plimsoll_gpu::Trust = unsafe { plimsoll_gpu::Trust::new() };
