//! Elementwise expressions on the CPU: a [`Program`] is prepared for layouts and threads, and then run on memory as often as
//! one likes. Each thread takes tiles that fit into the first cache through one vector loop per operation, so that all
//! of an expression costs one trip to memory.
//!
//! [`Program`] takes expressions of any number of tensors in bytes; [`Cpu`] and [`Kernel`] are the typed face of the same for
//! closures.
//!
//! What an expression means is `plimsoll_expr`'s; the loops, and all that touches memory, are `crate::arch`'s. Functions of
//! f32 are evaluated in vector registers; those of f64, and the remainders of floats, by the oracle, element by element.

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
pub use typed::{Argument, Cpu, Kernel, Outputs, View, ViewMut};
