//! Typed memory of a device, and views of it with shapes and strides.

use plimsoll_core::Fault;
#[cfg(feature = "cuda")]
use plimsoll_cuda::elementwise as cuda;
use plimsoll_expr::Layout;

use super::any::AnyBuffer;
use super::device::{Backend, Device};
use super::element::Element;
use super::error::Error;

/// Elements in the memory of a device, as a row-major tensor. On a GPU it belongs to the stream of the [`Device`] that made it:
/// it is used and freed in that stream's order.
#[derive(Debug)]
pub struct Buffer<T> {
    memory: Memory<T>,
    layout: Layout,
    device: Device,
}

#[derive(Debug)]
pub(super) enum Memory<T> {
    #[cfg(feature = "cpu")]
    Cpu(Vec<T>),
    #[cfg(feature = "cuda")]
    Gpu(cuda::Buffer<T>),
}

impl<T> Memory<T> {
    #[cfg(feature = "cpu")]
    pub(super) fn as_cpu_mut(&mut self) -> Option<&mut [T]> {
        match self {
            Self::Cpu(elements) => Some(elements),
            #[cfg(feature = "cuda")]
            Self::Gpu(_) => None,
        }
    }

    #[cfg(feature = "cuda")]
    pub(super) fn as_gpu_mut(&mut self) -> Option<&mut cuda::Buffer<T>> {
        match self {
            #[cfg(feature = "cpu")]
            Self::Cpu(_) => None,
            Self::Gpu(buffer) => Some(buffer),
        }
    }
}

impl<T: Element> Buffer<T> {
    pub(super) fn from_values(device: &Device, values: &[T]) -> Result<Self, Error> {
        let memory = match &device.backend {
            #[cfg(feature = "cpu")]
            Backend::Cpu(_) => Memory::Cpu(copy_elements(values)?),
            #[cfg(feature = "cuda")]
            Backend::Gpu(gpu) => Memory::Gpu(gpu.upload(values)?),
        };
        Self::flat(memory, values.len(), device)
    }

    pub(super) fn zeros(device: &Device, length: usize) -> Result<Self, Error> {
        let memory = match &device.backend {
            #[cfg(feature = "cpu")]
            Backend::Cpu(_) => {
                let mut own = reserve(length)?;
                own.resize(length, T::default());
                Memory::Cpu(own)
            }
            #[cfg(feature = "cuda")]
            Backend::Gpu(gpu) => Memory::Gpu(gpu.zeros(length)?),
        };
        Self::flat(memory, length, device)
    }

    fn flat(memory: Memory<T>, length: usize, device: &Device) -> Result<Self, Error> {
        Ok(Self::from_parts(memory, Layout::contiguous(&[length as u64])?, device))
    }

    /// `layout` is row-major, of all elements.
    pub(super) fn from_parts(memory: Memory<T>, layout: Layout, device: &Device) -> Self {
        Self { memory, layout, device: device.clone() }
    }

    pub(super) fn parts_mut(&mut self) -> (&mut Memory<T>, &Layout, &Device) {
        (&mut self.memory, &self.layout, &self.device)
    }

    pub(super) fn into_parts(self) -> (Memory<T>, Layout, Device) {
        (self.memory, self.layout, self.device)
    }

    /// Number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.memory {
            #[cfg(feature = "cpu")]
            Memory::Cpu(elements) => elements.len(),
            #[cfg(feature = "cuda")]
            Memory::Gpu(buffer) => buffer.len(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its extents; the last dimension is the fastest. An uploaded buffer has one dimension.
    #[must_use]
    pub fn shape(&self) -> &[u64] {
        self.layout.shape()
    }

    /// Its shape with row-major strides.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Its device.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The same elements in another shape.
    ///
    /// # Errors
    /// [`Error::Length`] if the shape has another number of elements; an invalid shape.
    pub fn reshaped(self, shape: &[u64]) -> Result<Self, Error> {
        let layout = Layout::contiguous(shape)?;
        let (expected, given) = (self.len() as u64, layout.elements());
        if expected != given {
            return Err(Error::Length { what: "elements of the new shape", expected, given });
        }
        Ok(Self { layout, ..self })
    }

    /// Waits for all work on it and copies the elements to the host.
    ///
    /// # Errors
    /// Too little memory of the host; includes faults of kernels launched earlier.
    pub fn to_vec(&self) -> Result<Vec<T>, Error> {
        match &self.memory {
            #[cfg(feature = "cpu")]
            Memory::Cpu(elements) => copy_elements(elements),
            #[cfg(feature = "cuda")]
            Memory::Gpu(buffer) => Ok(buffer.to_vec()?),
        }
    }

    /// As [`Buffer::to_vec`], without a copy if it is the CPU's.
    ///
    /// # Errors
    /// Those of [`Buffer::to_vec`].
    pub fn into_vec(self) -> Result<Vec<T>, Error> {
        match self.memory {
            #[cfg(feature = "cpu")]
            Memory::Cpu(elements) => Ok(elements),
            #[cfg(feature = "cuda")]
            Memory::Gpu(buffer) => Ok(buffer.to_vec()?),
        }
    }

    /// Overwrites its first elements and waits.
    ///
    /// # Errors
    /// More elements than it has.
    pub fn write(&mut self, values: &[T]) -> Result<(), Error> {
        match &mut self.memory {
            #[cfg(feature = "cpu")]
            Memory::Cpu(elements) => write_first(elements, values),
            #[cfg(feature = "cuda")]
            Memory::Gpu(buffer) => Ok(buffer.write(values)?),
        }
    }

    /// Its elements without a copy, if it is the CPU's.
    #[cfg(feature = "cpu")]
    #[must_use]
    pub fn as_slice(&self) -> Option<&[T]> {
        match &self.memory {
            Memory::Cpu(elements) => Some(elements),
            #[cfg(feature = "cuda")]
            Memory::Gpu(_) => None,
        }
    }

    /// Its elements without a copy, writable, if it is the CPU's.
    #[cfg(feature = "cpu")]
    #[must_use]
    pub fn as_mut_slice(&mut self) -> Option<&mut [T]> {
        self.memory.as_cpu_mut()
    }

    /// The GPU's own buffer, if it is a GPU's.
    #[cfg(feature = "cuda")]
    #[must_use]
    pub fn as_gpu(&self) -> Option<&cuda::Buffer<T>> {
        match &self.memory {
            #[cfg(feature = "cpu")]
            Memory::Cpu(_) => None,
            Memory::Gpu(buffer) => Some(buffer),
        }
    }

    /// The GPU's own buffer, writable, if it is a GPU's.
    #[cfg(feature = "cuda")]
    #[must_use]
    pub fn as_gpu_mut(&mut self) -> Option<&mut cuda::Buffer<T>> {
        self.memory.as_gpu_mut()
    }

    /// The same buffer with its type known only at run time, for expressions from text.
    #[must_use]
    pub fn into_any(self) -> AnyBuffer {
        self.into()
    }

    /// The tensor with its last two dimensions exchanged.
    #[must_use]
    pub fn transposed(&self) -> View<'_, T> {
        self.view(self.layout.transposed())
    }
}

/// An empty vector with room for `length` elements.
pub(super) fn reserve<T: Element>(length: usize) -> Result<Vec<T>, Error> {
    let mut elements = Vec::new();
    let asked = (length as u64).saturating_mul(T::DTYPE.bytes());
    elements.try_reserve_exact(length).map_err(|_| Fault::OutOfMemory { asked, free: None })?;
    Ok(elements)
}

/// The elements in a vector of their own.
#[cfg(feature = "cpu")]
pub(super) fn copy_elements<T: Element>(elements: &[T]) -> Result<Vec<T>, Error> {
    let mut copy = reserve(elements.len())?;
    copy.extend_from_slice(elements);
    Ok(copy)
}

/// Overwrites the first elements.
#[cfg(feature = "cpu")]
pub(super) fn write_first<T: Element>(elements: &mut [T], values: &[T]) -> Result<(), Error> {
    let (expected, given) = (elements.len() as u64, values.len() as u64);
    let part = elements.get_mut(..values.len());
    part.ok_or(Error::Length { what: "elements of the buffer", expected, given })?.copy_from_slice(values);
    Ok(())
}

plimsoll_expr::buffer_views!(Element);
