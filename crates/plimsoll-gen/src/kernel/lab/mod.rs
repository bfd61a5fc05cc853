//! Kernels of the lab: experiments on the architecture, one file each.

pub mod sectors;
pub mod write_path;
