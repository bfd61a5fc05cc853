//! Unified memory: one address for host and device, whose pages move to the side that touches them. Allocations never exceed the
//! device's free memory: a device that runs out of room moves pages back and forth, and may hang.

use std::sync::Arc;

use plimsoll_core::Fault;

use super::{Owner, Region, Span, free};
use crate::driver::{Context, DriverError, OUT_OF_MEMORY, Stream};

/// `CU_MEM_ATTACH_GLOBAL`.
const GLOBAL: u32 = 1;
/// `CU_DEVICE_CPU`.
const HOST: i32 = -1;
/// The smallest page size of any host: touching one byte in each touches all pages.
const PAGE: usize = 4096;

/// Where pages are or move to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Host memory.
    Host,
    /// Device memory.
    Device,
}

/// Advice to the driver on how pages will be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Mostly read: each side that reads them gets a copy.
    ReadMostly,
    /// They stay in host memory.
    StayWithHost,
    /// The device accesses them where they are.
    ReachedByDevice,
}

/// An allocation of `cuMemAllocManaged`.
#[derive(Debug)]
pub struct ManagedBuffer {
    region: Arc<Region>,
}

impl ManagedBuffer {
    /// Allocates `bytes` of untouched memory, which reads as zeros.
    ///
    /// # Errors
    /// [`Fault::OutOfMemory`] if the device has less free (checked before calling the driver), or if the driver refuses;
    /// [`Fault::Invalid`] for 0 bytes.
    pub fn new(context: &Arc<Context>, bytes: u64) -> Result<Self, Fault> {
        if bytes == 0 {
            return Err(Fault::Invalid("0 bytes of unified memory".to_owned()));
        }
        let (room, _) = free(context)?;
        let refused = Fault::OutOfMemory { asked: bytes, free: Some(room) };
        let Some(size) = usize::try_from(bytes).ok().filter(|_| bytes <= room) else { return Err(refused) };
        let mut pointer = 0;
        // SAFETY: the pointer is written to a live integer; the context is current, since `free` made it so.
        match context.watch(unsafe { context.call().managed_alloc(&raw mut pointer, size, GLOBAL) }) {
            Ok(()) => Ok(Self { region: Region::new(context, pointer, bytes, Owner::Managed) }),
            Err(error) if error.code() == Some(OUT_OF_MEMORY) => Err(refused),
            Err(error) => Err(error.into()),
        }
    }

    /// The span of the whole buffer.
    #[must_use]
    pub fn whole(&self) -> Span {
        self.region.whole()
    }

    fn size(&self) -> usize {
        usize::try_from(self.region.bytes()).unwrap_or(usize::MAX)
    }

    /// Moves all its pages, in the stream's order.
    ///
    /// # Errors
    /// [`Fault::Invalid`] while the stream is recording.
    pub fn prefetch(&self, stream: &Stream, side: Side) -> Result<(), Fault> {
        let context = self.region.context();
        let device = if side == Side::Host { HOST } else { context.device().number() };
        let entered = stream.enter()?;
        if entered.is_recording() {
            return Err(Fault::Invalid("pages can't be moved while a graph is being recorded".to_owned()));
        }
        self.region.share(stream.context());
        entered.admit(&self.region)?;
        let call = context.call();
        // SAFETY: the range is one live allocation, freed only after the work submitted to streams; the stream lives.
        let answer = unsafe { call.managed_prefetch(self.region.pointer(), self.size(), device, stream.handle()) };
        Ok(context.watch(answer)?)
    }

    /// Advises the driver how the whole buffer will be used from now on.
    pub fn advise(&self, advice: Advice) -> Result<(), DriverError> {
        let context = self.region.context();
        let own = context.device().number();
        // CU_MEM_ADVISE_SET_READ_MOSTLY, SET_PREFERRED_LOCATION, SET_ACCESSED_BY.
        let (advice, device) = match advice {
            Advice::ReadMostly => (1, own),
            Advice::StayWithHost => (3, HOST),
            Advice::ReachedByDevice => (5, own),
        };
        context.bind()?;
        // SAFETY: the range is one live allocation.
        context.watch(unsafe { context.call().managed_advise(self.region.pointer(), self.size(), advice, device) })
    }

    /// Waits for all streams of the device, then reads and rewrites a byte of every page from the host. This moves all pages to the
    /// host without changing them. Meanwhile launches that use the buffer are refused.
    ///
    /// # Errors
    /// [`Fault::Hung`].
    pub fn touch_by_host(&mut self) -> Result<(), Fault> {
        let _access = self.region.begin_host_access()?;
        let address = usize::try_from(self.region.pointer()).unwrap_or(0);
        let begin = std::ptr::with_exposed_provenance_mut::<u8>(address);
        for offset in (0..self.size()).step_by(PAGE) {
            // SAFETY: `offset` is inside the allocation, whose address is the same on host and device; unified memory is never
            // uninitialised. No kernel that uses it is running or starts meanwhile, and no reference into it is ever made.
            unsafe {
                let byte = begin.add(offset);
                byte.write_volatile(byte.read_volatile());
            }
        }
        Ok(())
    }
}
