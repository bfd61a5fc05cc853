//! Parts of a device's memory, as kernels and copies take them.

use std::rc::Rc;

use plimsoll_core::Fault;

/// A part of an allocation, by name: it holds nothing. A backend looks the allocation up at each use, and answers with an error
/// where it was freed or the part doesn't lie inside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    region: u64,
    pointer: u64,
    bytes: u64,
}

impl Span {
    /// `bytes` from an address, in the allocation that a backend knows by the number `region`.
    #[must_use]
    pub fn new(region: u64, pointer: u64, bytes: u64) -> Self {
        Self { region, pointer, bytes }
    }

    /// The number of the allocation.
    #[must_use]
    pub fn region(self) -> u64 {
        self.region
    }

    /// Address on the device: a number. Memory is given to kernels as spans.
    #[must_use]
    pub fn pointer(self) -> u64 {
        self.pointer
    }

    /// Size.
    #[must_use]
    pub fn bytes(self) -> u64 {
        self.bytes
    }

    /// Its first `bytes`.
    ///
    /// # Errors
    /// [`Fault::Invalid`] where it has fewer.
    pub fn first(self, bytes: u64) -> Result<Self, Fault> {
        let short = || Fault::Invalid(format!("{bytes} bytes of a span of {}", self.bytes));
        (bytes <= self.bytes).then_some(Self { bytes, ..self }).ok_or_else(short)
    }

    /// `bytes` from `offset`.
    ///
    /// # Errors
    /// [`Fault::Invalid`] where that isn't inside.
    pub fn part(self, offset: u64, bytes: u64) -> Result<Self, Fault> {
        let inside = offset.checked_add(bytes).is_some_and(|end| end <= self.bytes);
        let outside = || Fault::Invalid(format!("{bytes} bytes from {offset} are not inside {} bytes", self.bytes));
        inside.then(|| Self { pointer: self.pointer + offset, bytes, ..self }).ok_or_else(outside)
    }

    /// Whether it lies inside an allocation of `bytes` from `pointer`.
    #[must_use]
    pub fn is_inside(self, pointer: u64, bytes: u64) -> bool {
        let end = |pointer: u64, bytes: u64| pointer.checked_add(bytes);
        match (end(self.pointer, self.bytes), end(pointer, bytes)) {
            (Some(own), Some(whole)) => pointer <= self.pointer && own <= whole,
            _ => false,
        }
    }
}

/// Device memory that frees itself when it is dropped, and not before the device has finished with it.
pub trait Memory {
    /// The whole of it.
    fn whole(&self) -> Span;

    /// Its size.
    fn bytes(&self) -> u64 {
        self.whole().bytes()
    }

    /// Its address on the device.
    fn pointer(&self) -> u64 {
        self.whole().pointer()
    }

    /// `bytes` from `offset`.
    ///
    /// # Errors
    /// [`Fault::Invalid`] where that isn't inside.
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
    fn parts_lie_inside_and_overflow_is_an_error() {
        let span = Span::new(1, 4096, 100);
        assert_eq!(span.part(10, 90).unwrap(), Span::new(1, 4106, 90));
        assert!(span.part(10, 91).is_err() && span.part(u64::MAX, 2).is_err() && span.first(101).is_err());
        assert!(span.is_inside(4096, 100) && span.is_inside(4000, 200));
        assert!(!span.is_inside(4097, 200) && !span.is_inside(4096, 99));
        assert!(!Span::new(1, u64::MAX - 1, 8).is_inside(0, u64::MAX));
    }
}
