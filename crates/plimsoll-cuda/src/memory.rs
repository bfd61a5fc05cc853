//! Device memory, pinned host memory, and copies between them. Sizes are checked before each copy, and free memory before each
//! allocation. Everything that may still use memory keeps it alive.

mod borrowed;
mod host;
mod managed;
mod mapped;
mod ordered;
mod placed;
mod plain;
mod region;
mod span;

use std::sync::Arc;

use plimsoll_core::Fault;

use crate::driver::{Context, DevicePointer, DriverError, OUT_OF_MEMORY, Stream};

pub use borrowed::BorrowedBuffer;
pub use host::{Content, HostBuffer, HostKind};
pub use managed::{Advice, ManagedBuffer, Side};
pub use mapped::MappedBuffer;
pub use ordered::StreamBuffer;
pub(crate) use plain::bytes_of_bits;
pub use plain::{Plain, bytes};
pub use region::HeldRegions;
use region::Owner;
pub(crate) use region::Region;
pub use span::{Span, Transfer};

/// Free and total memory of the context's device, bytes.
pub fn free(context: &Context) -> Result<(u64, u64), DriverError> {
    context.bind()?;
    let (mut free, mut total) = (0_usize, 0_usize);
    // SAFETY: both sizes are written to live integers; the context is current.
    context.watch(unsafe { context.call().memory_info(&raw mut free, &raw mut total) })?;
    Ok((free as u64, total as u64))
}

/// Device memory. It is freed when the buffer and all launches that use it are dropped, after their work is done: the driver's free
/// waits for the device.
#[derive(Debug)]
pub struct DeviceBuffer {
    region: Arc<Region>,
}

impl plimsoll_gpu::Memory for DeviceBuffer {
    fn whole(&self) -> Span {
        self.region.whole()
    }
}

impl DeviceBuffer {
    /// Allocates `bytes` of uninitialised memory; no memory for 0.
    ///
    /// # Errors
    /// [`Fault::OutOfMemory`] if less is free (checked before calling the driver), or if the driver refuses.
    pub fn new(context: &Arc<Context>, bytes: u64) -> Result<Self, Fault> {
        Ok(Self { region: Region::new(context, Self::allocate(context, bytes)?, bytes, Owner::Device) })
    }

    /// Allocates memory and returns its address; 0 for 0 bytes.
    fn allocate(context: &Context, bytes: u64) -> Result<DevicePointer, Fault> {
        if bytes == 0 {
            return Ok(0);
        }
        let (free, _) = free(context)?;
        let refused = Fault::OutOfMemory { asked: bytes, free: Some(free) };
        let Some(size) = usize::try_from(bytes).ok().filter(|_| bytes <= free) else { return Err(refused) };
        let mut pointer = 0;
        // SAFETY: the pointer is written to a live integer; the context is current.
        match context.watch(unsafe { context.call().memory_alloc(&raw mut pointer, size) }) {
            Ok(()) => Ok(pointer),
            Err(error) if error.code() == Some(OUT_OF_MEMORY) => Err(refused),
            Err(error) => Err(error.into()),
        }
    }

    /// The context it was allocated in.
    #[must_use]
    pub fn context(&self) -> &Arc<Context> {
        self.region.context()
    }

    /// Its size in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.region.bytes()
    }

    /// Its address on the device.
    #[must_use]
    pub fn pointer(&self) -> DevicePointer {
        self.region.pointer()
    }

    /// The span of the whole buffer.
    #[must_use]
    pub fn whole(&self) -> Span {
        self.region.whole()
    }

    /// The span of `bytes` bytes from `offset`.
    ///
    /// # Errors
    /// [`Fault::Invalid`] if the range is out of bounds.
    pub fn part(&self, offset: u64, bytes: u64) -> Result<Span, Fault> {
        self.whole().part(offset, bytes)
    }

    /// Copies host bytes to its start and waits.
    ///
    /// # Errors
    /// [`Fault::Invalid`] if they don't fit; [`Fault::Hung`].
    pub fn upload(&self, stream: &Stream, from: &[u8]) -> Result<(), Fault> {
        self.whole().upload(stream, from)
    }

    /// Copies its first bytes to the host and waits.
    ///
    /// # Errors
    /// Those of [`DeviceBuffer::upload`].
    pub fn download(&self, stream: &Stream, to: &mut [u8]) -> Result<(), Fault> {
        self.whole().download(stream, to)
    }
}
