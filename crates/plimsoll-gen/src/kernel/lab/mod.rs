//! The kernels of the lab's experiments, one file per probe; their text is in `kernels/lab/`.

pub mod async_copy;
pub mod block_order;
pub mod compression;
pub mod fetch_granularity;
pub mod formats;
pub mod gemm;
pub mod l2_reuse;
pub mod residency;
pub mod sectors;
pub mod write_path;
