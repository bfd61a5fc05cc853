//! The probes, a folder each. `mod.rs` is what a probe means: its spec, axes and series, and its findings as pure functions of them.
//! `kernels.rs` (feature `kernels`) is what its GPU kernels state of themselves. `cpu.rs` (feature `cpu`) is how a CPU runs it, `gpu.rs`
//! (feature `gpu`) how any GPU does, and `cuda.rs` (feature `cuda`) how CUDA does where no other GPU can. How a device is driven is each
//! backend's business.
#![deny(unsafe_code)]

#[cfg(feature = "cuda")]
mod cuda;
#[cfg(feature = "gpu")]
#[cfg_attr(not(feature = "cuda"), allow(dead_code, reason = "only runners in cuda.rs use all of it"))]
mod folds;
#[cfg(feature = "gpu")]
#[cfg_attr(not(feature = "cuda"), allow(dead_code, reason = "only runners in cuda.rs use all of it"))]
mod iterations;
#[cfg(feature = "gpu")]
#[cfg_attr(not(feature = "cuda"), allow(dead_code, reason = "only runners in cuda.rs use all of it"))]
mod meter;

#[macro_use]
mod registry;
pub mod lab;

// `launch` and `dispatch` come early: behind the others in one process an empty kernel of a graph took 0.68 µs on an H200
// instead of 0.50, for a reason that is not known.
registry! {
    stream: cpu gpu kernels;
    mix: gpu kernels;
    copy: gpu kernels;
    launch: gpu kernels;
    dispatch: gpu kernels;
    gather: gpu kernels;
    footprint: cpu gpu kernels;
    uniformity: gpu kernels;
    latency: cpu gpu kernels;
    loaded_latency: cpu gpu kernels;
    topology: gpu kernels;
    atomics: gpu kernels;
    cluster: gpu kernels;
    constant: gpu kernels;
    incore: cpu gpu kernels;
    l1: gpu kernels;
    l2: gpu kernels;
    strides: cpu gpu kernels;
    sync: cpu gpu kernels;
    transfer: cuda;
    interference: cuda;
    managed: cuda;
    peer: cuda;
    roofline: cpu gpu kernels;
    tensor: gpu kernels;
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

// SAFETY: these probes launch kernels of this crate and of plimsoll-gen alone, which keep to their descriptions: `cargo xtask sass` and the sanitizers
// hold them to it.
#[cfg(feature = "gpu")]
#[allow(unsafe_code)]
pub(crate) const TRUST: plimsoll_gpu::Trust = unsafe { plimsoll_gpu::Trust::new() };
