//! The operations of one element: their names in text, and which types they take. What they compute is the oracle's.

use crate::dtype::{Category, DType};

/// What an operation accepts and gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Domain {
    /// Integers and floats, and the result is of the same type.
    Number,
    /// Floats; integers and `bool` are taken as f32 first.
    Float,
    /// Floats to themselves; integers are left as they are.
    Rounding,
    /// Integers alone.
    Int,
    /// Integers bit by bit, and `bool` as logic.
    Bits,
}

impl Domain {
    /// The type in which operands of `dtype` are taken, or `None` where the operation isn't meant for it.
    #[must_use]
    pub fn takes(self, dtype: DType) -> Option<DType> {
        match (self, dtype.category()) {
            (Self::Float, _) => Some(dtype.float()),
            (Self::Number | Self::Rounding, Category::Int | Category::Float)
            | (Self::Int | Self::Bits, Category::Int)
            | (Self::Bits, Category::Bool) => Some(dtype),
            _ => None,
        }
    }
}

/// Declares an enum of operations with names and domains, so that no list of them can drift from another.
macro_rules! operations {
    ($(#[$outer:meta])* $kind:ident { $($(#[$inner:meta])* $op:ident = $name:literal, $domain:ident;)* }) => {
        $(#[$outer])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $kind { $($(#[$inner])* $op,)* }

        impl $kind {
            /// Every one, in the order of their declaration.
            pub const ALL: &[Self] = &[$(Self::$op),*];

            /// Its name, or its sign, in text.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$op => $name,)* }
            }

            /// What it accepts and gives.
            #[must_use]
            pub const fn domain(self) -> Domain {
                match self { $(Self::$op => Domain::$domain,)* }
            }

            /// The one called `name`.
            #[must_use]
            pub fn named(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|op| op.name() == name)
            }
        }
    };
}

operations! {
    /// Operations of one operand. In text they are functions, but for `-` and `!`.
    Unary {
        /// −x. Integers wrap.
        Neg = "-", Number;
        /// `!x`: every bit of an integer, or the truth of a `bool`, turned.
        Not = "!", Bits;
        /// |x|. Integers wrap: the least one is its own.
        Abs = "abs", Number;
        /// −1, 0 or 1; 0 for either zero, NaN for NaN.
        Sign = "sign", Number;
        /// The greatest integer ≤ x.
        Floor = "floor", Rounding;
        /// The least integer ≥ x.
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
        /// eˣ − 1, good near 0.
        Expm1 = "expm1", Float;
        /// ln x.
        Log = "log", Float;
        /// log₂ x.
        Log2 = "log2", Float;
        /// log₁₀ x.
        Log10 = "log10", Float;
        /// ln(1 + x), good near 0.
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
        /// 1 − erf x, good for large x.
        Erfc = "erfc", Float;
        /// 1/(1 + e⁻ˣ).
        Sigmoid = "sigmoid", Float;
        /// x·sigmoid(x).
        Silu = "silu", Float;
        /// x·Φ(x), by erf (Hendrycks and Gimpel, 2016).
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
    /// Operations of two operands of one type.
    Binary {
        /// a + b. Integers wrap.
        Add = "+", Number;
        /// a − b. Integers wrap.
        Sub = "-", Number;
        /// a·b. Integers wrap.
        Mul = "*", Number;
        /// True division: integers are divided as f32.
        Div = "/", Float;
        /// ⌊a/b⌋ of the exact quotient, rounded once. Integers: 0 where b is 0, and wraps for the least integer by −1.
        FloorDiv = "//", Number;
        /// a − b·⌊a/b⌋, rounded once: of the sign of b, a zero too. Integers: a where b is 0.
        Rem = "%", Number;
        /// Bitwise and; logical for `bool`.
        And = "&", Bits;
        /// Bitwise or; logical for `bool`.
        Or = "|", Bits;
        /// Bitwise exclusive or; logical for `bool`.
        Xor = "^", Bits;
        /// Shift to the left; 0 where b is negative or no less than the width.
        Shl = "<<", Int;
        /// Shift to the right, arithmetic for signed types; only the sign is left where b is negative or no less than the width.
        Shr = ">>", Int;
        /// The lesser; NaN where either is, and −0 < +0 (IEEE 754-2019 minimum).
        Min = "min", Number;
        /// The greater; NaN where either is, and −0 < +0 (IEEE 754-2019 maximum).
        Max = "max", Number;
        /// The lesser; of a number and NaN the number (C's fmin, with −0 < +0).
        Fmin = "fmin", Number;
        /// The greater; of a number and NaN the number (C's fmax, with −0 < +0).
        Fmax = "fmax", Number;
        /// aᵇ. Integers wrap; a negative b gives 0, but ±1 for a = ±1.
        Pow = "pow", Number;
        /// The angle of the point (b, a), in radians.
        Atan2 = "atan2", Float;
    }
}

operations! {
    /// Comparisons, which give `bool`. With NaN all are false but `!=`.
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
    /// True where a ∘ b is b ∘ a.
    #[must_use]
    pub const fn is_commutative(self) -> bool {
        use Binary::{Add, And, Fmax, Fmin, Max, Min, Mul, Or, Xor};
        matches!(self, Add | Mul | And | Or | Xor | Min | Max | Fmin | Fmax)
    }

    /// True where text writes it between its operands, not as a function.
    #[must_use]
    pub const fn is_infix(self) -> bool {
        !matches!(self, Self::Min | Self::Max | Self::Fmin | Self::Fmax | Self::Pow | Self::Atan2)
    }
}

impl Unary {
    /// True where text writes it before its operand, not as a function.
    #[must_use]
    pub const fn is_prefix(self) -> bool {
        matches!(self, Self::Neg | Self::Not)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_operations_apart() {
        for (i, op) in Unary::ALL.iter().enumerate() {
            assert_eq!(Unary::named(op.name()), Some(Unary::ALL[i]));
        }
        for op in Binary::ALL {
            assert_eq!(Binary::named(op.name()), Some(*op));
            assert!(op.is_infix() || Unary::named(op.name()).is_none());
        }
    }

    #[test]
    fn domains_say_what_they_take() {
        assert_eq!(Domain::Float.takes(DType::I8), Some(DType::F32));
        assert_eq!(Domain::Float.takes(DType::F64), Some(DType::F64));
        assert_eq!(Domain::Number.takes(DType::Bool), None);
        assert_eq!(Domain::Bits.takes(DType::Bool), Some(DType::Bool));
        assert_eq!(Domain::Int.takes(DType::Bf16), None);
    }
}
