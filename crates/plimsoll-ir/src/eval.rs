//! The interpreter: one element, in the arithmetic of the program. Approximations are correctly rounded here, and functions are those
//! of `libm` rounded to the type; a device's may be off by what [`Primitive`] and its library state.

use plimsoll_expr::graph::Kind;
use plimsoll_expr::op::{Binary, Comparison, Unary};
use plimsoll_expr::oracle::{Precision, apply};
use plimsoll_expr::{DType, NodeId, Value};

use crate::{Block, Limit, Op, Primitive};

/// What a program reads for one element.
#[derive(Clone, Copy, Debug)]
pub struct Element<'a> {
    /// The inputs' elements, as bits of their types in memory.
    pub inputs: &'a [u64],
    /// The scalars, as bits of their types.
    pub scalars: &'a [u64],
    /// The types of the inputs and of the scalars.
    pub types: (&'a [DType], &'a [DType]),
    /// The row-major index.
    pub place: u64,
    /// The coordinates.
    pub coordinates: &'a [u64],
}

/// The results of a block, as bits of their carriers, and whether all guards hold.
///
/// # Panics
/// If the element has fewer inputs, scalars or coordinates than the block reads.
#[must_use]
pub fn run(block: &Block, element: Element<'_>) -> (Vec<u64>, bool) {
    let mut values: Vec<u64> = Vec::with_capacity(block.instructions.len());
    let (inputs, scalars) = element.types;
    let widen = |dtype: DType, bits: u64| dtype.carrier().encode(dtype.decode(bits));
    for instruction in &block.instructions {
        let bits = match instruction.op {
            Op::Input(slot) => widen(inputs[slot as usize], element.inputs[slot as usize]),
            Op::Scalar(slot) => widen(scalars[slot as usize], element.scalars[slot as usize]),
            Op::Place => element.place,
            Op::Coordinate(dimension) => element.coordinates[usize::from(dimension)],
            op => {
                let operands: Vec<(DType, u64)> =
                    instruction.operands().iter().map(|id| (block.get(*id).dtype, values[id.index()])).collect();
                compute(op, instruction.dtype, &operands)
            }
        };
        values.push(bits);
    }
    let held = block.guards.iter().all(|guard| {
        let value = values[guard.value.index()] as u32;
        match guard.limit {
            Limit::Most(most) => f32::from_bits(value) <= f32::from_bits(most),
            Limit::Least(least) => value >= least,
        }
    });
    (block.results.iter().map(|id| values[id.index()]).collect(), held)
}

/// The result of an operation on bits of the operands' types. Leaves other than constants give 0.
#[must_use]
pub fn compute(op: Op, dtype: DType, operands: &[(DType, u64)]) -> u64 {
    let single = |place: usize| f32::from_bits(operands[place].1 as u32);
    let double = |place: usize| f64::from_bits(operands[place].1);
    let is = |wanted: DType| operands.first().is_some_and(|operand| operand.0 == wanted);
    match op {
        Op::Constant(bits) => bits,
        Op::Fma if dtype == DType::F32 => word(single(0).mul_add(single(1), single(2))),
        Op::Fma if dtype == DType::F64 => double(0).mul_add(double(1), double(2)).to_bits(),
        Op::Binary(op) if dtype == DType::F32 => float32(op, single(0), single(1)),
        Op::Binary(op) if dtype == DType::F64 => float64(op, double(0), double(1)),
        Op::Compare(op) if is(DType::F32) => compare(op, f64::from(single(0)), f64::from(single(1))).into(),
        Op::Compare(op) if is(DType::F64) => compare(op, double(0), double(1)).into(),
        Op::Select => {
            if operands[0].1 != 0 {
                operands[1].1
            } else {
                operands[2].1
            }
        }
        Op::Bits => operands[0].1,
        Op::High => operands[0].1 >> 32,
        Op::Scale => operands[0].1.wrapping_add(operands[1].1 << 52),
        Op::CopySign if dtype == DType::F32 => word(single(0).copysign(single(1))),
        Op::CopySign => double(0).copysign(double(1)).to_bits(),
        Op::Saturate => word(if single(0) > 0.0 { single(0).min(1.0) } else { 0.0 }),
        Op::Ordered if is(DType::F32) => (!single(0).is_nan() && !single(1).is_nan()).into(),
        Op::Ordered => (!double(0).is_nan() && !double(1).is_nan()).into(),
        Op::Primitive(Primitive::Rcp64) => rough_inverse(double(0)).to_bits(),
        Op::Primitive(primitive) => word(approximate(primitive, single(0), operands.get(1).map_or(0.0, |_| single(1)))),
        Op::Odd => word(round_to_odd(operands[0])),
        Op::Narrow(to) => DType::F32.encode(to.decode(to.encode(Value::Float(f64::from(single(0)))))),
        op => defined(op, dtype, operands),
    }
}

fn word(x: f32) -> u64 {
    x.to_bits().into()
}

/// Operations that the language defines: integers, conversions, and functions of one operand.
fn defined(op: Op, dtype: DType, operands: &[(DType, u64)]) -> u64 {
    let values: Vec<Value> = operands.iter().map(|(dtype, bits)| dtype.decode(*bits)).collect();
    let carried = operands.last().map_or(dtype, |operand| operand.0);
    let id = NodeId::default();
    let kind = match op {
        Op::Unary(op) => Kind::Unary(op, id),
        Op::Binary(op) => Kind::Binary(op, [id; 2]),
        Op::Compare(op) => Kind::Compare(op, [id; 2]),
        Op::Fma => Kind::Fma([id; 3]),
        Op::Convert => Kind::Cast(id),
        _ => return 0,
    };
    dtype.encode(apply(kind, dtype, carried, &values, Precision::Carried))
}

fn float32(op: Binary, a: f32, b: f32) -> u64 {
    let wide = |op| defined(Op::Binary(op), DType::F32, &[(DType::F32, word(a)), (DType::F32, word(b))]);
    word(match op {
        Binary::Add => a + b,
        Binary::Sub => a - b,
        Binary::Mul => a * b,
        Binary::Div => a / b,
        Binary::Min => {
            if a.is_nan() || b.is_nan() {
                f32::NAN
            } else {
                least(a.into(), b.into()) as f32
            }
        }
        Binary::Max => {
            if a.is_nan() || b.is_nan() {
                f32::NAN
            } else {
                -least(-f64::from(a), -f64::from(b)) as f32
            }
        }
        op => return wide(op),
    })
}

fn float64(op: Binary, a: f64, b: f64) -> u64 {
    let wide = |op| defined(Op::Binary(op), DType::F64, &[(DType::F64, a.to_bits()), (DType::F64, b.to_bits())]);
    match op {
        Binary::Add => (a + b).to_bits(),
        Binary::Sub => (a - b).to_bits(),
        Binary::Mul => (a * b).to_bits(),
        Binary::Div => (a / b).to_bits(),
        Binary::Min => {
            if a.is_nan() || b.is_nan() {
                f64::NAN.to_bits()
            } else {
                least(a, b).to_bits()
            }
        }
        Binary::Max => {
            if a.is_nan() || b.is_nan() {
                f64::NAN.to_bits()
            } else {
                (-least(-a, -b)).to_bits()
            }
        }
        op => wide(op),
    }
}

/// The smaller of two numbers, where −0 is less than 0.
fn least(a: f64, b: f64) -> f64 {
    match a.partial_cmp(&b) {
        Some(std::cmp::Ordering::Less) => a,
        Some(std::cmp::Ordering::Equal) if a.is_sign_negative() => a,
        _ => b,
    }
}

fn compare(op: Comparison, a: f64, b: f64) -> bool {
    match op {
        Comparison::Less => a < b,
        Comparison::LessEqual => a <= b,
        Comparison::Greater => a > b,
        Comparison::GreaterEqual => a >= b,
        Comparison::Equal => a == b,
        Comparison::NotEqual => a != b,
    }
}

/// 1/x from the upper halves of the bits.
fn rough_inverse(x: f64) -> f64 {
    let upper = |x: f64| f64::from_bits(x.to_bits() & !0xffff_ffff);
    let flushed = |x: f64| if x.is_subnormal() { 0.0_f64.copysign(x) } else { x };
    upper(flushed(1.0 / flushed(upper(x))))
}

/// An approximation in f32, correctly rounded.
fn approximate(primitive: Primitive, a: f32, b: f32) -> f32 {
    let flushed = |x: f32| if x.is_subnormal() { 0.0_f32.copysign(x) } else { x };
    let of = |flush: bool, f: fn(f64) -> f64| {
        let x = if flush { flushed(a) } else { a };
        let y = f(x.into()) as f32;
        if flush { flushed(y) } else { y }
    };
    match primitive {
        Primitive::Ex2 { flush } => of(flush, libm::exp2),
        Primitive::Lg2 { flush } => of(flush, libm::log2),
        Primitive::Rcp { flush } => of(flush, |x| 1.0 / x),
        Primitive::Rsqrt { flush } => of(flush, |x| 1.0 / libm::sqrt(x)),
        Primitive::Sqrt { flush } => of(flush, libm::sqrt),
        Primitive::Tanh => of(false, libm::tanh),
        Primitive::Div => (f64::from(a) / f64::from(b)) as f32,
        Primitive::Rcp64 => unreachable!("not of f32"),
    }
}

/// An integer or f64 as f32: towards zero, with the last bit set if that lost something.
fn round_to_odd((dtype, bits): (DType, u64)) -> f32 {
    let exact = match dtype.decode(bits) {
        Value::Float(x) if !x.is_finite() => return x as f32,
        Value::Float(x) => x,
        value => return integer_to_odd(value.as_int()),
    };
    let nearest = exact as f32;
    let truncated =
        if f64::from(nearest).abs() > exact.abs() { f32::from_bits(nearest.to_bits() - 1) } else { nearest };
    if f64::from(truncated) == exact { truncated } else { f32::from_bits(truncated.to_bits() | 1) }
}

fn integer_to_odd(i: i128) -> f32 {
    let magnitude = i.unsigned_abs();
    let surplus = (128 - magnitude.leading_zeros()).saturating_sub(24);
    let kept = magnitude >> surplus;
    let odd = kept | u128::from(kept << surplus != magnitude);
    let x = (odd << surplus) as f32;
    if i < 0 { -x } else { x }
}

/// Whether a constant result may stand for the operation: a device's own functions and approximations may round otherwise.
#[must_use]
pub fn is_exact(op: Op, dtype: DType) -> bool {
    use plimsoll_expr::op::Domain;
    match op {
        Op::Input(_) | Op::Scalar(_) | Op::Place | Op::Coordinate(_) | Op::Primitive(_) => false,
        Op::Unary(Unary::Sqrt | Unary::Recip) => true,
        Op::Unary(op) => op.domain() != Domain::Float,
        Op::Binary(Binary::Pow | Binary::Atan2) => !dtype.is_float(),
        _ => true,
    }
}
