//! cluster: see `docs/method/cluster.md`.

#[cfg(feature = "gpu")]
pub mod gpu;
