//! launch: see `docs/method/launch.md`.

mod gpu;

pub use gpu::Launch;
