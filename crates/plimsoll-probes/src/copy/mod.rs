//! copy: see `docs/method/copy.md`.

mod gpu;

pub use gpu::Copy;
