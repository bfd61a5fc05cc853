//! Why an expression can't be run on a [`super::Device`].

use plimsoll_core::Fault;
use plimsoll_expr::{DType, LayoutError, ParseError};

/// Why an expression wasn't compiled or run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A text that names no device.
    #[error("unknown device '{0}': use cpu, cuda:N (such as cuda:0) or auto")]
    Selector(String),
    /// A tensor on another device than the one that runs the expression.
    #[error(
        "'{name}' is memory of {given}, but the expression was compiled for {expected}: download it there and upload it here"
    )]
    Device {
        /// The tensor.
        name: String,
        /// Where the expression runs.
        expected: String,
        /// Where the memory is.
        given: String,
    },
    /// A mistake in an expression's text.
    #[error(transparent)]
    Text(#[from] ParseError),
    /// A name that no parameter of the expression has.
    #[error("the expression has no '{given}'{}: it has {known}", suggest(.closest.as_deref()))]
    Name {
        /// The name that was given.
        given: String,
        /// The most similar name, if one is similar enough.
        closest: Option<String>,
        /// All names.
        known: String,
    },
    /// A position past the last parameter.
    #[error("there is no parameter {given}: the expression has {count} ({known}), counted from 0")]
    Position {
        /// The position that was given.
        given: usize,
        /// How many parameters there are.
        count: usize,
        /// All names.
        known: String,
    },
    /// A number for a tensor, or a tensor for a scalar.
    #[error("'{name}' is {expected}, but {given} was given")]
    Kind {
        /// The parameter.
        name: String,
        /// What it is.
        expected: &'static str,
        /// What was given for it.
        given: &'static str,
    },
    /// A tensor of another type than the parameter's.
    #[error(
        "'{name}' is {expected}, but {given} was given: pass a buffer of {expected}, or declare '{name}' as {given}"
    )]
    Type {
        /// The parameter.
        name: String,
        /// Its type.
        expected: DType,
        /// The type that was given.
        given: DType,
    },
    /// Another type than that of a buffer's elements.
    #[error("the buffer's elements are {expected}, not {given}: use the type that its dtype() returns")]
    Elements {
        /// The type of its elements.
        expected: DType,
        /// The requested type.
        given: DType,
    },
    /// A parameter without a value.
    #[error("'{0}' is not set: use set(\"{0}\", …), or allocate_outputs() for outputs")]
    Unset(String),
    /// An output in the memory of another tensor of the call.
    #[error("the output '{output}' and '{other}' use the same buffer: an output needs a buffer of its own")]
    SharedMemory {
        /// The output.
        output: String,
        /// The other tensor.
        other: String,
    },
    /// A number of elements or bytes that doesn't fit.
    #[error("{what}: {expected} needed, {given} given")]
    Length {
        /// What has this length.
        what: &'static str,
        /// The right length.
        expected: u64,
        /// The length that was given.
        given: u64,
    },
    /// A buffer that has other handles, or a layout that isn't the whole memory, so that it can't become a typed buffer.
    #[error("the buffer {0}, so it can't become a typed buffer: copy its elements with to_vec")]
    NotWhole(&'static str),
    /// An invalid shape, or shapes that don't match.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The CPU's reasons.
    #[cfg(feature = "cpu")]
    #[error(transparent)]
    Cpu(#[from] plimsoll_cpu::elementwise::Error),
    /// The GPU's reasons.
    #[cfg(feature = "cuda")]
    #[error(transparent)]
    Gpu(#[from] plimsoll_cuda::elementwise::Error),
    /// No device, no memory, or a device that failed.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// ` (did you mean 'x'?)` if there is a similar name.
fn suggest(closest: Option<&str>) -> String {
    closest.map_or_else(String::new, |name| format!(" (did you mean '{name}'?)"))
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        match error {
            Error::Fault(fault) => fault,
            #[cfg(feature = "cpu")]
            Error::Cpu(error) => error.into(),
            #[cfg(feature = "cuda")]
            Error::Gpu(error) => error.into(),
            other => Self::Invalid(other.to_string()),
        }
    }
}
