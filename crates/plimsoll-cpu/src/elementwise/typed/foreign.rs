//! Calls on memory that another library owns.

use plimsoll_expr::graph::{MAX_INPUTS, MAX_OUTPUTS};
use plimsoll_expr::layout::Shape;
use plimsoll_expr::{Foreign, Graph, LayoutError, Value};

use super::super::error::Error;
use super::expression::Expression;
use super::operand::{Arrangement, Operand, Operands, TensorMemory};
use crate::memory::{Source, Target};

#[cfg(test)]
mod tests;

/// Most tensors of an expression.
const MOST: usize = MAX_INPUTS + MAX_OUTPUTS;

impl Expression {
    /// Runs it on memory of another library and returns when all outputs are written. `tensors` are the inputs in their order,
    /// then the outputs that aren't written in place. Two inputs may share memory. Allocates nothing if the layouts are those of
    /// an earlier call.
    ///
    /// # Errors
    /// If the number, types, shapes, strides or addresses of the tensors are wrong, or a tensor that is written overlaps itself or
    /// another tensor. An output that is an input needs an expression that writes the input in place
    /// ([`Graph::with_output_in_place`]). Then nothing was written. There may be too little memory for the scratch memory of new
    /// layouts.
    ///
    /// # Safety
    /// Until it returns:
    /// - Every element of a tensor is in memory of this process that is valid for reads, and for writes if the tensor is an
    ///   output or an input that is written in place. Its address was made from a pointer whose provenance is exposed, or by
    ///   another language.
    /// - The elements of inputs are initialised. If Rust code reads an output's or an input's elements as `bool`, their bytes are
    ///   0 or 1.
    /// - Nobody writes the elements of the inputs, and nobody reads or writes those of tensors that are written. Bytes between
    ///   elements are never accessed.
    pub unsafe fn run_foreign(&self, tensors: &[Foreign<'_>], scalars: &[Value]) -> Result<(), Error> {
        let graph = self.graph();
        let inputs = graph.inputs().len();
        if tensors.len() != count(graph) {
            let given = tensors.len();
            return Err(Error::Count { what: "inputs and outputs", expected: count(graph), given });
        }
        let mut extents = [(0, 0); MOST];
        for (place, (tensor, slot)) in tensors.iter().zip(&mut extents).enumerate() {
            *slot = extent(graph, place, tensor)?;
        }
        check_overlaps(graph, tensors)?;
        let mut operands = [const { None }; MOST];
        for (place, (tensor, slot)) in tensors.iter().zip(&mut operands).enumerate() {
            let (start, bytes) = extents[place];
            // SAFETY: the caller promises the memory until this function returns, which is longer than the operands live. No
            // tensor that is written overlaps another, as was just checked.
            let memory = unsafe {
                match is_written(graph, place) {
                    true => TensorMemory::Exclusive(Target::from_address(start, bytes, tensor.dtype)),
                    false => TensorMemory::Shared(Source::from_address(start, bytes)),
                }
            };
            *slot = Some(Operand { memory, dtype: tensor.dtype, layout: Arrangement::Foreign(*tensor) });
        }
        self.launch(Operands { tensors: &mut operands[..tensors.len()], inputs }, scalars)
    }
}

/// How many tensors a call has.
fn count(graph: &Graph) -> usize {
    graph.inputs().len() + graph.outputs().iter().filter(|output| output.in_place.is_none()).count()
}

/// Whether a call's tensor is an output, or an input that is written in place.
fn is_written(graph: &Graph, place: usize) -> bool {
    place >= graph.inputs().len() || graph.outputs().iter().any(|output| output.in_place == Some(place as u32))
}

/// The name of a call's tensor.
fn name(graph: &Graph, place: usize) -> String {
    let results = graph.outputs().iter().filter(|output| output.in_place.is_none()).map(|output| &output.name);
    graph.inputs().iter().map(|input| &input.name).chain(results).nth(place).cloned().unwrap_or_default()
}

/// The first address of a tensor's elements, and its bytes.
fn extent(graph: &Graph, place: usize, tensor: &Foreign<'_>) -> Result<(usize, usize), Error> {
    let range = tensor.addresses().map_err(|fault| Error::Memory { name: name(graph, place), fault })?;
    let address = |address: u64| usize::try_from(address).ok();
    address(range.start).zip(address(range.end - range.start)).ok_or_else(|| {
        let fault = LayoutError::Memory(Shape(tensor.shape.to_vec()), tensor.dtype.bytes());
        Error::Memory { name: name(graph, place), fault }
    })
}

/// Checks that no tensor that is written overlaps another.
fn check_overlaps(graph: &Graph, tensors: &[Foreign<'_>]) -> Result<(), Error> {
    for (place, tensor) in tensors.iter().enumerate().filter(|(place, _)| is_written(graph, *place)) {
        for (other, second) in tensors.iter().enumerate().filter(|(other, _)| *other != place) {
            if !tensor.overlaps(second).map_err(|fault| Error::Memory { name: name(graph, place), fault })? {
                continue;
            }
            let (written, name) = (name(graph, place), name(graph, other));
            let in_place = place >= graph.inputs().len() && other < graph.inputs().len();
            return Err(match in_place && tensor.is_same_tensor(second) {
                true => Error::NotInPlace { output: written, input: name },
                false => Error::Overlap { written, other: name },
            });
        }
    }
    Ok(())
}
