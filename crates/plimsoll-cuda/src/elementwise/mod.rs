//! Elementwise expressions on a GPU: tensors are checked, a kernel is planned, compiled once and kept, and launched in a
//! stream. What an expression means is `plimsoll-expr`'s, which kernel it becomes is `plimsoll-gen`'s.
//!
//! [`Engine`], [`Expression`] and [`Bound`] take expressions of any number of tensors by [`Operand`]; [`Gpu`] and [`Kernel`] are
//! the typed face of the same for closures.

mod buffer;
mod call;
mod checks;
#[cfg(feature = "cudarc")]
pub mod cudarc;
mod engine;
mod error;
mod gpu;
mod key;
mod lane;
#[allow(unsafe_code)]
mod launch;
mod operand;

pub use buffer::{Buffer, View, ViewMut};
pub use call::{Argument, Kernel, Outputs};
pub use engine::{Engine, Expression};
pub use error::Error;
pub use gpu::Gpu;
pub use lane::Recorded;
pub use launch::Bound;
pub use operand::Operand;
