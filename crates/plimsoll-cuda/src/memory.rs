//! Memory of the device and pinned memory of the host, and copies between them. Sizes are checked before a copy is asked
//! for, and free memory before an allocation. Whatever may still use memory holds it.

mod host;
mod managed;
mod mapped;
mod ordered;
mod plain;
mod region;
mod span;

use std::sync::Arc;

use plimsoll_core::Fault;

use crate::driver::{Context, DevicePointer, DriverError, OUT_OF_MEMORY, Stream};

pub use host::{Content, HostBuffer, HostKind};
pub use managed::{Advice, ManagedBuffer, Side};
pub use mapped::MappedBuffer;
pub use ordered::StreamBuffer;
pub(crate) use plain::bytes_of_bits;
pub use plain::{Plain, bytes};
use region::Owner;
pub(crate) use region::{Held, Region};
pub use span::{Span, Transfer};

/// Free and total memory of the context's device, bytes.
///
/// # Errors
/// The driver's.
pub fn free(context: &Context) -> Result<(u64, u64), DriverError> {
    context.bind()?;
    let (mut free, mut total) = (0_usize, 0_usize);
    // SAFETY: both sizes are written to live integers; the context is current.
    context.watch(unsafe { context.call().memory_info(&raw mut free, &raw mut total) })?;
    Ok((free as u64, total as u64))
}

/// Memory of the device. It is freed when dropped with all launches that use it, after what they do: the driver's free waits for
/// the device.
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
    /// `bytes` of uninitialised memory; none for 0.
    ///
    /// # Errors
    /// [`Fault::OutOfMemory`] where less is free, before the driver is asked, or where it refuses.
    pub fn new(context: &Arc<Context>, bytes: u64) -> Result<Self, Fault> {
        Ok(Self { region: Region::new(context, Self::allocate(context, bytes)?, bytes, Owner::Device) })
    }

    /// The address of so many bytes, and none for 0.
    fn allocate(context: &Context, bytes: u64) -> Result<DevicePointer, Fault> {
        if bytes == 0 {
            return Ok(0);
        }
        let (free, _) = free(context)?;
        let refused = Fault::OutOfMemory { asked: bytes, free };
        let Some(size) = usize::try_from(bytes).ok().filter(|_| bytes <= free) else { return Err(refused) };
        let mut pointer = 0;
        // SAFETY: the pointer is written to a live integer; the context is current.
        match context.watch(unsafe { context.call().memory_alloc(&raw mut pointer, size) }) {
            Ok(()) => Ok(pointer),
            Err(error) if error.code() == Some(OUT_OF_MEMORY) => Err(refused),
            Err(error) => Err(error.into()),
        }
    }

    /// The context whose device it is memory of.
    #[must_use]
    pub fn context(&self) -> &Arc<Context> {
        self.region.context()
    }

    /// Its size.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.region.bytes()
    }

    /// Its address on the device.
    #[must_use]
    pub fn pointer(&self) -> DevicePointer {
        self.region.pointer()
    }

    pub(crate) fn region(&self) -> &Arc<Region> {
        &self.region
    }

    /// The whole of it.
    #[must_use]
    pub fn whole(&self) -> Span {
        self.region.whole()
    }

    /// `bytes` from `offset`.
    ///
    /// # Errors
    /// [`Fault::Invalid`] where that isn't inside.
    pub fn part(&self, offset: u64, bytes: u64) -> Result<Span, Fault> {
        self.whole().part(offset, bytes)
    }

    /// Copies host bytes to its beginning and waits.
    ///
    /// # Errors
    /// [`Fault::Invalid`] where they don't fit; [`Fault::Hung`]; the driver's.
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
