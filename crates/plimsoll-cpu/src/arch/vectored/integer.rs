//! Quotients, remainders and powers of integers without a branch, so that the loops over them become vector code. Powers of 64 bits are in
//! [`super::power`].

use super::elements::{FloorDiv, Pow, Rem};
use super::loops::Binary;

/// Quotients of integers by a division of floats, which vectors have. The quotient that is nearest to the rounded one is
/// nearest to the exact one: that lies 1/(2b) or more from half-way, unless it is half-way, and then it isn't rounded.
/// `$wide` holds every element and every remainder.
macro_rules! by_float {
    ($($t:ty: $wide:ty, $float:ty, nearest by $nearest:literal;)*) => {$(
        impl FloorDiv<$t> {
            /// The quotient and the remainder for b ≠ 0.
            #[inline(always)]
            fn divide(a: $t, b: $t) -> ($t, $wide) {
                // The integer is left in the low bits of the sum, modulo the width.
                let quotient = (a as $float / b as $float + $nearest).to_bits() as $t;
                let left = (a as $wide).wrapping_sub((quotient as $wide).wrapping_mul(b as $wide));
                // As wide as the elements, the difference of unsigned ones may be negative too: it is at most b/2.
                #[allow(unused_comparisons, reason = "the type may be unsigned")]
                let below = (left != 0) & ((left < 0) != (b < 0));
                if below { (quotient.wrapping_sub(1), left.wrapping_add(b as $wide)) } else { (quotient, left) }
            }
        }
        floored!($t);
    )*};
}

/// Quotients of integers of 64 bits, one by one: no vector divides them.
macro_rules! by_integer {
    ($($t:ty)*) => {$(
        impl FloorDiv<$t> {
            /// The quotient and the remainder for b ≠ 0.
            #[inline(always)]
            fn divide(a: $t, b: $t) -> ($t, $t) {
                let divisor = if b == 0 { 1 } else { b };
                let quotient = a.wrapping_div(divisor);
                let left = a.wrapping_sub(quotient.wrapping_mul(divisor));
                #[allow(unused_comparisons, reason = "the type may be unsigned")]
                let below = (left != 0) & ((left < 0) != (b < 0));
                if below { (quotient.wrapping_sub(1), left.wrapping_add(b)) } else { (quotient, left) }
            }
        }
        floored!($t);
    )*};
}

/// The two operations: a quotient by 0 is 0, and its remainder is the dividend.
macro_rules! floored {
    ($t:ty) => {
        impl Binary for FloorDiv<$t> {
            type In = $t;
            type Out = $t;
            #[inline(always)]
            fn apply(a: $t, b: $t) -> $t {
                let (quotient, _) = Self::divide(a, b);
                if b == 0 { 0 } else { quotient }
            }
        }

        impl Binary for Rem<$t> {
            type In = $t;
            type Out = $t;
            #[inline(always)]
            fn apply(a: $t, b: $t) -> $t {
                let (_, left) = FloorDiv::<$t>::divide(a, b);
                if b == 0 { a } else { left as $t }
            }
        }
    };
}

by_float! {
    i8: i32, f32, nearest by 12_582_912.0;
    u8: i32, f32, nearest by 12_582_912.0;
    i16: i32, f32, nearest by 12_582_912.0;
    u16: i32, f32, nearest by 12_582_912.0;
    i32: i32, f64, nearest by 6_755_399_441_055_744.0;
    u32: i32, f64, nearest by 6_755_399_441_055_744.0;
}
by_integer!(i64 u64);

/// Powers modulo 2ʷ, w the width, up to 32 bits. The exponent is split: b = n·2ᵏ + the low `$low` = k bits.
///
/// Squaring and multiplying gives the power of the low bits, and a^(2ᵏ). For an odd a that is 1 + x with x divisible by 2ᵏ⁺²,
/// so that (1 + x)ⁿ = 1 + nx·(1 + (n − 1)·x/2·(1 + (n − 2)·x/3·(…))) ends after few terms. An even a to w or more is 0.
macro_rules! powers {
    ($($signed:ty, $t:ty: $low:literal, |$n:ident, $x:ident| $series:expr;)*) => {$(
        impl Binary for Pow<$t> {
            type In = $t;
            type Out = $t;
            #[inline(always)]
            fn apply(a: $t, b: $t) -> $t {
                let (power, square) = square_and_multiply!(a, b, $low, $t);
                let ($n, $x) = (b >> $low, square.wrapping_sub(1));
                let series: $t = $series;
                let odd = power.wrapping_mul(series);
                let even = if b < <$t>::BITS as $t { power } else { 0 };
                if a & 1 == 1 { odd } else { even }
            }
        }

        impl Binary for Pow<$signed> {
            type In = $signed;
            type Out = $signed;
            #[inline(always)]
            fn apply(a: $signed, b: $signed) -> $signed {
                let power = Pow::<$t>::apply(a as $t, b as $t) as $signed;
                integer_part!(a, b, power)
            }
        }
    )*};
}

/// The power of the lowest bits of an exponent, and a^(2ᵏ) for as many bits k.
macro_rules! square_and_multiply {
    ($a:ident, $b:ident, $low:literal, $t:ty) => {{
        let (mut power, mut square) = (1 as $t, $a);
        for bit in 0..$low {
            let factor = if $b >> bit & 1 == 1 { square } else { 1 };
            power = power.wrapping_mul(factor);
            square = square.wrapping_mul(square);
        }
        (power, square)
    }};
}

/// The integer part of 1/aⁿ for a negative exponent −n. For ±1 that is `power`, where only the lowest bit of n counts.
macro_rules! integer_part {
    ($a:ident, $b:ident, $power:ident) => {
        if ($b < 0) & ($a != 1) & ($a != -1) { 0 } else { $power }
    };
}

/// 1 + factors·rest, modulo 2ʷ.
macro_rules! term {
    ($($factor:expr),* ; $rest:expr) => {
        ($rest)$(.wrapping_mul($factor))*.wrapping_add(1)
    };
}

powers! {
    i8, u8: 3, |n, x| term!(n, x; 1_u8);
    i16, u16: 6, |n, x| term!(n, x; 1_u16);
    i32, u32: 9, |n, x| term!(n, x; term!(n.wrapping_sub(1), x >> 1; 1_u32));
}

pub(super) use {integer_part, square_and_multiply};
