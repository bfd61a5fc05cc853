//! Element types of tensors on a device, and their conversion to and from bytes.

use half::{bf16, f16};
use plimsoll_expr::trace::{Element, F8E4M3, F8E5M2};

#[allow(unnameable_types, reason = "a sealed trait")]
mod sealed {
    pub trait Sealed {}
}

/// An element type without padding, whose size is [`plimsoll_expr::DType::bytes`]. No other crate can add one.
pub trait Plain: Element + Default + Send + Sync + sealed::Sealed {
    /// The value as a zero-extended word, as kernels take run-time scalars.
    #[must_use]
    fn word(self) -> u64;

    /// Converts bits written by a device to values. For `bool`, any byte except 0 is `true`.
    #[doc(hidden)]
    #[must_use]
    fn from_bits(values: Vec<Self::Bits>) -> Vec<Self>;

    /// A type of the same size for which every bit pattern is a valid value.
    #[doc(hidden)]
    type Bits: Copy + Default;
}

macro_rules! plain {
    ($($type:ty, $bits:ty, $word:expr, $from_bits:expr;)*) => {
        $(impl sealed::Sealed for $type {}
        impl Plain for $type {
            type Bits = $bits;

            fn word(self) -> u64 {
                let word: fn($type) -> u64 = $word;
                word(self)
            }

            fn from_bits(values: Vec<$bits>) -> Vec<Self> {
                let from_bits: fn($bits) -> $type = $from_bits;
                // Collects in place, since the sizes are equal.
                values.into_iter().map(from_bits).collect()
            }
        })*
    };
}

plain! {
    f64, u64, f64::to_bits, f64::from_bits;
    f32, u32, |x| x.to_bits().into(), f32::from_bits;
    f16, u16, |x| x.to_bits().into(), f16::from_bits;
    bf16, u16, |x| x.to_bits().into(), bf16::from_bits;
    F8E4M3, u8, |x| x.to_bits().into(), F8E4M3::from_bits;
    F8E5M2, u8, |x| x.to_bits().into(), F8E5M2::from_bits;
    i8, u8, |x| (x as u8).into(), |bits| bits as i8;
    i16, u16, |x| (x as u16).into(), |bits| bits as i16;
    i32, u32, |x| (x as u32).into(), |bits| bits as i32;
    i64, u64, |x| x as u64, |bits| bits as i64;
    u8, u8, u64::from, |bits| bits;
    u16, u16, u64::from, |bits| bits;
    u32, u32, u64::from, |bits| bits;
    u64, u64, |x| x, |bits| bits;
    bool, u8, u64::from, |bits| bits != 0;
}

/// The bytes of elements.
#[must_use]
pub fn bytes<T: Plain>(values: &[T]) -> &[u8] {
    const { assert!(size_of::<T>() == size_of::<T::Bits>() && size_of::<T>() == T::DTYPE.bytes() as usize) };
    // SAFETY: the slice's own memory, for its lifetime. The trait is sealed, and its types are integers, floats, `bool` and
    // transparent structures of these, so no byte is uninitialised.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

/// The bytes of bit patterns, to be overwritten by arbitrary bytes.
pub(crate) fn bytes_of_bits<T: Plain>(values: &mut [T::Bits]) -> &mut [u8] {
    // SAFETY: the slice's own memory, exclusively, for its lifetime; every bit pattern is a value of these unsigned integers (the
    // trait is sealed).
    unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), size_of_val(values)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_the_bits_and_any_nonzero_byte_is_true() {
        assert_eq!((1.5_f32.word(), (-1_i8).word(), true.word()), (0x3fc0_0000, 0xff, 1));
        assert_eq!(bf16::from_f32(1.0).word(), 0x3f80);
        assert_eq!(bytes(&[1_u16, 0x203]), [1, 0, 3, 2]);
        assert_eq!(bool::from_bits(vec![0, 1, 7]), [false, true, true]);
    }
}
