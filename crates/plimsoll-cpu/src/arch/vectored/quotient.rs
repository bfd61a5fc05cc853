//! Floored division of floats without a branch: the sign of the remainder, which a fused multiply-add gives exactly, tells
//! whether the rounded quotient is above the exact one.

use super::elements::{FloorDiv, Rem};
use super::loops::Binary;

macro_rules! floats {
    ($($float:ident: $most:literal, exponent $exponent:literal, digits $digits:literal of $fraction:literal;)*) => {$(
        impl Binary for FloorDiv<$float> {
            type In = $float;
            type Out = $float;
            #[inline(always)]
            fn apply(a: $float, b: $float) -> $float {
                let whole = (a / b).floor();
                // 0 times an infinite b would be NaN.
                let left = if whole == 0.0 { a } else { (-whole).mul_add(b, a) };
                let above = ((left < 0.0) & (b > 0.0)) | ((left > 0.0) & (b < 0.0));
                // Beyond `most`, the floor differs from the rounded quotient only if the floor is half-way between two numbers and
                // the quotient is less than 1 above it. The difference ties to even.
                let exponent = whole.to_bits() & $exponent;
                let half = $float::from_bits(exponent.wrapping_sub($digits << $fraction));
                let tie = (1.0 - half).mul_add(b.abs(), left.abs()) > 0.0;
                let beyond = if tie { half } else { 0.0 };
                let step = if whole.abs() <= $most { 1.0 } else { beyond };
                let floored = if above { whole - step } else { whole };
                // An infinite a has no remainder, and so no quotient.
                if a - a == 0.0 { floored } else { $float::NAN }
            }
        }

        impl Binary for Rem<$float> {
            type In = $float;
            type Out = $float;
            #[inline(always)]
            fn apply(a: $float, b: $float) -> $float {
                let whole = FloorDiv::<$float>::apply(a, b);
                let rem = if whole == 0.0 { a } else { (-whole).mul_add(b, a) };
                if rem == 0.0 { (0.0 as $float).copysign(b) } else { rem }
            }
            // The type may not be able to represent the floor.
            #[inline(always)]
            fn is_rare(a: $float, b: $float) -> bool {
                (a / b).abs() >= $most
            }
            fn apply_rare(a: $float, b: $float) -> $float {
                let rem = a % b;
                let other_side = (rem < 0.0) != (b < 0.0);
                if rem == 0.0 {
                    rem.copysign(b)
                } else if other_side {
                    rem + b
                } else {
                    rem
                }
            }
        }
    )*};
}
floats! {
    f32: 16_777_216.0, exponent 0x7f80_0000, digits 24 of 23;
    f64: 9_007_199_254_740_992.0, exponent 0x7ff0_0000_0000_0000, digits 53 of 52;
}
