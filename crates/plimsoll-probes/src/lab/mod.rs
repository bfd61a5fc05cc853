//! The lab: questions that a kernel engineer asks of a device. An experiment with a control and an oracle answers each, and ends
//! with one sentence of [advice](plimsoll_suite::findings::advice) for this device. `measure` runs them where they are asked for.

pub mod async_copy;
pub mod block_order;
pub mod compression;
pub mod fetch_granularity;
pub mod formats;
pub mod gemm;
pub mod l2_reuse;
pub mod pic;
pub mod residency;
pub mod rtm;
pub mod sectors;
pub mod tti;
pub mod write_path;
