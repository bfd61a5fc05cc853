//! latency: see `docs/method/latency.md`.

mod gpu;

pub use gpu::Latency;
