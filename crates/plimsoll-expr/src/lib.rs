//! Elementwise expressions: their types, the graph, two ways to write one (traced closures and text), layouts, what they
//! cost, and the oracle that says what they mean. Pure: no device, no code generation; plans and kernels are built from the
//! graph by others. The rules a user needs are in `docs/expressions.md`.
#![forbid(unsafe_code)]

pub mod cost;
pub mod dtype;
pub mod function;
pub mod graph;
mod last_place;
pub mod layout;
pub mod op;
pub mod oracle;
pub mod parse;
mod print;
pub mod problem;
pub mod random;
#[cfg(feature = "proptest")]
pub mod strategy;
pub mod trace;
pub mod value;

pub use cost::Cost;
pub use dtype::{Category, DType, Strength};
pub use graph::{Builder, ExprError, Graph, Node, NodeId};
pub use last_place::LastPlace;
pub use layout::{Layout, LayoutError, Space};
pub use parse::{Names, ParseError, parse};
pub use problem::{Judgement, Problem, ProblemError};
pub use trace::{In, InOut, Scalar, Traced, trace};
pub use value::Value;
