//! Views of a buffer: the same for the buffers of a GPU and for those of any device.

/// Declares `View` and `ViewMut`, which borrow a `Buffer<T>` and have a layout of their own, and the buffer's methods that make
/// them. `$element` is the trait of elements.
#[doc(hidden)]
#[macro_export]
macro_rules! buffer_views {
    ($element:path) => {
        impl<T: $element> Buffer<T> {
            /// Its elements as a tensor of any layout, which must lie inside the buffer (checked when it is used).
            #[must_use]
            pub fn view(&self, layout: $crate::Layout) -> View<'_, T> {
                View { buffer: self, layout }
            }

            /// Its elements as a writable tensor of any layout, which must lie inside the buffer (checked when it is used).
            #[must_use]
            pub fn view_mut(&mut self, layout: $crate::Layout) -> ViewMut<'_, T> {
                ViewMut { buffer: self, layout }
            }

            /// Its first elements as a row-major tensor.
            ///
            /// # Errors
            /// For an invalid shape.
            pub fn shaped(&self, shape: &[u64]) -> Result<View<'_, T>, $crate::LayoutError> {
                Ok(self.view($crate::Layout::contiguous(shape)?))
            }

            /// Its first elements as a writable row-major tensor.
            ///
            /// # Errors
            /// For an invalid shape.
            pub fn shaped_mut(&mut self, shape: &[u64]) -> Result<ViewMut<'_, T>, $crate::LayoutError> {
                Ok(self.view_mut($crate::Layout::contiguous(shape)?))
            }
        }

        /// A [`Buffer`] read with a layout.
        #[derive(Clone, Debug)]
        pub struct View<'b, T> {
            pub(super) buffer: &'b Buffer<T>,
            pub(super) layout: $crate::Layout,
        }

        impl<T> View<'_, T> {
            /// Shape, strides and offset.
            #[must_use]
            pub fn layout(&self) -> &$crate::Layout {
                &self.layout
            }

            /// The view with its last two dimensions exchanged.
            #[must_use]
            pub fn transposed(&self) -> Self {
                Self { buffer: self.buffer, layout: self.layout.transposed() }
            }
        }

        /// A [`Buffer`] written with a layout.
        #[derive(Debug)]
        pub struct ViewMut<'b, T> {
            pub(super) buffer: &'b mut Buffer<T>,
            pub(super) layout: $crate::Layout,
        }

        impl<T> ViewMut<'_, T> {
            /// Shape, strides and offset.
            #[must_use]
            pub fn layout(&self) -> &$crate::Layout {
                &self.layout
            }
        }
    };
}
