//! stream: see `docs/method/stream.md`.

#[cfg(feature = "gpu")]
pub mod gpu;
