//! Errors of expressions and their operands. All checks happen before anything is written.

use plimsoll_core::Fault;
use plimsoll_expr::layout::Shape;
use plimsoll_expr::{DType, LayoutError};

/// An expression can't be run as requested.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A wrong number of operands.
    #[error("the expression has {expected} {what}, but {given} were given")]
    Count {
        /// `inputs`, `outputs` or `scalars`.
        what: &'static str,
        /// How many the expression has.
        expected: usize,
        /// How many were given.
        given: usize,
    },
    /// A tensor with the wrong type.
    #[error(
        "'{name}' is {expected}, but {given} was given: pass a tensor of {expected}, or declare '{name}' as {given}"
    )]
    Type {
        /// The tensor.
        name: String,
        /// Its type in the expression.
        expected: DType,
        /// The type that was given.
        given: DType,
    },
    /// An output whose shape differs from the first output's.
    #[error("the output '{name}' has the shape {given}, but '{first}' has {expected}: all outputs need the same shape")]
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
    /// An input that can't be broadcast to the outputs' shape.
    #[error("the input '{name}' doesn't fit: {fault}")]
    Input {
        /// The input.
        name: String,
        /// Why not.
        fault: LayoutError,
    },
    /// A tensor that is too large for memory.
    #[error("'{name}': {fault}")]
    Memory {
        /// The tensor.
        name: String,
        /// The error of its layout.
        fault: LayoutError,
    },
    /// Extents or strides that are too large.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// An output whose layout gives two elements the same address.
    #[error("elements of the output '{0}' share memory: use strides that don't overlap")]
    SharedElements(String),
    /// An input that is written in place by an output with another layout.
    #[error("'{0}' is written in place, so its input and its output need the same shape, strides and offset")]
    InPlace(String),
    /// An output whose memory is an input, though the expression doesn't write that input in place.
    #[error("the output '{output}' is the input '{input}': write it in place, as in '{input} = …'")]
    NotInPlace {
        /// The output.
        output: String,
        /// The input.
        input: String,
    },
    /// A tensor that is written and another one share bytes.
    #[error(
        "'{written}' is written and overlaps '{other}': use memory that no other tensor of the call uses, such as a copy"
    )]
    Overlap {
        /// The tensor that is written.
        written: String,
        /// The other one.
        other: String,
    },
    /// A tensor that is written in place was passed as one that is only read.
    #[error("'{0}' is written: pass it as a writable tensor")]
    ReadOnly(String),
    /// A coordinate along a missing dimension, or too many dimensions.
    #[error("the expression needs {needed} dimensions, but the outputs have {given}")]
    Rank {
        /// The dimensions that its coordinates need.
        needed: usize,
        /// The dimensions of the shape.
        given: usize,
    },
    /// Memory that ends before the last element.
    #[error("'{name}' has {bytes} bytes, but its layout needs {needed}")]
    Short {
        /// The tensor.
        name: String,
        /// Bytes of its memory.
        bytes: u64,
        /// Bytes that its layout needs.
        needed: u64,
    },
    /// Memory that begins between two elements.
    #[error("the memory of '{name}' begins at {address:#x}, which is not a multiple of the {} bytes of {dtype}", dtype.bytes())]
    Misaligned {
        /// The tensor.
        name: String,
        /// The address of its memory.
        address: usize,
        /// Its type.
        dtype: DType,
    },
    /// A team with more members than the program was prepared for.
    #[error("the team has {given} threads, but the program was prepared for {prepared}")]
    Threads {
        /// How many the program was prepared for.
        prepared: usize,
        /// How many the team has.
        given: usize,
    },
    /// An instruction set that this machine lacks.
    #[error("this machine can't run {0}")]
    Isa(&'static str),
    /// A fault of threads or memory.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// A bug in this crate, not a mistake in the operands.
    #[error("the expression was compiled wrongly, please report this bug: {0}")]
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
