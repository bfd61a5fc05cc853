//! The floats of 16 and 8 bits: from memory to f32 and back, without branches, so that loops over them become vector code.
//! `plimsoll_expr::dtype` defines the formats; its oracle is the reference in the tests.

/// A floating-point format narrower than f32.
pub(super) trait SmallFloat {
    /// The integer that holds its bits.
    type Bits: Copy;
    /// Converts to f32, exactly.
    fn unpack(bits: Self::Bits) -> f32;
    /// Rounds to the nearest number, ties to even; every NaN becomes the positive quiet one.
    fn pack(x: f32) -> Self::Bits;
}

/// Converts a format of E exponent and M fraction bits, in the low bits, to f32. In a format without infinities, NaN is all
/// ones.
#[inline(always)]
fn widen<const E: u32, const M: u32, const INFINITE: bool>(bits: u32) -> f32 {
    let magnitude = bits & ((1 << (E + M)) - 1);
    let sign = (bits >> (E + M)) << 31;
    let moved = magnitude << (23 - M);
    // 2^(127 − bias) changes the exponent's bias to that of f32, and normalises subnormals.
    let scale = f32::from_bits((254 - ((1 << (E - 1)) - 1)) << 23);
    let number = (f32::from_bits(moved) * scale).to_bits();
    let special = if INFINITE { magnitude >= ((1 << E) - 1) << M } else { magnitude == (1 << (E + M)) - 1 };
    f32::from_bits(sign | if special { moved | 0x7f80_0000 } else { number })
}

/// The reverse of [`widen`], rounded.
#[inline(always)]
fn narrow<const E: u32, const M: u32, const INFINITE: bool>(x: f32) -> u32 {
    let bias = (1_u32 << (E - 1)) - 1;
    let magnitude = x.to_bits() & 0x7fff_ffff;
    let sign = (x.to_bits() >> 31) << (E + M);
    let even = (magnitude >> (23 - M)) & 1;
    let normal = ((magnitude + ((1 << (22 - M)) - 1) + even) >> (23 - M)).wrapping_sub((127 - bias) << M);
    // An addition that rounds to the format's last place leaves the subnormal's integer in the low bits.
    let magic = (127 + 23 - M + 1 - bias) << 23;
    let subnormal = (f32::from_bits(magnitude) + f32::from_bits(magic)).to_bits().wrapping_sub(magic);
    let finite = if magnitude < (127 + 1 - bias) << 23 { subnormal } else { normal };
    let ones = ((1 << E) - 1) << M;
    let (most, beyond) = if INFINITE { (ones, ones) } else { (ones | ((1 << M) - 2), ones | ((1 << M) - 1)) };
    let bounded = if finite > most { beyond } else { finite };
    let quiet = if INFINITE { ones | 1 << (M - 1) } else { beyond };
    if magnitude > 0x7f80_0000 { quiet } else { sign | bounded }
}

/// IEEE 754 binary16.
pub(super) struct F16;
/// The upper half of f32.
pub(super) struct Bf16;
/// OCP 8-bit, 4 exponent bits, no infinities.
pub(super) struct F8E4M3;
/// OCP 8-bit, 5 exponent bits.
pub(super) struct F8E5M2;

/// A type by its bits, its exponent's and its mantissa's width, and whether it has infinities.
macro_rules! small_float {
    ($name:ident: $bits:ty, $exponent:literal, $mantissa:literal, $infinite:literal) => {
        impl SmallFloat for $name {
            type Bits = $bits;
            #[inline(always)]
            fn unpack(bits: $bits) -> f32 {
                widen::<$exponent, $mantissa, $infinite>(u32::from(bits))
            }
            #[inline(always)]
            fn pack(x: f32) -> $bits {
                narrow::<$exponent, $mantissa, $infinite>(x) as $bits
            }
        }
    };
}

small_float!(F16: u16, 5, 10, true);
small_float!(F8E4M3: u8, 4, 3, false);
small_float!(F8E5M2: u8, 5, 2, true);

impl SmallFloat for Bf16 {
    type Bits = u16;
    #[inline(always)]
    fn unpack(bits: u16) -> f32 {
        f32::from_bits(u32::from(bits) << 16)
    }
    #[inline(always)]
    fn pack(x: f32) -> u16 {
        let bits = x.to_bits();
        let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
        (if bits & 0x7fff_ffff > 0x7f80_0000 { 0x7fc0 } else { rounded }) as u16
    }
}

/// A number as an f32 that rounds to any narrower format as the number itself would: if inexact, it is rounded to odd
/// (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
pub(super) trait RoundToOdd: Copy {
    /// Rounds to odd.
    fn round_to_odd(self) -> f32;
}

impl RoundToOdd for f64 {
    #[inline(always)]
    fn round_to_odd(self) -> f32 {
        let near = self as f32;
        let back = f64::from(near);
        let above = u32::from(back.abs() > self.abs());
        let inexact = u32::from(back != self && !self.is_nan());
        f32::from_bits((near.to_bits() - above) | inexact)
    }
}

impl RoundToOdd for f32 {
    #[inline(always)]
    fn round_to_odd(self) -> f32 {
        self
    }
}

macro_rules! odd_by_f64 {
    ($($t:ty)*) => {$(
        impl RoundToOdd for $t {
            #[inline(always)]
            fn round_to_odd(self) -> f32 {
                f64::from(self).round_to_odd()
            }
        }
    )*};
}
odd_by_f64!(i8 i16 i32 u8 u16 u32);

macro_rules! odd_by_sticky {
    ($($t:ty)*) => {$(
        impl RoundToOdd for $t {
            #[inline(always)]
            fn round_to_odd(self) -> f32 {
                // Its highest 53 bits, the last one set if lower bits were set: exact in f64.
                let sticky = <$t>::from(self & 0x7ff != 0) << 11;
                let kept = (self & !0x7ff) | sticky;
                let small = ((<$t>::MIN >> 11)..=1 << 52).contains(&self);
                (if small { self as f64 } else { kept as f64 }).round_to_odd()
            }
        }
    )*};
}
odd_by_sticky!(i64 u64);
