//! Elementwise expressions as CUDA kernels: [`plan()`] chooses the kernel's form for given tensors, its grid and its
//! parameters; [`generate()`] writes its text. No side effects: a backend compiles and launches kernels, and `plimsoll-gpu` keeps them;
//! `plimsoll-expr` defines the meaning of expressions.
//!
//! A kernel has one parameter, a block of 64-bit words: the addresses of the first elements of all inputs, then of all
//! outputs, the bits of the scalars in their declared types, and the words that the form needs. [`Plan::words`] fills it; for many sets of
//! tensors, [`BatchPlan::words`].

pub mod accuracy;
pub mod body;
pub mod count;
mod generate;
mod geometry;
mod merged;
mod moves;
mod plan;
pub mod representative;
mod spec;
mod stored;
mod table;
mod weight;
mod words;

pub(crate) use plan::MOST_RESIDENT;

pub use generate::{ENTRY, Generated, generate};
pub use geometry::Geometry;
pub use moves::disagreement;
pub use plan::{
    Access, Alternative, BatchPlan, Choose, Device, Indexing, MOST_ALTERNATIVES, Plan, PlanError, Reason, Sets,
    alternatives, candidates, plan, plan_batch,
};
pub use spec::{Batched, Dependent, Form, GridPolicy, Inner, KernelSpec, Stream, Tier};
pub use stored::{TunedEntry, TunedEntryError, TunedFor};
pub use table::{Class, Row, Table, TableError, Wanted, Work};
pub use words::MOST_WORDS;
