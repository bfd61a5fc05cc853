//! The oracle defines the results of an expression by evaluating one element at a time, in the simplest way. Integers are exact
//! in their own width; floats are computed in f64 with `libm`, whose results are the same on every system. The verifiers
//! compare kernels with it and decide how large errors may be.

mod allowed;
mod apply;
mod quotient;

use crate::dtype::DType;
use crate::graph::{Graph, Kind};
use crate::layout::{Layout, LayoutError, Space};
use crate::value::Value;

pub use allowed::{Allowed, Bound, allowed};
pub use apply::apply;

/// How floats are rounded between loads and stores. Casts and stores always round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// No rounding: f64 throughout. The reference for errors in units in the last place.
    Wide,
    /// Rounding to the [`DType::carrier`] after every operation, as an implementation does whose every operation is correctly
    /// rounded. If only arithmetic, fma, square roots, comparisons and casts are used, all bits must agree.
    Carried,
}

/// A tensor in host memory: little-endian bytes and their layout.
#[derive(Clone, Copy, Debug)]
pub struct Tensor<'a> {
    /// The memory that the layout's offsets count from.
    pub memory: &'a [u8],
    /// Shape and strides; broadcast together with the other tensors.
    pub layout: &'a Layout,
}

/// Operands that don't match the expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OracleError {
    /// A wrong number of tensors or scalars.
    #[error("the expression has {expected} {what}, but {given} were given")]
    Count {
        /// `input tensors` or `scalars`.
        what: &'static str,
        /// The number that the expression has.
        expected: usize,
        /// The number that was given.
        given: usize,
    },
    /// A tensor that ends before the last element that its layout reaches.
    #[error("'{name}' has {bytes} bytes, but its layout reaches element {element} of type {dtype}")]
    Short {
        /// The input's name.
        name: String,
        /// The size of its memory in bytes.
        bytes: usize,
        /// The element that is missing.
        element: u64,
        /// The input's type.
        dtype: DType,
    },
    /// A coordinate along a dimension that the shape doesn't have.
    #[error("the expression needs {needed} dimensions, but the shape has {given}")]
    Rank {
        /// The number of dimensions that its coordinates need.
        needed: usize,
        /// The number of dimensions of the shape.
        given: usize,
    },
    /// Shapes that can't be broadcast together.
    #[error(transparent)]
    Layout(#[from] LayoutError),
}

/// One element: its operands and its position.
#[derive(Clone, Copy, Debug)]
pub struct Element<'a> {
    /// The inputs' elements, one per [`Graph::inputs`].
    pub inputs: &'a [Value],
    /// The run-time scalars, one per [`Graph::scalars`].
    pub scalars: &'a [Value],
    /// Its coordinates; 0 is the slowest dimension.
    pub coordinates: &'a [u64],
    /// Its row-major index in the shape.
    pub place: u64,
}

/// The outputs of one element, rounded to their types.
///
/// # Errors
/// If the number of inputs, scalars or coordinates doesn't match the expression.
pub fn evaluate(graph: &Graph, element: Element<'_>, precision: Precision) -> Result<Vec<Value>, OracleError> {
    check(graph, element.inputs.len(), element.scalars.len(), element.coordinates.len())?;
    Ok(evaluate_checked(graph, element, precision))
}

fn check(graph: &Graph, inputs: usize, scalars: usize, rank: usize) -> Result<(), OracleError> {
    for (what, expected, given) in
        [("input tensors", graph.inputs().len(), inputs), ("scalars", graph.scalars().len(), scalars)]
    {
        if expected != given {
            return Err(OracleError::Count { what, expected, given });
        }
    }
    if graph.least_rank() > rank {
        return Err(OracleError::Rank { needed: graph.least_rank(), given: rank });
    }
    Ok(())
}

fn evaluate_checked(graph: &Graph, element: Element<'_>, precision: Precision) -> Vec<Value> {
    let mut values: Vec<Value> = Vec::with_capacity(graph.nodes().len());
    for node in graph.nodes() {
        let operands: Vec<Value> = node.kind.operands().iter().map(|id| values[id.index()]).collect();
        let value = match node.kind {
            Kind::Input(slot) => node.dtype.cast(element.inputs[slot as usize]),
            Kind::Scalar(slot) => node.dtype.cast(element.scalars[slot as usize]),
            Kind::Constant(bits) => node.dtype.decode(bits),
            Kind::Place => Value::Int(element.place.into()),
            Kind::Coordinate(dimension) => Value::Int(element.coordinates[usize::from(dimension)].into()),
            kind => {
                let carried = kind.operands().last().map_or(node.dtype, |id| graph.nodes()[id.index()].dtype).carrier();
                apply(kind, node.dtype, carried, &operands, precision)
            }
        };
        values.push(value);
    }
    graph.outputs().iter().map(|output| output.dtype.cast(values[output.node.index()])).collect()
}

/// Every element of every output, in row-major order of `shape`, to which the inputs are broadcast.
///
/// # Errors
/// If operands are too few, too many or too short, or an input can't be broadcast to `shape`.
pub fn run(
    graph: &Graph,
    shape: &[u64],
    inputs: &[Tensor<'_>],
    scalars: &[Value],
    precision: Precision,
) -> Result<Vec<Vec<Value>>, OracleError> {
    check(graph, inputs.len(), scalars.len(), shape.len())?;
    let layouts = inputs.iter().map(|tensor| tensor.layout.broadcast_to(shape)).collect::<Result<Vec<_>, _>>()?;
    let mut outputs = vec![Vec::new(); graph.outputs().len()];
    let space = Space::with_shape(shape, &layouts)?;
    for (place, coordinates) in space.coordinates().enumerate() {
        let mut values = Vec::with_capacity(inputs.len());
        for ((tensor, layout), input) in inputs.iter().zip(&layouts).zip(graph.inputs()) {
            let element = layout.offset_of(&coordinates).unwrap_or(u64::MAX);
            let value = input.dtype.read(tensor.memory, element).ok_or_else(|| OracleError::Short {
                name: input.name.clone(),
                bytes: tensor.memory.len(),
                element,
                dtype: input.dtype,
            })?;
            values.push(value);
        }
        let element = Element { inputs: &values, scalars, coordinates: &coordinates, place: place as u64 };
        for (output, value) in outputs.iter_mut().zip(evaluate_checked(graph, element, precision)) {
            output.push(value);
        }
    }
    Ok(outputs)
}
