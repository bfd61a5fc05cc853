//! The operations on elements that have loops of their own, each as the oracle defines it (`plimsoll_expr::oracle`), to the
//! last bit but for the functions of [`crate::arch::math`].

use std::marker::PhantomData;

use super::loops::{One, Three, Two};
use super::small::{Odd, Small};
use crate::arch::math::single;

/// Declares operations of one operand for lists of types.
macro_rules! one {
    ($($name:ident { $([$($t:ty)*] |$x:ident| $value:expr;)* })*) => {$(
        pub(super) struct $name<T>(PhantomData<T>);
        $($(impl One for $name<$t> {
            type In = $t;
            type Out = $t;
            #[inline(always)]
            fn at($x: $t) -> $t {
                $value
            }
        })*)*
    )*};
}

/// Declares operations of two operands.
macro_rules! two {
    ($($name:ident { $([$($t:ty)*] |$a:ident, $b:ident| $value:expr;)* })*) => {$(
        pub(super) struct $name<T>(PhantomData<T>);
        $($(impl Two for $name<$t> {
            type In = $t;
            type Out = $t;
            #[inline(always)]
            fn at($a: $t, $b: $t) -> $t {
                $value
            }
        })*)*
    )*};
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
    Exp { [f32] |x| single::exp(x); }
    Exp2 { [f32] |x| single::exp2(x); }
    Expm1 { [f32] |x| single::expm1(x); }
    Log { [f32] |x| single::log(x); }
    Log2 { [f32] |x| single::log2(x); }
    Log10 { [f32] |x| single::log10(x); }
    Log1p { [f32] |x| single::log1p(x); }
    Tanh { [f32] |x| single::tanh(x); }
    Sinh { [f32] |x| single::sinh(x); }
    Cosh { [f32] |x| single::cosh(x); }
    Asinh { [f32] |x| single::asinh(x); }
    Acosh { [f32] |x| single::acosh(x); }
    Atanh { [f32] |x| single::atanh(x); }
    Atan { [f32] |x| single::atan(x); }
    Erf { [f32] |x| single::erf(x); }
    Erfc { [f32] |x| single::erfc(x); }
    Sigmoid { [f32] |x| single::sigmoid(x); }
    Silu { [f32] |x| single::silu(x); }
    Gelu { [f32] |x| single::gelu(x); }
    GeluTanh { [f32] |x| single::gelu_tanh(x); }
    Softplus { [f32] |x| single::softplus(x); }
    Mish { [f32] |x| single::mish(x); }
}

/// Sine and cosine: beyond a bound, arguments are reduced elsewhere.
macro_rules! circular {
    ($($name:ident, $near:ident, $far:ident;)*) => {$(
        pub(super) struct $name<T>(PhantomData<T>);
        impl One for $name<f32> {
            type In = f32;
            type Out = f32;
            #[inline(always)]
            fn at(x: f32) -> f32 {
                single::$near(x)
            }
            #[inline(always)]
            fn is_rare(x: f32) -> bool {
                x.abs() > single::CIRCULAR_RANGE
            }
            fn rarely(x: f32) -> f32 {
                single::$far(x)
            }
        }
    )*};
}
circular! {
    Sin, sin, far_sin;
    Cos, cos, far_cos;
}

/// The truth of a `bool`, turned.
pub(super) struct NotBool;

impl One for NotBool {
    type In = u8;
    type Out = u8;
    #[inline(always)]
    fn at(x: u8) -> u8 {
        x ^ 1
    }
}

two! {
    Add { [f32 f64] |a, b| a + b; [i8 i16 i32 i64 u8 u16 u32 u64] |a, b| a.wrapping_add(b); }
    Sub { [f32 f64] |a, b| a - b; [i8 i16 i32 i64 u8 u16 u32 u64] |a, b| a.wrapping_sub(b); }
    Mul { [f32 f64] |a, b| a * b; [i8 i16 i32 i64 u8 u16 u32 u64] |a, b| a.wrapping_mul(b); }
    Div { [f32 f64] |a, b| a / b; }
    FloorDiv {
        [i8 i16 i32 i64] |a, b| if b == 0 {
            0
        } else {
            let below = a.wrapping_rem(b) != 0 && (a < 0) != (b < 0);
            if below { a.wrapping_div(b) - 1 } else { a.wrapping_div(b) }
        };
        [u8 u16 u32 u64] |a, b| a.checked_div(b).unwrap_or(0);
    }
    Rem {
        [i8 i16 i32 i64] |a, b| if b == 0 {
            a
        } else {
            let rem = a.wrapping_rem(b);
            if rem != 0 && (rem < 0) != (b < 0) { rem + b } else { rem }
        };
        [u8 u16 u32 u64] |a, b| a.checked_rem(b).unwrap_or(a);
    }
    And { [i8 i16 i32 i64 u8 u16 u32 u64] |a, b| a & b; }
    Or { [i8 i16 i32 i64 u8 u16 u32 u64] |a, b| a | b; }
    Xor { [i8 i16 i32 i64 u8 u16 u32 u64] |a, b| a ^ b; }
    Min { [i8 i16 i32 i64 u8 u16 u32 u64] |a, b| a.min(b); }
    Max { [i8 i16 i32 i64 u8 u16 u32 u64] |a, b| a.max(b); }
    Fmin { [f32 f64] |a, b| if a.is_nan() { b } else if b.is_nan() { a } else { lesser(a, b) }; }
    Fmax { [f32 f64] |a, b| if a.is_nan() { b } else if b.is_nan() { a } else { greater(a, b) }; }
    Pow { [f32] |a, b| single::pow(a, b); }
    Atan2 { [f32] |a, b| single::atan2(a, b); }
}

/// What minimum and maximum need of a float.
trait Ordered: Copy + PartialOrd + std::ops::Add<Output = Self> {
    /// Of equal numbers, which differ in their sign at most, the negative one.
    fn negative(self, other: Self) -> Self;
    /// The positive one.
    fn positive(self, other: Self) -> Self;
}

/// The lesser, NaN where either is.
#[inline(always)]
fn lesser<T: Ordered>(a: T, b: T) -> T {
    // The sum of whatever isn't ordered is NaN.
    let unordered = if a == b { a.negative(b) } else { a + b };
    let not_less = if b < a { b } else { unordered };
    if a < b { a } else { not_less }
}

/// The greater, NaN where either is.
#[inline(always)]
fn greater<T: Ordered>(a: T, b: T) -> T {
    let unordered = if a == b { a.positive(b) } else { a + b };
    let not_greater = if b > a { b } else { unordered };
    if a > b { a } else { not_greater }
}

/// Operations of floats that need their bits, and those of integers that need their width.
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
            impl Two for Min<$float> {
                type In = $float;
                type Out = $float;
                #[inline(always)]
                fn at(a: $float, b: $float) -> $float {
                    lesser(a, b)
                }
            }
            impl Two for Max<$float> {
                type In = $float;
                type Out = $float;
                #[inline(always)]
                fn at(a: $float, b: $float) -> $float {
                    greater(a, b)
                }
            }
        )*
        $(
            impl Two for Shl<$int> {
                type In = $int;
                type Out = $int;
                #[inline(always)]
                fn at(a: $int, b: $int) -> $int {
                    // A negative b is a huge one.
                    if (b as u64) < u64::from(<$int>::BITS) { a.wrapping_shl(b as u32) } else { 0 }
                }
            }
            impl Two for Shr<$int> {
                type In = $int;
                type Out = $int;
                #[inline(always)]
                fn at(a: $int, b: $int) -> $int {
                    // The sign by two shifts, as no shift goes by the whole width.
                    let out = (a >> (<$int>::BITS - 1)) & <$int>::MIN.wrapping_shr(<$int>::BITS - 1);
                    if (b as u64) < u64::from(<$int>::BITS) { a.wrapping_shr(b as u32) } else { out }
                }
            }
        )*
    };
}

/// Shift to the left.
pub(super) struct Shl<T>(PhantomData<T>);
/// Shift to the right.
pub(super) struct Shr<T>(PhantomData<T>);
by_width!(floats: f32 f64; integers: i8 i16 i32 i64 u8 u16 u32 u64);

/// Declares comparisons, which are of any ordered type.
macro_rules! comparisons {
    ($($name:ident $sign:tt;)*) => {$(
        pub(super) struct $name<T>(PhantomData<T>);
        impl<T: Copy + PartialOrd> Two for $name<T> {
            type In = T;
            type Out = u8;
            #[inline(always)]
            fn at(a: T, b: T) -> u8 {
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
        impl Three for $name<$t> {
            type First = $t;
            type Rest = $t;
            #[inline(always)]
            fn at($a: $t, $b: $t, $c: $t) -> $t {
                $value
            }
        }
    )*};
}
three! {
    Fma |a, b, c| a.mul_add(b, c);
    // Rounded twice, as the two operations that it stands for.
    MulAdd |a, b, c| a * b + c;
    MulSub |a, b, c| a * b - c;
    SubMul |a, b, c| c - a * b;
}

/// The second operand where the first is true, else the third.
pub(super) struct Select<T>(PhantomData<T>);

impl<T: Copy> Three for Select<T> {
    type First = u8;
    type Rest = T;
    #[inline(always)]
    fn at(condition: u8, a: T, b: T) -> T {
        if condition != 0 { a } else { b }
    }
}

/// The same bits.
pub(super) struct Same<T>(PhantomData<T>);

impl<T: Copy> One for Same<T> {
    type In = T;
    type Out = T;
    #[inline(always)]
    fn at(x: T) -> T {
        x
    }
}

/// 1 for anything but zero, 0 for zero.
pub(super) struct Truth<T>(PhantomData<T>);

impl<T: Copy + PartialEq + Default> One for Truth<T> {
    type In = T;
    type Out = u8;
    #[inline(always)]
    fn at(x: T) -> u8 {
        u8::from(x != T::default())
    }
}

/// From one carrier to another, as the language's `as` has it: rounded, truncated and saturated, or wrapped.
pub(super) trait As<U>: Copy {
    /// Converted.
    fn converted(self) -> U;
}

macro_rules! conversions {
    (all $($from:ty)* ; $to:tt) => { $(conversions!(one $from; $to);)* };
    (one $from:ty; [$($to:ty)*]) => {$(
        impl As<$to> for $from {
            #[inline(always)]
            fn converted(self) -> $to {
                self as $to
            }
        }
    )*};
}
conversions!(all f32 f64 i8 i16 i32 i64 u8 u16 u32 u64; [f32 f64 i8 i16 i32 i64 u8 u16 u32 u64]);

/// A conversion between carriers.
pub(super) struct Cast<T, U>(PhantomData<(T, U)>);

impl<T: As<U>, U: Copy> One for Cast<T, U> {
    type In = T;
    type Out = U;
    #[inline(always)]
    fn at(x: T) -> U {
        x.converted()
    }
}

/// A number rounded to a small float, carried in f32.
pub(super) struct Rounded<T, S>(PhantomData<(T, S)>);

impl<T: Odd, S: Small> One for Rounded<T, S> {
    type In = T;
    type Out = f32;
    #[inline(always)]
    fn at(x: T) -> f32 {
        S::unpack(S::pack(x.odd()))
    }
}

/// A small float from memory.
pub(super) struct Unpack<S>(PhantomData<S>);

impl<S: Small> One for Unpack<S> {
    type In = S::Bits;
    type Out = f32;
    #[inline(always)]
    fn at(bits: S::Bits) -> f32 {
        S::unpack(bits)
    }
}

/// A small float to memory, rounded.
pub(super) struct Pack<S>(PhantomData<S>);

impl<S: Small> One for Pack<S> {
    type In = f32;
    type Out = S::Bits;
    #[inline(always)]
    fn at(x: f32) -> S::Bits {
        S::pack(x)
    }
}
