//! What must be true of tensors before a kernel may have them: types and shapes go together, every element is inside its
//! memory and aligned, and no output shares memory with another tensor but exactly, in place. What depends on layouts alone
//! is checked once for all calls with the same ones ([`Fit::new`]); addresses are checked in every call ([`Fit::admits`]).

use std::sync::Arc;

use plimsoll_expr::layout::Shape;
use plimsoll_expr::{Graph, Layout, Space};

use super::error::Error;
use super::operand::Raw;
use crate::driver::Context;

/// Layouts that go together.
#[derive(Debug)]
pub(super) struct Fit {
    /// Inputs in order, then outputs, broadcast to the outputs' shape.
    pub(super) space: Space,
    /// Of each tensor: its first byte and the one after its last, from its pointer on; `None` where it is empty.
    reach: Vec<Option<(u64, u64)>>,
    inputs: usize,
}

/// The name of a tensor by its place among inputs, then outputs.
pub(super) fn name(graph: &Graph, place: usize) -> String {
    let inputs = graph.inputs();
    let output = |place: usize| graph.outputs().get(place).map(|output| &output.name);
    let name = inputs.get(place).map(|input| &input.name).or_else(|| output(place - inputs.len()));
    name.cloned().unwrap_or_default()
}

/// Whether there are as many as the expression has.
pub(super) fn count(what: &'static str, expected: usize, given: usize) -> Result<(), Error> {
    if expected == given { Ok(()) } else { Err(Error::Count { what, expected, given }) }
}

fn types(graph: &Graph, tensors: &[Raw<'_>]) -> Result<(), Error> {
    let declared = graph.inputs().iter().map(|input| input.dtype).chain(graph.outputs().iter().map(|o| o.dtype));
    for (place, (expected, tensor)) in declared.zip(tensors).enumerate() {
        let (name, given) = (name(graph, place), tensor.dtype);
        if given != expected {
            return Err(Error::Type { name, expected, given });
        }
        let (address, bytes) = (tensor.start(), expected.bytes());
        if !address.is_multiple_of(bytes) {
            return Err(Error::Misaligned { name, address, dtype: expected, bytes });
        }
    }
    Ok(())
}

/// The outputs' one shape, of which no two elements share memory.
fn shape(graph: &Graph, outputs: &[Layout]) -> Result<Vec<u64>, Error> {
    let named = || graph.outputs().iter().map(|output| output.name.clone()).zip(outputs);
    let Some((first, shape)) = named().next().map(|(name, layout)| (name, layout.shape().to_vec())) else {
        return Err(Error::Count { what: "outputs", expected: graph.outputs().len(), given: 0 });
    };
    for (second, layout) in named() {
        if layout.shape() != shape {
            let (first_shape, second_shape) = (Shape(shape), Shape(layout.shape().to_vec()));
            return Err(Error::Outputs { first, first_shape, second, second_shape });
        }
        if layout.may_overlap_itself() {
            return Err(Error::Folded { name: second, shape: Shape(shape), strides: layout.strides().to_vec() });
        }
    }
    if graph.least_rank() > shape.len() {
        return Err(Error::Rank { needed: graph.least_rank(), given: shape.len() });
    }
    Ok(shape)
}

impl Fit {
    /// Checks all that layouts and types decide, and that addresses are aligned. `tensors` are inputs in order, then outputs.
    pub(super) fn new(graph: &Graph, tensors: &[Raw<'_>]) -> Result<Self, Error> {
        let inputs = graph.inputs().len();
        count("inputs", inputs, tensors.len().min(inputs))?;
        count("outputs", graph.outputs().len(), tensors.len() - inputs)?;
        types(graph, tensors)?;
        let layout = |(place, tensor): (usize, &Raw<'_>)| {
            tensor.extent.layout().map_err(|error| Error::Shape { name: name(graph, place), error })
        };
        let layouts = tensors.iter().enumerate().map(layout).collect::<Result<Vec<Layout>, _>>()?;
        let shape = shape(graph, &layouts[inputs..])?;
        for (place, layout) in layouts.iter().enumerate() {
            layout.broadcast_to(&shape).map_err(|error| Error::Shape { name: name(graph, place), error })?;
        }
        let reach = |(layout, tensor): (&Layout, &Raw<'_>)| {
            let bytes = tensor.dtype.bytes();
            let span = layout.span()?;
            Some((span.0.saturating_mul(bytes), span.1.saturating_add(1).saturating_mul(bytes)))
        };
        let reach = layouts.iter().zip(tensors).map(reach).collect();
        let space = Space::of(&shape, &layouts).map_err(|error| Error::Shape { name: name(graph, inputs), error })?;
        Ok(Self { space, reach, inputs })
    }

    /// Checks the addresses and sizes of tensors with these layouts.
    pub(super) fn admits(&self, graph: &Graph, tensors: &[Raw<'_>], context: &Context) -> Result<(), Error> {
        for (place, (tensor, reach)) in tensors.iter().zip(&self.reach).enumerate() {
            // Contexts of one device are the same.
            let foreign = |other: &&Arc<Context>| {
                !std::ptr::eq(&raw const ***other, context) && other.device().number() != context.device().number()
            };
            if let Some(other) = tensor.context.filter(foreign) {
                let device = |context: &Context| format!("cuda:{}", context.device().number());
                let (expected, given) = (device(context), device(other));
                return Err(Error::Device { name: name(graph, place), expected, given });
            }
            if let Some((_, needed)) = *reach
                && needed > tensor.bytes
            {
                return Err(Error::Short { name: name(graph, place), needed, given: tensor.bytes });
            }
        }
        for output in self.inputs..tensors.len() {
            let in_place = graph.outputs()[output - self.inputs].in_place;
            for other in 0..output {
                let own = in_place == u32::try_from(other).ok();
                if own && !self.same(tensors, output, other) {
                    return Err(Error::InPlace { name: name(graph, output) });
                }
                self.apart(graph, tensors, output, other)?;
            }
        }
        Ok(())
    }

    /// The bytes that a tensor spans; none where it is empty.
    fn bytes(&self, tensors: &[Raw<'_>], place: usize) -> (u64, u64) {
        let start = tensors[place].pointer;
        self.reach[place].map_or((start, start), |(low, high)| (start.saturating_add(low), start.saturating_add(high)))
    }

    /// Whether an output shares no memory with another tensor, or is exactly that input.
    fn apart(&self, graph: &Graph, tensors: &[Raw<'_>], output: usize, other: usize) -> Result<(), Error> {
        let (mine, its) = (self.bytes(tensors, output), self.bytes(tensors, other));
        let apart = mine.0 >= its.1 || its.0 >= mine.1;
        if apart
            || (other < self.inputs && self.same(tensors, output, other))
            || self.interleaved(tensors, output, other)
        {
            return Ok(());
        }
        let (output, other) = (name(graph, output), name(graph, other));
        Err(Error::Overlap { output, output_bytes: mine, other, other_bytes: its })
    }

    /// Whether two tensors have the same elements at the same indices.
    fn same(&self, tensors: &[Raw<'_>], a: usize, b: usize) -> bool {
        let (extents, accesses) = (self.space.extents(), self.space.accesses());
        let strides = accesses[a].strides.iter().zip(&accesses[b].strides).zip(extents);
        tensors[a].start() == tensors[b].start()
            && tensors[a].dtype.bytes() == tensors[b].dtype.bytes()
            && strides.into_iter().all(|((a, b), &extent)| a == b || extent <= 1)
    }

    /// Whether two tensors go along their slowest dimension in equal steps, in which each keeps to its own part: columns of one
    /// matrix.
    fn interleaved(&self, tensors: &[Raw<'_>], a: usize, b: usize) -> bool {
        let bytes = |place: usize| i128::from(tensors[place].dtype.bytes());
        let steps = |place: usize| {
            let strides = self.space.accesses()[place].strides.iter().zip(self.space.extents());
            strides.map(move |(&stride, &extent)| (i128::from(stride) * bytes(place), i128::from(extent) - 1))
        };
        let Some((slowest, (step, _))) = steps(a).enumerate().max_by_key(|(_, (step, _))| step.abs()) else {
            return false;
        };
        let step = if steps(b).nth(slowest).is_some_and(|(its, _)| its == step) { step.abs() } else { return false };
        // First byte, from the element of index 0, and width of what lies within a step.
        let within = |place: usize| {
            let others = steps(place).enumerate().filter(|(dimension, _)| *dimension != slowest).map(|(_, step)| step);
            let (low, high) = others
                .fold((0, 0), |(low, high), (step, times)| (low + (step * times).min(0), high + (step * times).max(0)));
            (i128::from(tensors[place].start()) + low, high - low + bytes(place))
        };
        let ((first_a, width_a), (first_b, width_b)) = (within(a), within(b));
        let behind = if step > 0 { (first_b - first_a).rem_euclid(step) } else { return false };
        behind >= width_a && behind + width_b <= step
    }
}
