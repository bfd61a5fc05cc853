//! The lab's experiments on a GPU, one file each. What their figures mean, and the advice, is `plimsoll_suite::probes::lab`'s.

pub(super) mod async_copy;
pub(super) mod block_order;
pub(super) mod compression;
pub(super) mod fetch_granularity;
pub(super) mod formats;
pub(super) mod gemm;
pub(super) mod l2_reuse;
mod letting_go;
mod products;
pub(super) mod residency;
pub(super) mod sectors;
pub(super) mod write_path;
