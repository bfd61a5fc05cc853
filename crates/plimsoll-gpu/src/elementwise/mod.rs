//! Elementwise expressions on any GPU: checks tensors, plans a kernel, has the backend compile it once, and launches it in a stream.
//! `plimsoll-expr` defines the meaning of an expression; `plimsoll-gen` chooses its kernel.
//!
//! [`Engine`], [`Expression`] and [`BoundExpression`] take any number of tensors, each an [`Operand`]; a [`Batch`] takes many sets of them. A backend implements
//! [`Elementwise`] for them.

mod arrays;
#[allow(unsafe_code)]
mod backend;
mod batch;
pub mod bench;
mod checks;
mod engine;
mod error;
mod expression;
#[allow(unsafe_code)]
mod foreign;
mod key;
#[allow(unsafe_code)]
mod launch;
#[allow(unsafe_code)]
mod operand;
mod rotation;
mod tuner;
pub mod verify;

pub use backend::{Elementwise, Facts, OtherDevice};
pub use batch::{Batch, BatchOptions, BatchSet};
pub use engine::Engine;
pub use error::Error;
pub use expression::{Expression, LastPlan};
pub use launch::BoundExpression;
pub use operand::{Extent, Operand, TensorRef};
pub use rotation::Subject;
pub use tuner::{Store, Tuned, Tuner};
