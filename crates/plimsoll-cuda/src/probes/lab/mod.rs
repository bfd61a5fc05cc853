//! The lab's experiments on a GPU, one file each. What the figures mean is `plimsoll_suite::probes::lab`'s.

pub(super) mod sectors;
