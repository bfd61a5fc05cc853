//! The lab's experiments on a GPU, one file each.

pub(super) mod formats;
