//! Traced closures of up to twelve parameters, and their return values.

use std::fmt;
use std::marker::PhantomData;

use super::{Element, Expr, InOut, Open, Role, Tensor, Tracing, Weak, record, within};
use crate::graph::{ExprError, Graph};

/// A parameter of a traced closure: [`super::In`], [`super::Scalar`] or [`InOut`].
pub trait Arg: Copy {
    /// Declares the parameter in the expression that is being traced.
    #[doc(hidden)]
    fn declare() -> Self;
}

impl<T: Element> Arg for Expr<T, Tensor> {
    fn declare() -> Self {
        record(&[], |builder| {
            let name = format!("x{}", builder.input_count());
            builder.input(&name, T::DTYPE)
        })
    }
}

impl<T: Element> Arg for Expr<T, Weak> {
    fn declare() -> Self {
        record(&[], |builder| {
            let name = format!("a{}", builder.scalar_count());
            builder.scalar(&name, T::DTYPE)
        })
    }
}

impl<T: Element> Arg for InOut<T> {
    fn declare() -> Self {
        let slot = within(&[], |tracing| Ok(tracing.builder.input_count() as u32)).unwrap_or(0);
        Self { before: Arg::declare(), slot }
    }
}

/// The return value of a traced closure: one value, a tuple of up to eight, or `()` if all outputs are in place.
pub trait Results {
    /// Declares the outputs.
    #[doc(hidden)]
    fn store(self);
}

impl Results for () {
    fn store(self) {}
}

impl<T: Element, K: Role> Results for Expr<T, K> {
    fn store(self) {
        within(&[self.handle], |tracing| {
            let name = format!("y{}", tracing.builder.output_count());
            tracing.builder.output(&name, self.handle.id, Some(T::DTYPE))
        });
    }
}

/// A traced closure: its expression, and the types of its parameters and results for the backends' typed calls.
pub struct Traced<Args, R> {
    pub(super) graph: Graph,
    pub(super) types: PhantomData<fn(Args) -> R>,
}

impl<Args, R> Traced<Args, R> {
    /// The expression. Inputs (`x0`, `x1` …), scalars (`a0` …) and outputs (`y0` …) are in the order of the closure. An
    /// [`InOut`] is an input and an output with the same name.
    #[must_use]
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Converts to the expression.
    #[must_use]
    pub fn into_graph(self) -> Graph {
        self.graph
    }
}

impl<Args, R> Clone for Traced<Args, R> {
    fn clone(&self) -> Self {
        Self { graph: self.graph.clone(), types: PhantomData }
    }
}

impl<Args, R> fmt::Debug for Traced<Args, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Traced").field("graph", &self.graph).finish()
    }
}

/// A closure that can be traced.
pub trait Elementwise<Args> {
    /// The return type.
    type Out: Results;
    /// Declares the parameters, calls the closure and stores its results.
    #[doc(hidden)]
    fn call(self);
}

/// Traces a closure by calling it once with handles.
///
/// # Errors
/// If an operation doesn't support its types, a limit is exceeded, nothing is stored, or a handle of another closure was used.
pub fn trace<Args, F: Elementwise<Args>>(closure: F) -> Result<Traced<Args, F::Out>, ExprError> {
    let open = Open::new();
    closure.call();
    match open.tracing() {
        Some(Tracing { fault: Some(error), .. }) => Err(error),
        Some(Tracing { builder, .. }) => Ok(Traced { graph: builder.finish()?, types: PhantomData }),
        None => Err(ExprError::ForeignHandle),
    }
}

macro_rules! results {
    ($($r:ident)+) => {
        impl<$($r: Results),+> Results for ($($r,)+) {
            #[allow(non_snake_case)]
            fn store(self) {
                let ($($r,)+) = self;
                $($r.store();)+
            }
        }
    };
}

macro_rules! closures {
    ($($a:ident)*) => {
        impl<Func, R: Results, $($a: Arg),*> Elementwise<($($a,)*)> for Func
        where
            Func: FnOnce($($a),*) -> R,
        {
            type Out = R;

            #[allow(non_snake_case)]
            fn call(self) {
                // In order of declaration.
                $(let $a = $a::declare();)*
                self($($a),*).store();
            }
        }
    };
}

macro_rules! up_to {
    ($macro:ident: $first:ident $($rest:ident)*) => {
        $macro!($first $($rest)*);
        $crate::trace::closure::up_to!($macro: $($rest)*);
    };
    ($macro:ident:) => {};
}
pub(super) use up_to;

up_to!(results: A B C D E F G H);
up_to!(closures: A B C D E F G H I J K L);
closures!();
