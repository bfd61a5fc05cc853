//! Memory of the device and pinned memory of the host, and copies between them. Sizes are checked before a copy is asked
//! for, and free memory before an allocation.

mod managed;
mod mapped;
mod ordered;
mod plain;

use std::sync::Arc;

use plimsoll_core::Fault;

use crate::driver::{Context, DevicePointer, DriverError, OUT_OF_MEMORY, Stream};
use crate::wait;

pub use managed::{Advice, ManagedBuffer, Side};
pub use mapped::MappedBuffer;
pub use ordered::StreamBuffer;
pub(crate) use plain::bytes_of_bits;
pub use plain::{Plain, bytes};

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

/// Memory of the device. It is freed when dropped, after what uses it: the driver's free waits for the device.
#[derive(Debug)]
pub struct DeviceBuffer {
    context: Arc<Context>,
    pointer: DevicePointer,
    bytes: u64,
}

impl DeviceBuffer {
    /// `bytes` of uninitialised memory; none for 0.
    ///
    /// # Errors
    /// [`Fault::OutOfMemory`] where less is free, before the driver is asked, or where it refuses.
    pub fn new(context: &Arc<Context>, bytes: u64) -> Result<Self, Fault> {
        if bytes == 0 {
            return Ok(Self { context: Arc::clone(context), pointer: 0, bytes });
        }
        let (free, _) = free(context)?;
        let refused = Fault::OutOfMemory { asked: bytes, free };
        let Some(size) = usize::try_from(bytes).ok().filter(|_| bytes <= free) else { return Err(refused) };
        let mut pointer = 0;
        // SAFETY: the pointer is written to a live integer; the context is current.
        match context.watch(unsafe { context.call().memory_alloc(&raw mut pointer, size) }) {
            Ok(()) => Ok(Self { context: Arc::clone(context), pointer, bytes }),
            Err(error) if error.code() == Some(OUT_OF_MEMORY) => Err(refused),
            Err(error) => Err(error.into()),
        }
    }

    /// The context whose device it is memory of.
    #[must_use]
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// Its size.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Its address on the device.
    #[must_use]
    pub fn pointer(&self) -> DevicePointer {
        self.pointer
    }

    /// The whole of it.
    #[must_use]
    pub fn whole(&self) -> Span {
        Span { pointer: self.pointer, bytes: self.bytes }
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

impl Drop for DeviceBuffer {
    fn drop(&mut self) {
        if self.bytes > 0 {
            // SAFETY: allocated once, freed once.
            self.context.destroy(|call| unsafe { call.memory_free(self.pointer) });
        }
    }
}

/// A part of a device buffer, as a kernel or a copy takes it. It must not be used after its buffer is gone; the device
/// answers such a use with an illegal address, which ends the run, and host memory is never touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pointer: DevicePointer,
    bytes: u64,
}

impl Span {
    /// Address on the device.
    #[must_use]
    pub fn pointer(self) -> DevicePointer {
        self.pointer
    }

    /// Size.
    #[must_use]
    pub fn bytes(self) -> u64 {
        self.bytes
    }

    /// Its first `bytes`.
    ///
    /// # Errors
    /// [`Fault::Invalid`] where it has fewer.
    pub fn first(self, bytes: u64) -> Result<Self, Fault> {
        let short = || Fault::Invalid(format!("{bytes} bytes of a span of {}", self.bytes));
        (bytes <= self.bytes).then_some(Self { bytes, ..self }).ok_or_else(short)
    }

    /// `bytes` from `offset`.
    ///
    /// # Errors
    /// [`Fault::Invalid`] where that isn't inside.
    pub fn part(self, offset: u64, bytes: u64) -> Result<Self, Fault> {
        let inside = offset.checked_add(bytes).is_some_and(|end| end <= self.bytes);
        let outside = || Fault::Invalid(format!("{bytes} bytes from {offset} are not inside {} bytes", self.bytes));
        inside.then(|| Self { pointer: self.pointer + offset, bytes }).ok_or_else(outside)
    }

    fn size(self) -> usize {
        usize::try_from(self.bytes).unwrap_or(usize::MAX)
    }

    /// Copies host bytes to its beginning and waits.
    ///
    /// # Errors
    /// [`Fault::Invalid`] where they don't fit, or while the stream is recorded; [`Fault::Hung`]; the driver's.
    pub fn upload(self, stream: &Stream, from: &[u8]) -> Result<(), Fault> {
        let to = self.first(from.len() as u64)?;
        if from.is_empty() {
            return Ok(());
        }
        waits(stream)?;
        let context = stream.context();
        context.bind()?;
        let call = context.call();
        // SAFETY: `to` has room for `from`, and both live until the wait below has seen the copy done. Where the wait
        // fails the driver reads no more: it stages pageable memory before the call returns.
        let answer = unsafe { call.copy_up(to.pointer, from.as_ptr().cast(), from.len(), stream.handle()) };
        context.watch(answer)?;
        wait::stream(stream)
    }

    /// Copies its first bytes to the host and waits.
    ///
    /// # Errors
    /// Those of [`Span::upload`].
    pub fn download(self, stream: &Stream, to: &mut [u8]) -> Result<(), Fault> {
        let from = self.first(to.len() as u64)?;
        if to.is_empty() {
            return Ok(());
        }
        waits(stream)?;
        let context = stream.context();
        context.bind()?;
        // A copy into memory that isn't pinned returns only when it is done, so what the stream does before it must be
        // waited for first, with a deadline.
        wait::stream(stream)?;
        let call = context.call();
        // SAFETY: `from` has as many bytes as `to`, which is exclusively ours; the wait below sees the copy done, and
        // the driver has done it when the call returns because the memory is pageable.
        let answer = unsafe { call.copy_down(to.as_mut_ptr().cast(), from.pointer, to.len(), stream.handle()) };
        context.watch(answer)?;
        wait::stream(stream)
    }

    /// Sets every byte, in the stream's order.
    ///
    /// # Errors
    /// The driver's.
    pub fn fill(self, stream: &Stream, value: u8) -> Result<(), DriverError> {
        if self.bytes == 0 {
            return Ok(());
        }
        let context = stream.context();
        // SAFETY: only device memory is written; an address that isn't there any more is the driver's error.
        context.watch(unsafe { context.call().fill_bytes(self.pointer, value, self.size(), stream.handle()) })
    }

    /// Copies a part of the same size of another device's memory, in the order of a stream of either device.
    ///
    /// # Errors
    /// [`Fault::Invalid`] where the sizes differ; the driver's.
    pub fn copy_from_peer(self, stream: &Stream, own: &Context, from: Self, peer: &Context) -> Result<(), Fault> {
        same_size(self.bytes, from.bytes)?;
        let context = stream.context();
        let (to, bytes) = (self.pointer, self.size());
        // SAFETY: only memory of the two devices is touched, whose contexts live; an address that isn't there any more is
        // the driver's error.
        let answer =
            unsafe { context.call().copy_peer(to, own.handle(), from.pointer, peer.handle(), bytes, stream.handle()) };
        Ok(context.watch(answer)?)
    }

    /// Copies another part of the same size, in the stream's order.
    ///
    /// # Errors
    /// [`Fault::Invalid`] where the sizes differ; the driver's.
    pub fn copy_from(self, stream: &Stream, from: Self) -> Result<(), Fault> {
        same_size(self.bytes, from.bytes)?;
        if self.bytes == 0 {
            return Ok(());
        }
        let context = stream.context();
        let call = context.call();
        // SAFETY: only device memory is touched; an address that isn't there any more is the driver's error.
        let answer = unsafe { call.copy_across(self.pointer, from.pointer, self.size(), stream.handle()) };
        Ok(context.watch(answer)?)
    }
}

/// Whether a stream can be waited for.
fn waits(stream: &Stream) -> Result<(), Fault> {
    let why = "a stream can't be waited for while a graph is recorded: copy before or after";
    if stream.is_recording() { Err(Fault::Invalid(why.to_owned())) } else { Ok(()) }
}

fn same_size(to: u64, from: u64) -> Result<(), Fault> {
    if to == from { Ok(()) } else { Err(Fault::Invalid(format!("a copy of {from} bytes into {to}"))) }
}

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
    bytes: usize,
    /// The stream whose copies use it: nothing may free or look at it before they are done.
    busy: Option<Arc<Stream>>,
}

#[derive(Debug)]
enum Place {
    Pinned(Pinned),
    Pageable(Box<[u8]>),
}

/// An allocation of `cuMemHostAlloc`.
#[derive(Debug)]
struct Pinned {
    context: Arc<Context>,
    pointer: *mut u8,
}

// SAFETY: the memory belongs to this object alone, and the driver's calls may be made from any thread.
unsafe impl Send for Pinned {}

impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: allocated once, freed once; `HostBuffer` waited for the last copy or the context is given up.
        self.context.destroy(|call| unsafe { call.host_free(self.pointer.cast()) });
    }
}

impl HostBuffer {
    /// `bytes` of zeroed memory.
    ///
    /// # Errors
    /// [`Fault::OutOfMemory`] where the host has less, [`Fault::Invalid`] for 0 bytes, the driver's.
    pub fn new(context: &Arc<Context>, kind: HostKind, bytes: u64) -> Result<Self, Fault> {
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
            HostKind::Pinned | HostKind::WriteCombined => {
                /// `CU_MEMHOSTALLOC_WRITECOMBINED`.
                const WRITE_COMBINED: u32 = 4;
                let flags = if kind == HostKind::WriteCombined { WRITE_COMBINED } else { 0 };
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
                Place::Pinned(Pinned { context: Arc::clone(context), pointer: pointer.cast() })
            }
        };
        Ok(Self { place, bytes: size, busy: None })
    }

    /// Its size.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    fn pointer(&mut self) -> *mut u8 {
        match &mut self.place {
            Place::Pinned(pinned) => pinned.pointer,
            Place::Pageable(bytes) => bytes.as_mut_ptr(),
        }
    }

    /// Its address for kernels, which under unified addressing is the host's; those that use it must be queued through
    /// [`HostBuffer::enter`].
    ///
    /// # Errors
    /// [`Fault::Invalid`] for pageable memory, which kernels can't reach.
    pub(crate) fn mapped(&mut self) -> Result<DevicePointer, Fault> {
        match &self.place {
            Place::Pinned(_) => Ok(self.pointer().expose_provenance() as DevicePointer),
            Place::Pageable(_) => Err(Fault::Invalid("kernels reach pinned memory alone".to_owned())),
        }
    }

    /// Its content, once all copies are done.
    ///
    /// # Errors
    /// [`Fault::Hung`]; the driver's.
    pub fn content(&mut self) -> Result<&mut [u8], Fault> {
        self.settle()?;
        let (pointer, bytes) = (self.pointer(), self.bytes);
        // SAFETY: `bytes` initialised bytes at `pointer`, borrowed as long as `self` is; no copy is under way.
        Ok(unsafe { std::slice::from_raw_parts_mut(pointer, bytes) })
    }

    /// Copies its first bytes to the device, in the stream's order.
    ///
    /// # Errors
    /// [`Fault::Invalid`] where `to` is larger; the driver's.
    pub fn copy_to(&mut self, stream: &Arc<Stream>, to: Span) -> Result<(), Fault> {
        self.fits(to)?;
        self.enter(stream)?;
        let (context, pointer) = (stream.context(), self.pointer());
        let call = context.call();
        // SAFETY: `to` is no larger than this buffer, which outlives the copy: drop and `content` wait for the
        // stream that `enter` noted.
        Ok(context
            .watch(unsafe { call.copy_up(to.pointer, pointer.cast_const().cast(), to.size(), stream.handle()) })?)
    }

    /// Fills its first bytes from the device, in the stream's order.
    ///
    /// # Errors
    /// Those of [`HostBuffer::copy_to`].
    pub fn copy_from(&mut self, stream: &Arc<Stream>, from: Span) -> Result<(), Fault> {
        self.fits(from)?;
        self.enter(stream)?;
        let (context, pointer) = (stream.context(), self.pointer());
        let call = context.call();
        // SAFETY: as in `copy_to`.
        Ok(context.watch(unsafe { call.copy_down(pointer.cast(), from.pointer, from.size(), stream.handle()) })?)
    }

    /// Waits for the copies under way.
    fn settle(&mut self) -> Result<(), Fault> {
        if let Some(stream) = &self.busy {
            wait::stream(stream)?;
        }
        self.busy = None;
        Ok(())
    }

    /// Notes the stream of the next copy or kernel; copies of another stream are waited for.
    ///
    /// # Errors
    /// [`Fault::Hung`]; the driver's.
    pub(crate) fn enter(&mut self, stream: &Arc<Stream>) -> Result<(), Fault> {
        if self.busy.as_ref().is_some_and(|busy| !Arc::ptr_eq(busy, stream)) {
            self.settle()?;
        }
        if self.busy.is_none() {
            self.busy = Some(Arc::clone(stream));
        }
        Ok(())
    }

    fn fits(&self, span: Span) -> Result<(), Fault> {
        if span.bytes <= self.bytes as u64 && span.bytes > 0 {
            return Ok(());
        }
        Err(Fault::Invalid(format!("a copy of {} bytes with a host buffer of {}", span.bytes, self.bytes)))
    }
}

impl Drop for HostBuffer {
    fn drop(&mut self) {
        let hung = self.settle().is_err();
        if let (true, Place::Pageable(bytes)) = (hung, &mut self.place) {
            // The driver may still write here: leaking is the only safe end.
            std::mem::forget(std::mem::take(bytes));
        }
    }
}
