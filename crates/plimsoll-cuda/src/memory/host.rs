//! Host memory for copies to and from the device; kernels can access it if it is pinned.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use plimsoll_core::Fault;

use super::region::{HostAccess, Owner};
use super::span::size;
use super::{Region, Span, placed};
use crate::driver::{Context, Entered, OUT_OF_MEMORY, Stream};
use crate::wait;

/// Kinds of host memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostKind {
    /// Page-locked, so that the device reads and writes it directly.
    Pinned,
    /// Page-locked; host writes bypass the host's caches, and host reads are slow.
    WriteCombined,
    /// Ordinary memory, which the driver stages through a pinned buffer.
    Pageable,
}

/// Host memory for copies to and from the device.
#[derive(Debug)]
pub struct HostBuffer {
    storage: Storage,
    /// The stream whose copies use it: it must not be freed or accessed before they are done.
    busy: Option<Arc<Stream>>,
}

#[derive(Debug)]
enum Storage {
    Pinned(Arc<Region>),
    Pageable(Box<[u8]>),
}

impl HostBuffer {
    /// Allocates `bytes` of zeroed memory.
    ///
    /// # Errors
    /// [`Fault::OutOfMemory`] if the host has less, [`Fault::Invalid`] for 0 bytes.
    pub fn new(context: &Arc<Context>, kind: HostKind, bytes: u64) -> Result<Self, Fault> {
        /// `CU_MEMHOSTALLOC_WRITECOMBINED`.
        const WRITE_COMBINED: u32 = 4;
        let refused = || Fault::OutOfMemory { asked: bytes, free: None };
        let size = usize::try_from(bytes).map_err(|_| refused())?;
        if size == 0 {
            return Err(Fault::Invalid("a host buffer of 0 bytes".to_owned()));
        }
        let storage = match kind {
            HostKind::Pageable => {
                let mut bytes = Vec::new();
                bytes.try_reserve_exact(size).map_err(|_| refused())?;
                bytes.resize(size, 0);
                Storage::Pageable(bytes.into_boxed_slice())
            }
            HostKind::Pinned => Storage::Pinned(pinned(context, size, 0)?),
            HostKind::WriteCombined => Storage::Pinned(pinned(context, size, WRITE_COMBINED)?),
        };
        Ok(Self { storage, busy: None })
    }

    /// Allocates `bytes` of zeroed, pinned memory on the memory node of some CPUs, if it has room.
    ///
    /// # Errors
    /// [`Fault::Unavailable`] if no thread may run on these CPUs, or the driver can't pin memory of the process;
    /// [`Fault::OutOfMemory`]; [`Fault::Invalid`] for 0 bytes.
    pub fn on_cpus(context: &Arc<Context>, bytes: u64, cpus: &[usize]) -> Result<Self, Fault> {
        let refused = || Fault::OutOfMemory { asked: bytes, free: None };
        let size = usize::try_from(bytes).map_err(|_| refused())?;
        if size == 0 {
            return Err(Fault::Invalid("a host buffer of 0 bytes".to_owned()));
        }
        Ok(Self { storage: Storage::Pinned(placed::allocate(context, size, cpus)?), busy: None })
    }

    /// Number of pages on each memory node, for memory from [`HostBuffer::on_cpus`]; `None` if the system doesn't say.
    #[must_use]
    pub fn count_pages_by_node(&self) -> Option<BTreeMap<u32, u64>> {
        let Storage::Pinned(region) = &self.storage else { return None };
        placed::count_by_node(&std::fs::read_to_string("/proc/self/numa_maps").ok()?, region.pointer())
    }

    /// Its size in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        match &self.storage {
            Storage::Pinned(region) => region.bytes(),
            Storage::Pageable(bytes) => bytes.len() as u64,
        }
    }

    fn pointer(&mut self) -> *mut u8 {
        match &mut self.storage {
            Storage::Pinned(region) => address(region),
            Storage::Pageable(bytes) => bytes.as_mut_ptr(),
        }
    }

    /// The span of the whole buffer for kernels: under unified addressing it has the same address on the device.
    ///
    /// # Errors
    /// [`Fault::Invalid`] for pageable memory, which kernels can't access.
    pub fn mapped(&self) -> Result<Span, Fault> {
        match &self.storage {
            Storage::Pinned(region) => Ok(region.whole()),
            Storage::Pageable(_) => Err(Fault::Invalid("kernels can access only pinned host memory".to_owned())),
        }
    }

    /// Its content, once all copies and kernels are done. While the host accesses it, launches that use it are refused.
    ///
    /// # Errors
    /// [`Fault::Hung`].
    pub fn content(&mut self) -> Result<Content<'_>, Fault> {
        self.wait_idle()?;
        match &mut self.storage {
            Storage::Pinned(region) => {
                let (access, size) = (region.begin_host_access()?, usize::try_from(region.bytes()).unwrap_or(0));
                // SAFETY: `size` initialised bytes, borrowed as long as `self` is. No copy or kernel that uses it is running, and
                // none starts while `access` lives.
                let bytes = unsafe { std::slice::from_raw_parts_mut(address(region), size) };
                Ok(Content { bytes, _access: Some(access) })
            }
            Storage::Pageable(bytes) => Ok(Content { bytes, _access: None }),
        }
    }

    /// Copies its first bytes to the device, in the stream's order.
    ///
    /// # Errors
    /// [`Fault::Invalid`] if `to` is larger, or while the stream is recording.
    pub fn copy_to(&mut self, stream: &Arc<Stream>, to: Span) -> Result<(), Fault> {
        let (entered, region) = self.enter(stream, to)?;
        let (context, pointer) = (stream.context(), self.pointer());
        let call = context.call();
        // SAFETY: `to` is no larger than this buffer, which outlives the copy: drop and `content` wait for the stream that `enter`
        // noted. The device memory is live, and freed only after the work submitted to the stream now.
        let answer = unsafe { call.copy_up(to.pointer(), pointer.cast_const().cast(), size(to), stream.handle()) };
        drop((entered, region));
        Ok(context.watch(answer)?)
    }

    /// Fills its first bytes from the device, in the stream's order.
    ///
    /// # Errors
    /// Those of [`HostBuffer::copy_to`].
    pub fn copy_from(&mut self, stream: &Arc<Stream>, from: Span) -> Result<(), Fault> {
        let (entered, region) = self.enter(stream, from)?;
        let (context, pointer) = (stream.context(), self.pointer());
        let call = context.call();
        // SAFETY: as in `copy_to`.
        let answer = unsafe { call.copy_down(pointer.cast(), from.pointer(), size(from), stream.handle()) };
        drop((entered, region));
        Ok(context.watch(answer)?)
    }

    /// Waits for running copies.
    fn wait_idle(&mut self) -> Result<(), Fault> {
        if let Some(stream) = &self.busy {
            wait::stream(stream)?;
        }
        self.busy = None;
        Ok(())
    }

    /// Notes the stream of the next copy, after waiting for copies of another stream. A recording stream is refused: a recorded
    /// copy would run on every launch of its graph, and nothing would know when it is done.
    fn enter<'s>(&mut self, stream: &'s Arc<Stream>, other: Span) -> Result<(Entered<'s>, Arc<Region>), Fault> {
        if other.bytes() > self.bytes() || other.bytes() == 0 {
            let (copied, own) = (other.bytes(), self.bytes());
            return Err(Fault::Invalid(format!("a copy of {copied} bytes with a host buffer of {own}")));
        }
        let entered = stream.enter()?;
        if entered.is_recording() {
            let why = "host memory can't be copied while a graph is being recorded: copy before or after";
            return Err(Fault::Invalid(why.to_owned()));
        }
        let region = Region::find(other)?;
        region.share(stream.context());
        entered.admit(&region)?;
        if let Storage::Pinned(own) = &self.storage {
            own.share(stream.context());
        }
        if self.busy.as_ref().is_some_and(|busy| !Arc::ptr_eq(busy, stream)) {
            self.wait_idle()?;
        }
        if self.busy.is_none() {
            self.busy = Some(Arc::clone(stream));
        }
        Ok((entered, region))
    }
}

impl Drop for HostBuffer {
    fn drop(&mut self) {
        let hung = self.wait_idle().is_err();
        if let (true, Storage::Pageable(bytes)) = (hung, &mut self.storage) {
            // The driver may still write here, so the memory must be leaked. The region of pinned memory does that by itself.
            std::mem::forget(std::mem::take(bytes));
        }
    }
}

/// Allocates zeroed pinned memory.
fn pinned(context: &Arc<Context>, size: usize, flags: u32) -> Result<Arc<Region>, Fault> {
    let refused = || Fault::OutOfMemory { asked: size as u64, free: None };
    context.bind()?;
    let mut pointer = std::ptr::null_mut();
    // SAFETY: the pointer is written to a live variable; the context is current.
    match context.watch(unsafe { context.call().host_alloc(&raw mut pointer, size, flags) }) {
        Ok(()) => {}
        Err(error) if error.code() == Some(OUT_OF_MEMORY) => return Err(refused()),
        Err(error) => return Err(error.into()),
    }
    // SAFETY: `size` bytes at `pointer` were just allocated and are ours alone.
    unsafe { pointer.cast::<u8>().write_bytes(0, size) };
    Ok(Region::new(context, pointer.expose_provenance() as u64, size as u64, Owner::Pinned))
}

/// The host address of pinned memory.
fn address(region: &Region) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut(usize::try_from(region.pointer()).unwrap_or(0))
}

/// A buffer's content, while the host accesses it.
#[derive(Debug)]
pub struct Content<'b> {
    bytes: &'b mut [u8],
    _access: Option<HostAccess>,
}

impl Deref for Content<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes
    }
}

impl DerefMut for Content<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.bytes
    }
}
