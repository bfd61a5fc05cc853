//! Errors of building an expression, each with a hint.

use super::{MAX_INPUTS, MAX_NODES, MAX_OUTPUTS, MAX_RANK, MAX_SCALARS};
use crate::dtype::DType;

/// An error in an expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExprError {
    /// An operation that doesn't support the type.
    #[error("'{op}' takes no {dtype}: {hint}")]
    Domain {
        /// The operation's name in text.
        op: &'static str,
        /// The operand's type.
        dtype: DType,
        /// How to fix it.
        hint: &'static str,
    },
    /// A condition that isn't `bool`.
    #[error("a condition must be bool, not {0}: compare it, as in 'x != 0'")]
    Condition(DType),
    /// A constant out of the range of its type.
    #[error("{value} is out of range for {dtype}: convert it ('{dtype}({value})' wraps) or use a wider type")]
    Range {
        /// The constant, as text.
        value: String,
        /// The type it should be.
        dtype: DType,
    },
    /// A name that is empty, too long, reserved, or not an identifier.
    #[error("'{}' is not a valid name: use up to 64 letters, digits and '_', with no digit first and no reserved word", .0.escape_debug())]
    Name(String),
    /// A name that is already in use.
    #[error("'{0}' is already in use: choose another name")]
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
    /// An expression without outputs.
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
    /// A coordinate along a dimension of [`MAX_RANK`] or more.
    #[error("no dimension {0}: tensors have up to {MAX_RANK}, counted from 0")]
    Dimension(u64),
    /// A handle of one closure that was used in another, or after its closure ended.
    #[error("a value of one expression was used in another: keep handles inside their own closure")]
    ForeignHandle,
    /// An in-place tensor that was set twice.
    #[error("an in-place tensor was set twice: set it once, at the end")]
    SetTwice,
}
