//! What can be wrong with operands. Everything is checked before anything is written.

use plimsoll_core::Fault;
use plimsoll_expr::layout::Shape;
use plimsoll_expr::{DType, LayoutError};

/// An expression that can't be run as asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A wrong number of operands.
    #[error("the expression has {expected} {what} and {given} were given")]
    Count {
        /// `inputs`, `outputs` or `scalars`.
        what: &'static str,
        /// How many there are.
        expected: usize,
        /// How many were given.
        given: usize,
    },
    /// A tensor of another type than the expression's.
    #[error("'{name}' is {expected} and was given as {given}")]
    Type {
        /// The tensor.
        name: String,
        /// Its type in the expression.
        expected: DType,
        /// That of what was given.
        given: DType,
    },
    /// An output of another shape than the first.
    #[error("the output '{name}' has the shape {given} and '{first}' {expected}: all outputs have one shape")]
    Shape {
        /// The output.
        name: String,
        /// Its shape.
        given: Shape,
        /// The first output.
        first: String,
        /// The first output's shape.
        expected: Shape,
    },
    /// An input that doesn't go with the outputs' shape.
    #[error("the input '{name}' doesn't fit: {fault}")]
    Input {
        /// The input.
        name: String,
        /// Why not.
        fault: LayoutError,
    },
    /// A tensor that no memory holds.
    #[error("'{name}': {fault}")]
    Memory {
        /// The tensor.
        name: String,
        /// What is wrong with its layout.
        fault: LayoutError,
    },
    /// Extents or strides beyond what can be walked.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// An output whose layout gives two elements one place.
    #[error("elements of the output '{0}' share memory: its strides must keep them apart")]
    SharedElements(String),
    /// An input that is overwritten by an output of another layout.
    #[error("'{0}' is written in place, so its input and its output need the same shape, strides and offset")]
    InPlace(String),
    /// A coordinate of a dimension that the shape doesn't have.
    #[error("the expression asks for {needed} dimensions and the outputs have {given}")]
    Rank {
        /// The dimensions that its coordinates need.
        needed: usize,
        /// Those of the shape.
        given: usize,
    },
    /// Memory that ends before the last element.
    #[error("'{name}' has {bytes} bytes and its layout needs {needed}")]
    Short {
        /// The tensor.
        name: String,
        /// Its memory.
        bytes: u64,
        /// What its layout reaches.
        needed: u64,
    },
    /// Memory that begins between two elements.
    #[error("the memory of '{name}' begins at {address:#x}, which is no multiple of the {} bytes of {dtype}", dtype.bytes())]
    Misaligned {
        /// The tensor.
        name: String,
        /// Where its memory begins.
        address: usize,
        /// Its type.
        dtype: DType,
    },
    /// More members in the team than were prepared for.
    #[error("the team has {given} threads and the program was prepared for {prepared}")]
    Threads {
        /// Prepared for.
        prepared: usize,
        /// In the team.
        given: usize,
    },
    /// An instruction set that this machine hasn't got.
    #[error("this machine can't run {0}")]
    Isa(&'static str),
    /// Threads or memory.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// A mistake in this program, not in the operands.
    #[error("an expression was prepared wrongly, please report it: {0}")]
    Internal(String),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        match error {
            Error::Fault(fault) => fault,
            other => Fault::Invalid(other.to_string()),
        }
    }
}
