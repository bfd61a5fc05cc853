//! Callers' slices as bytes for the duration of a call: the Rust types that this supports, and why writing their bytes leaves
//! valid values.

use half::{bf16, f16};
use plimsoll_expr::trace::{Element, F8E4M3, F8E5M2};
use plimsoll_expr::{DType, Value};

#[allow(unnameable_types, reason = "a sealed trait")]
mod sealed {
    pub trait Sealed {}
}

/// A Rust element type whose values have [`DType::bytes`] bytes, all of them initialised. Other crates can't implement it.
pub trait Lendable: Element + Default + Send + Sync + sealed::Sealed {
    /// Its value.
    #[must_use]
    fn value(self) -> Value;
}

macro_rules! lendable {
    ($([$($type:ty)*] $value:expr;)*) => {
        $($(impl sealed::Sealed for $type {}
        impl Lendable for $type {
            fn value(self) -> Value {
                let value: fn($type) -> Value = $value;
                value(self)
            }
        })*)*
    };
}

lendable! {
    [f64] Value::Float;
    [f32] |x| Value::Float(x.into());
    [f16 bf16 F8E4M3 F8E5M2] |x| Value::Float(x.to_f64());
    [i8 i16 i32 i64 u8 u16 u32 u64] |x| Value::Int(x.into());
    [bool] Value::Bool;
}

/// The bytes of elements.
#[must_use]
pub fn bytes<T: Lendable>(elements: &[T]) -> &[u8] {
    const { assert!(size_of::<T>() == T::DTYPE.bytes() as usize) };
    // SAFETY: the slice's own memory, for the same lifetime. The trait is sealed, and its types are integers, floats, `bool`
    // and transparent structures of these: none has an uninitialised byte.
    unsafe { std::slice::from_raw_parts(elements.as_ptr().cast(), size_of_val(elements)) }
}

/// Exclusive memory of elements, written by [`crate::arch`]'s loops. It gives no mutable access to its bytes, since a `bool` may
/// only be written as 0 or 1.
#[derive(Debug)]
pub struct Target<'a> {
    start: *mut u8,
    bytes: usize,
    dtype: DType,
    borrow: std::marker::PhantomData<&'a mut [u8]>,
}

// SAFETY: it is an exclusive reference to elements of a `Lendable`, which are `Send`.
unsafe impl Send for Target<'_> {}
// SAFETY: `&Target` only gives its size, type and address.
unsafe impl Sync for Target<'_> {}

impl<'a> Target<'a> {
    /// The memory of a slice, while it is borrowed.
    #[must_use]
    pub fn new<T: Lendable>(elements: &'a mut [T]) -> Self {
        const { assert!(size_of::<T>() == T::DTYPE.bytes() as usize) };
        let bytes = size_of_val(elements);
        Self { start: elements.as_mut_ptr().cast(), bytes, dtype: T::DTYPE, borrow: std::marker::PhantomData }
    }

    /// The type of its elements.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Its bytes, read-only.
    #[must_use]
    pub fn into_shared(self) -> &'a [u8] {
        // SAFETY: memory of a slice that is borrowed exclusively for `'a`, only by `self`, which is consumed here; its types
        // have no uninitialised byte, as in `bytes`.
        unsafe { std::slice::from_raw_parts(self.start, self.bytes) }
    }
}

/// Memory that a run may write.
///
/// # Safety
/// While it is borrowed, it has exclusive access to the [`Writable::len`] bytes from [`Writable::start`] on. Any bytes may be
/// written there; if [`Writable::only_bools`], only 0 and 1.
pub(crate) unsafe trait Writable {
    /// Its first byte.
    fn start(&mut self) -> *mut u8;
    /// The address at which it begins.
    fn address(&self) -> usize;
    /// How many bytes it has.
    fn len(&self) -> usize;
    /// Whether bytes other than 0 and 1 would be invalid values.
    fn only_bools(&self) -> bool;
}

// SAFETY: an exclusive slice; every byte is a `u8`.
unsafe impl Writable for &mut [u8] {
    fn start(&mut self) -> *mut u8 {
        self.as_mut_ptr()
    }

    fn address(&self) -> usize {
        self.as_ptr().addr()
    }

    fn len(&self) -> usize {
        <[u8]>::len(self)
    }

    fn only_bools(&self) -> bool {
        false
    }
}

// SAFETY: made from an exclusive slice that stays borrowed. `bool` is the only `Lendable` type with invalid bit patterns.
unsafe impl Writable for Target<'_> {
    fn start(&mut self) -> *mut u8 {
        self.start
    }

    fn address(&self) -> usize {
        self.start.addr()
    }

    fn len(&self) -> usize {
        self.bytes
    }

    fn only_bools(&self) -> bool {
        self.dtype == DType::Bool
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_viewed_as_little_endian_bytes() {
        assert_eq!(bytes(&[1_u16, 0x203]), [1, 0, 3, 2]);
        assert_eq!(bytes(&[true, false]), [1, 0]);
        assert_eq!(bytes(&[bf16::ONE]), [0x80, 0x3f]);
        assert_eq!(bytes::<f64>(&[]), [0_u8; 0]);
    }

    #[test]
    fn targets_report_their_size_type_and_allowed_bytes() {
        let (mut truth, mut numbers) = ([true, false], [1.0_f32, 2.0]);
        let mut target = Target::new(&mut truth);
        assert_eq!((target.len(), target.dtype(), target.only_bools()), (2, DType::Bool, true));
        assert_eq!(target.start().addr(), target.address());
        let target = Target::new(&mut numbers);
        assert_eq!((target.len(), target.only_bools()), (8, false));
        assert_eq!(target.into_shared()[..4], 1.0_f32.to_le_bytes());
    }

    #[test]
    fn elements_convert_to_values() {
        assert_eq!(
            (1.5_f32.value(), (-3_i8).value(), true.value()),
            (Value::Float(1.5), Value::Int(-3), Value::Bool(true))
        );
        assert_eq!(F8E4M3::from_f64(2.0).value(), Value::Float(2.0));
        assert_eq!((u64::MAX).value(), Value::Int(u64::MAX.into()));
    }
}
