//! The tensors of one call, in borrowed memory, and their order in the expression.

use plimsoll_expr::graph::{MAX_INPUTS, MAX_OUTPUTS};
use plimsoll_expr::{DType, Foreign, Graph, Layout, LayoutError};

use super::super::error::Error;
use crate::memory::{Lendable, Source, Target, bytes};

/// A tensor of one call: borrowed elements and their layout.
#[derive(Debug)]
pub struct Operand<'s> {
    pub(super) memory: TensorMemory<'s>,
    pub(super) dtype: DType,
    pub(super) layout: Arrangement<'s>,
}

/// The borrowed memory of a tensor.
#[derive(Debug)]
pub(super) enum TensorMemory<'s> {
    Shared(Source<'s>),
    Exclusive(Target<'s>),
}

/// How a tensor's elements lie in its memory.
#[derive(Clone, Copy, Debug)]
pub(super) enum Arrangement<'s> {
    /// So many in a row.
    Row(u64),
    Layout(&'s Layout),
    Foreign(Foreign<'s>),
}

impl<'s> Operand<'s> {
    /// A tensor that is only read: all `elements` in a row, or those of a layout, which must lie inside them (checked by the call).
    #[must_use]
    pub fn read<T: Lendable>(elements: &'s [T], layout: Option<&'s Layout>) -> Self {
        let memory = TensorMemory::Shared(Source::new(bytes(elements)));
        Self { memory, dtype: T::DTYPE, layout: Arrangement::new(elements.len(), layout) }
    }

    /// A tensor that may be written.
    #[must_use]
    pub fn write<T: Lendable>(elements: &'s mut [T], layout: Option<&'s Layout>) -> Self {
        let layout = Arrangement::new(elements.len(), layout);
        Self { memory: TensorMemory::Exclusive(Target::new(elements)), dtype: T::DTYPE, layout }
    }

    /// Its shape; `length` is where that of a row is stored.
    pub(super) fn shape<'a>(&'a self, length: &'a mut [u64; 1]) -> &'a [u64] {
        match self.layout {
            Arrangement::Row(elements) => {
                *length = [elements];
                length
            }
            Arrangement::Layout(layout) => layout.shape(),
            Arrangement::Foreign(tensor) => tensor.shape,
        }
    }
}

impl<'s> Arrangement<'s> {
    /// A layout, or so many elements in a row.
    fn new(length: usize, layout: Option<&'s Layout>) -> Self {
        layout.map_or(Self::Row(length as u64), Self::Layout)
    }

    fn layout(&self) -> Result<Layout, LayoutError> {
        match self {
            Self::Row(length) => Layout::contiguous(&[*length]),
            Self::Layout(layout) => Ok((*layout).clone()),
            Self::Foreign(tensor) => tensor.layout(),
        }
    }

    /// Whether it is this layout. Allocates nothing.
    fn is(&self, layout: &Layout) -> bool {
        match self {
            Self::Row(length) => layout.shape() == [*length] && layout.strides() == [1] && layout.offset() == 0,
            Self::Layout(own) => *own == layout,
            Self::Foreign(tensor) => tensor.has_layout(layout),
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
        layouts.len() == self.tensors.len() && self.list().zip(layouts).all(|(given, layout)| given.layout.is(layout))
    }

    /// The tensors' layouts.
    pub(super) fn layouts(&self) -> Result<Vec<Layout>, LayoutError> {
        self.list().map(|given| given.layout.layout()).collect()
    }

    /// Checks the number of tensors and scalars, and the types of the tensors.
    pub(super) fn check(&self, graph: &Graph, scalars: usize) -> Result<(), Error> {
        let results = graph.outputs().iter().filter(|output| output.in_place.is_none());
        let counts = [
            ("inputs", graph.inputs().len(), self.inputs),
            ("outputs", results.clone().count(), self.tensors.len() - self.inputs),
            ("scalars", graph.scalars().len(), scalars),
        ];
        for (what, expected, given) in counts {
            if expected != given {
                return Err(Error::Count { what, expected, given });
            }
        }
        let inputs = graph.inputs().iter().map(|input| (&input.name, input.dtype));
        let expected = inputs.chain(results.map(|output| (&output.name, output.dtype)));
        for ((name, expected), given) in expected.zip(self.list()) {
            if expected != given.dtype {
                return Err(Error::Type { name: name.clone(), expected, given: given.dtype });
            }
        }
        Ok(())
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
