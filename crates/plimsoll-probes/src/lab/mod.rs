//! The lab: a kernel engineer's questions about a device. An experiment with a control and an oracle answers each one and ends
//! with one sentence of [advice](plimsoll_suite::findings::advice) for this device. `measure` runs them on request.

#[cfg(feature = "kernels")]
pub mod fields;
#[cfg(feature = "gpu")]
mod grid;
#[cfg(feature = "gpu")]
mod naive;

registry! {
    sectors,
    fetch_granularity,
    l2_reuse,
    residency,
    compression,
    rtm,
    async_copy,
    tti,
    write_path,
    block_order,
    formats,
    gemm,
    pic,
    soak,
}
