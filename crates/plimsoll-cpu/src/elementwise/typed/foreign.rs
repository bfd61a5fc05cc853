//! Calls on memory that another library owns.

use plimsoll_expr::layout::Shape;
use plimsoll_expr::{Foreign, Graph, Layout, LayoutError, Value};

use super::super::error::Error;
use super::expression::Expression;
use super::operand::check_call;
use super::plans::Plan;
use crate::memory::{Source, Target};

#[cfg(test)]
mod tests;

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
        let inputs = graph.inputs().len().min(tensors.len());
        let counts = [inputs, tensors.len() - inputs, scalars.len()];
        check_call(graph, counts, tensors.iter().map(|tensor| tensor.dtype))?;
        self.plans.enter(|set| {
            let is_it = |layouts: &[Layout]| tensors.iter().zip(layouts).all(|(tensor, own)| tensor.has_layout(own));
            let plan = set.find_or_insert(is_it, || self.prepare(layouts(graph, tensors)?))?;
            find_starts(graph, plan, tensors)?;
            check_overlaps(graph, plan, tensors)?;
            // The memory isn't used after this call, for which its owner promises it.
            let (mut inputs, mut outputs) = (std::mem::take(&mut plan.inputs), std::mem::take(&mut plan.outputs));
            // SAFETY: the caller promises the memory until this function returns; both lists are cleared before that. No tensor
            // that is written overlaps another.
            unsafe { list_memory(graph, plan, &mut inputs, &mut outputs) };
            let ran = self.run_plan(plan, &inputs, &mut outputs, scalars);
            inputs.clear();
            outputs.clear();
            (plan.inputs, plan.outputs) = (inputs, outputs);
            ran
        })
    }
}

/// The tensors' layouts.
fn layouts(graph: &Graph, tensors: &[Foreign<'_>]) -> Result<Vec<Layout>, Error> {
    let layout = |(place, tensor): (usize, &Foreign<'_>)| tensor.layout().map_err(|fault| refuse(graph, place, fault));
    tensors.iter().enumerate().map(layout).collect()
}

/// Finds the first address of each tensor's elements, and checks that they are inside the address space.
fn find_starts(graph: &Graph, plan: &mut Plan, tensors: &[Foreign<'_>]) -> Result<(), Error> {
    plan.starts.clear();
    for (place, (tensor, extent)) in tensors.iter().zip(&plan.extents).enumerate() {
        let start = if extent.bytes == 0 { Some(0) } else { tensor.start.checked_sub(extent.below) };
        let start = start.and_then(|start| usize::try_from(start).ok());
        let end = start.and_then(|start| start.checked_add(extent.bytes));
        let (Some(start), Some(_)) = (start, end) else {
            let shape = Shape(tensor.shape.to_vec());
            let fault = tensor.addresses().err().unwrap_or(LayoutError::Memory(shape, tensor.dtype.bytes()));
            return Err(refuse(graph, place, fault));
        };
        plan.starts.push(start);
    }
    Ok(())
}

/// Checks that no tensor that is written overlaps another.
fn check_overlaps(graph: &Graph, plan: &Plan, tensors: &[Foreign<'_>]) -> Result<(), Error> {
    let range = |place: usize| (plan.starts[place], plan.starts[place] + plan.extents[place].bytes);
    for place in (0..tensors.len()).filter(|&place| is_written(graph, place)) {
        let (start, end) = range(place);
        for other in (0..tensors.len()).filter(|&other| other != place) {
            let (first, last) = range(other);
            if start < last && first < end {
                return Err(overlap(graph, tensors, place, other));
            }
        }
    }
    Ok(())
}

/// The error of a tensor that is written and overlaps another.
fn overlap(graph: &Graph, tensors: &[Foreign<'_>], place: usize, other: usize) -> Error {
    let inputs = graph.inputs().len();
    let (written, name) = (name(graph, place), name(graph, other));
    match place >= inputs && other < inputs && tensors[place].is_same_tensor(&tensors[other]) {
        true => Error::NotInPlace { output: written, input: name },
        false => Error::Overlap { written, other: name },
    }
}

/// Lists the memory of the inputs that aren't written, and of the outputs, in the order of the graph.
///
/// # Safety
/// The memory that the plan's starts and extents describe is as [`Expression::run_foreign`] requires until both lists are
/// cleared, and no tensor that is written overlaps another.
unsafe fn list_memory(
    graph: &Graph,
    plan: &Plan,
    inputs: &mut Vec<Source<'static>>,
    outputs: &mut Vec<Target<'static>>,
) {
    let mut result = graph.inputs().len();
    for output in graph.outputs() {
        let place = output.in_place.map_or(result, |input| input as usize);
        result += usize::from(output.in_place.is_none());
        // SAFETY: the caller promises the same.
        outputs.push(unsafe { Target::from_address(plan.starts[place], plan.extents[place].bytes, output.dtype) });
    }
    for place in (0..graph.inputs().len()).filter(|&place| !is_written(graph, place)) {
        // SAFETY: as above.
        inputs.push(unsafe { Source::from_address(plan.starts[place], plan.extents[place].bytes) });
    }
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

/// The error of a tensor whose elements can't be in memory.
fn refuse(graph: &Graph, place: usize, fault: LayoutError) -> Error {
    Error::Memory { name: name(graph, place), fault }
}
