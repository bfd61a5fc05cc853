//! A traced closure on the CPU, whose calls the compiler checks.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use plimsoll_expr::{Graph, Layout};

use super::super::error::Error;
use super::Shared;
use super::call::{Argument, Call, Outputs, Returned};
use super::expression::Expression;

/// A traced closure on the CPU: call [`Kernel::run`] with its arguments and results.
pub struct Kernel<Args, R> {
    pub(super) expression: Expression,
    of: PhantomData<fn(Args) -> R>,
}

impl<Args, R> Clone for Kernel<Args, R> {
    fn clone(&self) -> Self {
        Self { expression: self.expression.clone(), of: PhantomData }
    }
}

impl<Args, R> fmt::Debug for Kernel<Args, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernel").field("graph", self.graph()).finish_non_exhaustive()
    }
}

impl<Args, R> Kernel<Args, R> {
    pub(super) fn new(graph: &Graph, shared: &Arc<Shared>) -> Self {
        Self { expression: Expression::new(graph, shared), of: PhantomData }
    }

    /// The expression.
    #[must_use]
    pub fn graph(&self) -> &Graph {
        self.expression.graph()
    }

    /// The untyped expression with its plans.
    #[must_use]
    pub fn expression(&self) -> &Expression {
        &self.expression
    }

    /// Runs it on a call's arguments.
    fn launch(&self, mut call: Call<'_>) -> Result<(), Error> {
        let (operands, scalars) = call.operands();
        self.expression.launch(operands, scalars)
    }
}

macro_rules! runs {
    ($($a:ident $x:ident)*) => {
        impl<R, $($a),*> Kernel<($($a,)*), R> {
            /// Runs it: pass the closure's parameters in order, then its results. Returns when all results are written.
            ///
            /// # Errors
            /// If the tensors' shapes or sizes are wrong (then nothing was written), or there is too little memory for the
            /// scratch memory of new layouts.
            #[allow(non_snake_case, clippy::too_many_arguments)]
            pub fn run<$($x: Argument<$a>,)* Out: Outputs<R>>(&self, $($x: $x,)* out: Out) -> Result<(), Error> {
                let mut call = Call::new();
                $($x.give(&mut call);)*
                out.give(&mut call);
                self.launch(call)
            }

            /// Runs it and returns its results as new vectors, row-major in the shape to which the tensors are broadcast.
            ///
            /// # Errors
            /// Those of `run`; shapes that can't be broadcast, or too little memory for the results.
            #[allow(non_snake_case, clippy::too_many_arguments)]
            pub fn call<$($x: Argument<$a>),*>(&self, $($x: $x),*) -> Result<R::Values, Error>
            where
                R: Returned,
            {
                // Before the arguments, which are borrowed for as long as the results.
                let (layout, mut values);
                let mut call = Call::new();
                $($x.give(&mut call);)*
                layout = Layout::contiguous(&call.shape()?)?;
                values = R::allocate(&layout)?;
                R::give(&mut values, &layout, &mut call);
                self.launch(call)?;
                Ok(values)
            }
        }
    };
}

plimsoll_expr::for_each_signature!(parameters: runs);
