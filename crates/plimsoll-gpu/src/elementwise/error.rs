//! Why an expression can't be run on some tensors: each error names the tensor and the problem, with sizes, types and addresses.

use plimsoll_core::Fault;
use plimsoll_expr::layout::Shape;
use plimsoll_expr::{DType, LayoutError};
use plimsoll_gen::elementwise::PlanError;

use super::backend::OtherDevice;

/// Why an expression wasn't run. Nothing was launched, except possibly with an [`Error::Fault`] of the device.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A wrong number of tensors or scalars.
    #[error("the expression has {expected} {what} and {given} were given")]
    Count {
        /// What there is a wrong number of: `inputs`, `outputs`, `scalars`.
        what: &'static str,
        /// How many it has.
        expected: usize,
        /// How many were given.
        given: usize,
    },
    /// A tensor of another type than declared.
    #[error(
        "'{name}' is {expected}, but {given} was given: pass a tensor of {expected}, or declare '{name}' as {given}"
    )]
    Type {
        /// The tensor.
        name: String,
        /// Its type in the expression.
        expected: DType,
        /// The type of the tensor passed.
        given: DType,
    },
    /// Incompatible shapes.
    #[error("'{name}': {error}")]
    Shape {
        /// The tensor.
        name: String,
        /// What is wrong.
        error: LayoutError,
    },
    /// Outputs of different shapes.
    #[error("the outputs '{first}' of {first_shape} and '{second}' of {second_shape} must have one shape")]
    Outputs {
        /// The first output.
        first: String,
        /// Its shape.
        first_shape: Shape,
        /// The output that differs.
        second: String,
        /// Its shape.
        second_shape: Shape,
    },
    /// Fewer dimensions than the expression's coordinates need.
    #[error("the expression needs {needed} dimensions and the outputs have {given}")]
    Rank {
        /// Dimensions needed.
        needed: usize,
        /// Those of the outputs.
        given: usize,
    },
    /// Memory that ends before the last element.
    #[error("'{name}' has {given} bytes, but its shape and strides need {needed}")]
    Short {
        /// The tensor.
        name: String,
        /// Bytes that its layout needs.
        needed: u64,
        /// Bytes that it has.
        given: u64,
    },
    /// An address that isn't a multiple of the element's size.
    #[error("'{name}' is at {address:#x}, which is not a multiple of the {bytes} bytes of {dtype}")]
    Misaligned {
        /// The tensor.
        name: String,
        /// Its address.
        address: u64,
        /// Its type.
        dtype: DType,
        /// Bytes of an element.
        bytes: u64,
    },
    /// An output that shares memory with another tensor without being the same tensor.
    #[error(
        "the output '{output}' (bytes {:#x} to {:#x}) overlaps '{other}' (bytes {:#x} to {:#x}); only exactly the same tensor, \
         in place, is allowed", .output_bytes.0, .output_bytes.1, .other_bytes.0, .other_bytes.1
    )]
    Overlap {
        /// The output.
        output: String,
        /// Its first byte, and the one after its last.
        output_bytes: (u64, u64),
        /// The other tensor.
        other: String,
        /// Its first byte, and the one after its last.
        other_bytes: (u64, u64),
    },
    /// An output two of whose elements share memory.
    #[error("two elements of the output '{name}' share memory: its strides are {strides:?} for {shape}")]
    SharedElements {
        /// The output.
        name: String,
        /// Its shape.
        shape: Shape,
        /// Its strides, elements.
        strides: Vec<i64>,
    },
    /// An output that overwrites an input is not the same tensor as that input.
    #[error("'{name}' is read and written in place: give the same tensor as input and as output")]
    InPlace {
        /// The tensor.
        name: String,
    },
    /// A tensor on another device than the one the expression was compiled for.
    #[error("'{name}' is memory of {given}, but the expression was compiled for {expected}: use memory of {expected}")]
    Device {
        /// The tensor.
        name: String,
        /// Where the expression runs.
        expected: String,
        /// Where the memory is.
        given: String,
    },
    /// A stream of another device than the one the expression was compiled for.
    #[error(
        "the stream belongs to {given}, but the expression was compiled for {expected}: use a stream of {expected}"
    )]
    Stream {
        /// Where the expression runs.
        expected: String,
        /// The stream's device.
        given: String,
    },
    /// Tensors of a batch that aren't contiguous or differ in shape.
    #[error(
        "set {set} of the batch: '{name}' must be contiguous and have the outputs' shape; only an input may have one element instead, \
         then in every set"
    )]
    Batch {
        /// Which set, from 0.
        set: usize,
        /// The tensor.
        name: String,
    },
    /// Tensors whose shapes have no common one, or one that is too large.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// No kernel does this.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// No compiler, no memory, or the device failed: then nothing more can be run on it.
    #[error(transparent)]
    Fault(#[from] Fault),
}

impl Error {
    /// Memory of another device than the expression's.
    pub(super) fn other_memory(name: String, OtherDevice { expected, given }: OtherDevice) -> Self {
        Self::Device { name, expected, given }
    }

    /// A stream of another device than the expression's.
    pub(super) fn other_stream(OtherDevice { expected, given }: OtherDevice) -> Self {
        Self::Stream { expected, given }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        match error {
            Error::Fault(fault) => fault,
            other => Self::Invalid(other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_of_another_device_is_not_called_memory_and_the_way_out_is_named() {
        let other = OtherDevice { expected: "cuda:0".to_owned(), given: "cuda:1".to_owned() };
        let message = Error::other_stream(other.clone()).to_string();
        assert!(
            message.starts_with("the stream belongs to cuda:1") && message.ends_with("use a stream of cuda:0"),
            "{message}"
        );
        assert!(Error::other_memory("x".to_owned(), other).to_string().ends_with("use memory of cuda:0"));
        let wrong = Error::Type { name: "x".to_owned(), expected: DType::F32, given: DType::F16 };
        assert!(wrong.to_string().ends_with("pass a tensor of f32, or declare 'x' as f16"), "{wrong}");
    }
}
