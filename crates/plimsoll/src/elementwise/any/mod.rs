//! Memory of a device whose element type is known only at run time.

#[cfg(feature = "cpu")]
pub(super) mod cpu;
#[cfg(feature = "cuda")]
pub(super) mod gpu;

use std::fmt;
use std::sync::Arc;

use plimsoll_expr::{DType, Layout};

use super::buffer::{Buffer, Memory};
use super::device::Device;
use super::element::{Element, ForType, with_type};
use super::error::Error;

/// A tensor in the memory of a device, with a type, a shape and strides that are known only at run time. Clones and views are
/// handles of the same memory.
#[derive(Clone)]
pub struct AnyBuffer {
    tensor: Arc<Tensor>,
}

/// A layout of a memory.
#[derive(Clone)]
struct Tensor {
    memory: AnyMemory,
    dtype: DType,
    /// Elements of the memory.
    length: u64,
    layout: Layout,
    device: Device,
}

#[derive(Clone)]
pub(super) enum AnyMemory {
    #[cfg(feature = "cpu")]
    Cpu(cpu::Memory),
    #[cfg(feature = "cuda")]
    Gpu(gpu::Memory),
}

/// Where a memory is.
fn address<M: ?Sized>(memory: &Arc<M>) -> usize {
    Arc::as_ptr(memory).cast::<()>().addr()
}

impl AnyMemory {
    #[cfg(feature = "cpu")]
    fn as_cpu(&self) -> Option<&cpu::Memory> {
        match self {
            Self::Cpu(memory) => Some(memory),
            #[cfg(feature = "cuda")]
            Self::Gpu(_) => None,
        }
    }

    #[cfg(feature = "cuda")]
    fn as_gpu(&self) -> Option<&gpu::Memory> {
        match self {
            #[cfg(feature = "cpu")]
            Self::Cpu(_) => None,
            Self::Gpu(memory) => Some(memory),
        }
    }
}

impl fmt::Debug for AnyBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tensor { dtype, layout, device, .. } = &*self.tensor;
        let mut form = f.debug_struct("AnyBuffer");
        form.field("device", device).field("dtype", dtype).field("layout", layout).finish()
    }
}

impl<T: Element> From<Buffer<T>> for AnyBuffer {
    fn from(buffer: Buffer<T>) -> Self {
        let length = buffer.len() as u64;
        let (memory, layout, device) = buffer.into_parts();
        let memory = match memory {
            #[cfg(feature = "cpu")]
            Memory::Cpu(elements) => AnyMemory::Cpu(cpu::hold(elements)),
            #[cfg(feature = "cuda")]
            Memory::Gpu(buffer) => AnyMemory::Gpu(gpu::hold(buffer)),
        };
        Self { tensor: Arc::new(Tensor { memory, dtype: T::DTYPE, length, layout, device }) }
    }
}

impl AnyBuffer {
    pub(super) fn zeros(device: &Device, dtype: DType, shape: &[u64]) -> Result<Self, Error> {
        struct Zeros<'a>(&'a Device, &'a [u64]);
        impl ForType for Zeros<'_> {
            type Out = Result<AnyBuffer, Error>;

            fn run<T: Element>(self) -> Self::Out {
                let elements = Layout::contiguous(self.1)?.elements();
                // A length beyond the host's addresses is more than any memory.
                let buffer = self.0.zeros::<T>(usize::try_from(elements).unwrap_or(usize::MAX))?;
                Ok(buffer.reshaped(self.1)?.into())
            }
        }
        with_type(dtype, Zeros(device, shape))
    }

    pub(super) fn from_bytes(device: &Device, dtype: DType, shape: &[u64], bytes: &[u8]) -> Result<Self, Error> {
        struct Upload<'a>(&'a Device, &'a [u64], &'a [u8]);
        impl ForType for Upload<'_> {
            type Out = Result<AnyBuffer, Error>;

            fn run<T: Element>(self) -> Self::Out {
                let values: Vec<T> = self.2.chunks_exact(size_of::<T>()).map(T::from_le).collect();
                Ok(self.0.upload(&values)?.reshaped(self.1)?.into())
            }
        }
        let (expected, given) = (Layout::contiguous(shape)?.memory(dtype.bytes())?, bytes.len() as u64);
        if expected != given {
            return Err(Error::Length { what: "bytes of the shape", expected, given });
        }
        with_type(dtype, Upload(device, shape, bytes))
    }

    /// The element type.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.tensor.dtype
    }

    /// The extents; the last dimension is the fastest.
    #[must_use]
    pub fn shape(&self) -> &[u64] {
        self.tensor.layout.shape()
    }

    /// Shape, strides and offset.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.tensor.layout
    }

    /// Its device.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.tensor.device
    }

    pub(super) fn memory(&self) -> &AnyMemory {
        &self.tensor.memory
    }

    /// Whether both are handles of the same memory, with any layouts.
    #[must_use]
    pub fn shares_memory_with(&self, other: &Self) -> bool {
        match (&self.tensor.memory, &other.tensor.memory) {
            #[cfg(feature = "cpu")]
            (AnyMemory::Cpu(a), AnyMemory::Cpu(b)) => address(a) == address(b),
            #[cfg(feature = "cuda")]
            (AnyMemory::Gpu(a), AnyMemory::Gpu(b)) => address(a) == address(b),
            #[cfg(all(feature = "cpu", feature = "cuda"))]
            _ => false,
        }
    }

    /// The same memory with another layout.
    ///
    /// # Errors
    /// [`Error::Length`] if the layout goes beyond the memory.
    pub fn view(&self, layout: Layout) -> Result<Self, Error> {
        let (expected, given) = (layout.span().map_or(0, |(_, last)| last + 1), self.tensor.length);
        if expected > given {
            return Err(Error::Length { what: "elements of the layout", expected, given });
        }
        Ok(Self { tensor: Arc::new(Tensor { layout, ..(*self.tensor).clone() }) })
    }

    /// The first elements of the same memory as a row-major tensor.
    ///
    /// # Errors
    /// [`Error::Length`] if the shape has more elements than the memory; an invalid shape.
    pub fn shaped(&self, shape: &[u64]) -> Result<Self, Error> {
        self.view(Layout::contiguous(shape)?)
    }

    /// The same memory with the last two dimensions exchanged.
    #[must_use]
    pub fn transposed(&self) -> Self {
        let layout = self.tensor.layout.transposed();
        Self { tensor: Arc::new(Tensor { layout, ..(*self.tensor).clone() }) }
    }

    fn check_type<T: Element>(&self) -> Result<(), Error> {
        let (expected, given) = (self.tensor.dtype, T::DTYPE);
        if expected == given {
            return Ok(());
        }
        Err(Error::Elements { expected, given })
    }

    /// Waits for all work on it and copies the tensor's elements to the host, in row-major order.
    ///
    /// # Errors
    /// [`Error::Elements`] if its elements are of another type; includes faults of kernels launched earlier.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>, Error> {
        self.check_type::<T>()?;
        let all = match &self.tensor.memory {
            #[cfg(feature = "cpu")]
            AnyMemory::Cpu(memory) => cpu::copy(memory)?,
            #[cfg(feature = "cuda")]
            AnyMemory::Gpu(memory) => gpu::copy(memory)?,
        };
        gather(all, &self.tensor.layout)
    }

    /// As [`AnyBuffer::to_vec`], as little-endian bytes.
    ///
    /// # Errors
    /// Includes faults of kernels launched earlier.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        struct Bytes<'a>(&'a AnyBuffer);
        impl ForType for Bytes<'_> {
            type Out = Result<Vec<u8>, Error>;

            fn run<T: Element>(self) -> Self::Out {
                let values = self.0.to_vec::<T>()?;
                let mut bytes = super::buffer::reserve::<u8>(size_of_val(&values[..]))?;
                values.into_iter().for_each(|value| value.push_le(&mut bytes));
                Ok(bytes)
            }
        }
        with_type(self.tensor.dtype, Bytes(self))
    }

    /// Overwrites the first elements of the memory, whatever the layout, and waits.
    ///
    /// # Errors
    /// [`Error::Elements`] for another type; more elements than the memory has.
    pub fn write<T: Element>(&self, values: &[T]) -> Result<(), Error> {
        self.check_type::<T>()?;
        match &self.tensor.memory {
            #[cfg(feature = "cpu")]
            AnyMemory::Cpu(memory) => cpu::write(memory, values),
            #[cfg(feature = "cuda")]
            AnyMemory::Gpu(memory) => gpu::write(memory, values),
        }
    }

    /// The same buffer with its type known to the compiler.
    ///
    /// # Errors
    /// [`Error::Elements`] for another type; [`Error::NotWhole`] if there are other handles of the memory, such as clones, views and
    /// calls, or if it is a view of a part. The error returns the buffer.
    pub fn into_typed<T: Element>(self) -> Result<Buffer<T>, IntoTypedError> {
        let layout = match self.check_whole::<T>() {
            Ok(layout) => layout,
            Err(error) => return Err(IntoTypedError { error, buffer: self }),
        };
        let refuse = |tensor| {
            let buffer = Self { tensor };
            IntoTypedError { error: Error::NotWhole("has other handles"), buffer }
        };
        let Tensor { memory, dtype, length, device, .. } = Arc::try_unwrap(self.tensor).map_err(refuse)?;
        let released = match memory {
            #[cfg(feature = "cpu")]
            AnyMemory::Cpu(memory) => cpu::release(memory).map(Memory::Cpu).map_err(AnyMemory::Cpu),
            #[cfg(feature = "cuda")]
            AnyMemory::Gpu(memory) => gpu::release(memory).map(Memory::Gpu).map_err(AnyMemory::Gpu),
        };
        match released {
            Ok(memory) => Ok(Buffer::from_parts(memory, layout, &device)),
            Err(memory) => Err(refuse(Arc::new(Tensor { memory, dtype, length, layout, device }))),
        }
    }

    /// The row-major layout of the whole memory, if this is the tensor's and its elements are of this type.
    fn check_whole<T: Element>(&self) -> Result<Layout, Error> {
        self.check_type::<T>()?;
        let Tensor { layout, length, .. } = &*self.tensor;
        if !layout.is_contiguous() || layout.offset() != 0 || layout.elements() != *length {
            return Err(Error::NotWhole("is a view of a part of its memory"));
        }
        Ok(Layout::contiguous(layout.shape())?)
    }
}

/// Why a buffer can't become a typed one, and the buffer.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct IntoTypedError {
    /// [`Error::Elements`] or [`Error::NotWhole`].
    pub error: Error,
    /// The buffer, as it was.
    pub buffer: AnyBuffer,
}

impl From<IntoTypedError> for Error {
    fn from(failed: IntoTypedError) -> Self {
        failed.error
    }
}

/// The elements of a layout, which lies inside the memory, in row-major order.
fn gather<T: Element>(mut all: Vec<T>, layout: &Layout) -> Result<Vec<T>, Error> {
    if layout.is_contiguous() && layout.offset() == 0 {
        all.truncate(layout.elements() as usize);
        return Ok(all);
    }
    // A layout that repeats elements may have more than any memory.
    let mut gathered = super::buffer::reserve(usize::try_from(layout.elements()).unwrap_or(usize::MAX))?;
    let mut coordinates = vec![0_u64; layout.shape().len()];
    for _ in 0..layout.elements() {
        gathered.extend(layout.offset_of(&coordinates).and_then(|offset| all.get(offset as usize)));
        for (coordinate, &extent) in coordinates.iter_mut().zip(layout.shape()).rev() {
            *coordinate += 1;
            if *coordinate < extent {
                break;
            }
            *coordinate = 0;
        }
    }
    Ok(gathered)
}
