//! Elementwise expressions on the CPU: a [`Program`] is prepared for layouts and threads, and then run any number of times.
//! Each thread runs one vector loop per operation over tiles that fit L1, so that the whole expression reads and writes memory
//! only once.
//!
//! [`Program`] takes expressions of any number of tensors in bytes, and [`Expression`] takes tensors whose types are known at run
//! time; [`Cpu`] and [`Kernel`] are the typed interface for closures.
//!
//! `plimsoll_expr` defines the meaning of expressions; the loops, and all code that accesses memory, are in `crate::arch`.
//! Functions are evaluated in vector registers.

mod compile;
mod error;
mod load;
mod plan;
mod prepared;
mod rotation;
#[cfg(test)]
mod tests;
mod typed;
pub mod verify;

pub use error::Error;
pub use load::Load;
pub use plan::{How, StorePolicy};
pub use prepared::{Prepared, Program, Set};
#[doc(hidden)]
pub use typed::Call;
pub use typed::{Argument, Cpu, CpuBuilder, Expression, Kernel, Operand, Outputs, Returned, View, ViewMut};
