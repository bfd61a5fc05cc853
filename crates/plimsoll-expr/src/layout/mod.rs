//! Layouts of tensors: shape, strides and offset, in elements. [`Space`] describes the strided indexing of several tensors
//! together.

mod foreign;
mod space;
mod views;

use std::fmt;

use crate::graph::MAX_RANK;

pub use foreign::{Foreign, ForeignSet};
pub use space::{Access, IndexWidth, Pattern, Space};

/// An invalid layout.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// More dimensions than [`MAX_RANK`].
    #[error("{0} dimensions: at most {MAX_RANK} are supported")]
    Rank(usize),
    /// The number of strides differs from the number of dimensions.
    #[error("{strides} strides for {extents} dimensions: give one stride per dimension")]
    Strides {
        /// Dimensions.
        extents: usize,
        /// Strides given.
        strides: usize,
    },
    /// More than 2⁶³ − 1 elements, or an offset above it.
    #[error("the shape {0} with its strides reaches beyond 2^63 elements")]
    TooLarge(Shape),
    /// More memory than any address space holds.
    #[error(
        "the shape {0} with its strides and offset reaches beyond 2^63 bytes of memory: strides and offsets count elements, here {1} B each"
    )]
    Memory(Shape, u64),
    /// Tensors that together exceed 2⁶⁴ − 1 bytes.
    #[error("tensors of the shape {0} exceed 2^64 bytes together: use fewer elements")]
    Bytes(Shape),
    /// An offset below the start of the memory.
    #[error("the shape {0} with its strides reaches below the start of the memory: raise the offset")]
    Negative(Shape),
    /// Shapes that can't be broadcast together.
    #[error(
        "the shapes {0} and {1} can't be broadcast together: aligned at the last dimension, extents must be equal or 1"
    )]
    Broadcast(Shape, Shape),
    /// Not a permutation of the dimensions.
    #[error("{0} is not an order of {1} dimensions: name each once, counting from 0")]
    Permutation(Shape, usize),
}

/// Extents, displayed as in error messages: `8x3x1025`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape(pub Vec<u64>);

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let extents: Vec<String> = self.0.iter().map(u64::to_string).collect();
        if extents.is_empty() { f.write_str("()") } else { f.write_str(&extents.join("x")) }
    }
}

/// Shape, strides and offset of one tensor, in elements. Every element's offset is between 0 and 2⁶³ − 1; the constructors
/// check this.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    shape: Vec<u64>,
    strides: Vec<i64>,
    offset: u64,
}

/// The number of elements of a shape.
///
/// # Errors
/// If there are too many dimensions or elements. A shape with an extent of 0 has no elements, whatever the other extents are.
pub fn elements(shape: &[u64]) -> Result<u64, LayoutError> {
    if shape.len() > MAX_RANK {
        return Err(LayoutError::Rank(shape.len()));
    }
    if shape.contains(&0) {
        return Ok(0);
    }
    let product = shape.iter().try_fold(1_u64, |product, &extent| product.checked_mul(extent));
    let product = product.filter(|&product| i64::try_from(product).is_ok());
    product.ok_or_else(|| LayoutError::TooLarge(Shape(shape.to_vec())))
}

/// The shape to which `shapes` are broadcast, as in NumPy: aligned at the last dimension, with extents of 1 stretched.
///
/// # Errors
/// If two extents differ and neither is 1, or the result is too large.
pub fn broadcast(shapes: &[&[u64]]) -> Result<Vec<u64>, LayoutError> {
    let mut common: Vec<u64> = Vec::new();
    for shape in shapes {
        let rank = common.len().max(shape.len());
        let extent = |shape: &[u64], i: usize| if i + shape.len() < rank { 1 } else { shape[i + shape.len() - rank] };
        let merged = (0..rank).map(|i| match (extent(&common, i), extent(shape, i)) {
            (1, b) => Some(b),
            (a, b) if a == b || b == 1 => Some(a),
            _ => None,
        });
        let merged: Option<Vec<u64>> = merged.collect();
        common = merged.ok_or_else(|| LayoutError::Broadcast(Shape(common.clone()), Shape(shape.to_vec())))?;
    }
    elements(&common)?;
    Ok(common)
}

impl Layout {
    /// A row-major layout without gaps: the last dimension is the fastest.
    ///
    /// # Errors
    /// If there are too many dimensions or elements.
    pub fn contiguous(shape: &[u64]) -> Result<Self, LayoutError> {
        elements(shape)?;
        let mut strides = vec![0; shape.len()];
        let mut stride = 1_i64;
        for (place, &extent) in strides.iter_mut().zip(shape).rev() {
            *place = stride;
            // Only an empty shape overflows here, and its strides are never used.
            stride = stride.saturating_mul(i64::try_from(extent).unwrap_or(i64::MAX));
        }
        Self::strided(shape, &strides, 0)
    }

    /// Any shape, strides (which may be negative or 0) and offset.
    ///
    /// # Errors
    /// If there are too many dimensions, not one stride per dimension, or elements are out of range.
    pub fn strided(shape: &[u64], strides: &[i64], offset: u64) -> Result<Self, LayoutError> {
        let count = elements(shape)?;
        if shape.len() != strides.len() {
            return Err(LayoutError::Strides { extents: shape.len(), strides: strides.len() });
        }
        let layout = Self { shape: shape.to_vec(), strides: strides.to_vec(), offset };
        let (low, high) = if count == 0 { (0, i128::from(offset)) } else { layout.reach() };
        if low < 0 {
            return Err(LayoutError::Negative(Shape(shape.to_vec())));
        }
        if high > i128::from(i64::MAX) {
            return Err(LayoutError::TooLarge(Shape(shape.to_vec())));
        }
        Ok(layout)
    }

    /// The smallest and the largest offset; meaningless if the layout is empty.
    fn reach(&self) -> (i128, i128) {
        let (mut low, mut high) = (i128::from(self.offset), i128::from(self.offset));
        for (&extent, &stride) in self.shape.iter().zip(&self.strides) {
            let far = i128::from(extent.saturating_sub(1)) * i128::from(stride);
            if far < 0 { low += far } else { high += far }
        }
        (low, high)
    }

    /// The extents; 0 is the slowest dimension.
    #[must_use]
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// The distance in elements from one index to the next, per dimension.
    #[must_use]
    pub fn strides(&self) -> &[i64] {
        &self.strides
    }

    /// The distance in elements from the start of the memory to the first element.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The same layout, `elements` further into the memory.
    ///
    /// # Errors
    /// If an element is then out of range.
    pub fn offset_by(&self, elements: u64) -> Result<Self, LayoutError> {
        let offset = self.offset.checked_add(elements);
        let offset = offset.ok_or_else(|| LayoutError::TooLarge(Shape(self.shape.clone())))?;
        Self::strided(&self.shape, &self.strides, offset)
    }

    /// The layout with its dimensions in another order: dimension i of the result is dimension `order[i]` of this layout.
    ///
    /// # Errors
    /// If `order` doesn't name each dimension once.
    pub fn permuted(&self, order: &[usize]) -> Result<Self, LayoutError> {
        let mut sorted = order.to_vec();
        sorted.sort_unstable();
        if !sorted.iter().copied().eq(0..self.shape.len()) {
            let order = order.iter().map(|&dimension| dimension as u64).collect();
            return Err(LayoutError::Permutation(Shape(order), self.shape.len()));
        }
        Ok(Self {
            shape: order.iter().map(|&dimension| self.shape[dimension]).collect(),
            strides: order.iter().map(|&dimension| self.strides[dimension]).collect(),
            offset: self.offset,
        })
    }

    /// The layout with its last two dimensions swapped; unchanged below two dimensions.
    #[must_use]
    pub fn transposed(&self) -> Self {
        let mut transposed = self.clone();
        let rank = self.shape.len();
        if rank >= 2 {
            transposed.shape.swap(rank - 2, rank - 1);
            transposed.strides.swap(rank - 2, rank - 1);
        }
        transposed
    }

    /// The layout broadcast to `shape`: dimensions of extent 1, and new dimensions in front, get stride 0.
    ///
    /// # Errors
    /// If it can't be broadcast to `shape`.
    pub fn broadcast_to(&self, shape: &[u64]) -> Result<Self, LayoutError> {
        elements(shape)?;
        let refuse = || LayoutError::Broadcast(Shape(self.shape.clone()), Shape(shape.to_vec()));
        let fresh = shape.len().checked_sub(self.shape.len()).ok_or_else(refuse)?;
        let mut strides = vec![0; fresh];
        for ((&extent, &stride), &wanted) in self.shape.iter().zip(&self.strides).zip(&shape[fresh..]) {
            match extent == wanted {
                true => strides.push(stride),
                false if extent == 1 => strides.push(0),
                false => return Err(refuse()),
            }
        }
        Self::strided(shape, &strides, self.offset)
    }

    /// The number of elements, where a broadcast element counts once per visit.
    #[must_use]
    pub fn elements(&self) -> u64 {
        if self.shape.contains(&0) { 0 } else { self.shape.iter().product() }
    }

    /// The number of elements, where a broadcast element counts once: the elements that must be read.
    #[must_use]
    pub fn distinct(&self) -> u64 {
        let varying = self.shape.iter().zip(&self.strides).filter(|(_, stride)| **stride != 0);
        if self.elements() == 0 { 0 } else { varying.map(|(extent, _)| extent).product() }
    }

    /// The smallest and the largest offset of an element; `None` if there are no elements.
    #[must_use]
    pub fn span(&self) -> Option<(u64, u64)> {
        // Both were checked to be in range.
        (self.elements() > 0).then(|| self.reach()).map(|(low, high)| (low as u64, high as u64))
    }

    /// Bytes from the start of the memory to the end of the last element, with `element` bytes per element; 0 if there are no
    /// elements.
    ///
    /// # Errors
    /// [`LayoutError::Memory`] above 2⁶³ − 1: a launch computes addresses in i64.
    pub fn memory(&self, element: u64) -> Result<u64, LayoutError> {
        let Some((_, last)) = self.span() else { return Ok(0) };
        let bytes = last.checked_add(1).and_then(|elements| elements.checked_mul(element));
        let bytes = bytes.filter(|&bytes| i64::try_from(bytes).is_ok());
        bytes.ok_or_else(|| LayoutError::Memory(Shape(self.shape.clone()), element))
    }

    /// The offset of an element; `None` if the coordinates are outside the shape.
    #[must_use]
    pub fn offset_of(&self, coordinates: &[u64]) -> Option<u64> {
        if coordinates.len() != self.shape.len() {
            return None;
        }
        let mut offset = i128::from(self.offset);
        for ((&coordinate, &extent), &stride) in coordinates.iter().zip(&self.shape).zip(&self.strides) {
            if coordinate >= extent {
                return None;
            }
            offset += i128::from(coordinate) * i128::from(stride);
        }
        u64::try_from(offset).ok()
    }

    /// Whether the elements follow each other in memory in row-major order, without gaps.
    #[must_use]
    pub fn is_contiguous(&self) -> bool {
        let mut expected = 1_u64;
        for (&extent, &stride) in self.shape.iter().zip(&self.strides).rev() {
            if extent != 1 && u64::try_from(stride) != Ok(expected) && self.elements() > 0 {
                return false;
            }
            expected = expected.saturating_mul(extent);
        }
        true
    }

    /// Whether two indices may share an element, which outputs must not. Also true for some unusual layouts that interleave but
    /// don't overlap.
    #[must_use]
    pub fn may_overlap_itself(&self) -> bool {
        let mut steps: Vec<(u64, u64)> =
            self.shape.iter().zip(&self.strides).map(|(&e, s)| (s.unsigned_abs(), e)).collect();
        steps.retain(|&(_, extent)| extent > 1);
        steps.sort_unstable();
        let mut reach = 0_u64;
        for (stride, extent) in steps {
            if self.elements() > 0 && stride <= reach {
                return true;
            }
            reach = reach.saturating_add(stride.saturating_mul(extent - 1));
        }
        false
    }
}
