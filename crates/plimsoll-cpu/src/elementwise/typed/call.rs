//! What a call is given: parameters and results as slices and numbers, brought into the order of the expression.

use plimsoll_expr::graph::MAX_OUTPUTS;
use plimsoll_expr::trace::{Expr, Role};
use plimsoll_expr::{DType, Graph, In, InOut, Layout, LayoutError, Scalar, Value};

use super::super::error::Error;
use super::view::{View, ViewMut};
use crate::memory::{Lendable, Target, bytes};

/// Most parameters of a traced closure.
const MOST_ARGUMENTS: usize = 12;
/// Most tensors of a call: parameters, and results that are none of them.
const MOST_TENSORS: usize = MOST_ARGUMENTS + MAX_OUTPUTS;

/// A tensor for one call.
#[derive(Debug)]
struct Given<'s> {
    memory: Lent<'s>,
    dtype: DType,
    length: u64,
    /// All elements in a row where there is none.
    layout: Option<&'s Layout>,
}

/// Whose memory it is for the time of the call.
#[derive(Debug)]
enum Lent<'s> {
    Shared(&'s [u8]),
    Exclusive(Target<'s>),
}

impl<'s> Given<'s> {
    fn shared<T: Lendable>(elements: &'s [T], layout: Option<&'s Layout>) -> Self {
        let memory = Lent::Shared(bytes(elements));
        Self { memory, dtype: T::DTYPE, length: elements.len() as u64, layout }
    }

    fn exclusive<T: Lendable>(elements: &'s mut [T], layout: Option<&'s Layout>) -> Self {
        let length = elements.len() as u64;
        Self { memory: Lent::Exclusive(Target::new(elements)), dtype: T::DTYPE, length, layout }
    }

    fn layout(&self) -> Result<Layout, LayoutError> {
        self.layout.cloned().map_or_else(|| Layout::contiguous(&[self.length]), Ok)
    }

    /// Whether it lies so. Allocates nothing.
    fn lies(&self, layout: &Layout) -> bool {
        match self.layout {
            Some(own) => own == layout,
            None => layout.shape() == [self.length] && layout.strides() == [1] && layout.offset() == 0,
        }
    }
}

/// What a call is given, in order. It allocates nothing.
#[derive(Debug)]
pub struct Call<'s> {
    /// Parameters that are tensors, then results.
    tensors: [Option<Given<'s>>; MOST_TENSORS],
    count: usize,
    /// How many of them are parameters.
    inputs: usize,
    scalars: [Value; MOST_ARGUMENTS],
    scalar_count: usize,
}

/// The memory of a call as a run takes it: inputs that aren't written, then outputs, both in the order of the graph.
pub(super) struct Memories<'s> {
    inputs: [&'s [u8]; MOST_ARGUMENTS],
    input_count: usize,
    outputs: [Target<'s>; MOST_TENSORS],
    output_count: usize,
}

impl<'s> Memories<'s> {
    pub(super) fn parts(&mut self) -> (&[&'s [u8]], &mut [Target<'s>]) {
        (&self.inputs[..self.input_count], &mut self.outputs[..self.output_count])
    }
}

impl<'s> Call<'s> {
    pub(super) fn new() -> Self {
        let scalars = [Value::Int(0); MOST_ARGUMENTS];
        Self { tensors: [const { None }; MOST_TENSORS], count: 0, inputs: 0, scalars, scalar_count: 0 }
    }

    /// The tensor of the next result.
    fn result(&mut self, given: Given<'s>) {
        if let Some(slot) = self.tensors.get_mut(self.count) {
            *slot = Some(given);
            self.count += 1;
        }
    }

    /// The tensor of the next parameter that is one.
    fn input(&mut self, given: Given<'s>) {
        self.result(given);
        self.inputs = self.count;
    }

    /// The next parameter that is a scalar.
    fn scalar(&mut self, value: Value) {
        if let Some(slot) = self.scalars.get_mut(self.scalar_count) {
            *slot = value;
            self.scalar_count += 1;
        }
    }

    pub(super) fn scalars(&self) -> [Value; MOST_ARGUMENTS] {
        self.scalars
    }

    fn tensors(&self) -> impl Iterator<Item = &Given<'s>> {
        self.tensors[..self.count].iter().flatten()
    }

    /// Whether these tensors lie as those of an earlier call did.
    pub(super) fn lies(&self, layouts: &[Layout]) -> bool {
        layouts.len() == self.count && self.tensors().zip(layouts).all(|(given, layout)| given.lies(layout))
    }

    /// How they lie.
    pub(super) fn layouts(&self) -> Result<Vec<Layout>, LayoutError> {
        self.tensors().map(Given::layout).collect()
    }

    /// That as much was given as the expression has, of its types. What types let through is right; this holds also for
    /// whoever implements the traits.
    pub(super) fn check(&self, graph: &Graph) -> Result<(), Error> {
        let results = graph.outputs().iter().filter(|output| output.in_place.is_none());
        let counts = [
            ("inputs", graph.inputs().len(), self.inputs),
            ("outputs", results.clone().count(), self.count - self.inputs),
            ("scalars", graph.scalars().len(), self.scalar_count),
        ];
        for (what, expected, given) in counts {
            if expected != given {
                return Err(Error::Count { what, expected, given });
            }
        }
        let inputs = graph.inputs().iter().map(|input| (&input.name, input.dtype));
        let expected = inputs.chain(results.map(|output| (&output.name, output.dtype)));
        for ((name, expected), given) in expected.zip(self.tensors()) {
            if expected != given.dtype {
                return Err(Error::Type { name: name.clone(), expected, given: given.dtype });
            }
        }
        Ok(())
    }

    /// The memory in the expression's order, which has what is written in place among the outputs.
    pub(super) fn memories(mut self, graph: &Graph) -> Result<Memories<'s>, Error> {
        let outputs = std::array::from_fn(|_| Target::new::<u8>(&mut []));
        let mut memories = Memories { inputs: [&[]; MOST_ARGUMENTS], input_count: 0, outputs, output_count: 0 };
        let mut result = self.inputs;
        for (output, slot) in graph.outputs().iter().zip(&mut memories.outputs) {
            let place = output.in_place.map_or(result, |input| input as usize);
            result += usize::from(output.in_place.is_none());
            match self.tensors.get_mut(place).and_then(Option::take).map(|given| given.memory) {
                Some(Lent::Exclusive(target)) => *slot = target,
                _ => return Err(Error::Internal(format!("'{}' was not given to be written", output.name))),
            }
            memories.output_count += 1;
        }
        let read = self.tensors[..self.inputs].iter_mut().filter_map(Option::take);
        for (given, slot) in read.zip(&mut memories.inputs) {
            *slot = match given.memory {
                Lent::Shared(bytes) => bytes,
                Lent::Exclusive(target) => target.into_shared(),
            };
            memories.input_count += 1;
        }
        Ok(memories)
    }
}

/// Something that a parameter of type `A` can be given as: a number for [`Scalar`]; a slice, vector, array or [`View`] by
/// reference for [`In`], one by exclusive reference for [`InOut`].
pub trait Argument<A> {
    #[doc(hidden)]
    fn give<'s>(self, call: &mut Call<'s>)
    where
        Self: 's;
}

/// Something that results of type `R` can be given as: a slice, vector, array or [`ViewMut`] by exclusive reference, a tuple of
/// them, or `()` where nothing is returned.
pub trait Outputs<R> {
    #[doc(hidden)]
    fn give<'s>(self, call: &mut Call<'s>)
    where
        Self: 's;
}

impl<T: Lendable> Argument<Scalar<T>> for T {
    fn give<'s>(self, call: &mut Call<'s>)
    where
        Self: 's,
    {
        call.scalar(self.value());
    }
}

macro_rules! read {
    ($([$($n:tt)*] $of:ty: $this:ident $given:expr;)*) => {
        $(impl<'b, T: Lendable, $($n)*> Argument<In<T>> for $of {
            fn give<'s>(self, call: &mut Call<'s>)
            where
                Self: 's,
            {
                let $this = self;
                call.input($given);
            }
        })*
    };
}

macro_rules! written {
    ($([$($n:tt)*] $of:ty: $this:ident $given:expr;)*) => {
        $(impl<'b, T: Lendable, $($n)*> Argument<InOut<T>> for $of {
            fn give<'s>(self, call: &mut Call<'s>)
            where
                Self: 's,
            {
                let $this = self;
                call.input($given);
            }
        }

        impl<'b, T: Lendable, K: Role, $($n)*> Outputs<Expr<T, K>> for $of {
            fn give<'s>(self, call: &mut Call<'s>)
            where
                Self: 's,
            {
                let $this = self;
                call.result($given);
            }
        })*
    };
}

read! {
    [] &'b [T]: elements Given::shared(elements, None);
    [] &'b Vec<T>: elements Given::shared(elements, None);
    [const N: usize] &'b [T; N]: elements Given::shared(elements, None);
    [] &'b View<'_, T>: view Given::shared(view.elements, Some(&view.layout));
}

written! {
    [] &'b mut [T]: elements Given::exclusive(elements, None);
    [] &'b mut Vec<T>: elements Given::exclusive(elements, None);
    [const N: usize] &'b mut [T; N]: elements Given::exclusive(elements, None);
    [] &'b mut ViewMut<'_, T>: view Given::exclusive(&mut *view.elements, Some(&view.layout));
}

impl Outputs<()> for () {
    fn give<'s>(self, _: &mut Call<'s>)
    where
        Self: 's,
    {
    }
}

macro_rules! tuples {
    ($r:ident $o:ident $($rest:ident)*) => {
        tuples!(@one [] $r $o $($rest)*);
        tuples!($($rest)*);
    };
    (@one [$($pair:tt)*] $r:ident $o:ident $($rest:ident)*) => {
        tuples!(@one [$($pair)* ($r $o)] $($rest)*);
    };
    (@one [$(($r:ident $o:ident))+]) => {
        impl<$($r, $o: Outputs<$r>),+> Outputs<($($r,)+)> for ($($o,)+) {
            #[allow(non_snake_case)]
            fn give<'s>(self, call: &mut Call<'s>)
            where
                Self: 's,
            {
                let ($($o,)+) = self;
                $($o.give(call);)+
            }
        }
    };
    () => {};
}

tuples!(A OA B OB C OC D OD E OE F OF G OG H OH);
