//! The lab: questions that a kernel engineer asks of a device. An experiment with a control and an oracle answers each, and ends
//! with one sentence of [advice](plimsoll_suite::findings::advice) for this device. `measure` runs them where they are asked for.

registry! {
    sectors:;
    fetch_granularity:;
    l2_reuse:;
    residency:;
    compression:;
    rtm:;
    async_copy:;
    tti:;
    write_path:;
    block_order:;
    formats:;
    gemm:;
    pic:;
}
