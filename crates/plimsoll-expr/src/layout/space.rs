//! Strided indexing of several tensors together: common extents with strides for each tensor, collapsing to as few dimensions
//! as possible, and the facts that a planner needs.

use super::{Layout, LayoutError, broadcast, elements};

/// The strided indexing of one tensor.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Access {
    /// The distance in elements from the start of the memory to the first element.
    pub offset: u64,
    /// The distance in elements from one index to the next, for each dimension of the space.
    pub strides: Vec<i64>,
}

/// The width of integers that hold all indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IndexWidth {
    /// Every index, and every offset from a tensor's first element, fits into i32.
    Bits32,
    /// Some index or offset needs i64.
    Bits64,
}

/// The access pattern of one tensor along the fastest dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pattern {
    /// A single element for the whole space.
    Uniform,
    /// Consecutive elements: stride 1.
    Unit,
    /// The same element within a row, another one in other rows: stride 0.
    Splat,
    /// Any other stride.
    Strided,
}

/// The extents of an index space, last dimension fastest, and the tensors accessed at each index.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Space {
    extents: Vec<u64>,
    accesses: Vec<Access>,
}

impl Space {
    /// The space of tensors that are broadcast together; a single element if there are none.
    ///
    /// # Errors
    /// If their shapes can't be broadcast together.
    pub fn new(layouts: &[Layout]) -> Result<Self, LayoutError> {
        let shapes: Vec<&[u64]> = layouts.iter().map(Layout::shape).collect();
        Self::with_shape(&broadcast(&shapes)?, layouts)
    }

    /// The space of tensors that are broadcast to `shape`.
    ///
    /// # Errors
    /// If one of them can't be broadcast to `shape`.
    pub fn with_shape(shape: &[u64], layouts: &[Layout]) -> Result<Self, LayoutError> {
        elements(shape)?;
        let stretched = layouts.iter().map(|layout| layout.broadcast_to(shape));
        let access = |layout: Layout| Access { offset: layout.offset(), strides: layout.strides().to_vec() };
        let accesses = stretched.map(|layout| layout.map(access)).collect::<Result<_, _>>()?;
        Ok(Self { extents: shape.to_vec(), accesses })
    }

    /// The extents; 0 is the slowest dimension.
    #[must_use]
    pub fn extents(&self) -> &[u64] {
        &self.extents
    }

    /// The accesses, in the order of the tensors.
    #[must_use]
    pub fn accesses(&self) -> &[Access] {
        &self.accesses
    }

    /// The number of elements.
    #[must_use]
    pub fn elements(&self) -> u64 {
        if self.extents.contains(&0) { 0 } else { self.extents.iter().product() }
    }

    /// The same space in as few dimensions as possible: extents of 1 are dropped, and adjacent dimensions that are contiguous in
    /// every tensor are merged. The order of the elements stays the same. A single element has no dimension left; an empty space
    /// has one, of extent 0.
    #[must_use]
    pub fn collapsed(&self) -> Self {
        let none =
            || self.accesses.iter().map(|access| Access { offset: access.offset, strides: Vec::new() }).collect();
        let mut collapsed = Self { extents: Vec::new(), accesses: none() };
        if self.elements() == 0 {
            collapsed.extents.push(0);
            collapsed.accesses.iter_mut().for_each(|access| access.strides.push(1));
            return collapsed;
        }
        for (dimension, &extent) in self.extents.iter().enumerate().filter(|(_, extent)| **extent > 1) {
            let strides = self.accesses.iter().map(|access| access.strides[dimension]);
            let pairs = collapsed.accesses.iter().zip(strides.clone());
            // One step of the slower dimension is exactly one run of this dimension.
            let merges = !collapsed.extents.is_empty()
                && pairs.into_iter().all(|(access, stride)| {
                    access.strides.last().map(|&slower| i128::from(slower))
                        == Some(i128::from(stride) * i128::from(extent))
                });
            match collapsed.extents.last_mut() {
                Some(slower) if merges => *slower *= extent,
                _ => collapsed.extents.push(extent),
            }
            for (access, stride) in collapsed.accesses.iter_mut().zip(strides) {
                if merges {
                    access.strides.pop();
                }
                access.strides.push(stride);
            }
        }
        collapsed
    }

    /// The same elements in the memory order of tensor number `leader`, slowest dimension first, so that tensors that are all
    /// transposed collapse like contiguous ones. Unchanged if there is no such tensor. Not for expressions that depend on an
    /// element's index.
    #[must_use]
    pub fn ordered_by(&self, leader: usize) -> Self {
        let Some(leader) = self.accesses.get(leader) else { return self.clone() };
        let mut order: Vec<usize> = (0..self.extents.len()).collect();
        // The sort is stable: broadcast dimensions, with stride 0, come last and keep their order.
        order.sort_by_key(|&dimension| std::cmp::Reverse(leader.strides[dimension].unsigned_abs()));
        let reorder = |access: &Access| Access {
            offset: access.offset,
            strides: order.iter().map(|&dimension| access.strides[dimension]).collect(),
        };
        Self {
            extents: order.iter().map(|&dimension| self.extents[dimension]).collect(),
            accesses: self.accesses.iter().map(reorder).collect(),
        }
    }

    /// The integer width for indices and for each tensor's offsets from its first element.
    #[must_use]
    pub fn index_width(&self) -> IndexWidth {
        if self.elements() == 0 {
            return IndexWidth::Bits32;
        }
        let most = i128::from(i32::MAX);
        let reach = |access: &Access, sign: i128| -> i128 {
            let far = self.extents.iter().zip(&access.strides);
            let far = far.map(|(&extent, &stride)| sign * i128::from(extent.saturating_sub(1)) * i128::from(stride));
            far.filter(|&far| far > 0).sum()
        };
        let near = self.accesses.iter().all(|access| reach(access, 1) <= most && reach(access, -1) <= most);
        if near && i128::from(self.elements()) <= most { IndexWidth::Bits32 } else { IndexWidth::Bits64 }
    }

    /// The pattern of tensor number `which` along the fastest dimension; [`Pattern::Uniform`] if there is no such tensor.
    #[must_use]
    pub fn pattern(&self, which: usize) -> Pattern {
        let strides = self.accesses.get(which).map_or(&[][..], |access| &access.strides);
        match strides.last() {
            _ if strides.iter().all(|&stride| stride == 0) => Pattern::Uniform,
            Some(1) => Pattern::Unit,
            Some(0) => Pattern::Splat,
            _ => Pattern::Strided,
        }
    }

    /// The most elements, a power of two, that one aligned access of up to `most_bytes` can cover everywhere in tensor number
    /// `which`, except in the remainder at the end. Each element has `bytes` bytes, and the memory starts at a multiple of
    /// `alignment` bytes. 1 if the elements aren't consecutive.
    #[must_use]
    pub fn vector(&self, which: usize, bytes: u64, alignment: u64, most_bytes: u64) -> u64 {
        let Some(access) = self.accesses.get(which).filter(|_| self.pattern(which) == Pattern::Unit) else { return 1 };
        let rows = self.extents.len() > 1;
        let fits = |elements: u64| {
            let size = elements.checked_mul(bytes).filter(|&size| size > 0 && size <= most_bytes);
            size.is_some_and(|size| alignment.is_multiple_of(size))
                && access.offset.is_multiple_of(elements)
                && access.strides.iter().rev().skip(1).all(|stride| stride.unsigned_abs().is_multiple_of(elements))
                && (!rows || self.extents.last().is_some_and(|extent| extent.is_multiple_of(elements)))
        };
        let mut elements = 1;
        while fits(2 * elements) {
            elements *= 2;
        }
        elements
    }

    /// The coordinates of every element, last dimension fastest.
    pub fn coordinates(&self) -> impl Iterator<Item = Vec<u64>> + '_ {
        let mut next = (self.elements() > 0).then(|| vec![0; self.extents.len()]);
        std::iter::from_fn(move || {
            let current = next.take()?;
            let mut following = current.clone();
            for (coordinate, &extent) in following.iter_mut().zip(&self.extents).rev() {
                *coordinate += 1;
                if *coordinate < extent {
                    next = Some(following);
                    break;
                }
                *coordinate = 0;
            }
            Some(current)
        })
    }

    /// The offset of every element of tensor number `which`, in row-major order of the space. For tests and small spaces.
    #[must_use]
    pub fn offsets(&self, which: usize) -> Vec<u64> {
        let Some(access) = self.accesses.get(which) else { return Vec::new() };
        let offset = |coordinates: Vec<u64>| {
            let steps = coordinates.iter().zip(&access.strides);
            let sum: i128 = steps.map(|(&coordinate, &stride)| i128::from(coordinate) * i128::from(stride)).sum();
            // In range, since the layouts were checked.
            (i128::from(access.offset) + sum) as u64
        };
        self.coordinates().map(offset).collect()
    }
}
