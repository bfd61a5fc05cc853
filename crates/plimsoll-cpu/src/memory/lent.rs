//! Elements that belong to callers as bytes, for the time of a call: which Rust types they can be of, and why writing their
//! bytes leaves values of these types.

use half::{bf16, f16};
use plimsoll_expr::trace::{Element, F8E4M3, F8E5M2};
use plimsoll_expr::{DType, Value};

mod sealed {
    pub trait Sealed {}
}

/// An element type of Rust whose values are as many bytes as [`DType::bytes`] says, all of them initialised. No other crate
/// can add one.
pub trait Lendable: Element + Send + Sync + sealed::Sealed {
    /// The number that it is.
    #[must_use]
    fn value(self) -> Value;
}

macro_rules! lendable {
    ($($type:ty, $value:expr;)*) => {
        $(impl sealed::Sealed for $type {}
        impl Lendable for $type {
            fn value(self) -> Value {
                let value: fn($type) -> Value = $value;
                value(self)
            }
        })*
    };
}

lendable! {
    f64, Value::Float;
    f32, |x| Value::Float(x.into());
    f16, |x| Value::Float(x.to_f64());
    bf16, |x| Value::Float(x.to_f64());
    F8E4M3, |x| Value::Float(x.to_f64());
    F8E5M2, |x| Value::Float(x.to_f64());
    i8, |x| Value::Int(x.into());
    i16, |x| Value::Int(x.into());
    i32, |x| Value::Int(x.into());
    i64, |x| Value::Int(x.into());
    u8, |x| Value::Int(x.into());
    u16, |x| Value::Int(x.into());
    u32, |x| Value::Int(x.into());
    u64, |x| Value::Int(x.into());
    bool, Value::Bool;
}

/// The bytes of elements.
#[must_use]
pub fn bytes<T: Lendable>(elements: &[T]) -> &[u8] {
    const { assert!(size_of::<T>() == T::DTYPE.bytes() as usize) };
    // SAFETY: the slice's own memory, for as long. The trait is sealed, and its types are integers, floats, `bool` and
    // transparent structures of these: none has a byte that isn't initialised.
    unsafe { std::slice::from_raw_parts(elements.as_ptr().cast(), size_of_val(elements)) }
}

/// Exclusive memory of elements, to be written by [`crate::arch`]'s loops. It shows no bytes: of those of `bool` only 0 and 1
/// may be written.
#[derive(Debug)]
pub struct Target<'a> {
    start: *mut u8,
    bytes: usize,
    dtype: DType,
    of: std::marker::PhantomData<&'a mut [u8]>,
}

// SAFETY: it is an exclusive reference to elements of a `Lendable`, which are `Send`.
unsafe impl Send for Target<'_> {}
// SAFETY: a shared one of it gives nothing but its size, its type and its address.
unsafe impl Sync for Target<'_> {}

impl<'a> Target<'a> {
    /// The memory of a slice, for as long as it is borrowed.
    #[must_use]
    pub fn new<T: Lendable>(elements: &'a mut [T]) -> Self {
        const { assert!(size_of::<T>() == T::DTYPE.bytes() as usize) };
        let bytes = size_of_val(elements);
        Self { start: elements.as_mut_ptr().cast(), bytes, dtype: T::DTYPE, of: std::marker::PhantomData }
    }

    /// The type of its elements.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Its bytes, for one who only reads.
    #[must_use]
    pub fn into_shared(self) -> &'a [u8] {
        // SAFETY: memory of a slice that is borrowed exclusively for `'a`, by this alone, which ends here; its types have no
        // byte that isn't initialised, as in `bytes`.
        unsafe { std::slice::from_raw_parts(self.start, self.bytes) }
    }
}

/// Memory that a run may write.
///
/// # Safety
/// [`Writable::len`] bytes behind [`Writable::start`] are this one's alone, for as long as it is borrowed, and any bytes may be
/// written there: where [`Writable::only_truth`], any of 0 and 1.
pub(crate) unsafe trait Writable {
    /// Where it begins.
    fn start(&mut self) -> *mut u8;
    /// The address at which it begins.
    fn address(&self) -> usize;
    /// How many bytes it has.
    fn len(&self) -> usize;
    /// Whether bytes other than 0 and 1 would be no values.
    fn only_truth(&self) -> bool;
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

    fn only_truth(&self) -> bool {
        false
    }
}

// SAFETY: made of an exclusive slice that stays borrowed. Of all types that are `Lendable`, `bool` is the only one with patterns of
// bits that are no value.
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

    fn only_truth(&self) -> bool {
        self.dtype == DType::Bool
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_their_little_endian_bytes() {
        assert_eq!(bytes(&[1_u16, 0x203]), [1, 0, 3, 2]);
        assert_eq!(bytes(&[true, false]), [1, 0]);
        assert_eq!(bytes(&[bf16::ONE]), [0x80, 0x3f]);
        assert_eq!(bytes::<f64>(&[]), [0_u8; 0]);
    }

    #[test]
    fn targets_know_what_may_be_written() {
        let (mut truth, mut numbers) = ([true, false], [1.0_f32, 2.0]);
        let mut target = Target::new(&mut truth);
        assert_eq!((target.len(), target.dtype(), target.only_truth()), (2, DType::Bool, true));
        assert_eq!(target.start().addr(), target.address());
        let target = Target::new(&mut numbers);
        assert_eq!((target.len(), target.only_truth()), (8, false));
        assert_eq!(target.into_shared()[..4], 1.0_f32.to_le_bytes());
    }

    #[test]
    fn numbers_are_their_values() {
        assert_eq!(
            (1.5_f32.value(), (-3_i8).value(), true.value()),
            (Value::Float(1.5), Value::Int(-3), Value::Bool(true))
        );
        assert_eq!(F8E4M3::from_f64(2.0).value(), Value::Float(2.0));
        assert_eq!((u64::MAX).value(), Value::Int(u64::MAX.into()));
    }
}
