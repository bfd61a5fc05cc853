//! The operations on elements that have their own loops. Each gives the oracle's result (`plimsoll_expr::oracle`) to the last
//! bit, except for the functions of [`crate::arch::math`].

use std::marker::PhantomData;

use super::loops::{Binary, Ternary, Unary};
use super::small::{RoundToOdd, SmallFloat};
use crate::arch::math::{full, single};

/// Declares operations of one operand for lists of types.
macro_rules! one {
    ($($name:ident { $([$($t:ty)*] |$x:ident| $value:expr;)* })*) => {$(
        pub(super) struct $name<T>(PhantomData<T>);
        $($(impl Unary for $name<$t> {
            type In = $t;
            type Out = $t;
            #[inline(always)]
            fn apply($x: $t) -> $t {
                $value
            }
        })*)*
    )*};
}

/// Declares operations of two operands.
macro_rules! two {
    ($($name:ident { $([$($t:ty)*] |$a:ident, $b:ident| $value:expr;)* })*) => {$(
        pub(super) struct $name<T>(PhantomData<T>);
        $($(binary!($name<$t> |$a, $b| $value);)*)*
    )*};
}

/// Implements an operation of two operands for a type.
macro_rules! binary {
    ($name:ident<$t:ty> |$a:ident, $b:ident| $value:expr) => {
        impl Binary for $name<$t> {
            type In = $t;
            type Out = $t;
            #[inline(always)]
            fn apply($a: $t, $b: $t) -> $t {
                $value
            }
        }
    };
}

one! {
    Neg { [f32 f64] |x| -x; [i8 i16 i32 i64 u8 u16 u32 u64] |x| x.wrapping_neg(); }
    Abs { [f32 f64] |x| x.abs(); [i8 i16 i32 i64] |x| x.wrapping_abs(); [u8 u16 u32 u64] |x| x; }
    Not { [i8 i16 i32 i64 u8 u16 u32 u64] |x| !x; }
    Sign {
        [f32] |x| if x.is_nan() { x } else { f32::from(x > 0.0) - f32::from(x < 0.0) };
        [f64] |x| if x.is_nan() { x } else { f64::from(x > 0.0) - f64::from(x < 0.0) };
        [i8 i16 i32 i64] |x| x.signum();
        [u8 u16 u32 u64] |x| x.min(1);
    }
    Floor { [f32 f64] |x| x.floor(); }
    Ceil { [f32 f64] |x| x.ceil(); }
    Round { [f32 f64] |x| x.round_ties_even(); }
    Trunc { [f32 f64] |x| x.trunc(); }
    Sqrt { [f32 f64] |x| x.sqrt(); }
    Recip { [f32 f64] |x| 1.0 / x; }
    Relu {
        [f32 f64] |x| if x > 0.0 || x.is_nan() { x } else { 0.0 };
        [i8 i16 i32 i64] |x| x.max(0);
        [u8 u16 u32 u64] |x| x;
    }
    Rsqrt { [f32] |x| single::rsqrt(x); [f64] |x| 1.0 / x.sqrt(); }
    Exp { [f64] |x| full::exp(x); }
    Exp2 { [f32] |x| single::exp2(x); [f64] |x| full::exp2(x); }
    Expm1 { [f32] |x| single::expm1(x); [f64] |x| full::expm1(x); }
    Log { [f32] |x| single::log(x); [f64] |x| full::log(x); }
    Log2 { [f32] |x| single::log2(x); [f64] |x| full::log2(x); }
    Log10 { [f32] |x| single::log10(x); [f64] |x| full::log10(x); }
    Log1p { [f32] |x| single::log1p(x); [f64] |x| full::log1p(x); }
    Tanh { [f32] |x| single::tanh(x); [f64] |x| full::tanh(x); }
    Sinh { [f32] |x| single::sinh(x); [f64] |x| full::sinh(x); }
    Cosh { [f32] |x| single::cosh(x); [f64] |x| full::cosh(x); }
    Asinh { [f32] |x| single::asinh(x); [f64] |x| full::asinh(x); }
    Acosh { [f32] |x| single::acosh(x); [f64] |x| full::acosh(x); }
    Atanh { [f32] |x| single::atanh(x); [f64] |x| full::atanh(x); }
    Atan { [f32] |x| single::atan(x); [f64] |x| full::atan(x); }
    Erf { [f32] |x| single::erf(x); [f64] |x| full::erf(x); }
    Erfc { [f32] |x| single::erfc(x); [f64] |x| full::erfc(x); }
    Sigmoid { [f32] |x| single::sigmoid(x); [f64] |x| full::sigmoid(x); }
    Silu { [f32] |x| single::silu(x); [f64] |x| full::silu(x); }
    Gelu { [f32] |x| single::gelu(x); [f64] |x| full::gelu(x); }
    GeluTanh { [f32] |x| single::gelu_tanh(x); [f64] |x| full::gelu_tanh(x); }
    Softplus { [f32] |x| single::softplus(x); [f64] |x| full::softplus(x); }
    Mish { [f32] |x| single::mish(x); [f64] |x| full::mish(x); }
}

impl Unary for Exp<f32> {
    type In = f32;
    type Out = f32;
    const IS_RARE_VECTORED: bool = true;
    #[inline(always)]
    fn apply(x: f32) -> f32 {
        single::near_exp(x)
    }
    #[inline(always)]
    fn is_rare(x: f32) -> bool {
        let is_near = x.abs() <= single::EXP_RANGE;
        // Also of NaN.
        !is_near
    }
    #[inline(always)]
    fn apply_rare(x: f32) -> f32 {
        single::exp(x)
    }
}

/// Sine and cosine, with another argument reduction beyond a bound.
macro_rules! circular {
    ($($name:ident { $([$t:ty] $near:path, $far:path, $range:path;)* })*) => {$(
        pub(super) struct $name<T>(PhantomData<T>);
        $(impl Unary for $name<$t> {
            type In = $t;
            type Out = $t;
            #[inline(always)]
            fn apply(x: $t) -> $t {
                $near(x)
            }
            #[inline(always)]
            fn is_rare(x: $t) -> bool {
                x.abs() > $range
            }
            fn apply_rare(x: $t) -> $t {
                $far(x)
            }
        })*
    )*};
}
circular! {
    Sin {
        [f32] single::sin, single::far_sin, single::CIRCULAR_RANGE;
        [f64] full::sin, libm::sin, full::CIRCULAR_RANGE;
    }
    Cos {
        [f32] single::cos, single::far_cos, single::CIRCULAR_RANGE;
        [f64] full::cos, libm::cos, full::CIRCULAR_RANGE;
    }
}

/// The negation of a `bool`.
pub(super) struct NotBool;

impl Unary for NotBool {
    type In = u8;
    type Out = u8;
    #[inline(always)]
    fn apply(x: u8) -> u8 {
        x ^ 1
    }
}

two! {
    Add { [f32 f64] |a, b| a + b; [i8 i16 i32 i64 u8 u16 u32 u64] |a, b| a.wrapping_add(b); }
    Sub { [f32 f64] |a, b| a - b; [i8 i16 i32 i64 u8 u16 u32 u64] |a, b| a.wrapping_sub(b); }
    Mul { [f32 f64] |a, b| a * b; [i8 i16 i32 i64 u8 u16 u32 u64] |a, b| a.wrapping_mul(b); }
    Div { [f32 f64] |a, b| a / b; }
    And { [i8 i16 i32 i64 u8 u16 u32 u64] |a, b| a & b; }
    Or { [i8 i16 i32 i64 u8 u16 u32 u64] |a, b| a | b; }
    Xor { [i8 i16 i32 i64 u8 u16 u32 u64] |a, b| a ^ b; }
    Min { [i8 i16 i32 i64 u8 u16 u32 u64] |a, b| a.min(b); }
    Max { [i8 i16 i32 i64 u8 u16 u32 u64] |a, b| a.max(b); }
    Fmin { [f32 f64] |a, b| if a.is_nan() { b } else if b.is_nan() { a } else { lesser(a, b) }; }
    Fmax { [f32 f64] |a, b| if a.is_nan() { b } else if b.is_nan() { a } else { greater(a, b) }; }
    Pow {
        [f32] |a, b| single::pow(a, b);
        [f64] |a, b| full::pow(a, b);
    }
    Atan2 { [f32] |a, b| single::atan2(a, b); [f64] |a, b| full::atan2(a, b); }
}

/// Minimum and maximum of equal floats.
trait Ordered: Copy + PartialOrd + std::ops::Add<Output = Self> {
    /// The negative one of two equal numbers, which differ at most in sign.
    fn negative(self, other: Self) -> Self;
    /// The positive one of two equal numbers.
    fn positive(self, other: Self) -> Self;
}

/// The lesser of two numbers; NaN if either is NaN.
#[inline(always)]
fn lesser<T: Ordered>(a: T, b: T) -> T {
    // The sum of unordered numbers is NaN.
    let unordered = if a == b { a.negative(b) } else { a + b };
    let not_less = if b < a { b } else { unordered };
    if a < b { a } else { not_less }
}

/// The greater of two numbers; NaN if either is NaN.
#[inline(always)]
fn greater<T: Ordered>(a: T, b: T) -> T {
    let unordered = if a == b { a.positive(b) } else { a + b };
    let not_greater = if b > a { b } else { unordered };
    if a > b { a } else { not_greater }
}

/// Operations that need the bits of floats or the width of integers.
macro_rules! by_width {
    (floats: $($float:ty)*; integers: $($int:ty)*) => {
        $(
            impl Ordered for $float {
                #[inline(always)]
                fn negative(self, other: Self) -> Self {
                    Self::from_bits(self.to_bits() | other.to_bits())
                }
                #[inline(always)]
                fn positive(self, other: Self) -> Self {
                    Self::from_bits(self.to_bits() & other.to_bits())
                }
            }
            binary!(Min<$float> |a, b| lesser(a, b));
            binary!(Max<$float> |a, b| greater(a, b));
        )*
        $(
            // A negative b becomes a huge u64.
            binary!(Shl<$int> |a, b| if (b as u64) < u64::from(<$int>::BITS) { a.wrapping_shl(b as u32) } else { 0 });
            binary!(Shr<$int> |a, b| {
                // The result for b ≥ the width: all sign bits for signed types, 0 for unsigned ones.
                let out = (a >> (<$int>::BITS - 1)) & <$int>::MIN.wrapping_shr(<$int>::BITS - 1);
                if (b as u64) < u64::from(<$int>::BITS) { a.wrapping_shr(b as u32) } else { out }
            });
        )*
    };
}

/// Left shift.
pub(super) struct Shl<T>(PhantomData<T>);
/// Right shift.
pub(super) struct Shr<T>(PhantomData<T>);
by_width!(floats: f32 f64; integers: i8 i16 i32 i64 u8 u16 u32 u64);

/// The floored quotient; [`super::quotient`] has it for floats, [`super::integer`] for integers.
pub(super) struct FloorDiv<T>(PhantomData<T>);
/// Its remainder.
pub(super) struct Rem<T>(PhantomData<T>);

/// Declares comparisons, for any ordered type.
macro_rules! comparisons {
    ($($name:ident $sign:tt;)*) => {$(
        pub(super) struct $name<T>(PhantomData<T>);
        impl<T: Copy + PartialOrd> Binary for $name<T> {
            type In = T;
            type Out = u8;
            #[inline(always)]
            fn apply(a: T, b: T) -> u8 {
                u8::from(a $sign b)
            }
        }
    )*};
}
comparisons! {
    Less <;
    LessEqual <=;
    Equal ==;
    NotEqual !=;
}

/// Declares operations of three floats.
macro_rules! three {
    ($($name:ident |$a:ident, $b:ident, $c:ident| $value:expr;)*) => {
        $(pub(super) struct $name<T>(PhantomData<T>);)*
        three!(impl f32 $($name |$a, $b, $c| $value;)*);
        three!(impl f64 $($name |$a, $b, $c| $value;)*);
    };
    (impl $t:ident $($name:ident |$a:ident, $b:ident, $c:ident| $value:expr;)*) => {$(
        impl Ternary for $name<$t> {
            type First = $t;
            type Rest = $t;
            #[inline(always)]
            fn apply($a: $t, $b: $t, $c: $t) -> $t {
                $value
            }
        }
    )*};
}
three! {
    Fma |a, b, c| a.mul_add(b, c);
    // Rounded twice, like the two operations that it replaces.
    MulAdd |a, b, c| a * b + c;
    MulSub |a, b, c| a * b - c;
    SubMul |a, b, c| c - a * b;
}

macro_rules! integer_fma {
    ($($t:ty)*) => {$(
        impl Ternary for Fma<$t> {
            type First = $t;
            type Rest = $t;
            #[inline(always)]
            fn apply(a: $t, b: $t, c: $t) -> $t {
                a.wrapping_mul(b).wrapping_add(c)
            }
        }
    )*};
}
integer_fma!(i8 i16 i32 i64 u8 u16 u32 u64);

/// The second operand if the first is true, else the third.
pub(super) struct Select<T>(PhantomData<T>);

impl<T: Copy> Ternary for Select<T> {
    type First = u8;
    type Rest = T;
    #[inline(always)]
    fn apply(condition: u8, a: T, b: T) -> T {
        if condition != 0 { a } else { b }
    }
}

/// A copy of the bits.
pub(super) struct Same<T>(PhantomData<T>);

impl<T: Copy> Unary for Same<T> {
    type In = T;
    type Out = T;
    #[inline(always)]
    fn apply(x: T) -> T {
        x
    }
}

/// 0 for zero, 1 for everything else.
pub(super) struct ToBool<T>(PhantomData<T>);

impl<T: Copy + PartialEq + Default> Unary for ToBool<T> {
    type In = T;
    type Out = u8;
    #[inline(always)]
    fn apply(x: T) -> u8 {
        u8::from(x != T::default())
    }
}

/// Conversion from one carrier to another, like Rust's `as`: rounded, truncated and saturated, or wrapped.
pub(super) trait As<U>: Copy {
    /// Converts the value.
    fn convert(self) -> U;
}

macro_rules! conversions {
    (all $($from:ty)* ; $to:tt) => { $(conversions!(one $from; $to);)* };
    (one $from:ty; [$($to:ty)*]) => {$(
        impl As<$to> for $from {
            #[inline(always)]
            fn convert(self) -> $to {
                self as $to
            }
        }
    )*};
}
conversions!(all f32 f64 i8 i16 i32 i64 u8 u16 u32 u64; [f32 f64 i8 i16 i32 i64 u8 u16 u32 u64]);

/// A conversion between carriers.
pub(super) struct Cast<T, U>(PhantomData<(T, U)>);

impl<T: As<U>, U: Copy> Unary for Cast<T, U> {
    type In = T;
    type Out = U;
    #[inline(always)]
    fn apply(x: T) -> U {
        x.convert()
    }
}

/// A number rounded to a small float, whose carrier is f32.
pub(super) struct Rounded<T, S>(PhantomData<(T, S)>);

impl<T: RoundToOdd, S: SmallFloat> Unary for Rounded<T, S> {
    type In = T;
    type Out = f32;
    #[inline(always)]
    fn apply(x: T) -> f32 {
        S::unpack(S::pack(x.round_to_odd()))
    }
}

/// A small float in memory, converted to f32.
pub(super) struct Unpack<S>(PhantomData<S>);

impl<S: SmallFloat> Unary for Unpack<S> {
    type In = S::Bits;
    type Out = f32;
    #[inline(always)]
    fn apply(bits: S::Bits) -> f32 {
        S::unpack(bits)
    }
}

/// An f32 rounded to a small float in memory.
pub(super) struct Pack<S>(PhantomData<S>);

impl<S: SmallFloat> Unary for Pack<S> {
    type In = f32;
    type Out = S::Bits;
    #[inline(always)]
    fn apply(x: f32) -> S::Bits {
        S::pack(x)
    }
}
