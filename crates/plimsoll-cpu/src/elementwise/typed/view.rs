//! Slices with shapes and strides.

use plimsoll_expr::{Layout, LayoutError};

/// A slice read with a layout.
#[derive(Clone, Debug)]
pub struct View<'s, T> {
    pub(super) elements: &'s [T],
    pub(super) layout: Layout,
}

impl<'s, T> View<'s, T> {
    /// The elements as a tensor of any layout, which must be inside of them (checked when it is used).
    #[must_use]
    pub fn new(elements: &'s [T], layout: Layout) -> Self {
        Self { elements, layout }
    }

    /// The first elements as a row-major tensor.
    ///
    /// # Errors
    /// For a shape that can't be.
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
    /// The elements as a tensor of any layout, to be written. It must be inside of them and give no two elements one place
    /// (checked when it is used).
    #[must_use]
    pub fn new(elements: &'s mut [T], layout: Layout) -> Self {
        Self { elements, layout }
    }

    /// The first elements as a row-major tensor, to be written.
    ///
    /// # Errors
    /// For a shape that can't be.
    pub fn shaped(elements: &'s mut [T], shape: &[u64]) -> Result<Self, LayoutError> {
        Ok(Self::new(elements, Layout::contiguous(shape)?))
    }

    /// Shape, strides and offset.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }
}
