//! Elementwise expressions: types, the graph, two ways to write one (traced closures and text), layouts, cost, and the
//! oracle that defines the results. This crate uses no device and generates no code; other crates build plans and kernels
//! from the graph. `docs/expressions.md` has the rules that a user needs.
#![forbid(unsafe_code)]

pub mod cost;
pub mod derivative;
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
pub use derivative::GradientError;
pub use dtype::{Category, DType, Strength};
pub use graph::{Builder, ExprError, Graph, Node, NodeId};
pub use last_place::LastPlace;
pub use layout::{Foreign, ForeignSet, Layout, LayoutError, Space};
pub use parse::{Names, ParseError, parse};
pub use problem::{Judgement, Problem, ProblemError};
pub use trace::{In, InOut, Scalar, Traced, trace};
pub use value::Value;
