//! What is known about a value: its range, whether it can be NaN, and how small it can be.

use plimsoll_expr::op::{Binary, Unary};
use plimsoll_expr::{Category, DType, Value};

use crate::{Op, Primitive};

/// What holds for every value that an instruction can compute. Facts are conservative: a wider range is always right.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Facts {
    /// The smallest value; −∞ if unknown. Of `bool`, 0 or 1.
    pub low: f64,
    /// The largest value; ∞ if unknown.
    pub high: f64,
    /// Whether it can be NaN.
    pub nan: bool,
    /// The smallest magnitude that isn't 0; 0 if unknown.
    pub least: f64,
    /// The largest magnitude that isn't infinite.
    pub finite: f64,
    /// Significant bits: 8 for bf16. 0 if not less than the type's.
    pub digits: u32,
}

impl Facts {
    /// Nothing known.
    pub const UNKNOWN: Self =
        Self { low: f64::NEG_INFINITY, high: f64::INFINITY, nan: true, least: 0.0, finite: f64::MAX, digits: 0 };

    /// What the type of a tensor in memory says.
    #[must_use]
    pub fn of_type(dtype: DType) -> Self {
        let float =
            |exponent: i32, finite: f64, digits| Self { least: 2_f64.powi(exponent), finite, digits, ..Self::UNKNOWN };
        match dtype {
            DType::F64 => Self::UNKNOWN,
            DType::F32 => float(-149, f32::MAX.into(), 24),
            DType::Bf16 => float(-133, f32::MAX.into(), 8),
            DType::F16 => float(-24, 65504.0, 11),
            DType::F8E4M3 => Self { low: -448.0, high: 448.0, ..float(-9, 448.0, 4) },
            DType::F8E5M2 => float(-16, 57344.0, 3),
            DType::Bool => Self { low: 0.0, high: 1.0, nan: false, least: 1.0, finite: 1.0, digits: 1 },
            integer => {
                let (low, high) = integer.range().unwrap_or((i128::MIN, i128::MAX));
                let digits = (8 * integer.bytes()) as u32;
                let (low, high) = (low as f64, high as f64);
                Self { low, high, nan: false, least: 1.0, finite: high.max(-low), digits }
            }
        }
    }

    /// What a constant's value says.
    #[must_use]
    pub fn of_constant(dtype: DType, bits: u64) -> Self {
        match dtype.decode(bits) {
            Value::Float(x) if x.is_nan() => Self { low: 0.0, high: 0.0, nan: true, ..Self::UNKNOWN },
            Value::Float(x) => {
                let fraction = x.to_bits() & ((1 << 52) - 1) | 1 << 52;
                Self {
                    low: x,
                    high: x,
                    nan: false,
                    least: x.abs(),
                    finite: x.abs(),
                    digits: 53 - fraction.trailing_zeros(),
                }
            }
            value => {
                let x = value.as_f64();
                Self { low: x, high: x, nan: false, least: x.abs(), finite: x.abs(), digits: 64 }
            }
        }
    }

    /// The largest magnitude.
    #[must_use]
    pub fn most(&self) -> f64 {
        self.low.abs().max(self.high.abs())
    }

    /// The largest magnitude of a finite value.
    #[must_use]
    pub fn largest(&self) -> f64 {
        self.finite.min(self.most())
    }

    /// Whether no value is NaN, and all are at least `low` and at most `high`.
    #[must_use]
    pub fn is_within(&self, low: f64, high: f64) -> bool {
        !self.nan && low <= self.low && self.high <= high
    }

    /// Whether every value except 0 and NaN has at least this magnitude.
    #[must_use]
    pub fn is_zero_or_least(&self, magnitude: f64) -> bool {
        self.least >= magnitude || self.low >= magnitude || self.high <= -magnitude
    }

    fn between(low: f64, high: f64, nan: bool) -> Self {
        // A bound that can't be computed is unknown.
        let low = if low.is_nan() { f64::NEG_INFINITY } else { low };
        let high = if high.is_nan() { f64::INFINITY } else { high };
        Self { low, high, nan, ..Self::UNKNOWN }
    }

    /// Widened by what rounding to f32 and a few units of an approximation may add.
    fn widened(self) -> Self {
        let by = |x: f64| if x.is_finite() { x.abs() * 1e-6 } else { 0.0 };
        Self { low: self.low - by(self.low), high: self.high + by(self.high), ..self }
    }
}

/// What is known about the result of an operation, from its type and its operands.
#[must_use]
pub fn derive(op: Op, dtype: DType, operands: &[Facts]) -> Facts {
    let unknown = Facts { nan: dtype.is_float(), ..Facts::of_type(dtype) };
    match (op, operands) {
        (Op::Constant(bits), _) => Facts::of_constant(dtype, bits),
        (Op::Unary(op), [a]) if dtype.is_float() => unary(op, *a),
        (Op::Binary(op), [a, b]) if dtype.is_float() => binary(op, *a, *b),
        (Op::Fma, [a, b, c]) if dtype.is_float() => {
            let facts = binary(Binary::Add, binary(Binary::Mul, *a, *b), *c);
            let square = a == b && c.low >= 0.0 && a.low >= 0.0;
            if square { Facts { low: 0.0, ..facts } } else { facts }
        }
        (Op::Select, [_, a, b]) => {
            Facts { low: a.low.min(b.low), high: a.high.max(b.high), nan: a.nan || b.nan, ..both(*a, *b) }
        }
        (Op::Convert, [a]) => convert(dtype, *a),
        (Op::Odd, [a]) => Facts { digits: 0, ..*a }.widened(),
        (Op::Narrow(to), [a]) => {
            let limit = Facts::of_type(to);
            let by = |x: f64| if x.is_finite() { x.abs() * 2_f64.powi(-(limit.digits as i32)) } else { 0.0 };
            let overflows = to == DType::F8E4M3 && a.most() > limit.finite;
            let (low, high) = ((a.low - by(a.low)).max(limit.low), (a.high + by(a.high)).min(limit.high));
            // Beyond the largest number lies infinity.
            let past = |x: f64| if x.abs() > limit.finite && !overflows { f64::INFINITY.copysign(x) } else { x };
            Facts { low: past(low), high: past(high), nan: a.nan || overflows, ..limit }
        }
        (Op::CopySign, [a, _]) => {
            let most = a.most();
            Facts { low: -most, high: most, ..*a }
        }
        (Op::Saturate, [a]) => Facts::between(a.low.clamp(0.0, 1.0), a.high.clamp(0.0, 1.0), false),
        (Op::Primitive(primitive), [a]) => self::primitive(primitive, *a),
        _ => unknown,
    }
}

/// A little more than π, as results may be rounded up.
const HALF_TURN: f64 = std::f64::consts::PI * 1.000_001;

fn unary(op: Unary, a: Facts) -> Facts {
    let between = |low, high| Facts::between(low, high, a.nan);
    match op {
        Unary::Neg => Facts { low: -a.high, high: -a.low, ..a },
        Unary::Abs => {
            let low = if a.low > 0.0 || a.high < 0.0 { a.low.abs().min(a.high.abs()) } else { 0.0 };
            Facts { low, high: a.most(), ..a }
        }
        Unary::Relu => Facts { low: a.low.max(0.0), high: a.high.max(0.0), ..a },
        Unary::Sign => Facts { least: 1.0, ..between(-1.0, 1.0) },
        Unary::Floor | Unary::Ceil | Unary::Round | Unary::Trunc => {
            Facts { least: 1.0, ..between(a.low.floor(), a.high.ceil()) }
        }
        Unary::Exp | Unary::Exp2 => {
            let base: f64 = if op == Unary::Exp { std::f64::consts::E } else { 2.0 };
            between(base.powf(a.low), base.powf(a.high)).widened()
        }
        Unary::Expm1 => between(-1.0, f64::INFINITY),
        Unary::Sqrt => Facts::between(a.low.max(0.0).sqrt(), a.high.max(0.0).sqrt(), a.nan || a.low < 0.0).widened(),
        Unary::Sin | Unary::Cos => Facts::between(-1.0, 1.0, a.nan || !a.most().is_finite()),
        Unary::Tanh | Unary::Erf => between(-1.0, 1.0),
        Unary::Sigmoid => between(0.0, 1.0),
        Unary::Erfc => between(0.0, 2.0),
        Unary::Cosh => between(1.0, f64::INFINITY),
        Unary::Softplus => between(0.0, f64::INFINITY),
        Unary::Atan => between(-HALF_TURN / 2.0, HALF_TURN / 2.0),
        _ => Facts::UNKNOWN,
    }
}

fn binary(op: Binary, a: Facts, b: Facts) -> Facts {
    let nan = a.nan || b.nan;
    let infinite = |facts: Facts| !facts.most().is_finite();
    match op {
        Binary::Add => Facts::between(a.low + b.low, a.high + b.high, nan || (infinite(a) && infinite(b))).widened(),
        Binary::Sub => binary(Binary::Add, a, unary(Unary::Neg, b)),
        Binary::Mul => {
            let products = [a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high];
            let unknown = products.iter().any(|x| x.is_nan());
            let low = products.into_iter().fold(f64::INFINITY, f64::min);
            let high = products.into_iter().fold(f64::NEG_INFINITY, f64::max);
            let known = if unknown {
                let nonnegative = a.low >= 0.0 && b.low >= 0.0;
                (if nonnegative { 0.0 } else { f64::NEG_INFINITY }, f64::INFINITY)
            } else {
                (low, high)
            };
            Facts::between(known.0, known.1, nan || infinite(a) || infinite(b)).widened()
        }
        Binary::Min => Facts { low: a.low.min(b.low), high: a.high.min(b.high), nan, ..both(a, b) },
        Binary::Max => Facts { low: a.low.max(b.low), high: a.high.max(b.high), nan, ..both(a, b) },
        // An operand that is never NaN bounds the result.
        Binary::Fmin => {
            let known = [a, b].into_iter().filter(|operand| !operand.nan).map(|operand| operand.high);
            let high = known.fold(a.high.max(b.high), f64::min);
            Facts { low: a.low.min(b.low), high, nan: a.nan && b.nan, ..both(a, b) }
        }
        Binary::Fmax => {
            let known = [a, b].into_iter().filter(|operand| !operand.nan).map(|operand| operand.low);
            let low = known.fold(a.low.min(b.low), f64::max);
            Facts { low, high: a.high.max(b.high), nan: a.nan && b.nan, ..both(a, b) }
        }
        Binary::Atan2 => Facts::between(-HALF_TURN, HALF_TURN, nan),
        _ => Facts::UNKNOWN,
    }
}

/// What holds for values that are one of two.
fn both(a: Facts, b: Facts) -> Facts {
    let digits = if a.digits == 0 || b.digits == 0 { 0 } else { a.digits.max(b.digits) };
    Facts { least: a.least.min(b.least), finite: a.finite.max(b.finite), digits, ..Facts::UNKNOWN }
}

fn convert(to: DType, a: Facts) -> Facts {
    let limit = Facts::of_type(to);
    match to.category() {
        // A float that is widened stays as it is; f64 to f32 may overflow or round.
        Category::Float => {
            let past =
                |x: f64| if to == DType::F32 && x.abs() > f64::from(f32::MAX) { f64::INFINITY.copysign(x) } else { x };
            Facts { low: past(a.low), high: past(a.high), ..a }.widened()
        }
        // Integers wrap, floats saturate.
        Category::Int if a.low >= limit.low && a.high <= limit.high && !a.nan => Facts { least: 1.0, ..a },
        _ => limit,
    }
}

fn primitive(primitive: Primitive, a: Facts) -> Facts {
    match primitive {
        Primitive::Ex2 { .. } => unary(Unary::Exp2, a),
        Primitive::Sqrt { .. } => unary(Unary::Sqrt, a),
        Primitive::Tanh => unary(Unary::Tanh, a),
        Primitive::Rcp { .. } | Primitive::Rsqrt { .. } if a.low > 0.0 => {
            let inverse = |x: f64| if matches!(primitive, Primitive::Rcp { .. }) { 1.0 / x } else { 1.0 / x.sqrt() };
            Facts::between(inverse(a.high), inverse(a.low), a.nan).widened()
        }
        _ => Facts::UNKNOWN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(low: f64, high: f64) -> Facts {
        Facts { low, high, nan: false, ..Facts::UNKNOWN }
    }

    #[test]
    fn ranges_follow_operations() {
        let clamped = derive(Op::Binary(Binary::Min), DType::F32, &[of(-3.0, 9.0), of(6.0, 6.0)]);
        assert!(clamped.is_within(-3.0, 6.0) && !clamped.is_within(-3.0, 5.0));
        let product = derive(Op::Binary(Binary::Mul), DType::F32, &[of(-3.0, 2.0), of(-1.0, 4.0)]);
        assert!(product.is_within(-12.1, 8.1) && product.low <= -12.0 && product.high >= 8.0);
        assert!(derive(Op::Unary(Unary::Abs), DType::F32, &[of(-3.0, 2.0)]).is_within(0.0, 3.0));
        assert!(derive(Op::Binary(Binary::Mul), DType::F32, &[Facts::UNKNOWN, of(0.0, 0.0)]).nan);
    }

    #[test]
    fn types_say_how_small_values_can_be() {
        assert!(Facts::of_type(DType::F16).is_zero_or_least(2_f64.powi(-24)));
        assert!(!Facts::of_type(DType::Bf16).is_zero_or_least(2_f64.powi(-126)));
        assert_eq!(Facts::of_constant(DType::F32, 7_f32.to_bits().into()).digits, 3);
    }
}
