//! Arrays and numbers of Python as arguments of a call.

use plimsoll::expr::graph::MAX_RANK;
use plimsoll::expr::{DType, Foreign, LayoutError};
use smallvec::SmallVec;

/// A list of a call's arguments or results: up to four need no memory of their own.
pub(crate) type Few<T> = SmallVec<[T; 4]>;

/// Where memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    Host,
    Cuda(u32),
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Host => f.write_str("cpu"),
            Self::Cuda(number) => write!(f, "cuda:{number}"),
        }
    }
}

/// An array's memory during a call. The call holds the array.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tensor {
    /// The address of the element of index 0.
    pub(crate) start: u64,
    pub(crate) dtype: DType,
    pub(crate) place: Place,
    pub(crate) is_read_only: bool,
    rank: usize,
    shape: [u64; MAX_RANK],
    /// In elements.
    strides: [i64; MAX_RANK],
}

impl Tensor {
    /// Nothing yet.
    pub(crate) const EMPTY: Self = Self::new(0, DType::F32, Place::Host, false);

    /// A tensor of one element; [`Tensor::push`] adds its dimensions.
    pub(crate) const fn new(start: u64, dtype: DType, place: Place, is_read_only: bool) -> Self {
        Self { start, dtype, place, is_read_only, rank: 0, shape: [1; MAX_RANK], strides: [0; MAX_RANK] }
    }

    /// Makes it a tensor of one element, as [`Tensor::new`] does.
    pub(crate) fn reset(&mut self, start: u64, dtype: DType, place: Place, is_read_only: bool) {
        (self.start, self.dtype, self.place, self.is_read_only, self.rank) = (start, dtype, place, is_read_only, 0);
    }

    /// Adds a dimension after the others; the stride is in elements.
    ///
    /// # Errors
    /// More dimensions than expressions support.
    pub(crate) fn push(&mut self, extent: u64, stride: i64) -> Result<(), LayoutError> {
        let rank = self.rank;
        let (Some(place), Some(step)) = (self.shape.get_mut(rank), self.strides.get_mut(rank)) else {
            return Err(LayoutError::Rank(rank + 1));
        };
        (*place, *step, self.rank) = (extent, stride, rank + 1);
        Ok(())
    }

    /// Sets the strides of a row-major tensor without gaps.
    pub(crate) fn make_contiguous(&mut self) {
        let mut stride = 1_i64;
        for (place, &extent) in self.strides.iter_mut().zip(&self.shape[..self.rank]).rev() {
            *place = stride;
            // Only the strides of empty tensors overflow; they aren't used.
            stride = stride.wrapping_mul(extent as i64);
        }
    }

    pub(crate) fn shape(&self) -> &[u64] {
        &self.shape[..self.rank]
    }

    /// Whether both are the same elements in the same order. Arrays without elements aren't.
    pub(crate) fn is_same_array(&self, other: &Self) -> bool {
        self.start == other.start
            && self.place == other.place
            && self.foreign().is_same_tensor(&other.foreign())
            && !self.shape().contains(&0)
    }

    pub(crate) fn foreign(&self) -> Foreign<'_> {
        Foreign { start: self.start, dtype: self.dtype, shape: self.shape(), strides: &self.strides[..self.rank] }
    }
}

/// The shape to which tensors are broadcast together, as in NumPy. Allocates nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Common {
    rank: usize,
    /// Filled from the end.
    extents: [u64; MAX_RANK],
}

impl Common {
    pub(crate) const fn new() -> Self {
        Self { rank: 0, extents: [1; MAX_RANK] }
    }

    /// Stretches it to hold a tensor; false if the shapes don't match.
    pub(crate) fn include(&mut self, shape: &[u64]) -> bool {
        self.rank = self.rank.max(shape.len());
        self.extents.iter_mut().rev().zip(shape.iter().rev()).all(|(common, &extent)| match (*common, extent) {
            (own, given) if own == given || given == 1 => true,
            (1, given) => {
                *common = given;
                true
            }
            _ => false,
        })
    }

    pub(crate) fn shape(&self) -> &[u64] {
        &self.extents[MAX_RANK - self.rank..]
    }
}
