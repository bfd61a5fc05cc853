//! Element types: sizes, the type that arithmetic is done in, and the promotion table. [`crate::value`] decodes and rounds
//! their values.

use std::fmt;
use std::str::FromStr;

/// The type of a tensor's elements or of a scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DType {
    /// IEEE 754 binary64.
    F64,
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary16.
    F16,
    /// bfloat16: the upper half of an f32.
    Bf16,
    /// OCP 8-bit float, 4 exponent and 3 fraction bits (`e4m3fn`): no infinities, largest 448, one NaN per sign.
    F8E4M3,
    /// OCP 8-bit float, 5 exponent and 2 fraction bits: the upper half of an f16.
    F8E5M2,
    /// Two's complement, 8 bits.
    I8,
    /// Two's complement, 16 bits.
    I16,
    /// Two's complement, 32 bits.
    I32,
    /// Two's complement, 64 bits.
    I64,
    /// Unsigned, 8 bits.
    U8,
    /// Unsigned, 16 bits.
    U16,
    /// Unsigned, 32 bits.
    U32,
    /// Unsigned, 64 bits.
    U64,
    /// One byte: 0 is false, any other value is true; true is stored as 1.
    Bool,
}

/// The three kinds of type, lowest first: an operation on two kinds gives the higher one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Category {
    /// `bool`.
    Bool,
    /// Signed and unsigned integers.
    Int,
    /// Floating point.
    Float,
}

/// How strongly an operand determines the type of a result: the strongest operands decide, unless a weaker one has a
/// higher [`Category`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Strength {
    /// A constant without a type, such as `0.5`. It takes the type of the other operand.
    Literal,
    /// A run-time scalar or a constant with a type.
    Scalar,
    /// A tensor.
    Tensor,
}

/// Exponent and fraction bits of a floating-point format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    pub exponent: u32,
    pub fraction: u32,
    /// False for `f8e4m3`: its highest exponent holds numbers, except that all ones is NaN.
    pub infinite: bool,
}

impl DType {
    /// Every type, in the order of the documentation's table.
    pub const ALL: [Self; 15] = [
        Self::F64,
        Self::F32,
        Self::F16,
        Self::Bf16,
        Self::F8E4M3,
        Self::F8E5M2,
        Self::I8,
        Self::I16,
        Self::I32,
        Self::I64,
        Self::U8,
        Self::U16,
        Self::U32,
        Self::U64,
        Self::Bool,
    ];

    /// The name in text: `bf16`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::F64 => "f64",
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::F8E4M3 => "f8e4m3",
            Self::F8E5M2 => "f8e5m2",
            Self::I8 => "i8",
            Self::I16 => "i16",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::Bool => "bool",
        }
    }

    /// Bytes of one element in memory.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        match self {
            Self::F64 | Self::I64 | Self::U64 => 8,
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::F16 | Self::Bf16 | Self::I16 | Self::U16 => 2,
            Self::F8E4M3 | Self::F8E5M2 | Self::I8 | Self::U8 | Self::Bool => 1,
        }
    }

    /// The kind of type.
    #[must_use]
    pub const fn category(self) -> Category {
        match self {
            Self::F64 | Self::F32 | Self::F16 | Self::Bf16 | Self::F8E4M3 | Self::F8E5M2 => Category::Float,
            Self::Bool => Category::Bool,
            _ => Category::Int,
        }
    }

    /// True for floating point.
    #[must_use]
    pub const fn is_float(self) -> bool {
        matches!(self.category(), Category::Float)
    }

    /// True for integers; false for `bool`.
    #[must_use]
    pub const fn is_int(self) -> bool {
        matches!(self.category(), Category::Int)
    }

    /// True for the signed integers and the floats.
    #[must_use]
    pub const fn is_signed(self) -> bool {
        !matches!(self, Self::U8 | Self::U16 | Self::U32 | Self::U64 | Self::Bool)
    }

    /// The type that its arithmetic is done in: f32 for 16-bit and 8-bit floats, otherwise the type itself. Only casts and
    /// stores round a value to its own type.
    #[must_use]
    pub const fn carrier(self) -> Self {
        match self {
            Self::F16 | Self::Bf16 | Self::F8E4M3 | Self::F8E5M2 => Self::F32,
            other => other,
        }
    }

    /// The result type of functions such as `exp`: the type itself for floats, f32 for integers and `bool`.
    #[must_use]
    pub const fn float(self) -> Self {
        if self.is_float() { self } else { Self::F32 }
    }

    /// The common type of two operands of equal strength. It follows PyTorch's table. For pairs that PyTorch refuses it is
    /// the smallest type that holds both: two floats where neither contains the other (f16 and bf16 give f32, the 8-bit
    /// floats give f16), and signed with unsigned integers. u64 with a signed integer gives i64, as there is no wider type.
    #[must_use]
    pub fn promote(self, other: Self) -> Self {
        if self == other {
            return self;
        }
        match (self.category(), other.category()) {
            (Category::Float, Category::Float) => promote_floats(self, other),
            (Category::Int, Category::Int) => promote_ints(self, other),
            (mine, its) => {
                if mine > its {
                    self
                } else {
                    other
                }
            }
        }
    }

    /// The smallest and the largest value of an integer type or of `bool`; `None` for floats.
    #[must_use]
    pub fn range(self) -> Option<(i128, i128)> {
        let bits = self.bytes() * 8;
        match self.category() {
            Category::Float => None,
            Category::Bool => Some((0, 1)),
            Category::Int if self.is_signed() => Some((-(1 << (bits - 1)), (1 << (bits - 1)) - 1)),
            Category::Int => Some((0, (1 << bits) - 1)),
        }
    }

    /// The bit layout of a floating-point type; `None` for other types.
    pub(crate) const fn format(self) -> Option<Format> {
        let (exponent, fraction) = match self {
            Self::F64 => (11, 52),
            Self::F32 => (8, 23),
            Self::F16 => (5, 10),
            Self::Bf16 => (8, 7),
            Self::F8E4M3 => (4, 3),
            Self::F8E5M2 => (5, 2),
            _ => return None,
        };
        Some(Format { exponent, fraction, infinite: !matches!(self, Self::F8E4M3) })
    }
}

/// For two different floats: the one that holds the other, else the smallest type that holds both.
fn promote_floats(a: DType, b: DType) -> DType {
    let holds = |a: DType, b: DType| match (a.format(), b.format()) {
        (Some(a), Some(b)) => a.exponent >= b.exponent && a.fraction >= b.fraction,
        _ => false,
    };
    // Smallest first; f64 holds all of them.
    let candidates = [DType::F8E4M3, DType::F8E5M2, DType::F16, DType::Bf16, DType::F32];
    candidates.into_iter().find(|&c| holds(c, a) && holds(c, b)).unwrap_or(DType::F64)
}

/// For two different integers: the one that holds the other, else the smallest signed type that holds both, at most i64.
fn promote_ints(a: DType, b: DType) -> DType {
    if a.is_signed() == b.is_signed() {
        return if a.bytes() >= b.bytes() { a } else { b };
    }
    let (signed, unsigned) = if a.is_signed() { (a, b) } else { (b, a) };
    let needed = signed.bytes().max(2 * unsigned.bytes());
    [DType::I16, DType::I32].into_iter().find(|c| c.bytes() == needed).unwrap_or(DType::I64)
}

/// The common type and strength of two operands. Scalars are weak: with a tensor of the same or a higher [`Category`] they
/// take the tensor's type. A literal that raises the category gives f32 or i64; a scalar gives its own type.
#[must_use]
pub fn common(a: (DType, Strength), b: (DType, Strength)) -> (DType, Strength) {
    let strength = a.1.max(b.1);
    if a.1 == b.1 {
        return (a.0.promote(b.0), strength);
    }
    let (strong, weak) = if a.1 > b.1 { (a.0, b) } else { (b.0, a) };
    let dtype = match weak {
        (weak, _) if weak.category() <= strong.category() => strong,
        (weak, Strength::Literal) if weak.is_float() => DType::F32,
        (_, Strength::Literal) => DType::I64,
        (weak, _) => weak,
    };
    (dtype, strength)
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that isn't an element type; its first 40 characters.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no element type '{}': the types are f64 f32 f16 bf16 f8e4m3 f8e5m2 i8 i16 i32 i64 u8 u16 u32 u64 bool", .0.escape_debug())]
pub struct UnknownDType(pub String);

impl FromStr for DType {
    type Err = UnknownDType;

    fn from_str(text: &str) -> Result<Self, UnknownDType> {
        Self::ALL
            .into_iter()
            .find(|dtype| dtype.name() == text)
            .ok_or_else(|| UnknownDType(text.chars().take(40).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for dtype in DType::ALL {
            assert_eq!(dtype.name().parse(), Ok(dtype));
        }
        assert!("float".parse::<DType>().is_err());
    }

    #[test]
    fn promotion_is_total_commutative_and_never_lowers_the_category() {
        for a in DType::ALL {
            assert_eq!(a.promote(a), a);
            for b in DType::ALL {
                let common = a.promote(b);
                assert_eq!(common, b.promote(a), "{a} {b}");
                assert_eq!(common.category(), a.category().max(b.category()), "{a} {b}");
                assert_eq!(common.promote(a), common, "{a} {b}: promoting again changes nothing");
            }
        }
    }

    #[test]
    fn promotion_follows_pytorch_where_pytorch_has_a_rule() {
        use DType::{Bf16, Bool, F16, F32, F64, I8, I16, I32, I64, U8};
        let rows = [
            (F16, Bf16, F32),
            (F32, Bf16, F32),
            (F32, F64, F64),
            (I64, F16, F16),
            (U8, I8, I16),
            (U8, I16, I16),
            (I8, I64, I64),
            (Bool, U8, U8),
            (Bool, Bf16, Bf16),
            (I32, I64, I64),
        ];
        for (a, b, expected) in rows {
            assert_eq!(a.promote(b), expected, "{a} {b}");
        }
    }

    #[test]
    fn promotion_of_integers_holds_both_except_for_u64() {
        for a in DType::ALL.into_iter().filter(|d| d.is_int()) {
            for b in DType::ALL.into_iter().filter(|d| d.is_int()) {
                let Some((((low_a, high_a), (low_b, high_b)), (low, high))) =
                    a.range().zip(b.range()).zip(a.promote(b).range())
                else {
                    panic!("integers have ranges");
                };
                let mixed_u64 = a.is_signed() != b.is_signed() && (a == DType::U64 || b == DType::U64);
                assert!(mixed_u64 || (low <= low_a.min(low_b) && high >= high_a.max(high_b)), "{a} {b}");
            }
        }
    }

    #[test]
    fn scalars_are_weak_unless_they_raise_the_category() {
        use Strength::{Literal, Scalar, Tensor};
        let cases = [
            ((DType::F64, Scalar), (DType::Bf16, Tensor), DType::Bf16),
            ((DType::F64, Literal), (DType::F16, Tensor), DType::F16),
            ((DType::I64, Scalar), (DType::I8, Tensor), DType::I8),
            ((DType::F64, Literal), (DType::I32, Tensor), DType::F32),
            ((DType::F64, Scalar), (DType::I32, Tensor), DType::F64),
            ((DType::I64, Literal), (DType::Bool, Tensor), DType::I64),
            ((DType::F64, Literal), (DType::F32, Scalar), DType::F32),
        ];
        for (a, b, expected) in cases {
            assert_eq!(common(a, b).0, expected, "{a:?} {b:?}");
            assert_eq!(common(a, b), common(b, a));
        }
    }
}
