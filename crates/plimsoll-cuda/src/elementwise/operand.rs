//! A tensor in a device's memory, as an expression takes it. What must be true of it is `checks`' business.

use std::sync::Arc;

use plimsoll_core::Fault;
use plimsoll_expr::{DType, Layout};

use crate::driver::{Context, DevicePointer};
use crate::memory::{DeviceBuffer, Region, Span, StreamBuffer};

/// Memory of a device, which it holds, with what is in it.
#[derive(Clone, Debug)]
pub struct Operand {
    span: Span,
    /// None where the memory had been freed; whoever binds it is told.
    region: Option<Arc<Region>>,
    dtype: DType,
    layout: Layout,
}

impl Operand {
    /// Elements of `dtype` in `span`, from whose start the layout's offset counts.
    #[must_use]
    pub fn new(span: Span, dtype: DType, layout: Layout) -> Self {
        Self { span, region: Region::find(span).ok(), dtype, layout }
    }

    /// Elements of `dtype` in all of a buffer.
    #[must_use]
    pub fn of(buffer: &DeviceBuffer, dtype: DType, layout: Layout) -> Self {
        Self { span: buffer.whole(), region: Some(Arc::clone(buffer.region())), dtype, layout }
    }

    /// The same memory, walked in another way.
    #[must_use]
    pub fn with_layout(&self, layout: Layout) -> Self {
        Self { layout, ..self.clone() }
    }

    /// The type of its elements.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// How its elements lie in the memory.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The memory.
    ///
    /// # Errors
    /// [`Fault::Invalid`] where it had been freed.
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
    /// So many elements in a row.
    Flat(u64),
    /// Any layout.
    Laid(&'a Layout),
}

impl Extent<'_> {
    /// As a layout of its own. A length is at most what memory holds, so it is one.
    pub(super) fn layout(self) -> Result<Layout, plimsoll_expr::LayoutError> {
        match self {
            Self::Flat(length) => Layout::contiguous(&[length]),
            Self::Laid(layout) => Ok(layout.clone()),
        }
    }
}

/// An operand for the length of one call, without memory of its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Raw<'a> {
    pub(super) pointer: DevicePointer,
    pub(super) bytes: u64,
    pub(super) dtype: DType,
    pub(super) extent: Extent<'a>,
    pub(super) context: Option<&'a Arc<Context>>,
}

impl<'a> Raw<'a> {
    /// Nothing, to fill a list with.
    pub(super) const NONE: Self =
        Self { pointer: 0, bytes: 0, dtype: DType::U8, extent: Extent::Flat(0), context: None };

    pub(super) fn of(memory: &'a StreamBuffer, dtype: DType, extent: Extent<'a>) -> Self {
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
