//! Parts of device memory, as arguments of kernels and copies.

use std::rc::Rc;

use plimsoll_core::Fault;

/// A part of an allocation. It names the allocation but doesn't keep it alive: a backend looks the allocation up at each use, and
/// returns an error if it was freed or the part isn't inside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    region: u64,
    pointer: u64,
    bytes: u64,
}

impl Span {
    /// `bytes` bytes from the address `pointer`, in the allocation with the backend's number `region`.
    #[must_use]
    pub fn new(region: u64, pointer: u64, bytes: u64) -> Self {
        Self { region, pointer, bytes }
    }

    /// The backend's number of the allocation.
    #[must_use]
    pub fn region(self) -> u64 {
        self.region
    }

    /// Address on the device, as a plain number. Kernels get memory as spans, not as addresses.
    #[must_use]
    pub fn pointer(self) -> u64 {
        self.pointer
    }

    /// Size in bytes.
    #[must_use]
    pub fn bytes(self) -> u64 {
        self.bytes
    }

    /// Its first `bytes` bytes.
    ///
    /// # Errors
    /// [`Fault::Invalid`] if it has fewer.
    pub fn first(self, bytes: u64) -> Result<Self, Fault> {
        let short = || Fault::Invalid(format!("{bytes} bytes are more than the span of {} bytes", self.bytes));
        (bytes <= self.bytes).then_some(Self { bytes, ..self }).ok_or_else(short)
    }

    /// `bytes` bytes from `offset`.
    ///
    /// # Errors
    /// [`Fault::Invalid`] if that isn't inside the span.
    pub fn part(self, offset: u64, bytes: u64) -> Result<Self, Fault> {
        let inside = offset.checked_add(bytes).is_some_and(|end| end <= self.bytes);
        let outside = || Fault::Invalid(format!("{bytes} bytes from {offset} are not inside {} bytes", self.bytes));
        inside.then(|| Self { pointer: self.pointer + offset, bytes, ..self }).ok_or_else(outside)
    }

    /// Whether it lies inside an allocation of `bytes` bytes at `pointer`.
    #[must_use]
    pub fn is_inside(self, pointer: u64, bytes: u64) -> bool {
        let end = |pointer: u64, bytes: u64| pointer.checked_add(bytes);
        match (end(self.pointer, self.bytes), end(pointer, bytes)) {
            (Some(own), Some(whole)) => pointer <= self.pointer && own <= whole,
            _ => false,
        }
    }
}

/// Device memory that is freed after it is dropped and the device has finished with it.
pub trait Memory {
    /// All of it.
    fn whole(&self) -> Span;

    /// Its size in bytes.
    fn bytes(&self) -> u64 {
        self.whole().bytes()
    }

    /// Its address on the device.
    fn pointer(&self) -> u64 {
        self.whole().pointer()
    }

    /// `bytes` bytes from `offset`.
    ///
    /// # Errors
    /// [`Fault::Invalid`] if that isn't inside.
    fn part(&self, offset: u64, bytes: u64) -> Result<Span, Fault> {
        self.whole().part(offset, bytes)
    }
}

impl<M: Memory> Memory for Rc<M> {
    fn whole(&self) -> Span {
        (**self).whole()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_outside_a_span_and_overflow_are_errors() {
        let span = Span::new(1, 4096, 100);
        assert_eq!(span.part(10, 90).unwrap(), Span::new(1, 4106, 90));
        assert!(span.part(10, 91).is_err() && span.part(u64::MAX, 2).is_err() && span.first(101).is_err());
        assert!(span.is_inside(4096, 100) && span.is_inside(4000, 200));
        assert!(!span.is_inside(4097, 200) && !span.is_inside(4096, 99));
        assert!(!Span::new(1, u64::MAX - 1, 8).is_inside(0, u64::MAX));
    }
}
