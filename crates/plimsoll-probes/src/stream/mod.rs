//! stream: see `docs/method/stream.md`.

mod gpu;

pub use gpu::Stream;
