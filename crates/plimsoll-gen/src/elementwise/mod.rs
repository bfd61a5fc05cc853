//! Elementwise expressions as CUDA kernels: which form an expression takes on given tensors ([`plan()`]), its text
//! ([`generate()`]), its grid and its parameters. Pure: compiling, caching and launching are `plimsoll-cuda`'s, what an
//! expression means is `plimsoll-expr`'s.
//!
//! A kernel has one parameter, a block of 64-bit words: addresses of the first elements of all inputs, then of all outputs, the
//! scalars' bits in their declared types, and what the form needs. [`Plan::words`] fills it.

pub mod accuracy;
pub mod body;
mod generate;
mod geometry;
mod moves;
mod plan;
pub mod representative;
mod spec;
mod table;
mod words;

pub(crate) use plan::MOST_RESIDENT;

pub use generate::{ENTRY, Generated, generate};
pub use geometry::Geometry;
pub use moves::disagreement;
pub use plan::{Access, Choose, Device, Plan, PlanError, Reason, Walk, batch_capacity, candidates, plan, plan_batch};
pub use spec::{Dependent, Form, GridPolicy, Inner, KernelSpec, Stream, Tier};
pub use table::{Class, Row, Table, TableError, Wanted, Work};
pub use words::MOST_WORDS;
