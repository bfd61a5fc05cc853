//! Everything about GPU kernels that needs no GPU: their sources, a description of each kernel (traffic, bytes in
//! flight, grid), the input data, and a reader of machine code that reports what the compiler generated. This crate has
//! no side effects: `plimsoll-cuda` compiles and runs the kernels.
#![forbid(unsafe_code)]

/// Headers in folders of `kernels`, by the names that texts include them by.
macro_rules! headers {
    ($($folder:literal: $($name:literal),+);+) => {
        [$($(($name, include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/kernels/", $folder, $name)))),+),+]
    };
}

pub mod custom;
pub mod describe;
pub mod elementwise;
pub mod kernel;
pub mod pattern;
pub mod sass;
pub mod target;

pub use target::Target;
