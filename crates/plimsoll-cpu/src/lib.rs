//! The CPU backend: topology, pinned memory and threads, kernels and probes.
