//! launch: see `docs/method/launch.md`.

#[cfg(feature = "gpu")]
pub mod gpu;
