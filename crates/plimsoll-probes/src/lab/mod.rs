//! The lab: a kernel engineer's questions about a device. An experiment with a control and an oracle answers each one and ends
//! with one sentence of [advice](plimsoll_suite::findings::advice) for this device. `measure` runs them on request.

#[cfg(feature = "kernels")]
pub mod fields;
#[cfg(feature = "gpu")]
mod grid;
#[cfg(feature = "gpu")]
mod naive;

registry! {
    sectors: gpu kernels;
    fetch_granularity: cuda kernels;
    l2_reuse: gpu kernels;
    residency: cuda kernels;
    compression: cuda kernels;
    rtm: cuda kernels;
    async_copy: gpu kernels;
    tti: gpu kernels;
    write_path: gpu kernels;
    block_order: gpu kernels;
    formats: gpu kernels;
    gemm: cuda kernels;
    pic: gpu kernels;
}
