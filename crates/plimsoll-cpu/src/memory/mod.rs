//! Buffers for measuring: anonymous memory at 2 MiB boundaries, in huge or small pages as requested. A buffer is refused
//! before it is touched if there isn't enough memory, and divided among threads so that each places its own pages by first
//! touch. The probes decide which thread touches what, and when. This module also views callers' slices as bytes.
//!
//! Fresh memory reads as zero, but a page that has only been read is the kernel's one shared zero page: write a buffer
//! before you time reads of it.

mod borrowed;
mod mapping;
mod pages;
mod split;
#[cfg(test)]
mod tests;

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut, Range};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use plimsoll_core::Fault;

use crate::topology::Headroom;
use crate::topology::text;
use mapping::{ALIGNMENT, Mapping};

pub use borrowed::{Lendable, Target, bytes};
pub(crate) use borrowed::{Readable, Source, Writable};
pub use pages::{PageReport, Pages, SmallPages};
pub use split::{PartGuard, Split, partition};

#[allow(unnameable_types, reason = "a sealed trait")]
mod sealed {
    pub trait Sealed {}
    impl Sealed for f64 {}
    impl Sealed for f32 {}
    impl Sealed for u64 {}
    impl Sealed for u32 {}
    impl Sealed for u8 {}
}

/// Element types for which every bit pattern is a value and which own nothing.
pub trait Plain: sealed::Sealed + Copy + Default + PartialEq + std::fmt::Debug + Send + Sync + 'static {}

impl Plain for f64 {}
impl Plain for f32 {}
impl Plain for u64 {}
impl Plain for u32 {}
impl Plain for u8 {}

/// Bytes of all live buffers. The kernel counts mapped but untouched memory as available, so a second buffer must know about
/// the first.
static MAPPED: AtomicU64 = AtomicU64::new(0);

/// `free` bytes less a reserve for other programs: a tenth, at most 512 MiB.
fn beyond_reserve(free: u64) -> u64 {
    free - (free / 10).min(512 << 20)
}

/// Bytes of live buffers that no thread has touched yet, from the process's anonymous resident memory (`RssAnon`). Other
/// memory of this process counts as touched buffers; it is small compared with the reserve.
fn untouched() -> u64 {
    let status = text::read(Path::new("/proc/self/status")).unwrap_or_default();
    let resident = text::kilobytes(&status, "RssAnon").unwrap_or(0);
    MAPPED.load(Ordering::Relaxed).saturating_sub(resident)
}

/// The largest buffer that [`Buffer::new`] would grant now, in bytes; `None` if the system doesn't report free memory.
#[must_use]
pub fn free_bytes() -> Option<u64> {
    Headroom::read_under(Path::new("/")).free().map(|free| beyond_reserve(free.saturating_sub(untouched())))
}

/// `len` elements of `T` in their own mapping, zero until written, at a 2 MiB boundary. Share it as `&Buffer` or
/// `Arc<Buffer>`; [`Buffer::split`] gives exclusive parts to several threads.
#[derive(Debug)]
pub struct Buffer<T: Plain> {
    part: Part<T>,
    pages: Pages,
}

impl<T: Plain> Buffer<T> {
    /// A buffer of `len` elements (0 is allowed), in pages of the requested kind if the kernel grants them:
    /// [`Buffer::page_report`] reports the result. Touches no page.
    ///
    /// # Errors
    /// [`Fault::Invalid`] if the size overflows; [`Fault::OutOfMemory`] if the machine or the container hasn't that much
    /// free (less a reserve: a tenth, at most 512 MiB), or if the kernel refuses.
    pub fn new(len: usize, pages: Pages) -> Result<Self, Fault> {
        let too_large = || Fault::Invalid(format!("{len} elements of {} bytes overflow an address", size_of::<T>()));
        let wanted = len.checked_mul(size_of::<T>()).ok_or_else(too_large)?;
        // Whole huge pages, so that the buffer's tail isn't in small pages.
        let grain = if pages == Pages::Huge { ALIGNMENT } else { crate::topology::page_size() };
        let bytes = wanted.max(1).checked_next_multiple_of(grain).ok_or_else(too_large)?;
        if isize::try_from(bytes).is_err() {
            return Err(too_large());
        }
        let free = free_bytes();
        if free.is_some_and(|free| bytes as u64 > free) {
            return Err(Fault::OutOfMemory { asked: bytes as u64, free });
        }
        let mapping = Mapping::new(bytes, pages).map_err(|_| Fault::OutOfMemory { asked: bytes as u64, free })?;
        MAPPED.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(Self { part: Part::new(Arc::new(Counted(mapping)), 0..len), pages })
    }

    /// The kind of pages that back the buffer. Untouched pages have no backing, so call it after the first touch. Reads
    /// `/proc/self/smaps`, which is slow: never call it in a timed region.
    #[must_use]
    pub fn page_report(&self) -> PageReport {
        pages::build_report(&self.part.counted.0, self.pages)
    }

    /// Divides the buffer into `parts` disjoint parts, one per thread, each beginning at a multiple of `align` bytes: see
    /// [`partition`].
    #[must_use]
    pub fn split(self, parts: usize, align: usize) -> Split<T> {
        Split::new(self.part, self.pages, parts, align)
    }
}

impl<T: Plain> Deref for Buffer<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        &self.part
    }
}

impl<T: Plain> DerefMut for Buffer<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.part
    }
}

/// A mapping whose bytes are counted in [`MAPPED`].
#[derive(Debug)]
struct Counted(Mapping);

impl Drop for Counted {
    fn drop(&mut self) {
        MAPPED.fetch_sub(self.0.bytes() as u64, Ordering::Relaxed);
    }
}

/// The exclusive owner of some elements of a mapping. Dereferences to their slice.
#[derive(Debug)]
struct Part<T: Plain> {
    counted: Arc<Counted>,
    range: Range<usize>,
    elements: PhantomData<T>,
}

impl<T: Plain> Part<T> {
    /// The owner of `range`. Callers in this module only make parts that are disjoint from all others of the mapping; the
    /// slices below rely on that.
    fn new(counted: Arc<Counted>, range: Range<usize>) -> Self {
        assert!(
            range.start <= range.end && range.end <= counted.0.bytes() / size_of::<T>(),
            "a part must lie inside its mapping"
        );
        Self { counted, range, elements: PhantomData }
    }
}

impl<T: Plain> Deref for Part<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: (1) the range lies inside the mapping, which lives as long as `self`; (2) it is aligned, since the
        // mapping starts at 2 MiB and elements follow each other; (3) fresh pages are zero and `T: Plain` accepts any
        // bits; (4) parts are disjoint, so `&self` excludes writers of these elements.
        unsafe {
            let first = self.counted.0.start().cast::<T>().add(self.range.start);
            std::slice::from_raw_parts(first.as_ptr(), self.range.len())
        }
    }
}

impl<T: Plain> DerefMut for Part<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`, and `&mut self` excludes all other access to these elements.
        unsafe {
            let first = self.counted.0.start().cast::<T>().add(self.range.start);
            std::slice::from_raw_parts_mut(first.as_ptr(), self.range.len())
        }
    }
}
