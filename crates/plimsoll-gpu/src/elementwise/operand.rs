//! A tensor in device memory as an operand of an expression. `checks` validates operands.

use std::fmt;

use plimsoll_core::Fault;
use plimsoll_expr::{DType, Foreign, Layout, LayoutError};

use super::backend::Elementwise;
use super::error::Error;
use crate::{Memory, Span};

/// A tensor in device memory, which it holds.
pub struct Operand<G: Elementwise> {
    span: Span,
    held: Holding<G>,
    dtype: DType,
    layout: Layout,
}

/// What keeps the memory of an operand alive.
enum Holding<G: Elementwise> {
    Held(G::Held),
    /// Nothing: the memory was already freed, and using it fails.
    Freed,
    /// Another library, as the caller of [`Operand::from_foreign`] promised.
    Foreign,
}

impl<G: Elementwise> Holding<G> {
    fn new(span: Span) -> Self {
        G::hold(&[span]).map_or(Self::Freed, Self::Held)
    }

    fn held(&self) -> Option<&G::Held> {
        match self {
            Self::Held(held) => Some(held),
            Self::Freed | Self::Foreign => None,
        }
    }
}

impl<G: Elementwise> Clone for Holding<G> {
    fn clone(&self) -> Self {
        match self {
            Self::Held(held) => Self::Held(held.clone()),
            Self::Freed => Self::Freed,
            Self::Foreign => Self::Foreign,
        }
    }
}

impl<G: Elementwise> Clone for Operand<G> {
    fn clone(&self) -> Self {
        self.with_layout(self.layout.clone())
    }
}

impl<G: Elementwise> fmt::Debug for Operand<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Operand({:?}, {}, {:?})", self.span, self.dtype, self.layout)
    }
}

impl<G: Elementwise> Operand<G> {
    /// Elements of `dtype` in `span`. The layout's offset counts from the start of the span.
    #[must_use]
    pub fn new(span: Span, dtype: DType, layout: Layout) -> Self {
        Self { span, held: Holding::new(span), dtype, layout }
    }

    /// A tensor of another library.
    ///
    /// # Safety
    /// Nothing is held. All elements are memory that the device can access, from now on until all work that uses the operand or a clone
    /// of it has ended, and as long as anything that can launch such work, such as a bound expression, a batch or a graph. Nobody else
    /// writes what the work reads, or accesses what it writes, unless the two are ordered.
    ///
    /// # Errors
    /// Those of [`Foreign::layout`].
    pub unsafe fn from_foreign(tensor: &Foreign<'_>) -> Result<Self, LayoutError> {
        let (range, layout) = (tensor.addresses()?, tensor.layout()?);
        let span = Span::new(0, range.start, range.end - range.start);
        Ok(Self { span, held: Holding::Foreign, dtype: tensor.dtype, layout })
    }

    /// Elements of `dtype` in a whole buffer.
    #[must_use]
    pub fn from_buffer(buffer: &impl Memory, dtype: DType, layout: Layout) -> Self {
        Self::new(buffer.whole(), dtype, layout)
    }

    /// Replaces the memory, with the same type and layout: for calls whose tensors change. Allocates nothing.
    pub fn set_memory(&mut self, span: Span) {
        (self.span, self.held) = (span, Holding::new(span));
    }

    /// The same memory with another layout.
    #[must_use]
    pub fn with_layout(&self, layout: Layout) -> Self {
        Self { span: self.span, held: self.held.clone(), dtype: self.dtype, layout }
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

    /// Whether both are the same elements of the same memory.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.span == other.span && self.dtype == other.dtype && self.layout == other.layout
    }

    /// Whether it is this tensor of another library.
    pub(super) fn is_same_foreign(&self, tensor: &Foreign<'_>) -> bool {
        let is_empty = tensor.shape.contains(&0);
        matches!(self.held, Holding::Foreign)
            && self.dtype == tensor.dtype
            && tensor.has_layout(&self.layout)
            && (is_empty || self.tensor().start() == tensor.start)
    }

    /// Its memory, unless another library keeps that alive.
    pub(super) fn span_to_hold(&self) -> Option<Span> {
        (!matches!(self.held, Holding::Foreign)).then_some(self.span)
    }

    /// The memory; `None` if another library keeps it alive.
    ///
    /// # Errors
    /// [`Fault::Invalid`] if it was freed before the operand was made.
    pub(super) fn held(&self) -> Result<Option<&G::Held>, Fault> {
        match &self.held {
            Holding::Held(held) => Ok(Some(held)),
            Holding::Foreign => Ok(None),
            // The reason.
            Holding::Freed => {
                Err(G::hold(&[self.span]).err().unwrap_or_else(|| Fault::Invalid("the memory was freed".to_owned())))
            }
        }
    }

    pub(super) fn tensor(&self) -> TensorRef<'_, G> {
        let (pointer, bytes) = (self.span.pointer(), self.span.bytes());
        let extent = Extent::Laid(&self.layout);
        TensorRef { pointer, bytes, dtype: self.dtype, extent, held: self.held.held() }
    }
}

/// All inputs and all outputs of an expression.
pub(super) type Operands<G> = (Vec<Operand<G>>, Vec<Operand<G>>);

/// As many tensors as calls usually have: a longer list takes longer to fill.
const FEW: usize = 8;
/// As many tensors as are listed on the stack, so that nothing is allocated.
const MANY: usize = 64;

/// Calls `task` with inputs, then outputs. Allocates nothing for up to [`MANY`].
pub(super) fn with_tensors<G: Elementwise, R>(
    inputs: &[Operand<G>],
    outputs: &[Operand<G>],
    task: impl FnOnce(&[TensorRef<'_, G>]) -> Result<R, Error>,
) -> Result<R, Error> {
    with_list(inputs.len() + outputs.len(), inputs.iter().chain(outputs).map(|operand| Ok(operand.tensor())), task)
}

/// Calls `task` with `count` tensors. Allocates nothing for up to [`MANY`].
pub(super) fn with_list<'a, G: Elementwise, R>(
    count: usize,
    all: impl Iterator<Item = Result<TensorRef<'a, G>, Error>>,
    task: impl FnOnce(&[TensorRef<'a, G>]) -> Result<R, Error>,
) -> Result<R, Error> {
    match count {
        count @ 0..=FEW => task(&fill::<G, FEW>(all)?[..count]),
        count @ ..=MANY => task(&fill::<G, MANY>(all)?[..count]),
        _ => task(&all.collect::<Result<Vec<_>, _>>()?),
    }
}

/// A list that begins with these tensors.
fn fill<'a, G: Elementwise, const N: usize>(
    all: impl Iterator<Item = Result<TensorRef<'a, G>, Error>>,
) -> Result<[TensorRef<'a, G>; N], Error> {
    let mut list = [TensorRef::NONE; N];
    for (slot, tensor) in list.iter_mut().zip(all) {
        *slot = tensor?;
    }
    Ok(list)
}

/// Shape and strides.
#[derive(Clone, Copy, Debug)]
pub enum Extent<'a> {
    /// A number of consecutive elements.
    Flat(u64),
    /// Any layout.
    Laid(&'a Layout),
    /// Those of a tensor of another library, whose lowest address is the memory's.
    Foreign(&'a Foreign<'a>),
}

impl Extent<'_> {
    /// As an owned layout. A length is limited by the memory, so it makes a valid layout.
    pub(super) fn layout(self) -> Result<Layout, LayoutError> {
        match self {
            Self::Flat(length) => Layout::contiguous(&[length]),
            Self::Laid(layout) => Ok(layout.clone()),
            Self::Foreign(tensor) => tensor.layout(),
        }
    }
}

/// A borrowed tensor for the duration of one call.
pub struct TensorRef<'a, G: Elementwise> {
    /// Its address on the device.
    pub pointer: u64,
    /// Bytes of its memory from that address on.
    pub bytes: u64,
    /// The element type.
    pub dtype: DType,
    /// Shape and strides.
    pub extent: Extent<'a>,
    /// Its memory; `None` if it belongs to another library, which vouches for it.
    pub held: Option<&'a G::Held>,
}

impl<G: Elementwise> Clone for TensorRef<'_, G> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<G: Elementwise> Copy for TensorRef<'_, G> {}

impl<G: Elementwise> fmt::Debug for TensorRef<'_, G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TensorRef({:#x}, {} bytes, {}, {:?})", self.pointer, self.bytes, self.dtype, self.extent)
    }
}

impl<'a, G: Elementwise> TensorRef<'a, G> {
    /// A placeholder for unused entries.
    pub const NONE: Self = Self { pointer: 0, bytes: 0, dtype: DType::U8, extent: Extent::Flat(0), held: None };

    /// A tensor of another library. Allocates nothing.
    ///
    /// # Errors
    /// Those of [`Foreign::addresses`].
    pub fn from_foreign(tensor: &'a Foreign<'a>) -> Result<Self, LayoutError> {
        let range = tensor.addresses()?;
        let (pointer, bytes) = (range.start, range.end - range.start);
        Ok(Self { pointer, bytes, dtype: tensor.dtype, extent: Extent::Foreign(tensor), held: None })
    }

    /// The address of the element of index 0.
    #[must_use]
    pub fn start(&self) -> u64 {
        match self.extent {
            Extent::Flat(_) => self.pointer,
            Extent::Laid(layout) => self.pointer.wrapping_add(layout.offset().wrapping_mul(self.dtype.bytes())),
            // Without elements any address will do.
            Extent::Foreign(_) if self.bytes == 0 => self.pointer,
            Extent::Foreign(tensor) => tensor.start,
        }
    }
}
