//! Typed calls: what a traced closure's parameters and results are given as. Types are the compiler's to check; shapes,
//! sizes and overlaps are checked in every call.

use std::marker::PhantomData;
use std::sync::Arc;

use plimsoll_expr::trace::{Expr, Role};
use plimsoll_expr::{In, InOut, Scalar};
use plimsoll_gen::elementwise::{Choose, Tier};

use super::buffer::{Buffer, Given, View, ViewMut};
use super::engine::Expression;
use super::error::Error;
use super::gpu::Gpu;
use super::lane::Lane;
use super::operand::Raw;
use crate::memory::{Plain, StreamBuffer};

/// Most parameters of a traced closure.
const MOST_ARGUMENTS: usize = 12;
/// Most values that it returns.
const MOST_RESULTS: usize = 8;
/// Most tensors of a call: those that are read and written count twice.
const MOST: usize = 2 * MOST_ARGUMENTS + MOST_RESULTS;

/// A list of a fixed size, so that calls allocate nothing.
#[derive(Debug)]
struct Few<T, const N: usize> {
    items: [Option<T>; N],
    count: usize,
}

impl<T: Copy, const N: usize> Few<T, N> {
    fn new() -> Self {
        Self { items: [None; N], count: 0 }
    }

    /// Tracing bounds how many there are.
    fn push(&mut self, item: T) {
        if let Some(slot) = self.items.get_mut(self.count) {
            *slot = Some(item);
            self.count += 1;
        }
    }

    fn iter(&self) -> impl Iterator<Item = T> + Clone + '_ {
        self.items[..self.count].iter().flatten().copied()
    }
}

/// What a call is given, in order.
#[derive(Debug)]
pub struct Call<'s> {
    inputs: Few<Given<'s>, MOST_ARGUMENTS>,
    scalars: Few<u64, MOST_ARGUMENTS>,
    results: Few<Given<'s>, MOST_RESULTS>,
}

impl Call<'_> {
    fn new() -> Self {
        Self { inputs: Few::new(), scalars: Few::new(), results: Few::new() }
    }
}

impl<'s> Call<'s> {
    /// The tensor of the next parameter that is one.
    pub(super) fn input(&mut self, given: Given<'s>) {
        self.inputs.push(given);
    }

    /// The tensor of the next result.
    pub(super) fn result(&mut self, given: Given<'s>) {
        self.results.push(given);
    }
}

/// Something that a parameter of type `A` can be given as: a number for [`Scalar`], a [`Buffer`] or [`View`] by reference for
/// [`In`], one by exclusive reference for [`InOut`].
pub trait Argument<A> {
    /// What is kept until the kernel is launched.
    #[doc(hidden)]
    type Held: Held;
    #[doc(hidden)]
    fn hold(self, gpu: &Gpu) -> Result<Self::Held, Error>;
}

/// Something that results of type `R` can be given as: a [`Buffer`] or [`ViewMut`] by exclusive reference, a tuple of them, or
/// `()` where nothing is returned.
pub trait Outputs<R> {
    /// What is kept until the kernel is launched.
    #[doc(hidden)]
    type Held: HeldOutputs;
    #[doc(hidden)]
    fn hold(self, gpu: &Gpu) -> Result<Self::Held, Error>;
}

/// An argument while the call lasts.
#[doc(hidden)]
pub trait Held {
    fn give<'s>(&'s self, call: &mut Call<'s>);
}

/// Outputs while the call lasts.
#[doc(hidden)]
pub trait HeldOutputs {
    fn give<'s>(&'s self, call: &mut Call<'s>);
}

/// A scalar's bits.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Word(u64);

impl Held for Word {
    fn give<'s>(&'s self, call: &mut Call<'s>) {
        call.scalars.push(self.0);
    }
}

impl<T: Plain> Argument<Scalar<T>> for T {
    type Held = Word;

    fn hold(self, _: &Gpu) -> Result<Word, Error> {
        Ok(Word(self.word()))
    }
}

macro_rules! tensors {
    ($($of:ty as $parameter:ty: $this:ident $given:expr;)*) => {
        $(impl<'b, T: Plain> Held for $of {
            fn give<'s>(&'s self, call: &mut Call<'s>) {
                let $this = self;
                call.input($given);
            }
        }

        impl<'b, T: Plain> Argument<$parameter> for $of {
            type Held = Self;

            fn hold(self, _: &Gpu) -> Result<Self, Error> {
                Ok(self)
            }
        })*
    };
}

tensors! {
    &'b Buffer<T> as In<T>: buffer buffer.given(None);
    &'b View<'_, T> as In<T>: view view.given();
    &'b mut Buffer<T> as InOut<T>: buffer buffer.given(None);
    &'b mut ViewMut<'_, T> as InOut<T>: view view.given();
}

macro_rules! outputs {
    ($($of:ty: $this:ident $given:expr;)*) => {
        $(impl<'b, T: Plain> HeldOutputs for $of {
            fn give<'s>(&'s self, call: &mut Call<'s>) {
                let $this = self;
                call.result($given);
            }
        }

        impl<'b, T: Plain, K: Role> Outputs<Expr<T, K>> for $of {
            type Held = Self;

            fn hold(self, _: &Gpu) -> Result<Self, Error> {
                Ok(self)
            }
        })*
    };
}

outputs! {
    &'b mut Buffer<T>: buffer buffer.given(None);
    &'b mut ViewMut<'_, T>: view view.given();
}

impl HeldOutputs for () {
    fn give<'s>(&'s self, _: &mut Call<'s>) {}
}

impl Outputs<()> for () {
    type Held = ();

    fn hold(self, _: &Gpu) -> Result<(), Error> {
        Ok(())
    }
}

/// A traced closure on a device: call [`Kernel::run`] with what its parameters and results are given as.
pub struct Kernel<Args, R> {
    expression: Arc<Expression>,
    gpu: Gpu,
    choose: Choose,
    of: PhantomData<fn(Args) -> R>,
}

impl<Args, R> Clone for Kernel<Args, R> {
    fn clone(&self) -> Self {
        let (expression, gpu) = (Arc::clone(&self.expression), self.gpu.clone());
        Self { expression, gpu, choose: self.choose, of: PhantomData }
    }
}

impl<Args, R> Kernel<Args, R> {
    pub(super) fn new(expression: Expression, gpu: &Gpu) -> Self {
        Self { expression: Arc::new(expression), gpu: gpu.clone(), choose: Choose::default(), of: PhantomData }
    }

    /// The same on another stream of the device.
    #[must_use]
    pub fn on(&self, gpu: &Gpu) -> Self {
        Self { gpu: Gpu { engine: self.gpu.engine.clone(), lane: Arc::clone(&gpu.lane) }, ..self.clone() }
    }

    /// The same with launches that may begin while the kernel before them in the stream ends (programmatic dependent launch,
    /// compute capability 9.0): they wait for it before they touch memory.
    #[must_use]
    pub fn dependent(&self, dependent: bool) -> Self {
        self.with(Choose { dependent, ..self.choose })
    }

    /// The same with functions of another accuracy.
    #[must_use]
    pub fn tier(&self, tier: Tier) -> Self {
        self.with(Choose { tier, ..self.choose })
    }

    /// The same with some of the planner's choices forced.
    #[must_use]
    pub fn with(&self, choose: Choose) -> Self {
        Self { choose, ..self.clone() }
    }

    /// The expression without types: to bind it to tensors once, or to many in a batch.
    #[must_use]
    pub fn expression(&self) -> &Expression {
        &self.expression
    }

    /// Launches it on what a call was given.
    fn launch(&self, call: &Call<'_>) -> Result<(), Error> {
        let (mut tensors, mut count) = ([Raw::NONE; MOST], 0);
        let mut homes = Few::<(&Arc<Lane>, &Arc<StreamBuffer>), MOST>::new();
        let mut results = call.results.iter();
        let in_place = |slot: u32| call.inputs.items.get(slot as usize).copied().flatten();
        // Every result has a place: tracing and the types of `run` see to it.
        let outputs = self.expression.graph().outputs().iter().filter_map(|output| match output.in_place {
            Some(slot) => in_place(slot),
            None => results.next(),
        });
        for given in call.inputs.iter().chain(outputs) {
            if let Some(slot) = tensors.get_mut(count) {
                *slot = given.raw;
                count += 1;
            }
            if let Some(home) = given.home {
                homes.push(home);
            }
        }
        let (mut bits, mut scalars) = ([0; MOST_ARGUMENTS], 0);
        for (slot, word) in bits.iter_mut().zip(call.scalars.iter()) {
            *slot = word;
            scalars += 1;
        }
        let lane = &self.gpu.lane;
        lane.among(homes.iter().map(|(lane, _)| lane), || {
            let ready = self.expression.enqueue(lane.stream(), &tensors[..count], &bits[..scalars], &self.choose)?;
            if lane.stream().is_recording() {
                lane.keep(ready);
                homes.iter().for_each(|(_, memory)| lane.keep(Arc::clone(memory) as _));
            }
            Ok(())
        })
    }
}

macro_rules! tuples {
    ($($r:ident $o:ident)+) => {
        impl<$($o: HeldOutputs),+> HeldOutputs for ($($o,)+) {
            #[allow(non_snake_case)]
            fn give<'s>(&'s self, call: &mut Call<'s>) {
                let ($($o,)+) = self;
                $($o.give(call);)+
            }
        }

        impl<$($r, $o: Outputs<$r>),+> Outputs<($($r,)+)> for ($($o,)+) {
            type Held = ($($o::Held,)+);

            #[allow(non_snake_case)]
            fn hold(self, gpu: &Gpu) -> Result<Self::Held, Error> {
                let ($($o,)+) = self;
                Ok(($($o.hold(gpu)?,)+))
            }
        }
    };
}

macro_rules! runs {
    ($($a:ident $x:ident)*) => {
        impl<R, $($a),*> Kernel<($($a,)*), R> {
            /// Launches it, asynchronously, in the stream's order: the closure's parameters as it has them, then what it returns.
            ///
            /// # Errors
            /// Whatever is wrong with the tensors, with their sizes, types or addresses; the compiler's and the driver's.
            #[allow(non_snake_case, clippy::too_many_arguments)]
            pub fn run<$($x: Argument<$a>,)* Out: Outputs<R>>(&self, $($x: $x,)* out: Out) -> Result<(), Error> {
                $(let $x = $x.hold(&self.gpu)?;)*
                let out = out.hold(&self.gpu)?;
                let mut call = Call::new();
                $($x.give(&mut call);)*
                out.give(&mut call);
                self.launch(&call)
            }
        }
    };
}

macro_rules! up_to {
    ($macro:ident: $first:ident $second:ident $($rest:ident)*) => {
        $macro!($first $second $($rest)*);
        up_to!($macro: $($rest)*);
    };
    ($macro:ident:) => {};
}

up_to!(tuples: A OA B OB C OC D OD E OE F OF G OG H OH);
up_to!(runs: A XA B XB C XC D XD E XE F XF G XG H XH I XI J XJ K XK L XL);
runs!();
