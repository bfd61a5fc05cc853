//! Everything about GPU kernels that needs no GPU: their sources, what each states of itself (traffic, bytes in flight,
//! grid), the data they run on, and a reader of machine code that says what the compiler made of them. Pure: compiling
//! is `plimsoll-cuda`'s, and so is running.
#![forbid(unsafe_code)]

pub mod describe;
pub mod elementwise;
pub mod kernel;
pub mod pattern;
pub mod sass;
pub mod target;

pub use target::Target;
