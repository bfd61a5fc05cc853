//! Building a block. Adding an instruction folds it, simplifies it, or returns an equal one that exists; what is known about its result is
//! kept. So one walk over an expression does constant folding, common subexpressions, strength reduction and ranges.

use std::collections::HashMap;

use plimsoll_expr::op::{Binary, Comparison, Unary};
use plimsoll_expr::{DType, Value};

use crate::eval;
use crate::facts::{self, Facts};
use crate::{Block, Guard, Id, Instruction, Limit, Op, Primitive};

/// A block under construction.
#[derive(Debug, Default)]
pub struct Builder {
    block: Block,
    known: HashMap<Instruction, Id>,
    facts: Vec<Facts>,
}

impl Builder {
    /// Adds an instruction, or returns the value that it equals.
    pub fn add(&mut self, op: Op, dtype: DType, operands: &[Id]) -> Id {
        if let Some(id) = self.folded(op, dtype, operands).or_else(|| self.simplified(op, dtype, operands)) {
            return id;
        }
        let facts: Vec<Facts> = operands.iter().map(|id| self.facts(*id)).collect();
        self.push(Instruction::new(op, dtype, operands), || facts::derive(op, dtype, &facts))
    }

    /// Adds an input or scalar whose type in memory is `memory`.
    pub fn parameter(&mut self, op: Op, memory: DType) -> Id {
        self.push(Instruction::new(op, memory.carrier(), &[]), || Facts::of_type(memory))
    }

    /// Adds a constant of a carrier's type.
    pub fn constant(&mut self, dtype: DType, value: Value) -> Id {
        self.add(Op::Constant(dtype.encode(value)), dtype, &[])
    }

    /// Adds a constant float of type f32 or f64.
    pub fn number(&mut self, dtype: DType, value: f64) -> Id {
        self.constant(dtype, Value::Float(value))
    }

    /// What is known about a value.
    #[must_use]
    pub fn facts(&self, id: Id) -> Facts {
        self.facts[id.index()]
    }

    /// Replaces what is known about a value by something that the caller knows better.
    pub fn know(&mut self, id: Id, facts: Facts) {
        self.facts[id.index()] = facts;
    }

    /// The type of a value.
    #[must_use]
    pub fn dtype(&self, id: Id) -> DType {
        self.block.get(id).dtype
    }

    /// The bits of a constant; `None` for other values.
    #[must_use]
    pub fn bits(&self, id: Id) -> Option<u64> {
        match self.block.get(id).op {
            Op::Constant(bits) => Some(bits),
            _ => None,
        }
    }

    /// The value of a constant float.
    #[must_use]
    pub fn float(&self, id: Id) -> Option<f64> {
        let dtype = self.dtype(id);
        self.bits(id).filter(|_| dtype.is_float()).map(|bits| dtype.decode(bits).as_f64())
    }

    /// Demands something of a value, unless it is known to hold.
    pub fn guard(&mut self, value: Id, limit: Limit) {
        let facts = self.facts(value);
        let holds = match limit {
            Limit::Most(most) => facts.is_within(f64::NEG_INFINITY, f32::from_bits(most).into()),
            Limit::Least(least) => facts.is_within(least.into(), f64::INFINITY),
        };
        let guard = Guard { value, limit };
        if !holds && !self.block.guards.contains(&guard) {
            self.block.guards.push(guard);
        }
    }

    /// The finished block, without instructions that nothing uses.
    #[must_use]
    pub fn finish(mut self, results: Vec<Id>) -> Block {
        self.block.results = results;
        self.block.without_dead()
    }

    fn push(&mut self, instruction: Instruction, facts: impl FnOnce() -> Facts) -> Id {
        if let Some(id) = self.known.get(&instruction) {
            return *id;
        }
        let id = Id(self.block.instructions.len() as u32);
        self.block.instructions.push(instruction);
        self.facts.push(facts());
        self.known.insert(instruction, id);
        id
    }

    /// The constant that an operation on constants gives, if every device gives it.
    fn folded(&mut self, op: Op, dtype: DType, operands: &[Id]) -> Option<Id> {
        if operands.is_empty() || !eval::is_exact(op, dtype) {
            return None;
        }
        let known: Option<Vec<(DType, u64)>> =
            operands.iter().map(|id| self.bits(*id).map(|bits| (self.dtype(*id), bits))).collect();
        let bits = eval::compute(op, dtype, &known?);
        Some(self.add(Op::Constant(bits), dtype, &[]))
    }

    /// An equal value that takes less: with the same bits for every operand, unless both are NaN.
    fn simplified(&mut self, op: Op, dtype: DType, operands: &[Id]) -> Option<Id> {
        let float = dtype.is_float();
        match (op, operands) {
            (Op::Unary(op @ (Unary::Neg | Unary::Not)), &[a]) if self.block.get(a).op == Op::Unary(op) => {
                Some(self.block.get(a).operands()[0])
            }
            (Op::Unary(Unary::Abs), &[a]) if float && self.facts(a).low > 0.0 => Some(a),
            (Op::Unary(Unary::Abs), &[a]) if float && self.block.get(a).op == Op::Unary(Unary::Neg) => {
                let operand = self.block.get(a).operands()[0];
                Some(self.add(op, dtype, &[operand]))
            }
            (Op::Select, &[condition, a, b]) => match self.bits(condition) {
                Some(bits) => Some(if bits == 0 { b } else { a }),
                None => (a == b).then_some(a),
            },
            (Op::Convert, &[a]) if self.dtype(a) == dtype => Some(a),
            (Op::Bits, &[a]) if self.block.get(a).op == Op::Bits => Some(self.block.get(a).operands()[0]),
            (Op::Narrow(to), &[a]) if self.fits(a, to) => Some(a),
            (Op::Fma, &[a, b, c]) if float && (self.is(a, 1.0) || self.is(b, 1.0)) => {
                let factor = if self.is(a, 1.0) { b } else { a };
                Some(self.add(Op::Binary(Binary::Add), dtype, &[factor, c]))
            }
            (Op::Binary(op), &[a, b]) if float => self.simplified_float(op, dtype, a, b),
            (Op::Compare(op), &[a, b]) => {
                self.decided(op, a, b).map(|known| self.constant(DType::Bool, Value::Bool(known)))
            }
            (Op::Ordered, &[a, b]) if !self.facts(a).nan && !self.facts(b).nan => {
                Some(self.constant(DType::Bool, Value::Bool(true)))
            }
            _ => None,
        }
    }

    fn simplified_float(&mut self, op: Binary, dtype: DType, a: Id, b: Id) -> Option<Id> {
        match op {
            Binary::Mul if self.is(b, 1.0) => Some(a),
            Binary::Mul if self.is(a, 1.0) => Some(b),
            Binary::Mul if self.is(b, -1.0) => Some(self.add(Op::Unary(Unary::Neg), dtype, &[a])),
            Binary::Mul if self.is(a, -1.0) => Some(self.add(Op::Unary(Unary::Neg), dtype, &[b])),
            Binary::Add if self.is(b, -0.0) => Some(a),
            Binary::Add if self.is(a, -0.0) => Some(b),
            Binary::Sub if self.is(b, 0.0) => Some(a),
            Binary::Sub if self.is(a, -0.0) => Some(self.add(Op::Unary(Unary::Neg), dtype, &[b])),
            Binary::Div => {
                // The inverse of a power of two is exact, so both round the same number.
                let divisor = self.float(b)?;
                let inverse = 1.0 / divisor;
                let smallest = if dtype == DType::F32 { f64::from(f32::MIN_POSITIVE) } else { f64::MIN_POSITIVE };
                let power = divisor.is_finite() && divisor.to_bits() << 12 == 0 && inverse.abs() >= smallest;
                let representable = dtype == DType::F64 || f64::from(inverse as f32) == inverse;
                if !(power && divisor != 0.0 && representable) {
                    return None;
                }
                let factor = self.number(dtype, inverse);
                Some(self.add(Op::Binary(Binary::Mul), dtype, &[a, factor]))
            }
            // Zeros of either sign are equal in ranges, but not in minima and maxima.
            Binary::Max | Binary::Min => {
                let (x, y) = (self.facts(a), self.facts(b));
                let above = |x: Facts, y: Facts| x.low > y.high || (x.low == y.high && x.low != 0.0);
                let (first, second) =
                    if op == Binary::Max { (above(x, y), above(y, x)) } else { (above(y, x), above(x, y)) };
                // The one that is left out must not be NaN.
                (first && !y.nan).then_some(a).or((second && !x.nan).then_some(b)).or((a == b).then_some(a))
            }
            _ => None,
        }
    }

    /// Whether a value is this constant, with this sign.
    fn is(&self, id: Id, x: f64) -> bool {
        self.float(id).is_some_and(|value| value.to_bits() == x.to_bits())
    }

    /// Whether every value of `id` is one of the type `to`.
    fn fits(&self, id: Id, to: DType) -> bool {
        let (facts, limit) = (self.facts(id), Facts::of_type(to));
        let largest = match to {
            DType::F16 => 65504.0,
            DType::Bf16 => f64::INFINITY,
            _ => return false,
        };
        facts.digits != 0
            && facts.digits <= limit.digits
            && facts.is_zero_or_least(limit.least * 2_f64.powi(facts.digits as i32))
            && (facts.most() <= largest)
    }

    /// The result of a comparison that ranges decide.
    fn decided(&self, op: Comparison, a: Id, b: Id) -> Option<bool> {
        let (x, y) = (self.facts(a), self.facts(b));
        // The ends of 64-bit integers are rounded here.
        let exact = |dtype: DType| dtype.is_float() || dtype.bytes() < 8;
        if x.nan || y.nan || !exact(self.dtype(a)) || !exact(self.dtype(b)) {
            return None;
        }
        match op {
            Comparison::Less if x.high < y.low => Some(true),
            Comparison::Less if x.low >= y.high => Some(false),
            Comparison::LessEqual if x.high <= y.low => Some(true),
            Comparison::LessEqual if x.low > y.high => Some(false),
            Comparison::Greater => self.decided(Comparison::Less, b, a),
            Comparison::GreaterEqual => self.decided(Comparison::LessEqual, b, a),
            _ => None,
        }
    }
}

/// Shorthands for what lowering writes most.
impl Builder {
    /// An operation of one operand, of the operand's type.
    pub fn unary(&mut self, op: Unary, a: Id) -> Id {
        self.add(Op::Unary(op), self.dtype(a), &[a])
    }

    /// An operation of two operands, of their type.
    pub fn binary(&mut self, op: Binary, a: Id, b: Id) -> Id {
        self.add(Op::Binary(op), self.dtype(a), &[a, b])
    }

    /// a·b + c.
    pub fn fma(&mut self, a: Id, b: Id, c: Id) -> Id {
        self.add(Op::Fma, self.dtype(a), &[a, b, c])
    }

    /// A comparison.
    pub fn compare(&mut self, op: Comparison, a: Id, b: Id) -> Id {
        self.add(Op::Compare(op), DType::Bool, &[a, b])
    }

    /// a if the condition is true, else b.
    pub fn select(&mut self, condition: Id, a: Id, b: Id) -> Id {
        self.add(Op::Select, self.dtype(a), &[condition, a, b])
    }

    /// A device's approximation.
    pub fn primitive(&mut self, primitive: Primitive, a: Id) -> Id {
        self.add(Op::Primitive(primitive), primitive.dtype(), &[a])
    }
}
