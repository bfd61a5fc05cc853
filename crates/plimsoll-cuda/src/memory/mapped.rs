//! Memory that is created and mapped in separate steps, as required for compression, which lets the L2 write compressible data back
//! in fewer bytes.

use std::sync::Arc;

use plimsoll_core::Fault;

use super::{Owner, Region, Span, free};
use crate::driver::{AllocationProperties, Context, DevicePointer, DriverError, MappedAccess, OUT_OF_MEMORY, Stream};

/// Device memory without an address, `CUmemGenericAllocationHandle`.
#[derive(Debug)]
struct Physical {
    context: Arc<Context>,
    handle: u64,
}

impl Physical {
    fn new(context: &Arc<Context>, bytes: usize, wanted: &AllocationProperties) -> Result<Self, DriverError> {
        let mut handle = 0;
        // SAFETY: the handle is written to a live integer; the properties live until the call returns.
        context.watch(unsafe { context.call().mapped_create(&raw mut handle, bytes, wanted, 0) })?;
        Ok(Self { context: Arc::clone(context), handle })
    }

    fn properties(&self) -> Result<AllocationProperties, DriverError> {
        let mut found = AllocationProperties::default();
        // SAFETY: the handle lives; the properties are written to a live structure of that layout.
        self.context.watch(unsafe { self.context.call().mapped_properties(&raw mut found, self.handle) })?;
        Ok(found)
    }
}

impl Drop for Physical {
    fn drop(&mut self) {
        // SAFETY: created once, released once.
        self.context.destroy(|call| unsafe { call.mapped_release(self.handle) });
    }
}

/// A reserved address range without memory.
#[derive(Debug)]
struct Reserved {
    context: Arc<Context>,
    pointer: DevicePointer,
    bytes: usize,
}

impl Reserved {
    fn new(context: &Arc<Context>, bytes: usize) -> Result<Self, DriverError> {
        let mut pointer = 0;
        // SAFETY: the pointer is written to a live integer. No alignment beyond the granularity and no fixed address is requested.
        context.watch(unsafe { context.call().mapped_reserve(&raw mut pointer, bytes, 0, 0, 0) })?;
        Ok(Self { context: Arc::clone(context), pointer, bytes })
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        // SAFETY: reserved once, freed once; nothing is mapped there any more.
        self.context.destroy(|call| unsafe { call.mapped_address_free(self.pointer, self.bytes) });
    }
}

/// An address range with memory mapped to it. Its own drop unmaps the memory before the fields free the range and the memory.
#[derive(Debug)]
pub(super) struct Mapping {
    reserved: Reserved,
    _physical: Physical,
}

impl Mapping {
    fn new(reserved: Reserved, physical: Physical) -> Result<Self, DriverError> {
        let call = reserved.context.call();
        // SAFETY: the range has as many bytes as the memory, is reserved, and has nothing mapped.
        let answer = unsafe { call.mapped_map(reserved.pointer, reserved.bytes, 0, physical.handle, 0) };
        reserved.context.watch(answer)?;
        Ok(Self { reserved, _physical: physical })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let Reserved { context, pointer, bytes } = &self.reserved;
        // SAFETY: mapped once, unmapped once; its region waited for all users.
        context.destroy(|call| unsafe { call.mapped_unmap(*pointer, *bytes) });
    }
}

/// Device memory requested with or without compression.
#[derive(Debug)]
pub struct MappedBuffer {
    region: Arc<Region>,
    compressible: bool,
}

impl MappedBuffer {
    /// Allocates at least `bytes` of memory on the stream's device, rounded up to the device's granularity.
    /// [`MappedBuffer::is_compressible`] returns whether compression was granted.
    ///
    /// # Errors
    /// [`Fault::OutOfMemory`] if less is free (checked before calling the driver), or if the driver refuses.
    pub fn new(stream: &Arc<Stream>, bytes: u64, compressible: bool) -> Result<Self, Fault> {
        let context = stream.context();
        let (room, _) = free(context)?;
        let refused = || Fault::OutOfMemory { asked: bytes, free: Some(room) };
        let wanted = AllocationProperties::new(context.device().number(), compressible);
        let mut granularity = 0;
        // SAFETY: the size is written to a live integer; the properties live until the call returns. 0 is
        // CU_MEM_ALLOC_GRANULARITY_MINIMUM.
        context.watch(unsafe { context.call().mapped_granularity(&raw mut granularity, &raw const wanted, 0) })?;
        let size = bytes.max(1).checked_next_multiple_of((granularity as u64).max(1)).filter(|size| *size <= room);
        let size = usize::try_from(size.ok_or_else(refused)?).map_err(|_| refused())?;
        let memory = |error: DriverError| match error.code() {
            Some(OUT_OF_MEMORY) => refused(),
            _ => error.into(),
        };
        let physical = Physical::new(context, size, &wanted).map_err(memory)?;
        let granted = physical.properties()?.is_compressible();
        let mapping = Mapping::new(Reserved::new(context, size).map_err(memory)?, physical)?;
        let access = MappedAccess::new(context.device().number());
        // SAFETY: the range is one whole mapping; the access description lives until the call returns.
        context.watch(unsafe { context.call().mapped_access(mapping.reserved.pointer, size, &raw const access, 1) })?;
        let pointer = mapping.reserved.pointer;
        let region = Region::new(context, pointer, size as u64, Owner::Mapped(Some(mapping)));
        Ok(Self { region, compressible: granted })
    }

    /// Whether the driver granted compression.
    #[must_use]
    pub fn is_compressible(&self) -> bool {
        self.compressible
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
}
