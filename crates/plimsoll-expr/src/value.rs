//! Values on the host: decoding and encoding the bits of elements, and rounding numbers to a type. The code is deliberately
//! simple, as the oracle and constant folding depend on it.

use crate::dtype::{Category, DType, Format};

/// A value of any element type. f64 holds floats of every format exactly; i128 holds both i64 and u64.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// Any floating-point type.
    Float(f64),
    /// Any integer type.
    Int(i128),
    /// `bool`.
    Bool(bool),
}

impl Value {
    /// The value as a float; integers are rounded to f64.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        match self {
            Self::Float(x) => x,
            Self::Int(i) => i as f64,
            Self::Bool(b) => f64::from(u8::from(b)),
        }
    }

    /// The value as an integer: floats are truncated and saturate, NaN gives 0.
    #[must_use]
    pub fn as_int(self) -> i128 {
        match self {
            Self::Float(x) => x as i128,
            Self::Int(i) => i,
            Self::Bool(b) => i128::from(b),
        }
    }

    /// Whether the value is nonzero (NaN counts as nonzero).
    #[must_use]
    pub fn as_bool(self) -> bool {
        match self {
            Self::Float(x) => x != 0.0,
            Self::Int(i) => i != 0,
            Self::Bool(b) => b,
        }
    }

    /// Whether the values are identical: NaN equals NaN, and +0 differs from −0.
    #[must_use]
    pub fn is_same(self, other: Self) -> bool {
        match (self, other) {
            (Self::Float(a), Self::Float(b)) => (a.is_nan() && b.is_nan()) || a.to_bits() == b.to_bits(),
            _ => self == other,
        }
    }
}

impl DType {
    /// Converts a value to this type. Floats are rounded to nearest, ties to even, and overflow to infinity (NaN in f8e4m3, which
    /// has no infinity). Floats are truncated and saturate when converted to integers, and NaN becomes 0. Integers wrap. Any
    /// nonzero value becomes true.
    #[must_use]
    pub fn cast(self, value: Value) -> Value {
        match (self.category(), value) {
            (Category::Bool, value) => Value::Bool(value.as_bool()),
            (Category::Int, Value::Float(x)) => {
                let (low, high) = self.range().unwrap_or((0, 0));
                Value::Int((x as i128).clamp(low, high))
            }
            (Category::Int, value) => Value::Int(self.wrap(value.as_int())),
            // Round once from the integer to f32, not twice through f64.
            (Category::Float, Value::Int(i)) if self != DType::F64 => Value::Float(self.round(odd_f64(i))),
            (Category::Float, value) => Value::Float(self.round(value.as_f64())),
        }
    }

    /// The nearest number of this floating-point type, ties to even; `x` itself for f64 and for other types.
    #[must_use]
    pub fn round(self, x: f64) -> f64 {
        match self.format() {
            Some(format) if self != Self::F64 => format.round(x),
            _ => x,
        }
    }

    /// The low bits of an integer as this integer type reads them (two's complement); `i` itself for other types.
    #[must_use]
    pub fn wrap(self, i: i128) -> i128 {
        let unused = 128 - 8 * self.bytes() as u32;
        match self.category() {
            Category::Int if self.is_signed() => (i << unused) >> unused,
            Category::Int => ((i as u128) << unused >> unused) as i128,
            _ => i,
        }
    }

    /// The value of the low [`DType::bytes`] of `bits`.
    #[must_use]
    pub fn decode(self, bits: u64) -> Value {
        match (self.category(), self.format()) {
            (_, Some(_)) if self == Self::F64 => Value::Float(f64::from_bits(bits)),
            (_, Some(format)) => Value::Float(format.decode(bits)),
            (Category::Bool, _) => Value::Bool(bits & 0xff != 0),
            _ => Value::Int(self.wrap(i128::from(bits))),
        }
    }

    /// The bits of `value` cast to this type; the upper bits are zero. Every NaN becomes the same quiet, positive NaN.
    #[must_use]
    pub fn encode(self, value: Value) -> u64 {
        match (self.cast(value), self.format()) {
            (Value::Float(x), Some(_)) if self == Self::F64 => if x.is_nan() { f64::NAN } else { x }.to_bits(),
            (Value::Float(x), Some(format)) => format.encode(x),
            (Value::Bool(b), _) => u64::from(b),
            (value, _) => (value.as_int() as u64) & (u64::MAX >> (64 - 8 * self.bytes())),
        }
    }

    /// The element at `index` of little-endian memory; `None` past the end.
    #[must_use]
    pub fn read(self, memory: &[u8], index: u64) -> Option<Value> {
        let size = self.bytes();
        let start = usize::try_from(index.checked_mul(size)?).ok()?;
        let bytes = memory.get(start..start.checked_add(size as usize)?)?;
        Some(self.decode(bytes.iter().rev().fold(0, |bits, &byte| bits << 8 | u64::from(byte))))
    }

    /// Appends the little-endian bytes of `value`, cast to this type, to `memory`.
    pub fn write(self, value: Value, memory: &mut Vec<u8>) {
        memory.extend_from_slice(&self.encode(value).to_le_bytes()[..self.bytes() as usize]);
    }
}

/// An integer of up to 65 bits as an f64 that rounds to any narrower format as the integer itself would: rounded to odd
/// (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
fn odd_f64(i: i128) -> f64 {
    let magnitude = i.unsigned_abs();
    let surplus = (128 - magnitude.leading_zeros()).saturating_sub(53);
    let kept = magnitude >> surplus;
    let sticky = u128::from(kept << surplus != magnitude);
    let x = ((kept | sticky) << surplus) as f64;
    if i < 0 { -x } else { x }
}

/// 2ⁿ, exactly.
fn power_of_two(n: i32) -> f64 {
    libm::ldexp(1.0, n)
}

impl Format {
    /// The exponent of the smallest normal number.
    fn lowest(self) -> i32 {
        2 - (1 << (self.exponent - 1))
    }

    /// The largest finite number.
    fn largest(self) -> f64 {
        let unit = power_of_two(-(self.fraction as i32));
        // Without infinities the top exponent holds numbers, and only its last fraction is NaN.
        let (exponent, significand) = if self.infinite {
            ((1 << (self.exponent - 1)) - 1, 2.0 - unit)
        } else {
            (1 << (self.exponent - 1), 2.0 - 2.0 * unit)
        };
        significand * power_of_two(exponent)
    }

    /// The nearest number of this format, ties to even. Scaling by a power of two is exact, so only `round_ties_even` rounds.
    fn round(self, x: f64) -> f64 {
        if x == 0.0 || !x.is_finite() {
            return if x.is_infinite() && !self.infinite { f64::NAN } else { x };
        }
        let exponent = libm::ilogb(x).max(self.lowest());
        let quantum = power_of_two(exponent - self.fraction as i32);
        let rounded = (x / quantum).round_ties_even() * quantum;
        match rounded.abs() > self.largest() {
            false => rounded.abs().copysign(x),
            true if self.infinite => f64::INFINITY.copysign(x),
            true => f64::NAN,
        }
    }

    fn decode(self, bits: u64) -> f64 {
        let ones = (1 << self.exponent) - 1;
        let exponent = (bits >> self.fraction) & ones;
        let fraction = bits & ((1 << self.fraction) - 1);
        let last = fraction == (1 << self.fraction) - 1;
        let unit = power_of_two(self.lowest() - self.fraction as i32);
        let magnitude = match (exponent == ones, self.infinite) {
            (true, true) if fraction != 0 => f64::NAN,
            (true, true) => f64::INFINITY,
            (true, false) if last => f64::NAN,
            _ if exponent == 0 => fraction as f64 * unit,
            _ => (fraction | 1 << self.fraction) as f64 * unit * power_of_two(exponent as i32 - 1),
        };
        if bits >> (self.exponent + self.fraction) & 1 == 1 { -magnitude } else { magnitude }
    }

    /// The bits of `x`, which must be a number of this format.
    fn encode(self, x: f64) -> u64 {
        let ones = (1 << self.exponent) - 1;
        let sign = u64::from(x.is_sign_negative() && !x.is_nan()) << (self.exponent + self.fraction);
        let quiet = if self.infinite { 1 << (self.fraction - 1) } else { (1 << self.fraction) - 1 };
        if x.is_nan() {
            return ones << self.fraction | quiet;
        }
        if x.is_infinite() {
            return sign | ones << self.fraction;
        }
        if x == 0.0 {
            return sign;
        }
        let exponent = libm::ilogb(x);
        let place = exponent.max(self.lowest());
        let significand = (x.abs() / power_of_two(place - self.fraction as i32)) as u64;
        // The leading bit of a normal significand carries into the exponent field, so adding the fields is enough.
        sign | ((((place - self.lowest()) as u64) << self.fraction) + significand)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::{bf16, f16};
    use proptest::prelude::*;

    #[test]
    fn every_pattern_of_the_small_formats_round_trips() {
        for dtype in [DType::F8E4M3, DType::F8E5M2, DType::F16, DType::Bf16, DType::I8, DType::U16] {
            for bits in 0..1_u64 << (8 * dtype.bytes()) {
                let value = dtype.decode(bits);
                if !matches!(value, Value::Float(x) if x.is_nan()) {
                    assert_eq!(dtype.encode(value), bits, "{dtype} {bits:#x} {value:?}");
                }
            }
        }
    }

    #[test]
    fn sixteen_bit_floats_decode_as_in_the_half_crate() {
        for bits in 0..=u16::MAX {
            for (dtype, expected) in
                [(DType::F16, f16::from_bits(bits).to_f64()), (DType::Bf16, bf16::from_bits(bits).to_f64())]
            {
                assert!(dtype.decode(bits.into()).is_same(Value::Float(expected)), "{dtype} {bits:#x}");
            }
        }
    }

    #[test]
    fn eight_bit_floats_have_the_published_extremes() {
        assert_eq!(DType::F8E4M3.decode(0x7e), Value::Float(448.0));
        assert_eq!(DType::F8E4M3.decode(0x01), Value::Float(1.0 / 512.0));
        assert_eq!(DType::F8E5M2.decode(0x7b), Value::Float(57344.0));
        assert!(DType::F8E4M3.round(464.1).is_nan());
        assert_eq!(DType::F8E4M3.round(464.0), 448.0);
        assert_eq!(DType::F8E5M2.round(1e9), f64::INFINITY);
        assert!(DType::F8E4M3.round(f64::INFINITY).is_nan());
    }

    #[test]
    fn casts_to_integers_saturate_and_wrap() {
        assert_eq!(DType::I8.cast(Value::Float(1e9)), Value::Int(127));
        assert_eq!(DType::U8.cast(Value::Float(-3.0)), Value::Int(0));
        assert_eq!(DType::I32.cast(Value::Float(f64::NAN)), Value::Int(0));
        assert_eq!(DType::I64.cast(Value::Float(f64::INFINITY)), Value::Int(i64::MAX.into()));
        assert_eq!(DType::I8.cast(Value::Int(200)), Value::Int(-56));
        assert_eq!(DType::U64.cast(Value::Int(-1)), Value::Int(u64::MAX.into()));
        assert_eq!(DType::I32.cast(Value::Float(-1.9)), Value::Int(-1));
        assert_eq!(DType::Bool.cast(Value::Float(f64::NAN)), Value::Bool(true));
    }

    proptest! {
        #[test]
        fn rounding_to_f32_matches_the_processor(bits in any::<u64>(), small in any::<f32>(), tail in -1e-9..1e-9_f64) {
            for x in [f64::from_bits(bits), f64::from(small) * (1.0 + tail)] {
                prop_assert!(Value::Float(DType::F32.round(x)).is_same(Value::Float(f64::from(x as f32))));
            }
        }

        #[test]
        fn integers_are_rounded_once(i in any::<i64>(), u in any::<u64>()) {
            prop_assert_eq!(DType::F32.cast(Value::Int(i.into())), Value::Float(f64::from(i as f32)));
            prop_assert_eq!(DType::F32.cast(Value::Int(u.into())), Value::Float(f64::from(u as f32)));
            prop_assert_eq!(DType::F64.cast(Value::Int(i.into())), Value::Float(i as f64));
        }

        #[test]
        fn memory_round_trips(bits in any::<u64>()) {
            for dtype in DType::ALL {
                let value = dtype.decode(bits);
                let mut memory = vec![0xff; 24];
                memory.truncate(dtype.bytes() as usize);
                dtype.write(value, &mut memory);
                prop_assert!(dtype.read(&memory, 1).is_some_and(|read| read.is_same(value)));
                prop_assert_eq!(dtype.read(&memory, 2), None);
            }
        }
    }
}
