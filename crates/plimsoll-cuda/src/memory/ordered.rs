//! Memory that is allocated and freed in a stream's order, if the driver supports it, so that neither waits for the device.

use std::sync::Arc;

use plimsoll_core::Fault;

use super::Transfer as _;
use super::{DeviceBuffer, HeldRegions, Owner, Region, Span, free};
use crate::driver::{Attribute, OUT_OF_MEMORY, Stream};

/// Memory of a stream. Once the buffer and all launches that use it are dropped, it is freed after the stream's earlier work.
#[derive(Debug)]
pub struct StreamBuffer {
    stream: Arc<Stream>,
    span: Span,
    held: HeldRegions,
}

impl StreamBuffer {
    /// Allocates `bytes` of uninitialised memory; no memory for 0.
    ///
    /// # Errors
    /// [`Fault::OutOfMemory`]; [`Fault::Invalid`] while the stream is recording.
    pub fn new(stream: &Arc<Stream>, bytes: u64) -> Result<Self, Fault> {
        if stream.is_recording() {
            let why = "memory can't be allocated while a graph is being recorded: allocate it before";
            return Err(Fault::Invalid(why.to_owned()));
        }
        let context = stream.context();
        let pools = context.device().attribute(Attribute::MemoryPools).is_ok_and(|value| value != 0);
        let calls = context.driver().has_all(&["cuMemAllocAsync", "cuMemFreeAsync"]).is_ok();
        let home = Arc::clone(stream);
        let region = if bytes == 0 || !pools || !calls {
            let pointer = DeviceBuffer::allocate(context, bytes)?;
            Region::new(context, pointer, bytes, Owner::Ordered { home, pooled: false })
        } else {
            let refused = || Fault::OutOfMemory { asked: bytes, free: free(context).ok().map(|(free, _)| free) };
            match stream.allocate(usize::try_from(bytes).map_err(|_| refused())?) {
                Ok(pointer) => Region::new(context, pointer, bytes, Owner::Ordered { home, pooled: true }),
                Err(error) if error.code() == Some(OUT_OF_MEMORY) => return Err(refused()),
                Err(error) => return Err(error.into()),
            }
        };
        Ok(Self { stream: Arc::clone(stream), span: region.whole(), held: HeldRegions::one(region) })
    }

    /// The stream in whose order it is used and freed.
    #[must_use]
    pub fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }

    /// The span of the whole buffer.
    #[must_use]
    pub fn whole(&self) -> Span {
        self.span
    }

    pub(crate) fn held(&self) -> &HeldRegions {
        &self.held
    }

    /// Copies host bytes to its start and waits.
    ///
    /// # Errors
    /// [`Fault::Invalid`] if they don't fit; [`Fault::Hung`].
    pub fn upload(&self, from: &[u8]) -> Result<(), Fault> {
        self.whole().upload(&self.stream, from)
    }

    /// Copies its first bytes to the host and waits.
    ///
    /// # Errors
    /// Those of [`StreamBuffer::upload`].
    pub fn download(&self, to: &mut [u8]) -> Result<(), Fault> {
        self.whole().download(&self.stream, to)
    }
}
