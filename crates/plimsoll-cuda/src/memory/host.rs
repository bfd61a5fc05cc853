//! Memory of the host that copies go to and from, and that kernels reach where it is pinned.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use plimsoll_core::Fault;

use super::region::{Looking, Owner};
use super::span::size;
use super::{Region, Span};
use crate::driver::{Context, Entered, OUT_OF_MEMORY, Stream};
use crate::wait;

/// Which memory of the host a buffer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostKind {
    /// Locked in place, so that the device reads and writes it directly.
    Pinned,
    /// The same, but written past the host's caches, and slow to read for the host.
    WriteCombined,
    /// Ordinary memory, which the driver stages.
    Pageable,
}

/// Memory of the host that copies go to and from.
#[derive(Debug)]
pub struct HostBuffer {
    place: Place,
    /// The stream whose copies use it: nothing may free or look at it before they are done.
    busy: Option<Arc<Stream>>,
}

#[derive(Debug)]
enum Place {
    Pinned(Arc<Region>),
    Pageable(Box<[u8]>),
}

impl HostBuffer {
    /// `bytes` of zeroed memory.
    ///
    /// # Errors
    /// [`Fault::OutOfMemory`] where the host has less, [`Fault::Invalid`] for 0 bytes, the driver's.
    pub fn new(context: &Arc<Context>, kind: HostKind, bytes: u64) -> Result<Self, Fault> {
        /// `CU_MEMHOSTALLOC_WRITECOMBINED`.
        const WRITE_COMBINED: u32 = 4;
        let refused = || Fault::OutOfMemory { asked: bytes, free: 0 };
        let size = usize::try_from(bytes).map_err(|_| refused())?;
        if size == 0 {
            return Err(Fault::Invalid("a host buffer of 0 bytes".to_owned()));
        }
        let place = match kind {
            HostKind::Pageable => {
                let mut bytes = Vec::new();
                bytes.try_reserve_exact(size).map_err(|_| refused())?;
                bytes.resize(size, 0);
                Place::Pageable(bytes.into_boxed_slice())
            }
            HostKind::Pinned => Place::Pinned(pinned(context, size, 0)?),
            HostKind::WriteCombined => Place::Pinned(pinned(context, size, WRITE_COMBINED)?),
        };
        Ok(Self { place, busy: None })
    }

    /// Its size.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        match &self.place {
            Place::Pinned(region) => region.bytes(),
            Place::Pageable(bytes) => bytes.len() as u64,
        }
    }

    fn pointer(&mut self) -> *mut u8 {
        match &mut self.place {
            Place::Pinned(region) => address(region),
            Place::Pageable(bytes) => bytes.as_mut_ptr(),
        }
    }

    /// All of it for kernels: under unified addressing its address is the host's.
    ///
    /// # Errors
    /// [`Fault::Invalid`] for pageable memory, which kernels can't reach.
    pub fn mapped(&self) -> Result<Span, Fault> {
        match &self.place {
            Place::Pinned(region) => Ok(region.whole()),
            Place::Pageable(_) => Err(Fault::Invalid("kernels reach pinned memory alone".to_owned())),
        }
    }

    /// Its content, once all copies and kernels are done. While the host looks at it, launches that use it are refused.
    ///
    /// # Errors
    /// [`Fault::Hung`]; the driver's.
    pub fn content(&mut self) -> Result<Content<'_>, Fault> {
        self.settle()?;
        match &mut self.place {
            Place::Pinned(region) => {
                let (looking, size) = (region.look()?, usize::try_from(region.bytes()).unwrap_or(0));
                // SAFETY: so many initialised bytes, borrowed as long as `self` is. No copy is under way, nor a kernel that uses
                // it, and none begins while `looking` lives.
                let bytes = unsafe { std::slice::from_raw_parts_mut(address(region), size) };
                Ok(Content { bytes, _looking: Some(looking) })
            }
            Place::Pageable(bytes) => Ok(Content { bytes, _looking: None }),
        }
    }

    /// Copies its first bytes to the device, in the stream's order.
    ///
    /// # Errors
    /// [`Fault::Invalid`] where `to` is larger, or while the stream is recorded; the driver's.
    pub fn copy_to(&mut self, stream: &Arc<Stream>, to: Span) -> Result<(), Fault> {
        let (entered, region) = self.enter(stream, to)?;
        let (context, pointer) = (stream.context(), self.pointer());
        let call = context.call();
        // SAFETY: `to` is no larger than this buffer, which outlives the copy: drop and `content` wait for the
        // stream that `enter` noted. The device's memory is there, and freed after what the stream is asked now.
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

    /// Waits for the copies under way.
    fn settle(&mut self) -> Result<(), Fault> {
        if let Some(stream) = &self.busy {
            wait::stream(stream)?;
        }
        self.busy = None;
        Ok(())
    }

    /// Notes the stream of the next copy; copies of another stream are waited for. What is recorded would copy whenever the graph
    /// is launched, and nobody would know when it is done.
    fn enter<'s>(&mut self, stream: &'s Arc<Stream>, with: Span) -> Result<(Entered<'s>, Arc<Region>), Fault> {
        if with.bytes() > self.bytes() || with.bytes() == 0 {
            let (copied, own) = (with.bytes(), self.bytes());
            return Err(Fault::Invalid(format!("a copy of {copied} bytes with a host buffer of {own}")));
        }
        let entered = stream.enter()?;
        if entered.is_recording() {
            let why = "the host's memory can't be copied while a graph is recorded: copy before or after";
            return Err(Fault::Invalid(why.to_owned()));
        }
        let region = Region::find(with)?;
        region.share(stream.context());
        entered.admit(&region)?;
        if let Place::Pinned(own) = &self.place {
            own.share(stream.context());
        }
        if self.busy.as_ref().is_some_and(|busy| !Arc::ptr_eq(busy, stream)) {
            self.settle()?;
        }
        if self.busy.is_none() {
            self.busy = Some(Arc::clone(stream));
        }
        Ok((entered, region))
    }
}

impl Drop for HostBuffer {
    fn drop(&mut self) {
        let hung = self.settle().is_err();
        if let (true, Place::Pageable(bytes)) = (hung, &mut self.place) {
            // The driver may still write here: leaking is the only safe end. Pinned memory sees to that by itself.
            std::mem::forget(std::mem::take(bytes));
        }
    }
}

/// Pinned memory of zeros.
fn pinned(context: &Arc<Context>, size: usize, flags: u32) -> Result<Arc<Region>, Fault> {
    let refused = || Fault::OutOfMemory { asked: size as u64, free: 0 };
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

/// Where pinned memory is for the host.
fn address(region: &Region) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut(usize::try_from(region.pointer()).unwrap_or(0))
}

/// What a buffer holds, while the host looks at it.
#[derive(Debug)]
pub struct Content<'b> {
    bytes: &'b mut [u8],
    _looking: Option<Looking>,
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
