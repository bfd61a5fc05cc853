//! cluster: see `docs/method/cluster.md`.

mod gpu;

pub use gpu::Cluster;
