//! Tensors in memory that another library owns.

use std::ops::Range;

use super::{Layout, LayoutError, Shape, elements};
use crate::dtype::DType;

/// A tensor in another library's memory, as array libraries describe one: an address, a type, a shape and strides. It says
/// nothing about who may use the memory and for how long: functions that use it are `unsafe`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Foreign<'a> {
    /// The address of the element whose coordinates are all 0, on the host or on a device. Any value if there are no elements.
    pub start: u64,
    /// The element type.
    pub dtype: DType,
    /// The extents; 0 is the slowest dimension.
    pub shape: &'a [u64],
    /// The distance in elements from one index to the next, per dimension; 0 for broadcast dimensions, negative for reversed ones.
    pub strides: &'a [i64],
}

/// One set of tensors of an expression that is computed for many sets.
#[derive(Clone, Copy, Debug)]
pub struct ForeignSet<'a> {
    /// The inputs in order, then the outputs that aren't written in place.
    pub tensors: &'a [Foreign<'a>],
    /// The group whose scalars it uses, from 0.
    pub group: usize,
}

impl Foreign<'_> {
    /// Elements below and above the element of index 0 to which the strides reach; `None` if there are no elements.
    fn reach(&self) -> Option<(i128, i128)> {
        if self.shape.contains(&0) {
            return None;
        }
        let (mut low, mut high) = (0, 0);
        for (&extent, &stride) in self.shape.iter().zip(self.strides) {
            let far = i128::from(extent - 1) * i128::from(stride);
            if far < 0 { low += far } else { high += far }
        }
        Some((low, high))
    }

    /// The addresses of its bytes, from the lowest to one past the highest; empty if it has no elements. Allocates nothing.
    ///
    /// # Errors
    /// Too many dimensions, not one stride per dimension, or bytes outside the address space.
    pub fn addresses(&self) -> Result<Range<u64>, LayoutError> {
        elements(self.shape)?;
        if self.shape.len() != self.strides.len() {
            return Err(LayoutError::Strides { extents: self.shape.len(), strides: self.strides.len() });
        }
        let Some((low, high)) = self.reach() else { return Ok(0..0) };
        let size = i128::from(self.dtype.bytes());
        let address = |elements: i128| elements.checked_mul(size)?.checked_add(i128::from(self.start));
        let range = address(low).zip(address(high + 1));
        let range = range.and_then(|(from, to)| Some(u64::try_from(from).ok()?..u64::try_from(to).ok()?));
        range.filter(|range| range.end - range.start <= i64::MAX as u64).ok_or_else(|| {
            let shape = Shape(self.shape.to_vec());
            if low < 0 { LayoutError::Negative(shape) } else { LayoutError::Memory(shape, self.dtype.bytes()) }
        })
    }

    /// The layout in the memory that [`Foreign::addresses`] names.
    ///
    /// # Errors
    /// As [`Foreign::addresses`].
    pub fn layout(&self) -> Result<Layout, LayoutError> {
        self.addresses()?;
        let below = self.reach().map_or(0, |(low, _)| low.unsigned_abs());
        // At most the length of the range, which fits.
        Layout::strided(self.shape, self.strides, below as u64)
    }

    /// Whether [`Foreign::layout`] would be this one. Allocates nothing.
    #[must_use]
    pub fn has_layout(&self, layout: &Layout) -> bool {
        // Loops, since calls of `memcmp` take longer than these short comparisons.
        let has_shape = || self.shape.iter().zip(layout.shape()).all(|(own, other)| own == other);
        let has_strides = || self.strides.iter().zip(layout.strides()).all(|(own, other)| own == other);
        let has_offset = || match self.strides.iter().all(|&stride| stride >= 0) {
            true => layout.offset() == 0,
            false => self.reach().map_or(0, |(low, _)| low.unsigned_abs()) == u128::from(layout.offset()),
        };
        let rank = layout.shape().len();
        self.shape.len() == rank && self.strides.len() == rank && has_shape() && has_strides() && has_offset()
    }

    /// Whether both are the same elements in the same order, which a call may overwrite in place.
    #[must_use]
    pub fn is_same_tensor(&self, other: &Foreign<'_>) -> bool {
        let mut strides = self.shape.iter().zip(self.strides.iter().zip(other.strides));
        self.start == other.start
            && self.dtype == other.dtype
            && self.shape == other.shape
            && self.strides.len() == other.strides.len()
            && strides.all(|(extent, (own, other))| own == other || *extent == 1)
    }

    /// Whether some byte between the first and the last of one lies between those of the other.
    ///
    /// # Errors
    /// As [`Foreign::addresses`].
    pub fn overlaps(&self, other: &Foreign<'_>) -> Result<bool, LayoutError> {
        let (own, other) = (self.addresses()?, other.addresses()?);
        Ok(own.start < other.end && other.start < own.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor<'a>(start: u64, shape: &'a [u64], strides: &'a [i64]) -> Foreign<'a> {
        Foreign { start, dtype: DType::F32, shape, strides }
    }

    #[test]
    fn addresses_reach_from_the_lowest_to_the_highest_element() {
        for (shape, strides, expected) in [
            (&[][..], &[][..], 1000..1004),
            (&[3], &[1], 1000..1012),
            (&[3], &[-2], 984..1004),
            (&[2, 3], &[3, -1], 992..1016),
            (&[2, 3], &[0, 5], 1000..1044),
            (&[2, 0], &[9, 9], 0..0),
        ] {
            let given = tensor(1000, shape, strides);
            assert_eq!(given.addresses().unwrap(), expected, "{shape:?} {strides:?}");
            let layout = given.layout().unwrap();
            assert!(given.has_layout(&layout));
            let Some((low, high)) = layout.span() else { continue };
            assert_eq!((low, 4 * (high + 1)), (0, expected.end - expected.start));
            assert_eq!(1000 - 4 * layout.offset(), expected.start);
        }
    }

    #[test]
    fn tensors_outside_the_address_space_are_errors() {
        let all = u64::MAX >> 2;
        for (start, shape, strides) in [
            (8, &[4][..], &[-1][..]),
            (u64::MAX - 3, &[2], &[1]),
            (1000, &[all, 2], &[1, 1]),
            (1000, &[2], &[1, 1]),
            (1000, &[2, 2], &[i64::MAX, i64::MAX]),
            (1000, &[1; 9], &[1; 9]),
        ] {
            assert!(tensor(start, shape, strides).addresses().is_err(), "{start} {shape:?} {strides:?}");
            assert!(tensor(start, shape, strides).layout().is_err());
        }
    }

    #[test]
    fn the_same_elements_are_the_same_tensor_and_others_are_not() {
        let given = tensor(1000, &[1, 4], &[7, 1]);
        assert!(given.is_same_tensor(&tensor(1000, &[1, 4], &[4, 1])));
        for other in [tensor(1004, &[1, 4], &[4, 1]), tensor(1000, &[1, 4], &[4, 2]), tensor(1000, &[4, 1], &[1, 7])] {
            assert!(!given.is_same_tensor(&other));
            assert!(given.overlaps(&other).unwrap());
        }
        assert!(!given.overlaps(&tensor(1016, &[4], &[1])).unwrap());
        assert!(!given.overlaps(&tensor(1000, &[0], &[1])).unwrap());
    }
}
