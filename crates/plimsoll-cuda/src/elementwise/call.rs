//! Typed calls: the arguments and outputs of a traced closure. The compiler checks types; every call checks shapes, sizes and
//! overlaps.

use std::marker::PhantomData;
use std::sync::Arc;

use plimsoll_expr::layout::broadcast;
use plimsoll_expr::trace::{Expr, Role};
use plimsoll_expr::{Graph, In, InOut, Layout, LayoutError, Scalar};
use plimsoll_gen::elementwise::{Choose, Tier};
use plimsoll_gpu::elementwise::{Extent, LastPlan, Tuned};

use super::buffer::{Buffer, CallTensor, Home, View, ViewMut};
use super::gpu::Gpu;
use super::{Error, Expression, TensorRef};
use crate::Cuda;
use crate::memory::Plain;

/// Most parameters of a traced closure.
const MOST_ARGUMENTS: usize = 12;
/// Most tensors of a call: twelve parameters that are written too, and eight results.
const MOST_TENSORS: usize = 2 * MOST_ARGUMENTS + 8;

/// The arguments and outputs of a call, in order, with at most `N` tensors, so that nothing is allocated. Their types give their
/// number, and `N` is little larger: filling a list of 32 costs more than all checks of a call.
#[derive(Debug)]
pub struct Call<'s, const N: usize> {
    /// Tensor parameters, then results.
    tensors: [TensorRef<'s>; N],
    homes: [Option<Home<'s>>; N],
    count: usize,
    /// How many of them are parameters.
    inputs: usize,
    scalars: [u64; MOST_ARGUMENTS],
    scalar_count: usize,
}

impl<'s, const N: usize> Call<'s, N> {
    fn new() -> Self {
        let (tensors, homes) = ([TensorRef::NONE; N], [None; N]);
        Self { tensors, homes, count: 0, inputs: 0, scalars: [0; MOST_ARGUMENTS], scalar_count: 0 }
    }

    fn push(&mut self, tensor: CallTensor<'s>) {
        if self.count < N {
            (self.tensors[self.count], self.homes[self.count]) = (tensor.tensor, tensor.home);
            self.count += 1;
        }
    }

    /// Adds the next tensor parameter.
    pub(super) fn push_input(&mut self, tensor: CallTensor<'s>) {
        self.push(tensor);
        self.inputs = self.count;
    }

    /// Adds the next result.
    pub(super) fn push_result(&mut self, tensor: CallTensor<'s>) {
        self.push(tensor);
    }

    /// Adds the bits of the next scalar parameter.
    fn push_scalar(&mut self, bits: u64) {
        if let Some(slot) = self.scalars.get_mut(self.scalar_count) {
            *slot = bits;
            self.scalar_count += 1;
        }
    }

    /// Puts the outputs in the expression's order, in which those written in place are among the results.
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

    /// The shape to which the tensors are broadcast.
    fn shape(&self) -> Result<Vec<u64>, LayoutError> {
        let shape = |tensor: &TensorRef<'_>| match tensor.extent {
            Extent::Flat(length) => vec![length],
            Extent::Laid(layout) => layout.shape().to_vec(),
            Extent::Foreign(tensor) => tensor.shape.to_vec(),
        };
        let shapes: Vec<Vec<u64>> = self.tensors[..self.count].iter().map(shape).collect();
        broadcast(&shapes.iter().map(Vec::as_slice).collect::<Vec<_>>())
    }

    /// The tensors and the scalars' bits.
    pub(super) fn parts(&self) -> (&[TensorRef<'s>], &[u64]) {
        (&self.tensors[..self.count], &self.scalars[..self.scalar_count])
    }

    fn homes(&self) -> impl Iterator<Item = Home<'s>> + Clone + '_ {
        // The rest of the list is unused.
        self.homes[..self.count.min(N)].iter().flatten().copied()
    }
}

/// A valid argument for a parameter of type `A`: a number for [`Scalar`], a reference to a [`Buffer`] or [`View`] for [`In`], an
/// exclusive reference to a [`Buffer`] or [`ViewMut`] for [`InOut`]; or a reference to a buffer with its layout.
pub trait Argument<A> {
    /// The form that is kept until the kernel is launched.
    #[doc(hidden)]
    type Held: HeldArgument;
    #[doc(hidden)]
    fn hold(self, gpu: &Gpu) -> Result<Self::Held, Error>;
}

/// Valid outputs for results of type `R`: an exclusive reference to a [`Buffer`] or [`ViewMut`], a tuple of them, or `()` if
/// nothing is returned.
pub trait Outputs<R> {
    /// The form that is kept until the kernel is launched.
    #[doc(hidden)]
    type Held: HeldOutputs;
    #[doc(hidden)]
    fn hold(self, gpu: &Gpu) -> Result<Self::Held, Error>;
}

/// An argument for the duration of the call.
#[doc(hidden)]
pub trait HeldArgument {
    /// Entries that it takes among a call's tensors: two if it is written too.
    const PLACES: usize;
    fn add_to<'s, const N: usize>(&'s self, call: &mut Call<'s, N>);
}

/// Outputs for the duration of the call.
#[doc(hidden)]
pub trait HeldOutputs {
    /// Entries that they take among a call's tensors.
    const PLACES: usize;
    fn add_to<'s, const N: usize>(&'s self, call: &mut Call<'s, N>);
}

/// A scalar's bits.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Word(u64);

impl HeldArgument for Word {
    const PLACES: usize = 0;

    fn add_to<'s, const N: usize>(&'s self, call: &mut Call<'s, N>) {
        call.push_scalar(self.0);
    }
}

impl<T: Plain> Argument<Scalar<T>> for T {
    type Held = Word;

    fn hold(self, _: &Gpu) -> Result<Word, Error> {
        Ok(Word(self.word()))
    }
}

macro_rules! tensors {
    ($($of:ty as $parameter:ty, $places:literal: $this:ident $tensor:expr;)*) => {
        $(impl<'b, T: Plain> HeldArgument for $of {
            const PLACES: usize = $places;

            fn add_to<'s, const N: usize>(&'s self, call: &mut Call<'s, N>) {
                let $this = self;
                call.push_input($tensor);
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
    &'b Buffer<T> as In<T>, 1: buffer buffer.tensor(None);
    &'b View<'_, T> as In<T>, 1: view view.tensor();
    (&'b Buffer<T>, &'b Layout) as In<T>, 1: given given.0.tensor(Some(given.1));
    &'b mut Buffer<T> as InOut<T>, 2: buffer buffer.tensor(None);
    &'b mut ViewMut<'_, T> as InOut<T>, 2: view view.tensor();
    (&'b mut Buffer<T>, &'b Layout) as InOut<T>, 2: given given.0.tensor(Some(given.1));
}

macro_rules! outputs {
    ($($of:ty: $this:ident $tensor:expr;)*) => {
        $(impl<'b, T: Plain> HeldOutputs for $of {
            const PLACES: usize = 1;

            fn add_to<'s, const N: usize>(&'s self, call: &mut Call<'s, N>) {
                let $this = self;
                call.push_result($tensor);
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
    &'b mut Buffer<T>: buffer buffer.tensor(None);
    &'b mut ViewMut<'_, T>: view view.tensor();
    (&'b mut Buffer<T>, &'b Layout): given given.0.tensor(Some(given.1));
}

impl HeldOutputs for () {
    const PLACES: usize = 0;

    fn add_to<'s, const N: usize>(&'s self, _: &mut Call<'s, N>) {}
}

impl Outputs<()> for () {
    type Held = ();

    fn hold(self, _: &Gpu) -> Result<(), Error> {
        Ok(())
    }
}

/// Results of type `R` that a call returns: a buffer for each value, a tuple of buffers, or `()`.
pub trait Returned {
    /// The buffers.
    type Values;
    /// Entries that they take among a call's tensors.
    #[doc(hidden)]
    const PLACES: usize;
    #[doc(hidden)]
    fn allocate(gpu: &Gpu, layout: &Layout) -> Result<Self::Values, Error>;
    #[doc(hidden)]
    fn add_to<'s, const N: usize>(values: &'s Self::Values, layout: &'s Layout, call: &mut Call<'s, N>);
}

impl Returned for () {
    type Values = ();
    const PLACES: usize = 0;

    fn allocate(_: &Gpu, _: &Layout) -> Result<(), Error> {
        Ok(())
    }

    fn add_to<'s, const N: usize>((): &'s (), _: &'s Layout, _: &mut Call<'s, N>) {}
}

impl<T: Plain, K: Role> Returned for Expr<T, K> {
    type Values = Buffer<T>;
    const PLACES: usize = 1;

    fn allocate(gpu: &Gpu, layout: &Layout) -> Result<Buffer<T>, Error> {
        // A length beyond the host's addresses is more than any memory.
        Buffer::new(&gpu.lane, usize::try_from(layout.elements()).unwrap_or(usize::MAX))
    }

    fn add_to<'s, const N: usize>(values: &'s Buffer<T>, layout: &'s Layout, call: &mut Call<'s, N>) {
        call.push_result(values.tensor(Some(layout)));
    }
}

/// A traced closure on a device. [`Kernel::run`] launches it on arguments and outputs.
pub struct Kernel<Args, R> {
    pub(super) expression: Arc<Expression>,
    pub(super) gpu: Gpu,
    pub(super) choose: Choose,
    /// The result of its tuning.
    pub(super) tuned: Option<Arc<Tuned>>,
    /// Whether some output is written in place.
    in_place: bool,
    /// The plan of its last call, which saves a lookup in the expression's plans.
    last: LastPlan<Cuda>,
    signature: PhantomData<fn(Args) -> R>,
}

impl<Args, R> Clone for Kernel<Args, R> {
    fn clone(&self) -> Self {
        let (expression, gpu) = (Arc::clone(&self.expression), self.gpu.clone());
        let (choose, in_place, tuned) = (self.choose, self.in_place, self.tuned.clone());
        Self { expression, gpu, choose, tuned, in_place, last: LastPlan::default(), signature: PhantomData }
    }
}

impl<Args, R> Kernel<Args, R> {
    pub(super) fn new(expression: Expression, gpu: &Gpu) -> Self {
        let in_place = expression.graph().outputs().iter().any(|output| output.in_place.is_some());
        let (expression, choose) = (Arc::new(expression), Choose::default());
        let (gpu, last) = (gpu.clone(), LastPlan::default());
        Self { expression, gpu, choose, tuned: None, in_place, last, signature: PhantomData }
    }

    /// The same kernel on the stream of `gpu`, which must be of the same device.
    #[must_use]
    pub fn on_stream(&self, gpu: &Gpu) -> Self {
        let lane = Arc::clone(&gpu.lane);
        Self { gpu: Gpu { lane, ..self.gpu.clone() }, ..self.clone() }
    }

    /// The same kernel with dependent launches: each may start while the preceding kernel in the stream is ending, and waits for it
    /// before it accesses memory (programmatic dependent launch, compute capability 9.0).
    #[must_use]
    pub fn dependent(&self, dependent: bool) -> Self {
        self.with_choices(Choose { dependent, ..self.choose })
    }

    /// The same kernel for tensors that are in L2, for example because the preceding kernel has just written them. A device's
    /// table may have other plans for them.
    #[must_use]
    pub fn cached(&self, cached: bool) -> Self {
        self.with_choices(Choose { cached, ..self.choose })
    }

    /// The same kernel with functions of another accuracy.
    #[must_use]
    pub fn tier(&self, tier: Tier) -> Self {
        self.with_choices(Choose { tier, ..self.choose })
    }

    /// The same kernel with some of the planner's choices forced.
    #[must_use]
    pub fn with_choices(&self, choose: Choose) -> Self {
        Self { choose, tuned: None, ..self.clone() }
    }

    /// What [`Kernel::tuned`] found, if this kernel is its result.
    #[must_use]
    pub fn tuning(&self) -> Option<&Tuned> {
        self.tuned.as_deref()
    }

    /// The untyped expression, to bind to tensors once or to many sets in a batch.
    #[must_use]
    pub fn expression(&self) -> &Expression {
        &self.expression
    }

    /// Puts a call's tensors in the expression's order.
    pub(super) fn arrange<const N: usize>(&self, call: &mut Call<'_, N>) {
        if self.in_place {
            call.place_outputs(self.expression.graph());
        }
    }

    /// Launches it on a call's arguments and outputs.
    fn launch<const N: usize>(&self, call: &mut Call<'_, N>) -> Result<(), Error> {
        self.arrange(call);
        let (tensors, bits) = call.parts();
        let lane = &self.gpu.lane;
        lane.run_with_others(call.homes().map(|home| home.0), |entered| {
            // SAFETY: the tensors are borrowed until the call returns. Buffers are freed in the order of their lane, which waits for
            // this stream, and slices of other libraries in the order of their streams, which wait for it too. A recording keeps
            // buffers and refuses slices. `last` belongs to this kernel, whose choices don't change.
            unsafe { self.expression.launch_borrowed(entered, &self.last, (tensors, bits), &self.choose) }?;
            if entered.is_recording() {
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
            fn add_to<'s, const N: usize>(&'s self, call: &mut Call<'s, N>) {
                let ($($o,)+) = self;
                $($o.add_to(call);)+
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

        impl<$($r: Returned),+> Returned for ($($r,)+) {
            type Values = ($($r::Values,)+);
            const PLACES: usize = 0 $(+ $r::PLACES)+;

            fn allocate(gpu: &Gpu, layout: &Layout) -> Result<Self::Values, Error> {
                Ok(($($r::allocate(gpu, layout)?,)+))
            }

            #[allow(non_snake_case)]
            fn add_to<'s, const N: usize>(values: &'s Self::Values, layout: &'s Layout, call: &mut Call<'s, N>) {
                let ($($o,)+) = values;
                $($r::add_to($o, layout, call);)+
            }
        }
    };
}

macro_rules! runs {
    ($($a:ident $x:ident)*) => {
        impl<R, $($a),*> Kernel<($($a,)*), R> {
            /// Launches it asynchronously, in the stream's order. The arguments are those of the closure in order, then its
            /// outputs.
            ///
            /// # Errors
            /// Invalid tensors, with their sizes, types or addresses; compiler errors.
            #[allow(non_snake_case, clippy::too_many_arguments)]
            pub fn run<$($x: Argument<$a>,)* Out: Outputs<R>>(&self, $($x: $x,)* out: Out) -> Result<(), Error> {
                $(let $x = $x.hold(&self.gpu)?;)*
                let out = out.hold(&self.gpu)?;
                match const { 0 $(+ $x::Held::PLACES)* + Out::Held::PLACES } {
                    0..=4 => runs!(@add_to 4, self, launch, out, $($x)*),
                    5..=12 => runs!(@add_to 12, self, launch, out, $($x)*),
                    _ => runs!(@add_to MOST_TENSORS, self, launch, out, $($x)*),
                }
            }

            /// The same kernel with the fastest plan for calls with tensors of these layouts: the planner's own, or one of up to eleven
            /// others that are timed now, for about three seconds, or were timed earlier on this device ([`Gpu::with_store`]). The
            /// tensors are not touched: tuning has its own memory, 512 MiB or more for each. [`Kernel::tuning`] tells the result. If
            /// memory or time doesn't suffice, or it is stopped ([`Gpu::with_stop`]), the planner's plan stays. Waits for the stream's work
            /// first; other work on the device makes times uncertain.
            ///
            /// # Errors
            /// Those of `run`; [`Fault::Invalid`](plimsoll_core::Fault::Invalid) while the stream is being recorded.
            #[allow(non_snake_case, clippy::too_many_arguments)]
            pub fn tuned<$($x: Argument<$a>,)* Out: Outputs<R>>(&self, $($x: $x,)* out: Out) -> Result<Self, Error> {
                $(let $x = $x.hold(&self.gpu)?;)*
                let out = out.hold(&self.gpu)?;
                runs!(@add_to MOST_TENSORS, self, tune, out, $($x)*)
            }

            /// Launches it asynchronously and returns its results as new buffers, row-major in the shape to which the tensors are
            /// broadcast. It can't be recorded, because it allocates.
            ///
            /// # Errors
            /// Those of `run`; shapes that can't be broadcast, or too little memory for the results.
            #[allow(non_snake_case, clippy::too_many_arguments)]
            pub fn call<$($x: Argument<$a>),*>(&self, $($x: $x),*) -> Result<R::Values, Error>
            where
                R: Returned,
            {
                $(let $x = $x.hold(&self.gpu)?;)*
                match const { 0 $(+ $x::Held::PLACES)* + R::PLACES } {
                    0..=4 => runs!(@returned 4, self, $($x)*),
                    5..=12 => runs!(@returned 12, self, $($x)*),
                    _ => runs!(@returned MOST_TENSORS, self, $($x)*),
                }
            }
        }
    };
    (@returned $n:expr, $this:ident, $($x:ident)*) => {{
        // Before the call, which borrows them.
        let (layout, values);
        let mut call = Call::<'_, { $n }>::new();
        $($x.add_to(&mut call);)*
        layout = Layout::contiguous(&call.shape()?)?;
        values = R::allocate(&$this.gpu, &layout)?;
        R::add_to(&values, &layout, &mut call);
        $this.launch(&mut call)?;
        Ok(values)
    }};
    (@add_to $n:expr, $this:ident, $method:ident, $out:ident, $($x:ident)*) => {{
        let mut call = Call::<'_, { $n }>::new();
        $($x.add_to(&mut call);)*
        $out.add_to(&mut call);
        $this.$method(&mut call)
    }};
}

plimsoll_expr::for_each_signature!(results: tuples);
plimsoll_expr::for_each_signature!(parameters: runs);
