//! Values of the expression that is being built, with the operators of Rust, so that rules read like their formulas. Numbers take
//! the type of the other operand.

use std::cell::RefCell;
use std::ops::{Add, Div, Mul, Neg, Sub};

use crate::dtype::{DType, Strength};
use crate::graph::{Builder, ExprError, NodeId};
use crate::op::{Binary, Comparison, Unary};
use crate::value::Value;

/// An expression under construction.
#[derive(Debug, Default)]
pub(super) struct Writer {
    pub(super) builder: Builder,
    /// The first error; operators can't return it.
    pub(super) fault: Option<ExprError>,
}

/// A value of that expression.
#[derive(Clone, Copy, Debug)]
pub(super) struct Term<'w> {
    writer: &'w RefCell<Writer>,
    pub(super) id: NodeId,
}

/// Adds a node. After an error the result is some node, and nothing more is added.
pub(super) fn write(writer: &RefCell<Writer>, add: impl FnOnce(&mut Builder) -> Result<NodeId, ExprError>) -> Term<'_> {
    let mut guard = writer.borrow_mut();
    let added = if guard.fault.is_none() { add(&mut guard.builder) } else { Ok(NodeId::default()) };
    let id = added.unwrap_or_else(|error| {
        guard.fault = Some(error);
        NodeId::default()
    });
    Term { writer, id }
}

impl<'w> Term<'w> {
    /// The value of an existing node.
    pub(super) const fn new(writer: &'w RefCell<Writer>, id: NodeId) -> Self {
        Self { writer, id }
    }

    fn write(self, add: impl FnOnce(&mut Builder) -> Result<NodeId, ExprError>) -> Self {
        write(self.writer, add)
    }

    /// The sum of an earlier value and this one.
    pub(super) fn add_to(self, earlier: NodeId) -> Self {
        self.write(|builder| builder.binary(Binary::Add, earlier, self.id))
    }

    fn number(self, x: f64) -> Self {
        self.write(|builder| builder.literal(Value::Float(x)))
    }

    pub(super) fn unary(self, op: Unary) -> Self {
        self.write(|builder| builder.unary(op, self.id))
    }

    pub(super) fn binary(self, op: Binary, other: Self) -> Self {
        self.write(|builder| builder.binary(op, self.id, other.id))
    }

    pub(super) fn compare(self, op: Comparison, other: impl Operand<'w>) -> Self {
        let other = other.term(self);
        self.write(|builder| builder.compare(op, self.id, other.id))
    }

    /// Of `bool`: `a` if true, else `b`. One of the two is a [`Term`].
    pub(super) fn choose(self, a: impl Operand<'w>, b: impl Operand<'w>) -> Self {
        let (a, b) = (a.term(self), b.term(self));
        self.write(|builder| builder.select(self.id, a.id, b.id))
    }

    /// The value in the type `dtype`.
    pub(super) fn cast(self, dtype: DType) -> Self {
        self.write(|builder| builder.cast(self.id, dtype))
    }

    pub(super) fn square(self) -> Self {
        self * self
    }

    /// The smaller; NaN if it is NaN.
    pub(super) fn min(self, other: f64) -> Self {
        self.binary(Binary::Min, self.number(other))
    }

    /// The value of a constant.
    pub(super) fn constant(self) -> Option<f64> {
        let guard = self.writer.borrow();
        guard.builder.node(self.id).ok()?.constant().map(Value::as_f64)
    }

    /// Whether it is computed from numbers and run-time scalars alone.
    pub(super) fn is_weak(self) -> bool {
        let guard = self.writer.borrow();
        guard.builder.type_of(self.id).is_ok_and(|(_, strength)| strength < Strength::Tensor)
    }
}

/// A value or a number.
pub(super) trait Operand<'w> {
    /// The value; a number becomes one of the expression of `other`.
    fn term(self, other: Term<'w>) -> Term<'w>;
}

impl<'w> Operand<'w> for Term<'w> {
    fn term(self, _: Term<'w>) -> Term<'w> {
        self
    }
}

impl<'w> Operand<'w> for f64 {
    fn term(self, other: Term<'w>) -> Term<'w> {
        other.number(self)
    }
}

macro_rules! operators {
    ($($trait:ident $method:ident;)*) => {
        $(
            impl<'w, R: Operand<'w>> $trait<R> for Term<'w> {
                type Output = Self;

                fn $method(self, other: R) -> Self {
                    self.binary(Binary::$trait, other.term(self))
                }
            }

            impl<'w> $trait<Term<'w>> for f64 {
                type Output = Term<'w>;

                fn $method(self, other: Term<'w>) -> Term<'w> {
                    other.number(self).binary(Binary::$trait, other)
                }
            }
        )*
    };
}

operators! {
    Add add;
    Sub sub;
    Mul mul;
    Div div;
}

impl Neg for Term<'_> {
    type Output = Self;

    fn neg(self) -> Self {
        self.unary(Unary::Neg)
    }
}
