//! Reader of machine code: what a compiler made of a kernel, without a GPU.
//!
//! [`Listing::parse`] reads the text of `nvdisasm -c` (see [`DISASSEMBLER_OPTIONS`]), [`elf::resources`] the registers and
//! local memory from the cubin itself, [`graph`] finds blocks and loops, [`flow`] what leads to an address, [`control`] what the scheduler is told, and [`Report`]
//! joins them: the hot loop, its instructions by class, pipe and role, its stalls and its bytes. Text and cubin are untrusted: sizes are limited and nothing here panics.
//! Running the disassembler is the caller's.

pub mod control;
mod dominators;
pub mod elf;
pub mod expect;
pub mod flow;
pub mod graph;
mod image;
pub mod instruction;
mod listing;
mod path;
mod report;
mod table;

pub use control::Control;
pub use flow::Roles;
pub use image::Image;
pub use instruction::{Access, Class, Instruction};
pub use listing::{Function, Listing};
pub use report::{Accesses, Hot, HotKind, KernelReport, Report, Stalls};
pub use table::{Row, Table};

/// Options for `nvdisasm` that give the text which is read here: code sections only, with each instruction's bits. Every
/// version since CUDA 8 knows them.
pub const DISASSEMBLER_OPTIONS: [&str; 2] = ["-c", "-hex"];

/// Largest listing that is read, bytes.
pub const MAX_LISTING: usize = 256 << 20;

/// Why machine code can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SassError {
    /// The input is larger than any kernel's.
    #[error("{what} of {bytes} bytes is too large: at most {limit} are read")]
    TooLarge {
        /// What was to be read.
        what: &'static str,
        /// Its size.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// Nothing in the text is a function.
    #[error("no function found: this is not the output of 'nvdisasm -c CUBIN'")]
    NoFunction,
    /// The file is no cubin.
    #[error("not a cubin: {0}")]
    NotACubin(&'static str),
}
