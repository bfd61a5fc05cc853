//! A tensor in device memory as an operand of an expression. `checks` validates operands.

use std::sync::Arc;

use plimsoll_core::Fault;
use plimsoll_expr::{DType, Layout};

use crate::driver::{Context, DevicePointer};
use crate::memory::{DeviceBuffer, Region, Span, StreamBuffer};

/// A tensor in device memory, which it holds.
#[derive(Clone, Debug)]
pub struct Operand {
    span: Span,
    /// `None` if the memory was already freed; binding it then fails.
    region: Option<Arc<Region>>,
    dtype: DType,
    layout: Layout,
}

impl Operand {
    /// Elements of `dtype` in `span`. The layout's offset counts from the start of the span.
    #[must_use]
    pub fn new(span: Span, dtype: DType, layout: Layout) -> Self {
        Self { span, region: Region::find(span).ok(), dtype, layout }
    }

    /// Elements of `dtype` in a whole buffer.
    #[must_use]
    pub fn from_buffer(buffer: &DeviceBuffer, dtype: DType, layout: Layout) -> Self {
        Self { span: buffer.whole(), region: Some(Arc::clone(buffer.region())), dtype, layout }
    }

    /// The same memory with another layout.
    #[must_use]
    pub fn with_layout(&self, layout: Layout) -> Self {
        Self { layout, ..self.clone() }
    }

    /// The element type.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Shape, strides and offset.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The memory.
    ///
    /// # Errors
    /// [`Fault::Invalid`] if it was freed.
    pub(super) fn region(&self) -> Result<Arc<Region>, Fault> {
        self.region.clone().map_or_else(|| Region::find(self.span), Ok)
    }

    pub(super) fn raw(&self) -> Raw<'_> {
        Raw {
            pointer: self.span.pointer(),
            bytes: self.span.bytes(),
            dtype: self.dtype,
            extent: Extent::Laid(&self.layout),
            context: self.region.as_ref().map(|region| region.context()),
        }
    }
}

/// Shape and strides.
#[derive(Clone, Copy, Debug)]
pub(super) enum Extent<'a> {
    /// A number of consecutive elements.
    Flat(u64),
    /// Any layout.
    Laid(&'a Layout),
}

impl Extent<'_> {
    /// As an owned layout. A length is limited by the memory, so it makes a valid layout.
    pub(super) fn layout(self) -> Result<Layout, plimsoll_expr::LayoutError> {
        match self {
            Self::Flat(length) => Layout::contiguous(&[length]),
            Self::Laid(layout) => Ok(layout.clone()),
        }
    }
}

/// A borrowed operand for the duration of one call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Raw<'a> {
    pub(super) pointer: DevicePointer,
    pub(super) bytes: u64,
    pub(super) dtype: DType,
    pub(super) extent: Extent<'a>,
    pub(super) context: Option<&'a Arc<Context>>,
}

impl<'a> Raw<'a> {
    /// A placeholder for unused entries.
    pub(super) const NONE: Self =
        Self { pointer: 0, bytes: 0, dtype: DType::U8, extent: Extent::Flat(0), context: None };

    pub(super) fn from_memory(memory: &'a StreamBuffer, dtype: DType, extent: Extent<'a>) -> Self {
        let span = memory.whole();
        let context = Some(memory.stream().context());
        Self { pointer: span.pointer(), bytes: span.bytes(), dtype, extent, context }
    }

    /// The address of the element of index 0.
    pub(super) fn start(&self) -> u64 {
        match self.extent {
            Extent::Flat(_) => self.pointer,
            Extent::Laid(layout) => self.pointer.wrapping_add(layout.offset().wrapping_mul(self.dtype.bytes())),
        }
    }
}
