//! The arguments of a call: parameters and results as slices and numbers, reordered for the expression.

use plimsoll_core::Fault;
use plimsoll_expr::graph::MAX_OUTPUTS;
use plimsoll_expr::layout::broadcast;
use plimsoll_expr::trace::{Expr, Role};
use plimsoll_expr::{In, InOut, Layout, LayoutError, Scalar, Value};

use super::super::error::Error;
use super::operand::{Operand, Operands};
use super::view::{View, ViewMut};
use crate::memory::Lendable;

/// Most parameters of a traced closure.
const MOST_ARGUMENTS: usize = 12;
/// Most tensors of a call: parameters and returned results.
const MOST_TENSORS: usize = MOST_ARGUMENTS + MAX_OUTPUTS;

/// The arguments of a call, in order. It allocates nothing.
#[derive(Debug)]
pub struct Call<'s> {
    /// Parameters that are tensors, then results.
    tensors: [Option<Operand<'s>>; MOST_TENSORS],
    count: usize,
    /// How many of them are parameters.
    inputs: usize,
    scalars: [Value; MOST_ARGUMENTS],
    scalar_count: usize,
}

impl<'s> Call<'s> {
    pub(super) fn new() -> Self {
        let scalars = [Value::Int(0); MOST_ARGUMENTS];
        Self { tensors: [const { None }; MOST_TENSORS], count: 0, inputs: 0, scalars, scalar_count: 0 }
    }

    /// Adds the tensor of the next result.
    fn result(&mut self, given: Operand<'s>) {
        if let Some(slot) = self.tensors.get_mut(self.count) {
            *slot = Some(given);
            self.count += 1;
        }
    }

    /// Adds the tensor of the next tensor parameter.
    fn input(&mut self, given: Operand<'s>) {
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

    /// The tensors and the scalars.
    pub(super) fn operands(&mut self) -> (Operands<'_, 's>, &[Value]) {
        let scalars = &self.scalars[..self.scalar_count];
        (Operands { tensors: &mut self.tensors[..self.count], inputs: self.inputs }, scalars)
    }

    /// The shape to which the tensors are broadcast.
    pub(super) fn shape(&self) -> Result<Vec<u64>, LayoutError> {
        let lengths: [[u64; 1]; MOST_TENSORS] =
            std::array::from_fn(|place| [self.tensors[place].as_ref().map_or(0, Operand::length)]);
        let tensors = self.tensors[..self.count].iter().flatten().zip(&lengths);
        let shapes: Vec<&[u64]> = tensors.map(|(given, length)| given.shape().unwrap_or(length)).collect();
        broadcast(&shapes)
    }
}

/// A type that can be passed for a parameter of type `A`: a number for [`Scalar`]; a slice, vector, array or [`View`] by
/// reference for [`In`], by exclusive reference for [`InOut`]; or a slice with its layout.
pub trait Argument<A> {
    #[doc(hidden)]
    fn give<'s>(self, call: &mut Call<'s>)
    where
        Self: 's;
}

/// A type that can be passed for results of type `R`: a slice, vector, array or [`ViewMut`] by exclusive reference, a slice with
/// its layout, a tuple of them, or `()` if the closure returns nothing.
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
        let refused =
            || Error::Fault(Fault::OutOfMemory { asked: elements.saturating_mul(T::DTYPE.bytes()), free: None });
        let length = usize::try_from(elements).map_err(|_| refused())?;
        let mut values = Vec::new();
        values.try_reserve_exact(length).map_err(|_| refused())?;
        values.resize(length, T::default());
        Ok(values)
    }

    fn give<'s>(values: &'s mut Vec<T>, layout: &'s Layout, call: &mut Call<'s>) {
        call.result(Operand::write(values, Some(layout)));
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
    [] &'b [T]: elements Operand::read(elements, None);
    [] &'b Vec<T>: elements Operand::read(elements, None);
    [const N: usize] &'b [T; N]: elements Operand::read(elements, None);
    [] &'b View<'_, T>: view Operand::read(view.elements, Some(&view.layout));
    [] (&'b [T], &'b Layout): given Operand::read(given.0, Some(given.1));
}

written! {
    [] &'b mut [T]: elements Operand::write(elements, None);
    [] &'b mut Vec<T>: elements Operand::write(elements, None);
    [const N: usize] &'b mut [T; N]: elements Operand::write(elements, None);
    [] &'b mut ViewMut<'_, T>: view Operand::write(&mut *view.elements, Some(&view.layout));
    [] (&'b mut [T], &'b Layout): given Operand::write(given.0, Some(given.1));
}

impl Outputs<()> for () {
    fn give<'s>(self, _: &mut Call<'s>)
    where
        Self: 's,
    {
    }
}

macro_rules! tuples {
    ($($r:ident $o:ident)+) => {
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
}

plimsoll_expr::for_each_signature!(results: tuples);
