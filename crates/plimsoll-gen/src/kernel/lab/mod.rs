//! The kernels of the lab's experiments, one file per probe; their text is in `kernels/lab/`.

pub mod async_copy;
pub mod block_order;
pub mod sectors;
pub mod write_path;
