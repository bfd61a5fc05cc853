//! Values with the operators of Rust, so that functions read like their formulas. Numbers take the type of the other operand.

use std::cell::RefCell;
use std::ops::{Add, Mul, Neg, Sub};

use plimsoll_expr::DType;
use plimsoll_expr::op::{Binary, Comparison, Unary};

use crate::{Builder, Facts, Id, Limit, Op, Primitive};

/// A value of the block that is being built.
#[derive(Clone, Copy)]
pub(super) struct Term<'b> {
    builder: &'b RefCell<Builder>,
    pub id: Id,
}

impl<'b> Term<'b> {
    pub fn new(builder: &'b RefCell<Builder>, id: Id) -> Self {
        Self { builder, id }
    }

    fn with(self, id: Id) -> Self {
        Self { id, ..self }
    }

    fn add_op(self, op: Op, dtype: DType, operands: &[Self]) -> Self {
        let ids: Vec<Id> = operands.iter().map(|operand| operand.id).collect();
        self.with(self.builder.borrow_mut().add(op, dtype, &ids))
    }

    pub fn dtype(self) -> DType {
        self.builder.borrow().dtype(self.id)
    }

    pub fn facts(self) -> Facts {
        self.builder.borrow().facts(self.id)
    }

    /// Replaces what is known about the value: by what a demand of it says.
    pub fn know(self, facts: Facts) {
        self.builder.borrow_mut().know(self.id, facts);
    }

    /// The value of a constant.
    pub fn float(self) -> Option<f64> {
        self.builder.borrow().float(self.id)
    }

    /// A constant of this value's type.
    pub fn number(self, x: f64) -> Self {
        let dtype = self.dtype();
        self.with(self.builder.borrow_mut().number(dtype, x))
    }

    pub fn unary(self, op: Unary) -> Self {
        self.add_op(Op::Unary(op), self.dtype(), &[self])
    }

    pub fn binary(self, op: Binary, other: Self) -> Self {
        self.add_op(Op::Binary(op), self.dtype(), &[self, other])
    }

    pub fn abs(self) -> Self {
        self.unary(Unary::Abs)
    }

    /// self·b + c, rounded once.
    pub fn fma(self, b: impl Operand<'b>, c: impl Operand<'b>) -> Self {
        self.add_op(Op::Fma, self.dtype(), &[self, b.term(self), c.term(self)])
    }

    /// The larger, or the other one if one is NaN.
    pub fn fmax(self, other: impl Operand<'b>) -> Self {
        self.binary(Binary::Fmax, other.term(self))
    }

    /// The smaller, or the other one if one is NaN.
    pub fn fmin(self, other: impl Operand<'b>) -> Self {
        self.binary(Binary::Fmin, other.term(self))
    }

    /// The larger; NaN if one is.
    pub fn max(self, other: impl Operand<'b>) -> Self {
        self.binary(Binary::Max, other.term(self))
    }

    /// The smaller; NaN if one is.
    pub fn min(self, other: impl Operand<'b>) -> Self {
        self.binary(Binary::Min, other.term(self))
    }

    pub fn copysign(self, sign: Self) -> Self {
        self.add_op(Op::CopySign, self.dtype(), &[self, sign])
    }

    pub fn compare(self, op: Comparison, other: impl Operand<'b>) -> Self {
        self.add_op(Op::Compare(op), DType::Bool, &[self, other.term(self)])
    }

    pub fn less(self, other: impl Operand<'b>) -> Self {
        self.compare(Comparison::Less, other)
    }

    pub fn greater(self, other: impl Operand<'b>) -> Self {
        self.compare(Comparison::Greater, other)
    }

    pub fn equals(self, other: impl Operand<'b>) -> Self {
        self.compare(Comparison::Equal, other)
    }

    /// Of `bool`: both.
    pub fn and(self, other: Self) -> Self {
        self.binary(Binary::And, other)
    }

    /// Of `bool`: either.
    pub fn or(self, other: Self) -> Self {
        self.binary(Binary::Or, other)
    }

    /// Of `bool`: `a` if true, else `b`.
    pub fn choose(self, a: Self, b: impl Operand<'b>) -> Self {
        self.add_op(Op::Select, a.dtype(), &[self, a, b.term(a)])
    }

    pub fn primitive(self, primitive: Primitive) -> Self {
        self.add_op(Op::Primitive(primitive), primitive.dtype(), &[self])
    }

    /// The upper half of an f64's bits.
    pub fn high(self) -> Self {
        self.add_op(Op::High, DType::U32, &[self])
    }

    /// self·2ⁿ in f64, n as [`Op::Scale`] takes it.
    pub fn scale(self, n: Self) -> Self {
        self.add_op(Op::Scale, DType::F64, &[self, n])
    }

    /// An integer or a float as another type.
    pub fn convert(self, to: DType) -> Self {
        self.add_op(Op::Convert, to, &[self])
    }

    /// self/other to 2 units in the last place.
    pub fn quotient(self, other: Self) -> Self {
        self.add_op(Op::Primitive(Primitive::Div), DType::F32, &[self, other])
    }

    /// The bits: of f32 as u32, and back.
    pub fn bits(self) -> Self {
        let other = match self.dtype() {
            DType::F32 => DType::U32,
            DType::U32 => DType::F32,
            DType::F64 => DType::U64,
            _ => DType::F64,
        };
        self.add_op(Op::Bits, other, &[self])
    }

    /// An integer of this value's type.
    pub fn integer(self, i: u64) -> Self {
        let dtype = self.dtype();
        self.with(self.builder.borrow_mut().constant(dtype, plimsoll_expr::Value::Int(i.into())))
    }

    /// Σ cᵢ selfⁱ by Horner's rule.
    pub fn polynomial(self, coefficients: &[f64]) -> Self {
        let (last, rest) = coefficients.split_last().expect("a polynomial has coefficients");
        rest.iter().rev().fold(self.number(*last), |sum, c| sum.fma(self, *c))
    }

    /// Demands that the value is at most `most`, in every element of a thread.
    pub fn demand_most(self, most: f32) {
        self.builder.borrow_mut().guard(self.id, Limit::Most(most.to_bits()));
    }

    /// Demands of a u32 that it is at least `least`.
    pub fn demand_least(self, least: u32) {
        self.builder.borrow_mut().guard(self.id, Limit::Least(least));
    }
}

/// A value, or a number that becomes one.
pub(super) trait Operand<'b> {
    fn term(self, like: Term<'b>) -> Term<'b>;
}

impl<'b> Operand<'b> for Term<'b> {
    fn term(self, _: Term<'b>) -> Self {
        self
    }
}

impl<'b> Operand<'b> for f64 {
    fn term(self, like: Term<'b>) -> Term<'b> {
        like.number(self)
    }
}

impl<'b, O: Operand<'b>> Add<O> for Term<'b> {
    type Output = Self;
    fn add(self, other: O) -> Self {
        self.binary(Binary::Add, other.term(self))
    }
}

impl<'b, O: Operand<'b>> Sub<O> for Term<'b> {
    type Output = Self;
    fn sub(self, other: O) -> Self {
        self.binary(Binary::Sub, other.term(self))
    }
}

impl<'b, O: Operand<'b>> Mul<O> for Term<'b> {
    type Output = Self;
    fn mul(self, other: O) -> Self {
        self.binary(Binary::Mul, other.term(self))
    }
}

impl Neg for Term<'_> {
    type Output = Self;
    fn neg(self) -> Self {
        self.unary(Unary::Neg)
    }
}
