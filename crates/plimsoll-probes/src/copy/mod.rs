//! copy: see `docs/method/copy.md`.

#[cfg(feature = "gpu")]
pub mod gpu;
