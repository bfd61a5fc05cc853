//! Reader of machine code: analyses a compiled kernel without a GPU.
//!
//! [`Listing::parse`] reads the output of `nvdisasm -c` (see [`DISASSEMBLER_OPTIONS`]), and [`elf::resources`] reads registers and
//! local memory from the cubin. [`graph`] finds blocks and loops, [`flow`] the purpose of each instruction, and [`control`] the
//! scheduling information; [`hazard`] finds a fault of the compiler in it. [`Report`] combines them: the hot loop, its instructions
//! by class, pipe and role, its stalls and its bytes.
//!
//! Text and cubin are untrusted: sizes are limited and nothing here panics. The caller runs the disassembler.

pub mod control;
mod dominators;
pub mod elf;
pub mod expect;
pub mod flow;
pub mod graph;
pub mod hazard;
mod image;
pub mod instruction;
mod listing;
mod path;
mod report;
mod signature;
mod table;

pub use control::Control;
pub use flow::Roles;
pub use image::Image;
pub use instruction::{Access, Class, Instruction};
pub use listing::{Function, Listing};
pub use report::{Accesses, Hot, HotKind, KernelReport, Report, Stalls};
pub use signature::{Parameter, Signature};
pub use table::{Row, Table};

/// Options for `nvdisasm` that produce the expected text: code sections only, with each instruction's encoding. Every version since
/// CUDA 8 supports them.
pub const DISASSEMBLER_OPTIONS: [&str; 2] = ["-c", "-hex"];

/// Largest listing that is read, bytes.
pub const MAX_LISTING: usize = 256 << 20;

/// Machine code can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SassError {
    /// The input exceeds the size limit.
    #[error("{what} of {bytes} bytes is too large: the limit is {limit}")]
    TooLarge {
        /// The kind of input.
        what: &'static str,
        /// Its size.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The text contains no function.
    #[error("no function found: this is not the output of 'nvdisasm -c CUBIN'")]
    NoFunction,
    /// The file is not a valid cubin.
    #[error("not a cubin: {0}")]
    NotACubin(&'static str),
}
