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

/// Memory of elements that is only read. It gives no access to its bytes: those between elements may be another owner's, who
/// may write them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source<'a> {
    start: *const u8,
    bytes: usize,
    borrow: std::marker::PhantomData<&'a [u8]>,
}

// SAFETY: it is a shared reference to bytes.
unsafe impl Send for Source<'_> {}
// SAFETY: as above.
unsafe impl Sync for Source<'_> {}

impl<'a> Source<'a> {
    /// A slice's bytes.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { start: bytes.as_ptr(), bytes: bytes.len(), borrow: std::marker::PhantomData }
    }

    /// The bytes at an address.
    ///
    /// # Safety
    /// As for [`Readable`], during `'a`.
    pub(crate) unsafe fn from_address(start: usize, bytes: usize) -> Self {
        Self { start: std::ptr::with_exposed_provenance(start), bytes, borrow: std::marker::PhantomData }
    }
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

    /// The elements at an address.
    ///
    /// # Safety
    /// As for [`Writable`], during `'a`. The elements are initialised.
    pub(crate) unsafe fn from_address(start: usize, bytes: usize, dtype: DType) -> Self {
        Self { start: std::ptr::with_exposed_provenance_mut(start), bytes, dtype, borrow: std::marker::PhantomData }
    }

    /// The same memory, to be read only.
    pub(crate) fn into_source(self) -> Source<'a> {
        Source { start: self.start, bytes: self.bytes, borrow: std::marker::PhantomData }
    }
}

/// Memory that a run reads.
///
/// # Safety
/// While it is borrowed, the elements of a tensor within the [`Readable::len`] bytes from [`Readable::start`] on are
/// initialised, may be read, and nobody writes them.
pub(crate) unsafe trait Readable {
    /// Its first byte.
    fn start(&self) -> *const u8;
    /// How many bytes it has.
    fn len(&self) -> usize;
}

// SAFETY: a shared slice.
unsafe impl Readable for &[u8] {
    fn start(&self) -> *const u8 {
        self.as_ptr()
    }

    fn len(&self) -> usize {
        <[u8]>::len(self)
    }
}

// SAFETY: made from a slice, or promised by the caller of `from_address`.
unsafe impl Readable for Source<'_> {
    fn start(&self) -> *const u8 {
        self.start
    }

    fn len(&self) -> usize {
        self.bytes
    }
}

/// Memory that a run may write.
///
/// # Safety
/// While it is borrowed, it has exclusive access to the elements of a tensor within the [`Writable::len`] bytes from
/// [`Writable::start`] on. Any bytes may be written there; if [`Writable::only_bools`], only 0 and 1.
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

// SAFETY: made from an exclusive slice that stays borrowed, or promised by the caller of `from_address`. `bool` is the only `Lendable` type with invalid bit patterns.
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
        let (start, source) = (target.address(), target.into_source());
        assert_eq!((source.start().addr(), source.len()), (start, 8));
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
