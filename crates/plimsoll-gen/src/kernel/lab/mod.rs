//! Kernels of the lab's experiments, one file each.

pub mod formats;
