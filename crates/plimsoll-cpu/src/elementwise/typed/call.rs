//! The arguments of a call: parameters and results as slices and numbers, reordered for the expression.

use plimsoll_core::Fault;
use plimsoll_expr::graph::MAX_OUTPUTS;
use plimsoll_expr::layout::broadcast;
use plimsoll_expr::trace::{Expr, Role};
use plimsoll_expr::{DType, Graph, In, InOut, Layout, LayoutError, Scalar, Value};

use super::super::error::Error;
use super::view::{View, ViewMut};
use crate::memory::{Lendable, Target, bytes};

/// Most parameters of a traced closure.
const MOST_ARGUMENTS: usize = 12;
/// Most tensors of a call: parameters and returned results.
const MOST_TENSORS: usize = MOST_ARGUMENTS + MAX_OUTPUTS;

/// A tensor argument of one call.
#[derive(Debug)]
struct CallTensor<'s> {
    memory: TensorMemory<'s>,
    dtype: DType,
    length: u64,
    /// Contiguous if `None`.
    layout: Option<&'s Layout>,
}

/// The borrowed memory of a tensor argument.
#[derive(Debug)]
enum TensorMemory<'s> {
    Shared(&'s [u8]),
    Exclusive(Target<'s>),
}

impl<'s> CallTensor<'s> {
    fn shared<T: Lendable>(elements: &'s [T], layout: Option<&'s Layout>) -> Self {
        let memory = TensorMemory::Shared(bytes(elements));
        Self { memory, dtype: T::DTYPE, length: elements.len() as u64, layout }
    }

    fn exclusive<T: Lendable>(elements: &'s mut [T], layout: Option<&'s Layout>) -> Self {
        let length = elements.len() as u64;
        Self { memory: TensorMemory::Exclusive(Target::new(elements)), dtype: T::DTYPE, length, layout }
    }

    fn layout(&self) -> Result<Layout, LayoutError> {
        self.layout.cloned().map_or_else(|| Layout::contiguous(&[self.length]), Ok)
    }

    /// Whether it has this layout. Allocates nothing.
    fn has_layout(&self, layout: &Layout) -> bool {
        match self.layout {
            Some(own) => own == layout,
            None => layout.shape() == [self.length] && layout.strides() == [1] && layout.offset() == 0,
        }
    }
}

/// The arguments of a call, in order. It allocates nothing.
#[derive(Debug)]
pub struct Call<'s> {
    /// Parameters that are tensors, then results.
    tensors: [Option<CallTensor<'s>>; MOST_TENSORS],
    count: usize,
    /// How many of them are parameters.
    inputs: usize,
    scalars: [Value; MOST_ARGUMENTS],
    scalar_count: usize,
}

/// The memory of a call as a run expects it: inputs that aren't written, then outputs, both in the order of the graph.
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

    /// Adds the tensor of the next result.
    fn result(&mut self, given: CallTensor<'s>) {
        if let Some(slot) = self.tensors.get_mut(self.count) {
            *slot = Some(given);
            self.count += 1;
        }
    }

    /// Adds the tensor of the next tensor parameter.
    fn input(&mut self, given: CallTensor<'s>) {
        self.result(given);
        self.inputs = self.count;
    }

    /// Adds the value of the next scalar parameter.
    fn scalar(&mut self, value: Value) {
        if let Some(slot) = self.scalars.get_mut(self.scalar_count) {
            *slot = value;
            self.scalar_count += 1;
        }
    }

    pub(super) fn scalars(&self) -> [Value; MOST_ARGUMENTS] {
        self.scalars
    }

    fn tensors(&self) -> impl Iterator<Item = &CallTensor<'s>> {
        self.tensors[..self.count].iter().flatten()
    }

    /// Whether the tensors have these layouts.
    pub(super) fn has_layouts(&self, layouts: &[Layout]) -> bool {
        layouts.len() == self.count && self.tensors().zip(layouts).all(|(given, layout)| given.has_layout(layout))
    }

    /// The tensors' layouts.
    pub(super) fn layouts(&self) -> Result<Vec<Layout>, LayoutError> {
        self.tensors().map(CallTensor::layout).collect()
    }

    /// The shape to which the tensors are broadcast.
    pub(super) fn shape(&self) -> Result<Vec<u64>, LayoutError> {
        let lengths: [[u64; 1]; MOST_TENSORS] =
            std::array::from_fn(|place| [self.tensors[place].as_ref().map_or(0, |given| given.length)]);
        let shapes: Vec<&[u64]> = self
            .tensors()
            .zip(&lengths)
            .map(|(given, length)| given.layout.map_or(&length[..], Layout::shape))
            .collect();
        broadcast(&shapes)
    }

    /// Checks the number and types of arguments. Rust's types already ensure both, unless a foreign type implements the traits.
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

    /// The memory in the expression's order, with tensors that are written in place among the outputs.
    pub(super) fn memories(mut self, graph: &Graph) -> Result<Memories<'s>, Error> {
        let outputs = std::array::from_fn(|_| Target::new::<u8>(&mut []));
        let mut memories = Memories { inputs: [&[]; MOST_ARGUMENTS], input_count: 0, outputs, output_count: 0 };
        let mut result = self.inputs;
        for (output, slot) in graph.outputs().iter().zip(&mut memories.outputs) {
            let place = output.in_place.map_or(result, |input| input as usize);
            result += usize::from(output.in_place.is_none());
            match self.tensors.get_mut(place).and_then(Option::take).map(|given| given.memory) {
                Some(TensorMemory::Exclusive(target)) => *slot = target,
                _ => return Err(Error::Internal(format!("'{}' was not passed as writable", output.name))),
            }
            memories.output_count += 1;
        }
        let read = self.tensors[..self.inputs].iter_mut().filter_map(Option::take);
        for (given, slot) in read.zip(&mut memories.inputs) {
            *slot = match given.memory {
                TensorMemory::Shared(bytes) => bytes,
                TensorMemory::Exclusive(target) => target.into_shared(),
            };
            memories.input_count += 1;
        }
        Ok(memories)
    }
}

/// A type that can be passed for a parameter of type `A`: a number for [`Scalar`]; a slice, vector, array or [`View`] by
/// reference for [`In`], by exclusive reference for [`InOut`].
pub trait Argument<A> {
    #[doc(hidden)]
    fn give<'s>(self, call: &mut Call<'s>)
    where
        Self: 's;
}

/// A type that can be passed for results of type `R`: a slice, vector, array or [`ViewMut`] by exclusive reference, a tuple of
/// them, or `()` if the closure returns nothing.
pub trait Outputs<R> {
    #[doc(hidden)]
    fn give<'s>(self, call: &mut Call<'s>)
    where
        Self: 's;
}

/// Results of type `R` that a call returns: a vector for each value, a tuple of vectors, or `()`.
pub trait Returned {
    /// The vectors.
    type Values;
    #[doc(hidden)]
    fn allocate(layout: &Layout) -> Result<Self::Values, Error>;
    #[doc(hidden)]
    fn give<'s>(values: &'s mut Self::Values, layout: &'s Layout, call: &mut Call<'s>);
}

impl Returned for () {
    type Values = ();

    fn allocate(_: &Layout) -> Result<(), Error> {
        Ok(())
    }

    fn give<'s>((): &'s mut (), _: &'s Layout, _: &mut Call<'s>) {}
}

impl<T: Lendable, K: Role> Returned for Expr<T, K> {
    type Values = Vec<T>;

    fn allocate(layout: &Layout) -> Result<Vec<T>, Error> {
        let elements = layout.elements();
        let refused = || Error::Fault(Fault::OutOfMemory { asked: elements.saturating_mul(T::DTYPE.bytes()), free: 0 });
        let length = usize::try_from(elements).map_err(|_| refused())?;
        let mut values = Vec::new();
        values.try_reserve_exact(length).map_err(|_| refused())?;
        values.resize(length, T::default());
        Ok(values)
    }

    fn give<'s>(values: &'s mut Vec<T>, layout: &'s Layout, call: &mut Call<'s>) {
        call.result(CallTensor::exclusive(values, Some(layout)));
    }
}

impl<T: Lendable> Argument<Scalar<T>> for T {
    fn give<'s>(self, call: &mut Call<'s>)
    where
        Self: 's,
    {
        call.scalar(self.value());
    }
}

/// Implements a trait for a type that is passed: `$method` of the call takes `$given`.
macro_rules! passes {
    ([$($n:tt)*] $trait:path, $of:ty: $this:ident $method:ident $given:expr) => {
        impl<'b, T: Lendable, $($n)*> $trait for $of {
            fn give<'s>(self, call: &mut Call<'s>)
            where
                Self: 's,
            {
                let $this = self;
                call.$method($given);
            }
        }
    };
}

macro_rules! read {
    ($([$($n:tt)*] $of:ty: $this:ident $given:expr;)*) => {
        $(passes!([$($n)*] Argument<In<T>>, $of: $this input $given);)*
    };
}

macro_rules! written {
    ($([$($n:tt)*] $of:ty: $this:ident $given:expr;)*) => {$(
        passes!([$($n)*] Argument<InOut<T>>, $of: $this input $given);
        passes!([K: Role, $($n)*] Outputs<Expr<T, K>>, $of: $this result $given);
    )*};
}

read! {
    [] &'b [T]: elements CallTensor::shared(elements, None);
    [] &'b Vec<T>: elements CallTensor::shared(elements, None);
    [const N: usize] &'b [T; N]: elements CallTensor::shared(elements, None);
    [] &'b View<'_, T>: view CallTensor::shared(view.elements, Some(&view.layout));
}

written! {
    [] &'b mut [T]: elements CallTensor::exclusive(elements, None);
    [] &'b mut Vec<T>: elements CallTensor::exclusive(elements, None);
    [const N: usize] &'b mut [T; N]: elements CallTensor::exclusive(elements, None);
    [] &'b mut ViewMut<'_, T>: view CallTensor::exclusive(&mut *view.elements, Some(&view.layout));
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

        impl<$($r: Returned),+> Returned for ($($r,)+) {
            type Values = ($($r::Values,)+);

            fn allocate(layout: &Layout) -> Result<Self::Values, Error> {
                Ok(($($r::allocate(layout)?,)+))
            }

            #[allow(non_snake_case)]
            fn give<'s>(values: &'s mut Self::Values, layout: &'s Layout, call: &mut Call<'s>) {
                let ($($o,)+) = values;
                $($r::give($o, layout, call);)+
            }
        }
    };
    () => {};
}

tuples!(A OA B OB C OC D OD E OE F OF G OG H OH);
