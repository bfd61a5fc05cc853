//! Expressions as Rust closures: typed handles record the operations on them. The closure runs once, with handles, and gives the
//! same graph as the equivalent text. The backends compile and run it.
//!
//! ```
//! use plimsoll_expr::{In, InOut, Scalar, trace};
//! use half::bf16;
//!
//! let axpy = trace(|a: Scalar<f32>, x: In<bf16>, y: In<bf16>| (a * x + y).tanh())?;
//! assert_eq!(axpy.graph().outputs()[0].dtype, plimsoll_expr::DType::Bf16);
//! let step = trace(|lr: Scalar<f32>, g: In<bf16>, p: InOut<f32>| p.set(p.get() - lr * g))?;
//! assert_eq!(step.graph().outputs()[0].in_place, Some(1));
//! # Ok::<(), plimsoll_expr::ExprError>(())
//! ```

mod closure;
mod element;
mod operators;
mod signature;
mod text;

use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::graph::{Builder, ExprError, NodeId};

pub use closure::{Arg, Elementwise, Results, Traced, trace};
pub use element::{Element, F8E4M3, F8E5M2, Promote, Role, Tensor, Weak};
pub use operators::{IntoOperand, coordinate, place};
#[doc(hidden)]
pub use text::{Kind, Parameter, Stored};
pub use text::{Parameters, TextError};

/// A value of type `T`: an element of a tensor, or with `K` = [`Weak`] a scalar, which doesn't promote tensors. It is valid only
/// inside its own closure; used in another one it makes [`trace`] fail with [`ExprError::ForeignHandle`].
pub struct Expr<T, K = Tensor> {
    handle: Handle,
    types: PhantomData<fn() -> (T, K)>,
}

/// An element of an input tensor.
pub type In<T> = Expr<T, Tensor>;
/// A run-time scalar: a new value doesn't recompile the kernel.
pub type Scalar<T> = Expr<T, Weak>;

impl<T, K> Clone for Expr<T, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, K> Copy for Expr<T, K> {}

impl<T: Element, K> fmt::Debug for Expr<T, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Expr<{}>({})", T::DTYPE, self.handle.id.index())
    }
}

/// An element of a tensor that is read and written in place.
pub struct InOut<T> {
    before: In<T>,
    slot: u32,
}

impl<T> Clone for InOut<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for InOut<T> {}

impl<T: Element> fmt::Debug for InOut<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InOut<{}>({})", T::DTYPE, self.slot)
    }
}

impl<T: Element> InOut<T> {
    /// The value before the expression runs, also after [`InOut::set`].
    #[must_use]
    pub fn get(self) -> In<T> {
        self.before
    }

    /// Stores `value`, converted to `T`. Allowed once per tensor.
    pub fn set<U: Element, K: Role>(self, value: Expr<U, K>) {
        within(&[self.before.handle, value.handle], |tracing| {
            tracing.builder.output_in_place(self.slot, value.handle.id)
        });
    }
}

/// A node and the closure that it belongs to.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Handle {
    id: NodeId,
    generation: u64,
}

/// A handle of no closure: the result of operations outside any traced closure.
const NOWHERE: Handle = Handle { id: NodeId(0), generation: 0 };

/// A closure that is being traced.
struct Tracing {
    generation: u64,
    builder: Builder,
    /// The first error; operators can't return it.
    fault: Option<ExprError>,
}

static GENERATION: AtomicU64 = AtomicU64::new(1);

thread_local! {
    /// The closures being traced on this thread, the innermost last.
    static TRACES: RefCell<Vec<Tracing>> = const { RefCell::new(Vec::new()) };
}

/// Calls `f` on the innermost closure's expression. `None` if there is no closure, or on an error, which the closure's [`trace`]
/// returns later. The handles in `used` must belong to that closure.
fn within<R>(used: &[Handle], f: impl FnOnce(&mut Tracing) -> Result<R, ExprError>) -> Option<R> {
    TRACES.with_borrow_mut(|traces| {
        let tracing = traces.last_mut()?;
        let foreign = used.iter().any(|handle| handle.generation != tracing.generation);
        let result = if foreign { Err(ExprError::ForeignHandle) } else { f(tracing) };
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                tracing.fault.get_or_insert(error);
                None
            }
        }
    })
}

/// Adds a node computed from `used`.
fn record<T, K>(used: &[Handle], f: impl FnOnce(&mut Builder) -> Result<NodeId, ExprError>) -> Expr<T, K> {
    let node = within(used, |tracing| {
        let generation = tracing.generation;
        f(&mut tracing.builder).map(|id| Handle { id, generation })
    });
    // After an error the closure continues with one of its own handles, so that the first error is the one reported.
    let fallback = || within(&[], |tracing| Ok(Handle { id: NodeId(0), generation: tracing.generation }));
    let handle = node.or_else(fallback).unwrap_or(NOWHERE);
    Expr { handle, types: PhantomData }
}

/// Begins the tracing of a closure and ends it when dropped, also if the closure panics.
struct Open;

impl Open {
    fn new() -> Self {
        let generation = GENERATION.fetch_add(1, Ordering::Relaxed);
        TRACES.with_borrow_mut(|traces| traces.push(Tracing { generation, builder: Builder::new(), fault: None }));
        Self
    }

    fn tracing(&self) -> Option<Tracing> {
        let empty = || Tracing { generation: 0, builder: Builder::new(), fault: None };
        TRACES.with_borrow_mut(|traces| traces.last_mut().map(|tracing| std::mem::replace(tracing, empty())))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        TRACES.with_borrow_mut(|traces| traces.pop());
    }
}
