//! Operators and functions on handles, with literals on either side.

use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Rem, Shl, Shr, Sub};

use super::{Element, Expr, Handle, In, Promote, Role, record};
use crate::op::{Binary, Comparison, Unary};
use crate::value::Value;

/// The other operand of an operation on an `Expr<T, K>`: another expression, or a literal (`f64`, `i64`), which takes the
/// expression's type where possible.
pub trait IntoOperand<T: Element, K: Role>: Sized {
    /// The common type.
    type Out: Element;
    /// The common role.
    type Role: Role;
    /// The operand's node.
    #[doc(hidden)]
    fn handle(self) -> Handle;
}

impl<T: Promote<B, K, KB>, K: Role, B: Element, KB: Role> IntoOperand<T, K> for Expr<B, KB> {
    type Out = T::Out;
    type Role = T::Role;

    fn handle(self) -> Handle {
        self.handle
    }
}

impl<T: Element, K: Role> IntoOperand<T, K> for f64 {
    type Out = T::Float;
    type Role = K;

    fn handle(self) -> Handle {
        literal(Value::Float(self))
    }
}

impl<T: Element, K: Role> IntoOperand<T, K> for i64 {
    type Out = T::WithInteger;
    type Role = K;

    fn handle(self) -> Handle {
        literal(Value::Int(self.into()))
    }
}

fn literal(value: Value) -> Handle {
    record::<(), ()>(&[], |builder| builder.literal(value)).handle
}

fn unary<T, K>(op: Unary, a: Handle) -> Expr<T, K> {
    record(&[a], |builder| builder.unary(op, a.id))
}

fn binary<T, K>(op: Binary, a: Handle, b: Handle) -> Expr<T, K> {
    record(&[a, b], |builder| builder.binary(op, a.id, b.id))
}

/// Operators of two operands. The result of `/` is always a float.
macro_rules! operators {
    ($($trait:ident $method:ident = $op:ident $(, $float:ident)?;)*) => {
        $(
            impl<T: Element, K: Role, R: IntoOperand<T, K>> $trait<R> for Expr<T, K> {
                type Output = Expr<operators!(@out R::Out $(, $float)?), R::Role>;

                fn $method(self, other: R) -> Self::Output {
                    binary(Binary::$op, self.handle, other.handle())
                }
            }

            operators!(@literal f64, Float, $trait $method $op $($float)?);
            operators!(@literal i64, WithInteger, $trait $method $op $($float)?);
        )*
    };
    (@out $out:ty) => { $out };
    (@out $out:ty, $float:ident) => { <$out as Element>::$float };
    (@literal $literal:ty, $out:ident, $trait:ident $method:ident $op:ident $($float:ident)?) => {
        impl<T: Element, K: Role> $trait<Expr<T, K>> for $literal {
            type Output = Expr<operators!(@out T::$out $(, $float)?), K>;

            fn $method(self, other: Expr<T, K>) -> Self::Output {
                let literal = IntoOperand::<T, K>::handle(self);
                binary(Binary::$op, literal, other.handle)
            }
        }
    };
}

operators! {
    Add add = Add;
    Sub sub = Sub;
    Mul mul = Mul;
    Div div = Div, Float;
    Rem rem = Rem;
    BitAnd bitand = And;
    BitOr bitor = Or;
    BitXor bitxor = Xor;
    Shl shl = Shl;
    Shr shr = Shr;
}

impl<T: Element, K: Role> Neg for Expr<T, K> {
    type Output = Self;

    fn neg(self) -> Self {
        unary(Unary::Neg, self.handle)
    }
}

impl<T: Element, K: Role> Not for Expr<T, K> {
    type Output = Self;

    fn not(self) -> Self {
        unary(Unary::Not, self.handle)
    }
}

/// Methods that are one operation each; the docs link to the operation.
macro_rules! methods {
    (same: $($method:ident = $op:ident)*; float: $($function:ident = $of:ident)*; two: $($between:ident = $with:ident)*;
     compare: $($comparison:ident = $compares:ident)*;) => {
        impl<T: Element, K: Role> Expr<T, K> {
            $(
                #[doc = concat!("[`Unary::", stringify!($op), "`].")]
                #[must_use]
                pub fn $method(self) -> Self {
                    unary(Unary::$op, self.handle)
                }
            )*
            $(
                #[doc = concat!("[`Unary::", stringify!($of), "`]; integers give f32.")]
                #[must_use]
                pub fn $function(self) -> Expr<T::Float, K> {
                    unary(Unary::$of, self.handle)
                }
            )*
            $(
                #[doc = concat!("[`Binary::", stringify!($with), "`].")]
                #[must_use]
                pub fn $between<R: IntoOperand<T, K>>(self, other: R) -> Expr<R::Out, R::Role> {
                    binary(Binary::$with, self.handle, other.handle())
                }
            )*
            $(
                #[doc = concat!("[`Comparison::", stringify!($compares), "`].")]
                #[must_use]
                pub fn $comparison<R: IntoOperand<T, K>>(self, other: R) -> Expr<bool, R::Role> {
                    let (a, b) = (self.handle, other.handle());
                    record(&[a, b], |builder| builder.compare(Comparison::$compares, a.id, b.id))
                }
            )*
        }
    };
}

methods! {
    same: abs = Abs sign = Sign floor = Floor ceil = Ceil round = Round trunc = Trunc relu = Relu;
    float: sqrt = Sqrt rsqrt = Rsqrt recip = Recip exp = Exp exp2 = Exp2 expm1 = Expm1 log = Log log2 = Log2 log10 = Log10
        log1p = Log1p sin = Sin cos = Cos tanh = Tanh sinh = Sinh cosh = Cosh asinh = Asinh acosh = Acosh atanh = Atanh
        atan = Atan erf = Erf erfc = Erfc sigmoid = Sigmoid silu = Silu gelu = Gelu gelu_tanh = GeluTanh
        softplus = Softplus mish = Mish;
    two: floor_div = FloorDiv min = Min max = Max fmin = Fmin fmax = Fmax pow = Pow;
    compare: lt = Less le = LessEqual gt = Greater ge = GreaterEqual equals = Equal differs = NotEqual;
}

impl<T: Element, K: Role> Expr<T, K> {
    /// The value rounded to `U`, as in [`crate::DType::cast`].
    #[must_use]
    pub fn cast<U: Element>(self) -> Expr<U, K> {
        let a = self.handle;
        record(&[a], |builder| builder.cast(a.id, U::DTYPE))
    }

    /// [`Binary::Atan2`] of this value (y) and `other` (x).
    #[must_use]
    pub fn atan2<R: IntoOperand<T, K>>(self, other: R) -> Expr<<R::Out as Element>::Float, R::Role> {
        binary(Binary::Atan2, self.handle, other.handle())
    }

    /// This value times `factor` plus `term`, with one rounding.
    #[must_use]
    pub fn mul_add<F, A>(self, factor: F, term: A) -> Expr<A::Out, A::Role>
    where
        F: IntoOperand<T, K>,
        A: IntoOperand<F::Out, F::Role>,
    {
        let (a, b, c) = (self.handle, factor.handle(), term.handle());
        record(&[a, b, c], |builder| builder.fma(a.id, b.id, c.id))
    }

    /// The value limited to `low` … `high`; NaN if any of the three is NaN.
    #[must_use]
    pub fn clamp<L, H>(self, low: L, high: H) -> Expr<H::Out, H::Role>
    where
        L: IntoOperand<T, K>,
        H: IntoOperand<L::Out, L::Role>,
    {
        self.max(low).min(high)
    }
}

impl<K: Role> Expr<bool, K> {
    /// `a` if this value is true, else `b`.
    #[must_use]
    pub fn select<A: Element, KA: Role, R: IntoOperand<A, KA>>(self, a: Expr<A, KA>, b: R) -> Expr<R::Out, R::Role> {
        let (condition, a, b) = (self.handle, a.handle, b.handle());
        record(&[condition, a, b], |builder| builder.select(condition.id, a.id, b.id))
    }
}

/// The element's row-major index in the shape.
#[must_use]
pub fn place() -> In<i64> {
    record(&[], crate::graph::Builder::place)
}

/// The element's coordinate along `dimension`; 0 is the slowest.
#[must_use]
pub fn coordinate(dimension: u64) -> In<i64> {
    record(&[], |builder| builder.coordinate(dimension))
}

impl<T: Element> Expr<T, super::Weak> {
    /// A typed constant, for cases where the other operand doesn't determine a literal's type.
    #[must_use]
    pub fn constant(value: Value) -> Self {
        record(&[], |builder| builder.typed(value, T::DTYPE))
    }
}
