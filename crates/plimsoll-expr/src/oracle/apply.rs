//! The definition of each operation on values: exact for integers, in f64 for floats.

use std::cmp::Ordering;

use super::{Precision, quotient};
use crate::dtype::DType;
use crate::graph::Kind;
use crate::op::{Binary, Comparison, Unary};
use crate::value::Value;

/// The result of an operation of type `dtype` on `operands`, whose carrier is `carried`. Leaves are not operations and give 0.
#[must_use]
pub fn apply(kind: Kind, dtype: DType, carried: DType, operands: &[Value], precision: Precision) -> Value {
    let value = match (kind, operands) {
        (Kind::Cast(_), &[a]) => return dtype.cast(a),
        (Kind::Select(_), &[condition, a, b]) => return if condition.as_bool() { a } else { b },
        (Kind::Compare(op, _), &[a, b]) => return Value::Bool(compare(op, a, b)),
        (Kind::Unary(op, _), &[Value::Float(a)]) => Value::Float(unary(op, a)),
        (Kind::Unary(op, _), &[a]) => exact_unary(op, a),
        (Kind::Binary(op, _), &[Value::Float(a), Value::Float(b)]) => {
            // Rounded once to the final precision, not first to f64.
            let narrow = precision == Precision::Carried && dtype.carrier() == DType::F32;
            Value::Float(binary(op, a, b, if narrow { 24 } else { 53 }))
        }
        (Kind::Binary(op, _), &[a, b]) => exact_binary(op, dtype, a, b),
        (Kind::Fma(_), &[Value::Float(a), Value::Float(b), Value::Float(c)]) => {
            // A fused multiply-add of f32 computed in f64 would be rounded twice.
            let narrow = precision == Precision::Carried && carried == DType::F32;
            let fused = || libm::fmaf(a as f32, b as f32, c as f32).into();
            Value::Float(if narrow { fused() } else { libm::fma(a, b, c) })
        }
        (Kind::Fma(_), &[a, b, c]) => Value::Int(a.as_int().wrapping_mul(b.as_int()).wrapping_add(c.as_int())),
        _ => Value::Int(0),
    };
    match value {
        Value::Float(x) if precision == Precision::Carried => Value::Float(dtype.carrier().round(x)),
        Value::Int(i) => Value::Int(dtype.wrap(i)),
        value => value,
    }
}

fn compare(op: Comparison, a: Value, b: Value) -> bool {
    let order = match (a, b) {
        (Value::Float(a), Value::Float(b)) => a.partial_cmp(&b),
        (a, b) => Some(a.as_int().cmp(&b.as_int())),
    };
    match op {
        Comparison::Less => order == Some(Ordering::Less),
        Comparison::LessEqual => matches!(order, Some(Ordering::Less | Ordering::Equal)),
        Comparison::Greater => order == Some(Ordering::Greater),
        Comparison::GreaterEqual => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
        Comparison::Equal => order == Some(Ordering::Equal),
        Comparison::NotEqual => order != Some(Ordering::Equal),
    }
}

fn unary(op: Unary, x: f64) -> f64 {
    match op {
        Unary::Neg => -x,
        // Not reached: the builder refuses floats.
        Unary::Not => f64::NAN,
        Unary::Abs => x.abs(),
        Unary::Sign if x.is_nan() => x,
        Unary::Sign => f64::from(i8::from(x > 0.0) - i8::from(x < 0.0)),
        Unary::Floor => libm::floor(x),
        Unary::Ceil => libm::ceil(x),
        Unary::Round => x.round_ties_even(),
        Unary::Trunc => libm::trunc(x),
        Unary::Sqrt => libm::sqrt(x),
        Unary::Rsqrt => 1.0 / libm::sqrt(x),
        Unary::Recip => 1.0 / x,
        Unary::Exp => libm::exp(x),
        Unary::Exp2 => libm::exp2(x),
        Unary::Expm1 => libm::expm1(x),
        Unary::Log => libm::log(x),
        Unary::Log2 => libm::log2(x),
        Unary::Log10 => libm::log10(x),
        Unary::Log1p => libm::log1p(x),
        Unary::Sin => libm::sin(x),
        Unary::Cos => libm::cos(x),
        Unary::Tanh => libm::tanh(x),
        Unary::Sinh => libm::sinh(x),
        Unary::Cosh => libm::cosh(x),
        Unary::Asinh => libm::asinh(x),
        // libm returns a number for arguments far below −1.
        Unary::Acosh if x < 1.0 => f64::NAN,
        Unary::Acosh => libm::acosh(x),
        Unary::Atanh => libm::atanh(x),
        Unary::Atan => libm::atan(x),
        Unary::Erf => libm::erf(x),
        Unary::Erfc => libm::erfc(x),
        Unary::Sigmoid => sigmoid(x),
        Unary::Silu => x * sigmoid(x),
        // Φ computed with erfc stays accurate where it is small.
        Unary::Gelu => x * 0.5 * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2),
        Unary::GeluTanh => {
            // (1 + tanh u)/2 is sigmoid 2u.
            let u = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x);
            x * sigmoid(2.0 * u)
        }
        Unary::Relu => binary(Binary::Max, x, 0.0, 53),
        Unary::Softplus => softplus(x),
        Unary::Mish => x * libm::tanh(softplus(x)),
    }
}

/// 1/(1 + e⁻ˣ), without overflow on either side.
fn sigmoid(x: f64) -> f64 {
    if x < 0.0 {
        let e = libm::exp(x);
        e / (1.0 + e)
    } else {
        1.0 / (1.0 + libm::exp(-x))
    }
}

/// ln(1 + eˣ), without overflow.
fn softplus(x: f64) -> f64 {
    if x > 0.0 { x + libm::log1p(libm::exp(-x)) } else { libm::log1p(libm::exp(x)) }
}

/// A floored quotient is rounded to `digits` binary digits.
fn binary(op: Binary, a: f64, b: f64, digits: usize) -> f64 {
    // Orders −0 before +0. Only used if neither is NaN.
    let smaller = if a.total_cmp(&b).is_le() { a } else { b };
    let larger = if a.total_cmp(&b).is_le() { b } else { a };
    match op {
        Binary::Add => a + b,
        Binary::Sub => a - b,
        Binary::Mul => a * b,
        Binary::Div => a / b,
        Binary::FloorDiv => quotient::floor_div(a, b, digits),
        Binary::Rem => quotient::floor_rem(a, b),
        Binary::Min | Binary::Max if a.is_nan() || b.is_nan() => f64::NAN,
        Binary::Fmin | Binary::Fmax if a.is_nan() => b,
        Binary::Fmin | Binary::Fmax if b.is_nan() => a,
        Binary::Min | Binary::Fmin => smaller,
        Binary::Max | Binary::Fmax => larger,
        Binary::Pow => libm::pow(a, b),
        Binary::Atan2 => libm::atan2(a, b),
        // Not reached: the builder refuses floats.
        Binary::And | Binary::Or | Binary::Xor | Binary::Shl | Binary::Shr => f64::NAN,
    }
}

fn exact_unary(op: Unary, a: Value) -> Value {
    let i = a.as_int();
    match (op, a) {
        (Unary::Not, Value::Bool(b)) => Value::Bool(!b),
        (Unary::Not, _) => Value::Int(!i),
        (Unary::Neg, _) => Value::Int(-i),
        (Unary::Abs, _) => Value::Int(i.abs()),
        (Unary::Sign, _) => Value::Int(i.signum()),
        (Unary::Relu, _) => Value::Int(i.max(0)),
        // Other operations take floats; rounding leaves integers unchanged.
        _ => a,
    }
}

fn exact_binary(op: Binary, dtype: DType, a: Value, b: Value) -> Value {
    if let (Value::Bool(a), Value::Bool(b)) = (a, b) {
        return Value::Bool(match op {
            Binary::And => a & b,
            Binary::Or => a | b,
            _ => a ^ b,
        });
    }
    let (a, b) = (a.as_int(), b.as_int());
    let width = i128::from(8 * dtype.bytes());
    let shifted_out = !(0..width).contains(&b);
    Value::Int(match op {
        Binary::Add => a + b,
        Binary::Sub => a - b,
        Binary::Mul => a.wrapping_mul(b),
        Binary::FloorDiv if b == 0 => 0,
        Binary::Rem if b == 0 => a,
        Binary::FloorDiv => (a - a.rem_euclid(b) - if b < 0 && a.rem_euclid(b) != 0 { b } else { 0 }) / b,
        Binary::Rem => a.rem_euclid(b) + if b < 0 && a.rem_euclid(b) != 0 { b } else { 0 },
        Binary::And => a & b,
        Binary::Or => a | b,
        Binary::Xor => a ^ b,
        Binary::Shl if shifted_out => 0,
        Binary::Shl => a << b,
        Binary::Shr if shifted_out => a.signum().min(0),
        Binary::Shr => a >> b,
        Binary::Min | Binary::Fmin => a.min(b),
        Binary::Max | Binary::Fmax => a.max(b),
        Binary::Pow => integer_power(a, b),
        // Other operations take floats.
        Binary::Div | Binary::Atan2 => 0,
    })
}

/// aᵇ modulo 2¹²⁸, by squaring; a negative exponent gives the integer part of the true power.
fn integer_power(a: i128, b: i128) -> i128 {
    let odd = b & 1 == 1;
    match (a, b) {
        (1, _) => 1,
        (-1, _) => {
            if odd {
                -1
            } else {
                1
            }
        }
        (_, b) if b < 0 => 0,
        _ => {
            let (mut base, mut exponent, mut power) = (a, b, 1_i128);
            while exponent > 0 {
                if exponent & 1 == 1 {
                    power = power.wrapping_mul(base);
                }
                base = base.wrapping_mul(base);
                exponent >>= 1;
            }
            power
        }
    }
}
