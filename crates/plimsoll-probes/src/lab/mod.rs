//! The lab: questions that a kernel engineer asks of a device. An experiment with a control and an oracle answers each, and ends
//! with one sentence of [advice](plimsoll_suite::findings::advice) for this device. `measure` runs them where they are asked for.

#[cfg(feature = "kernels")]
pub mod fields;

registry! {
    sectors: kernels;
    fetch_granularity: kernels;
    l2_reuse: kernels;
    residency: kernels;
    compression: kernels;
    rtm: kernels;
    async_copy: kernels;
    tti: kernels;
    write_path: kernels;
    block_order: kernels;
    formats: kernels;
    gemm: kernels;
    pic: kernels;
}
