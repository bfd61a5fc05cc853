//! The lab's experiments on a GPU, one file each. What their figures mean, and the advice, is `plimsoll_suite::probes::lab`'s.
