//! The operations of a program.

use plimsoll_expr::DType;
use plimsoll_expr::op::{Binary, Comparison, Unary};

/// An approximation that a device computes in one instruction, in f32 except for `Rcp64`. `flush` variants treat subnormal operands and
/// results as zeros of their sign. The errors are those of the PTX ISA, sections "Floating-Point Instructions".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Primitive {
    /// 2ˣ, relative error 2⁻²²·⁵.
    Ex2 {
        /// Subnormals become zeros.
        flush: bool,
    },
    /// log₂ x, absolute error 2⁻²² (relative error 2⁻²² outside 0.5 to 2).
    Lg2 {
        /// Subnormals become zeros.
        flush: bool,
    },
    /// 1/x, at most 1 unit in the last place.
    Rcp {
        /// Subnormals become zeros.
        flush: bool,
    },
    /// 1/√x, relative error 2⁻²²·⁹.
    Rsqrt {
        /// Subnormals become zeros.
        flush: bool,
    },
    /// √x, relative error 2⁻²³.
    Sqrt {
        /// Subnormals become zeros.
        flush: bool,
    },
    /// tanh x, relative error 2⁻¹¹.
    Tanh,
    /// a/b, at most 2 units in the last place.
    Div,
    /// 1/x in f64, of the upper 32 bits of x and with only those of the result: relative error 2⁻¹⁸. Subnormals become zeros.
    Rcp64,
}

impl Primitive {
    /// Every primitive.
    pub const ALL: [Self; 13] = [
        Self::Ex2 { flush: false },
        Self::Ex2 { flush: true },
        Self::Lg2 { flush: false },
        Self::Lg2 { flush: true },
        Self::Rcp { flush: false },
        Self::Rcp { flush: true },
        Self::Rsqrt { flush: false },
        Self::Rsqrt { flush: true },
        Self::Sqrt { flush: false },
        Self::Sqrt { flush: true },
        Self::Tanh,
        Self::Div,
        Self::Rcp64,
    ];

    /// The name in text: PTX's, without the type.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ex2 { flush: false } => "ex2",
            Self::Ex2 { flush: true } => "ex2.ftz",
            Self::Lg2 { flush: false } => "lg2",
            Self::Lg2 { flush: true } => "lg2.ftz",
            Self::Rcp { flush: false } => "rcp",
            Self::Rcp { flush: true } => "rcp.ftz",
            Self::Rsqrt { flush: false } => "rsqrt.approx",
            Self::Rsqrt { flush: true } => "rsqrt.ftz",
            Self::Sqrt { flush: false } => "sqrt.approx",
            Self::Sqrt { flush: true } => "sqrt.ftz",
            Self::Tanh => "tanh.approx",
            Self::Div => "div.full",
            Self::Rcp64 => "rcp.f64",
        }
    }

    /// The type of its operands and of its result.
    #[must_use]
    pub const fn dtype(self) -> DType {
        match self {
            Self::Rcp64 => DType::F64,
            _ => DType::F32,
        }
    }

    /// Number of operands.
    #[must_use]
    pub const fn operands(self) -> usize {
        match self {
            Self::Div => 2,
            _ => 1,
        }
    }
}

/// What an instruction does. Results are defined as the operations of expressions are (`docs/expressions.md`), unless stated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Op {
    /// An element of the input with this index, in its carrier.
    Input(u32),
    /// The run-time scalar with this index, in its carrier.
    Scalar(u32),
    /// A constant, in the encoding of the instruction's type.
    Constant(u64),
    /// The element's row-major index, i64.
    Place,
    /// The element's coordinate along this dimension, i64.
    Coordinate(u8),
    /// An operation of one operand. Functions are the target's own: correct to the promise of its library.
    Unary(Unary),
    /// An operation of two operands; the same for functions.
    Binary(Binary),
    /// A comparison.
    Compare(Comparison),
    /// a·b + c: one rounding for floats.
    Fma,
    /// `condition, a, b`: a if the condition is true, else b.
    Select,
    /// The operand converted to the instruction's type: as casts do.
    Convert,
    /// An integer or f64 converted to f32, rounding to odd: rounding the result to any narrower format is as if done once.
    Odd,
    /// An f32 rounded to the precision of a narrower float.
    Narrow(DType),
    /// The same bits as another type of the same size: f32 and u32, f64 and u64.
    Bits,
    /// The upper half of an f64's bits, as u32.
    High,
    /// a·2ⁿ in f64 for a normal a and result, other numbers become any; n is the integer in the low 12 bits of the second operand, those of n + 3·2⁵¹.
    Scale,
    /// The magnitude of the first operand with the sign of the second.
    CopySign,
    /// Clamped to 0 to 1; NaN becomes 0, and −0 becomes 0.
    Saturate,
    /// Whether neither operand is NaN.
    Ordered,
    /// A device's approximation.
    Primitive(Primitive),
}

impl Op {
    /// Number of operands.
    #[must_use]
    pub const fn operands(self) -> usize {
        match self {
            Self::Input(_) | Self::Scalar(_) | Self::Constant(_) | Self::Place | Self::Coordinate(_) => 0,
            Self::Unary(_) | Self::Convert | Self::Odd | Self::Narrow(_) | Self::Bits | Self::High | Self::Saturate => {
                1
            }
            Self::Binary(_) | Self::Compare(_) | Self::Scale | Self::CopySign | Self::Ordered => 2,
            Self::Fma | Self::Select => 3,
            Self::Primitive(primitive) => primitive.operands(),
        }
    }

    /// The word for it in text. Symbols of expressions have words here.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Input(_) => "input",
            Self::Scalar(_) => "scalar",
            Self::Constant(_) => "constant",
            Self::Place => "place",
            Self::Coordinate(_) => "coordinate",
            Self::Unary(Unary::Neg) => "neg",
            Self::Unary(Unary::Not) => "not",
            Self::Unary(op) => op.name(),
            Self::Binary(op) => binary_name(op),
            Self::Compare(op) => comparison_name(op),
            Self::Fma => "fma",
            Self::Select => "select",
            Self::Convert => "convert",
            Self::Odd => "odd",
            Self::Narrow(_) => "narrow",
            Self::Bits => "bits",
            Self::High => "high",
            Self::Scale => "scale",
            Self::CopySign => "copysign",
            Self::Saturate => "saturate",
            Self::Ordered => "ordered",
            Self::Primitive(primitive) => primitive.name(),
        }
    }

    /// The operation without a parameter that has this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let plain = [
            Self::Place,
            Self::Fma,
            Self::Select,
            Self::Convert,
            Self::Odd,
            Self::Bits,
            Self::High,
            Self::Scale,
            Self::CopySign,
            Self::Saturate,
            Self::Ordered,
        ];
        let unary = Unary::ALL.iter().map(|op| Self::Unary(*op));
        let binary = Binary::ALL.iter().map(|op| Self::Binary(*op));
        let compare = Comparison::ALL.iter().map(|op| Self::Compare(*op));
        let primitives = Primitive::ALL.into_iter().map(Self::Primitive);
        plain.into_iter().chain(unary).chain(binary).chain(compare).chain(primitives).find(|op| op.name() == name)
    }
}

const fn binary_name(op: Binary) -> &'static str {
    match op {
        Binary::Add => "add",
        Binary::Sub => "sub",
        Binary::Mul => "mul",
        Binary::Div => "div",
        Binary::FloorDiv => "floordiv",
        Binary::Rem => "rem",
        Binary::And => "and",
        Binary::Or => "or",
        Binary::Xor => "xor",
        Binary::Shl => "shl",
        Binary::Shr => "shr",
        named => named.name(),
    }
}

const fn comparison_name(op: Comparison) -> &'static str {
    match op {
        Comparison::Less => "lt",
        Comparison::LessEqual => "le",
        Comparison::Greater => "gt",
        Comparison::GreaterEqual => "ge",
        Comparison::Equal => "eq",
        Comparison::NotEqual => "ne",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_identify_operations() {
        for op in Unary::ALL.iter().map(|op| Op::Unary(*op)).chain(Binary::ALL.iter().map(|op| Op::Binary(*op))) {
            assert_eq!(Op::from_name(op.name()), Some(op));
        }
        for primitive in Primitive::ALL {
            assert_eq!(Op::from_name(primitive.name()), Some(Op::Primitive(primitive)));
        }
        assert_eq!(Op::from_name("input"), None);
    }
}
