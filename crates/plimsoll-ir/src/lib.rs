//! The scalar programs between elementwise expressions and kernels.
//!
//! [`lower`](lower()) turns a [`Graph`](plimsoll_expr::Graph) into a [`Program`]: typed operations in SSA form that compute one
//! element. Functions become range reductions, polynomials and the approximations of a device, as short as the precision that is
//! needed allows. Printers turn programs into the text of a backend; [`eval`] interprets them; [`Program`]'s `Display` and
//! [`parse`](text::parse) write and read them as text.
//!
//! A value's type is a carrier: f32, f64, an integer type or `bool`. Inputs are converted to their carrier before, outputs are rounded
//! to their type afterwards.

pub mod build;
pub mod eval;
pub mod facts;
pub mod lower;
pub mod op;
pub mod program;
pub mod text;

pub use build::Builder;
pub use facts::Facts;
pub use lower::{Accuracy, lower};
pub use op::{Op, Primitive};
pub use program::{Block, Guard, Id, Instruction, Limit, Program};
