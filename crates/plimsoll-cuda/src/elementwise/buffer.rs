//! Typed memory of a stream, and views of it with shapes and strides.

use std::marker::PhantomData;
use std::sync::Arc;

use plimsoll_core::Fault;
use plimsoll_expr::{Layout, LayoutError};
use plimsoll_gpu::elementwise::Extent;

use super::lane::Lane;
use super::{Error, Operand, TensorRef};
use crate::memory::Transfer as _;
use crate::memory::{Plain, Span, StreamBuffer, bytes, bytes_of_bits};

/// Elements in device memory. It belongs to the stream of the [`super::Gpu`] that made it: it is used and freed in that stream's
/// order.
#[derive(Debug)]
pub struct Buffer<T> {
    memory: Arc<StreamBuffer>,
    lane: Arc<Lane>,
    length: usize,
    element: PhantomData<T>,
}

/// Bytes of `length` elements.
fn size<T: Plain>(length: usize) -> Result<u64, Error> {
    let refused = Fault::OutOfMemory { asked: u64::MAX, free: None };
    (length as u64).checked_mul(T::DTYPE.bytes()).ok_or(Error::Fault(refused))
}

impl<T: Plain> Buffer<T> {
    /// With any content.
    pub(super) fn new(lane: &Arc<Lane>, length: usize) -> Result<Self, Error> {
        let memory = Arc::new(StreamBuffer::new(lane.stream(), size::<T>(length)?)?);
        Ok(Self { memory, lane: Arc::clone(lane), length, element: PhantomData })
    }

    pub(super) fn zeros(lane: &Arc<Lane>, length: usize) -> Result<Self, Error> {
        let buffer = Self::new(lane, length)?;
        lane.stream().context().bind()?;
        buffer.memory.whole().fill(lane.stream(), 0)?;
        Ok(buffer)
    }

    pub(super) fn from_values(lane: &Arc<Lane>, values: &[T]) -> Result<Self, Error> {
        let buffer = Self::new(lane, values.len())?;
        buffer.memory.upload(bytes(values))?;
        Ok(buffer)
    }

    /// Number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Waits for all work of the stream and copies the elements to the host.
    ///
    /// # Errors
    /// [`Fault::Hung`]; includes faults of kernels launched earlier.
    pub fn to_vec(&self) -> Result<Vec<T>, Error> {
        let mut values = Vec::new();
        let refused = |_| Fault::OutOfMemory { asked: self.memory.whole().bytes(), free: None };
        values.try_reserve_exact(self.length).map_err(refused)?;
        values.resize(self.length, T::Bits::default());
        self.memory.download(bytes_of_bits::<T>(&mut values))?;
        Ok(T::from_bits(values))
    }

    /// Overwrites its first elements and waits.
    ///
    /// # Errors
    /// [`Fault::Invalid`] for more elements than it has.
    pub fn write(&mut self, values: &[T]) -> Result<(), Error> {
        Ok(self.memory.upload(bytes(values))?)
    }

    /// An operand for untyped expressions, which holds the buffer's memory. The caller must order its use among streams.
    ///
    /// # Errors
    /// The number of elements overflows.
    pub fn operand(&self) -> Result<Operand, LayoutError> {
        Ok(Operand::new(self.memory.whole(), T::DTYPE, Layout::contiguous(&[self.length as u64])?))
    }

    /// Its memory, for [`Operand::set_memory`].
    #[must_use]
    pub fn span(&self) -> Span {
        self.memory.whole()
    }

    pub(super) fn tensor<'s>(&'s self, layout: Option<&'s Layout>) -> CallTensor<'s> {
        let extent = layout.map_or(Extent::Flat(self.length as u64), Extent::Laid);
        let home = Some((&self.lane, &self.memory));
        let (span, held) = (self.memory.whole(), Some(self.memory.held()));
        let (pointer, bytes) = (span.pointer(), span.bytes());
        CallTensor { tensor: TensorRef { pointer, bytes, dtype: T::DTYPE, extent, held }, home }
    }
}

/// A tensor for one call, with its stream and memory if they are ours.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallTensor<'s> {
    pub(super) tensor: TensorRef<'s>,
    pub(super) home: Option<Home<'s>>,
}

/// The lane that a tensor's memory belongs to, and that memory.
pub(super) type Home<'s> = (&'s Arc<Lane>, &'s Arc<StreamBuffer>);

plimsoll_expr::buffer_views!(Plain);

impl<T: Plain> View<'_, T> {
    pub(super) fn tensor(&self) -> CallTensor<'_> {
        self.buffer.tensor(Some(&self.layout))
    }
}

impl<T: Plain> ViewMut<'_, T> {
    pub(super) fn tensor(&self) -> CallTensor<'_> {
        self.buffer.tensor(Some(&self.layout))
    }
}
