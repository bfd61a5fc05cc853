//! Typed calls: what a traced closure's parameters and results are given as. Types are the compiler's to check; shapes,
//! sizes and overlaps are checked in every call.

use std::marker::PhantomData;
use std::sync::{Arc, Mutex};

use plimsoll_expr::trace::{Expr, Role};
use plimsoll_expr::{Graph, In, InOut, Scalar};
use plimsoll_gen::elementwise::{Choose, Tier};

use super::buffer::{Buffer, Given, Home, View, ViewMut};
use super::engine::{Expression, Ready};
use super::error::Error;
use super::gpu::Gpu;
use super::operand::Raw;
use crate::memory::Plain;

/// Most parameters of a traced closure.
const MOST_ARGUMENTS: usize = 12;
/// Most tensors of a call: twelve parameters that are written too, and eight results.
const MOST_TENSORS: usize = 2 * MOST_ARGUMENTS + 8;

/// What a call is given, in order: `N` tensors at most, so that it allocates nothing. The types of what is given say how many there
/// are, and the list is little longer: filling one of 32 costs more than all checks of a call.
#[derive(Debug)]
pub struct Call<'s, const N: usize> {
    /// Parameters that are tensors, then results.
    tensors: [Raw<'s>; N],
    homes: [Option<Home<'s>>; N],
    count: usize,
    /// How many of them are parameters.
    inputs: usize,
    scalars: [u64; MOST_ARGUMENTS],
    scalar_count: usize,
}

impl<'s, const N: usize> Call<'s, N> {
    fn new() -> Self {
        let (tensors, homes) = ([Raw::NONE; N], [None; N]);
        Self { tensors, homes, count: 0, inputs: 0, scalars: [0; MOST_ARGUMENTS], scalar_count: 0 }
    }

    /// The next tensor.
    fn push(&mut self, given: Given<'s>) {
        if self.count < N {
            (self.tensors[self.count], self.homes[self.count]) = (given.raw, given.home);
            self.count += 1;
        }
    }

    /// The tensor of the next parameter that is one.
    pub(super) fn input(&mut self, given: Given<'s>) {
        self.push(given);
        self.inputs = self.count;
    }

    /// The tensor of the next result.
    pub(super) fn result(&mut self, given: Given<'s>) {
        self.push(given);
    }

    /// The bits of the next parameter that is a scalar.
    fn scalar(&mut self, bits: u64) {
        if let Some(slot) = self.scalars.get_mut(self.scalar_count) {
            *slot = bits;
            self.scalar_count += 1;
        }
    }

    /// Brings the outputs into the expression's order, which has those that are written in place among the results.
    fn place_outputs(&mut self, graph: &Graph) {
        let results = self.tensors;
        let mut result = self.inputs;
        self.count = self.inputs;
        for output in graph.outputs() {
            let from = output.in_place.map_or(result, |slot| slot as usize);
            result += usize::from(output.in_place.is_none());
            if let (Some(slot), Some(tensor)) = (self.tensors.get_mut(self.count), results.get(from)) {
                *slot = *tensor;
                self.count += 1;
            }
        }
    }

    fn homes(&self) -> impl Iterator<Item = Home<'s>> + Clone + '_ {
        // No further than tensors were given.
        self.homes[..self.count.min(N)].iter().flatten().copied()
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
    /// Places that it takes among a call's tensors: two where it is written too.
    const PLACES: usize;
    fn give<'s, const N: usize>(&'s self, call: &mut Call<'s, N>);
}

/// Outputs while the call lasts.
#[doc(hidden)]
pub trait HeldOutputs {
    /// Places that they take among a call's tensors.
    const PLACES: usize;
    fn give<'s, const N: usize>(&'s self, call: &mut Call<'s, N>);
}

/// A scalar's bits.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Word(u64);

impl Held for Word {
    const PLACES: usize = 0;

    fn give<'s, const N: usize>(&'s self, call: &mut Call<'s, N>) {
        call.scalar(self.0);
    }
}

impl<T: Plain> Argument<Scalar<T>> for T {
    type Held = Word;

    fn hold(self, _: &Gpu) -> Result<Word, Error> {
        Ok(Word(self.word()))
    }
}

macro_rules! tensors {
    ($($of:ty as $parameter:ty, $places:literal: $this:ident $given:expr;)*) => {
        $(impl<'b, T: Plain> Held for $of {
            const PLACES: usize = $places;

            fn give<'s, const N: usize>(&'s self, call: &mut Call<'s, N>) {
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
    &'b Buffer<T> as In<T>, 1: buffer buffer.given(None);
    &'b View<'_, T> as In<T>, 1: view view.given();
    &'b mut Buffer<T> as InOut<T>, 2: buffer buffer.given(None);
    &'b mut ViewMut<'_, T> as InOut<T>, 2: view view.given();
}

macro_rules! outputs {
    ($($of:ty: $this:ident $given:expr;)*) => {
        $(impl<'b, T: Plain> HeldOutputs for $of {
            const PLACES: usize = 1;

            fn give<'s, const N: usize>(&'s self, call: &mut Call<'s, N>) {
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
    const PLACES: usize = 0;

    fn give<'s, const N: usize>(&'s self, _: &mut Call<'s, N>) {}
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
    /// Some output is.
    in_place: bool,
    /// What its last call did, found again without a look into the expression's plans.
    last: Mutex<Option<Arc<Ready>>>,
    of: PhantomData<fn(Args) -> R>,
}

impl<Args, R> Clone for Kernel<Args, R> {
    fn clone(&self) -> Self {
        let (expression, gpu) = (Arc::clone(&self.expression), self.gpu.clone());
        Self { expression, gpu, choose: self.choose, in_place: self.in_place, last: Mutex::default(), of: PhantomData }
    }
}

impl<Args, R> Kernel<Args, R> {
    pub(super) fn new(expression: Expression, gpu: &Gpu) -> Self {
        let in_place = expression.graph().outputs().iter().any(|output| output.in_place.is_some());
        let (expression, choose) = (Arc::new(expression), Choose::default());
        Self { expression, gpu: gpu.clone(), choose, in_place, last: Mutex::default(), of: PhantomData }
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

    /// The same for tensors whose data the second-level cache holds, as where the kernel before has just written them: on
    /// devices with a table of plans it may hold other ones for them.
    #[must_use]
    pub fn cached(&self, cached: bool) -> Self {
        self.with(Choose { cached, ..self.choose })
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
    fn launch<const N: usize>(&self, call: &mut Call<'_, N>) -> Result<(), Error> {
        if self.in_place {
            call.place_outputs(self.expression.graph());
        }
        let (tensors, bits) = (&call.tensors[..call.count], &call.scalars[..call.scalar_count]);
        let lane = &self.gpu.lane;
        lane.among(call.homes().map(|home| home.0), |entered| {
            let ready = self.expression.ready_again(&self.last, tensors, bits, &self.choose)?;
            self.expression.enqueue(lane.stream(), &ready, tensors, bits)?;
            if entered.is_recording() {
                entered.keep(ready);
                call.homes().for_each(|(_, memory)| entered.keep(Arc::clone(memory) as _));
            }
            Ok(())
        })
    }
}

macro_rules! tuples {
    ($($r:ident $o:ident)+) => {
        impl<$($o: HeldOutputs),+> HeldOutputs for ($($o,)+) {
            const PLACES: usize = 0 $(+ $o::PLACES)+;

            #[allow(non_snake_case)]
            fn give<'s, const N: usize>(&'s self, call: &mut Call<'s, N>) {
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
                match const { 0 $(+ $x::Held::PLACES)* + Out::Held::PLACES } {
                    0..=4 => runs!(@give 4, self, out, $($x)*),
                    5..=12 => runs!(@give 12, self, out, $($x)*),
                    _ => runs!(@give MOST_TENSORS, self, out, $($x)*),
                }
            }
        }
    };
    (@give $n:expr, $this:ident, $out:ident, $($x:ident)*) => {{
        let mut call = Call::<'_, { $n }>::new();
        $($x.give(&mut call);)*
        $out.give(&mut call);
        $this.launch(&mut call)
    }};
}

macro_rules! up_to {
    ($macro:ident; $first:ident $second:ident $($rest:ident)*) => {
        $macro!($first $second $($rest)*);
        up_to!($macro; $($rest)*);
    };
    ($macro:ident;) => {};
}

up_to!(tuples; A OA B OB C OC D OD E OE F OF G OG H OH);
up_to!(runs; A XA B XB C XC D XD E XE F XF G XG H XH I XI J XJ K XK L XL);
runs!();
