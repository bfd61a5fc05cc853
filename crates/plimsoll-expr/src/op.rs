//! Elementwise operations: their names in text and the types they accept. The oracle defines their results.

use crate::dtype::{Category, DType};

/// The types that an operation accepts and returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Domain {
    /// Integers and floats; the result has the same type.
    Number,
    /// Floats; integers and `bool` are converted to f32 first.
    Float,
    /// Floats, with a result of the same type; integers are unchanged.
    Rounding,
    /// Integers only.
    Int,
    /// Integers bitwise, and `bool` logically.
    Bits,
}

impl Domain {
    /// The type to which operands of `dtype` are converted, or `None` if the operation doesn't support `dtype`.
    #[must_use]
    pub fn operand_type(self, dtype: DType) -> Option<DType> {
        match (self, dtype.category()) {
            (Self::Float, _) => Some(dtype.float()),
            (Self::Number | Self::Rounding, Category::Int | Category::Float)
            | (Self::Int | Self::Bits, Category::Int)
            | (Self::Bits, Category::Bool) => Some(dtype),
            _ => None,
        }
    }
}

/// Declares an enum of operations with names and domains, so that the lists always agree.
macro_rules! operations {
    ($(#[$outer:meta])* $kind:ident { $($(#[$inner:meta])* $op:ident = $name:literal, $domain:ident;)* }) => {
        $(#[$outer])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $kind { $($(#[$inner])* $op,)* }

        impl $kind {
            /// All operations, in the order of their declaration.
            pub const ALL: &[Self] = &[$(Self::$op),*];

            /// The name, or the symbol, in text.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$op => $name,)* }
            }

            /// The types that it accepts and returns.
            #[must_use]
            pub const fn domain(self) -> Domain {
                match self { $(Self::$op => Domain::$domain,)* }
            }

            /// The operation with this name.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|op| op.name() == name)
            }
        }
    };
}

operations! {
    /// Operations of one operand. In text they are functions, except `-` and `!`.
    Unary {
        /// −x. Integers wrap.
        Neg = "-", Number;
        /// `!x`: every bit of an integer, or a `bool`, inverted.
        Not = "!", Bits;
        /// |x|. Integers wrap: the smallest value stays unchanged.
        Abs = "abs", Number;
        /// −1, 0 or 1; +0 for either zero, NaN for NaN.
        Sign = "sign", Number;
        /// The largest integer ≤ x.
        Floor = "floor", Rounding;
        /// The smallest integer ≥ x.
        Ceil = "ceil", Rounding;
        /// The nearest integer, ties to even.
        Round = "round", Rounding;
        /// The integer part.
        Trunc = "trunc", Rounding;
        /// √x, NaN below −0.
        Sqrt = "sqrt", Float;
        /// 1/√x.
        Rsqrt = "rsqrt", Float;
        /// 1/x.
        Recip = "recip", Float;
        /// eˣ.
        Exp = "exp", Float;
        /// 2ˣ.
        Exp2 = "exp2", Float;
        /// eˣ − 1, accurate near 0.
        Expm1 = "expm1", Float;
        /// ln x.
        Log = "log", Float;
        /// log₂ x.
        Log2 = "log2", Float;
        /// log₁₀ x.
        Log10 = "log10", Float;
        /// ln(1 + x), accurate near 0.
        Log1p = "log1p", Float;
        /// sin x, x in radians.
        Sin = "sin", Float;
        /// cos x, x in radians.
        Cos = "cos", Float;
        /// tanh x.
        Tanh = "tanh", Float;
        /// sinh x.
        Sinh = "sinh", Float;
        /// cosh x.
        Cosh = "cosh", Float;
        /// arsinh x.
        Asinh = "asinh", Float;
        /// arcosh x.
        Acosh = "acosh", Float;
        /// artanh x.
        Atanh = "atanh", Float;
        /// arctan x.
        Atan = "atan", Float;
        /// The error function.
        Erf = "erf", Float;
        /// 1 − erf x, accurate for large x.
        Erfc = "erfc", Float;
        /// 1/(1 + e⁻ˣ).
        Sigmoid = "sigmoid", Float;
        /// x·sigmoid(x).
        Silu = "silu", Float;
        /// x·Φ(x), using erf (Hendrycks and Gimpel, 2016).
        Gelu = "gelu", Float;
        /// The approximation of `gelu` by tanh: x/2·(1 + tanh(√(2/π)·(x + 0.044715 x³))).
        GeluTanh = "gelu_tanh", Float;
        /// max(x, 0): NaN for NaN, +0 for −0.
        Relu = "relu", Number;
        /// ln(1 + eˣ).
        Softplus = "softplus", Float;
        /// x·tanh(softplus(x)).
        Mish = "mish", Float;
    }
}

operations! {
    /// Operations of two operands of the same type.
    Binary {
        /// a + b. Integers wrap.
        Add = "+", Number;
        /// a − b. Integers wrap.
        Sub = "-", Number;
        /// a·b. Integers wrap.
        Mul = "*", Number;
        /// True division: integers are divided as f32.
        Div = "/", Float;
        /// ⌊a/b⌋ of the exact quotient, rounded once. Integers: 0 if b is 0; the smallest integer divided by −1 wraps.
        FloorDiv = "//", Number;
        /// a − b·⌊a/b⌋, rounded once, with the sign of b, also for a zero. Integers: a if b is 0.
        Rem = "%", Number;
        /// Bitwise and; logical for `bool`.
        And = "&", Bits;
        /// Bitwise or; logical for `bool`.
        Or = "|", Bits;
        /// Bitwise exclusive or; logical for `bool`.
        Xor = "^", Bits;
        /// Shift left; 0 if b is negative or at least the width.
        Shl = "<<", Int;
        /// Shift right, arithmetic for signed types; 0 or −1 by the sign of a if b is negative or at least the width.
        Shr = ">>", Int;
        /// The smaller; NaN if either is NaN, and −0 < +0 (IEEE 754-2019 minimum).
        Min = "min", Number;
        /// The larger; NaN if either is NaN, and −0 < +0 (IEEE 754-2019 maximum).
        Max = "max", Number;
        /// The smaller; if one is NaN, the other (C's fmin, with −0 < +0).
        Fmin = "fmin", Number;
        /// The larger; if one is NaN, the other (C's fmax, with −0 < +0).
        Fmax = "fmax", Number;
        /// aᵇ. Integers wrap; a negative b gives 0, except ±1 for a = ±1.
        Pow = "pow", Number;
        /// The angle of the point (b, a), in radians.
        Atan2 = "atan2", Float;
    }
}

operations! {
    /// Comparisons, which return `bool`. With NaN all are false except `!=`.
    Comparison {
        /// a < b
        Less = "<", Number;
        /// a ≤ b
        LessEqual = "<=", Number;
        /// a > b
        Greater = ">", Number;
        /// a ≥ b
        GreaterEqual = ">=", Number;
        /// a = b
        Equal = "==", Number;
        /// a ≠ b
        NotEqual = "!=", Number;
    }
}

impl Binary {
    /// Whether a ∘ b equals b ∘ a.
    #[must_use]
    pub const fn is_commutative(self) -> bool {
        use Binary::{Add, And, Fmax, Fmin, Max, Min, Mul, Or, Xor};
        matches!(self, Add | Mul | And | Or | Xor | Min | Max | Fmin | Fmax)
    }

    /// Whether text writes it between its operands, not as a function.
    #[must_use]
    pub const fn is_infix(self) -> bool {
        !matches!(self, Self::Min | Self::Max | Self::Fmin | Self::Fmax | Self::Pow | Self::Atan2)
    }
}

impl Unary {
    /// Whether text writes it before its operand, not as a function.
    #[must_use]
    pub const fn is_prefix(self) -> bool {
        matches!(self, Self::Neg | Self::Not)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_identify_operations() {
        for (i, op) in Unary::ALL.iter().enumerate() {
            assert_eq!(Unary::from_name(op.name()), Some(Unary::ALL[i]));
        }
        for op in Binary::ALL {
            assert_eq!(Binary::from_name(op.name()), Some(*op));
            assert!(op.is_infix() || Unary::from_name(op.name()).is_none());
        }
    }

    #[test]
    fn domains_give_the_operand_type() {
        assert_eq!(Domain::Float.operand_type(DType::I8), Some(DType::F32));
        assert_eq!(Domain::Float.operand_type(DType::F64), Some(DType::F64));
        assert_eq!(Domain::Number.operand_type(DType::Bool), None);
        assert_eq!(Domain::Bits.operand_type(DType::Bool), Some(DType::Bool));
        assert_eq!(Domain::Int.operand_type(DType::Bf16), None);
    }
}
