//! Element-wise expressions on a GPU: checks tensors, plans a kernel, compiles it once, and launches it in a stream.
//! `plimsoll-expr` defines the meaning of an expression; `plimsoll-gen` chooses and generates its kernel.
//!
//! [`Engine`], [`Expression`] and [`BoundExpression`] are the untyped interface: any number of tensors, each an [`Operand`].
//! [`Gpu`] and [`Kernel`] are the typed interface for traced closures.

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
pub use call::{Argument, Kernel, Outputs, Returned};
pub use engine::{Engine, Expression};
pub use error::Error;
pub use gpu::Gpu;
pub use lane::Recorded;
pub use launch::BoundExpression;
pub use operand::Operand;
