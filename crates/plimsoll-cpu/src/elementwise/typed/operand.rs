//! The tensors of one call, in borrowed memory, and their order in the expression.

use plimsoll_expr::graph::{MAX_INPUTS, MAX_OUTPUTS};
use plimsoll_expr::{DType, Graph, Layout, LayoutError};

use super::super::error::Error;
use crate::memory::{Lendable, Source, Target, bytes};

/// A tensor of one call: borrowed elements and their layout.
#[derive(Debug)]
pub struct Operand<'s> {
    memory: TensorMemory<'s>,
    dtype: DType,
    length: u64,
    /// Contiguous if `None`.
    layout: Option<&'s Layout>,
}

/// The borrowed memory of a tensor.
#[derive(Debug)]
enum TensorMemory<'s> {
    Shared(Source<'s>),
    Exclusive(Target<'s>),
}

impl<'s> Operand<'s> {
    /// A tensor that is only read: all `elements` in a row, or those of a layout, which must lie inside them (checked by the call).
    #[must_use]
    pub fn read<T: Lendable>(elements: &'s [T], layout: Option<&'s Layout>) -> Self {
        let memory = TensorMemory::Shared(Source::new(bytes(elements)));
        Self { memory, dtype: T::DTYPE, length: elements.len() as u64, layout }
    }

    /// A tensor that may be written.
    #[must_use]
    pub fn write<T: Lendable>(elements: &'s mut [T], layout: Option<&'s Layout>) -> Self {
        let length = elements.len() as u64;
        Self { memory: TensorMemory::Exclusive(Target::new(elements)), dtype: T::DTYPE, length, layout }
    }

    fn layout(&self) -> Result<Layout, LayoutError> {
        self.layout.cloned().map_or_else(|| Layout::contiguous(&[self.length]), Ok)
    }

    /// Its number of elements, without a layout.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Its shape, if it has a layout.
    pub(super) fn shape(&self) -> Option<&'s [u64]> {
        self.layout.map(Layout::shape)
    }

    /// Whether it has this layout. Allocates nothing.
    fn has_layout(&self, layout: &Layout) -> bool {
        match self.layout {
            Some(own) => own == layout,
            None => layout.shape() == [self.length] && layout.strides() == [1] && layout.offset() == 0,
        }
    }
}

/// The tensors of a call: the inputs in the order of the expression, with those written in place, then the other outputs.
#[derive(Debug)]
pub(super) struct Operands<'c, 's> {
    /// None of them is `None`.
    pub(super) tensors: &'c mut [Option<Operand<'s>>],
    /// How many of them are inputs.
    pub(super) inputs: usize,
}

/// The memory of a call as a run expects it: inputs that aren't written, then outputs, both in the order of the graph.
pub(super) struct Memories<'s> {
    inputs: [Source<'s>; MAX_INPUTS],
    input_count: usize,
    outputs: [Target<'s>; MAX_OUTPUTS],
    output_count: usize,
}

impl<'s> Memories<'s> {
    pub(super) fn parts(&mut self) -> (&[Source<'s>], &mut [Target<'s>]) {
        (&self.inputs[..self.input_count], &mut self.outputs[..self.output_count])
    }
}

impl<'s> Operands<'_, 's> {
    fn list(&self) -> impl Iterator<Item = &Operand<'s>> {
        self.tensors.iter().flatten()
    }

    /// Whether the tensors have these layouts.
    pub(super) fn has_layouts(&self, layouts: &[Layout]) -> bool {
        layouts.len() == self.tensors.len() && self.list().zip(layouts).all(|(given, layout)| given.has_layout(layout))
    }

    /// The tensors' layouts.
    pub(super) fn layouts(&self) -> Result<Vec<Layout>, LayoutError> {
        self.list().map(Operand::layout).collect()
    }

    /// Checks the number of tensors and scalars, and the types of the tensors.
    pub(super) fn check(&self, graph: &Graph, scalars: usize) -> Result<(), Error> {
        let counts = [self.inputs, self.tensors.len() - self.inputs, scalars];
        check_call(graph, counts, self.list().map(|given| given.dtype))
    }

    /// The memory in the expression's order, with tensors that are written in place among the outputs.
    pub(super) fn memories(self, graph: &Graph) -> Result<Memories<'s>, Error> {
        let outputs = std::array::from_fn(|_| Target::new::<u8>(&mut []));
        let mut memories =
            Memories { inputs: [Source::new(&[]); MAX_INPUTS], input_count: 0, outputs, output_count: 0 };
        let mut result = self.inputs;
        for (output, slot) in graph.outputs().iter().zip(&mut memories.outputs) {
            let place = output.in_place.map_or(result, |input| input as usize);
            result += usize::from(output.in_place.is_none());
            match self.tensors.get_mut(place).and_then(Option::take).map(|given| given.memory) {
                Some(TensorMemory::Exclusive(target)) => *slot = target,
                _ => return Err(Error::ReadOnly(output.name.clone())),
            }
            memories.output_count += 1;
        }
        let read = self.tensors[..self.inputs].iter_mut().filter_map(Option::take);
        for (given, slot) in read.zip(&mut memories.inputs) {
            *slot = match given.memory {
                TensorMemory::Shared(source) => source,
                TensorMemory::Exclusive(target) => target.into_source(),
            };
            memories.input_count += 1;
        }
        Ok(memories)
    }
}

/// Checks a call's numbers of inputs, outputs that aren't written in place, and scalars, and the types of its tensors.
pub(super) fn check_call(graph: &Graph, given: [usize; 3], types: impl Iterator<Item = DType>) -> Result<(), Error> {
    let results = graph.outputs().iter().filter(|output| output.in_place.is_none());
    let expected = [graph.inputs().len(), results.clone().count(), graph.scalars().len()];
    for (what, (expected, given)) in ["inputs", "outputs", "scalars"].into_iter().zip(expected.into_iter().zip(given)) {
        if expected != given {
            return Err(Error::Count { what, expected, given });
        }
    }
    let inputs = graph.inputs().iter().map(|input| (&input.name, input.dtype));
    let expected = inputs.chain(results.map(|output| (&output.name, output.dtype)));
    for ((name, expected), given) in expected.zip(types) {
        if expected != given {
            return Err(Error::Type { name: name.clone(), expected, given });
        }
    }
    Ok(())
}
