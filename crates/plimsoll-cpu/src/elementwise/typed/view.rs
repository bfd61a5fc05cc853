//! Slices with shapes and strides.

use plimsoll_expr::{Layout, LayoutError};

/// A slice read with a layout.
#[derive(Clone, Debug)]
pub struct View<'s, T> {
    pub(super) elements: &'s [T],
    pub(super) layout: Layout,
}

impl<'s, T> View<'s, T> {
    /// The elements as a tensor of any layout that lies inside them (checked by [`Kernel::run`](super::Kernel::run)).
    #[must_use]
    pub fn new(elements: &'s [T], layout: Layout) -> Self {
        Self { elements, layout }
    }

    /// The first elements as a row-major tensor.
    ///
    /// # Errors
    /// If the shape is invalid.
    pub fn shaped(elements: &'s [T], shape: &[u64]) -> Result<Self, LayoutError> {
        Ok(Self::new(elements, Layout::contiguous(shape)?))
    }

    /// Shape, strides and offset.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// With the last two dimensions exchanged.
    #[must_use]
    pub fn transposed(&self) -> Self {
        Self { elements: self.elements, layout: self.layout.transposed() }
    }
}

/// A slice written with a layout.
#[derive(Debug)]
pub struct ViewMut<'s, T> {
    pub(super) elements: &'s mut [T],
    pub(super) layout: Layout,
}

impl<'s, T> ViewMut<'s, T> {
    /// The elements as a writable tensor of any layout that lies inside them and gives no two elements the same address (checked
    /// by [`Kernel::run`](super::Kernel::run)).
    #[must_use]
    pub fn new(elements: &'s mut [T], layout: Layout) -> Self {
        Self { elements, layout }
    }

    /// The first elements as a writable row-major tensor.
    ///
    /// # Errors
    /// If the shape is invalid.
    pub fn shaped(elements: &'s mut [T], shape: &[u64]) -> Result<Self, LayoutError> {
        Ok(Self::new(elements, Layout::contiguous(shape)?))
    }

    /// Shape, strides and offset.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }
}
