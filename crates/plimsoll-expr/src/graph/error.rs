//! Why an expression can't be built, each with the way out.

use super::{MAX_INPUTS, MAX_NODES, MAX_OUTPUTS, MAX_RANK, MAX_SCALARS};
use crate::dtype::DType;

/// A fault in an expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExprError {
    /// An operation that isn't meant for the type.
    #[error("'{op}' takes no {dtype}: {hint}")]
    Domain {
        /// The operation's name in text.
        op: &'static str,
        /// What it was given.
        dtype: DType,
        /// The way out.
        hint: &'static str,
    },
    /// A condition that is no truth value.
    #[error("a condition must be bool and this is {0}: compare it, as in 'x != 0'")]
    Condition(DType),
    /// A constant beyond the range of its type.
    #[error("{value} is no {dtype}: convert it ('{dtype}({value})' wraps) or use a wider type")]
    Range {
        /// The constant, as text.
        value: String,
        /// The type it should be.
        dtype: DType,
    },
    /// A name that is empty, too long, reserved, or no identifier.
    #[error("'{}' is no name: up to 64 letters, digits and '_', no digit first, and none of the words of the language", .0.escape_debug())]
    Name(String),
    /// A name that is taken.
    #[error("'{0}' is taken: choose another name")]
    Taken(String),
    /// An in-place output whose type differs from its input's.
    #[error("'{name}' holds {holds} and can't be written in place as {stores}: give the output another name")]
    InPlace {
        /// The input's name.
        name: String,
        /// The input's type.
        holds: DType,
        /// The type asked for.
        stores: DType,
    },
    /// An expression with nothing to store.
    #[error("nothing is stored: an expression needs at least one output")]
    NoOutput,
    /// More nodes than [`MAX_NODES`].
    #[error("more than {MAX_NODES} operations: split the expression")]
    TooManyNodes,
    /// More inputs than [`MAX_INPUTS`].
    #[error("more than {MAX_INPUTS} input tensors: split the expression")]
    TooManyInputs,
    /// More scalars than [`MAX_SCALARS`].
    #[error("more than {MAX_SCALARS} scalars: split the expression")]
    TooManyScalars,
    /// More outputs than [`MAX_OUTPUTS`].
    #[error("more than {MAX_OUTPUTS} outputs: split the expression")]
    TooManyOutputs,
    /// A coordinate of a dimension that no tensor has.
    #[error("no dimension {0}: tensors have up to {MAX_RANK}, counted from 0")]
    Dimension(u64),
    /// A handle of one closure used in another, or after its closure ended.
    #[error("a value of one expression was used in another: keep handles inside the closure that they were made for")]
    ForeignHandle,
    /// Two values for one in-place tensor.
    #[error("an in-place tensor was set twice: set it once, at the end")]
    SetTwice,
}
