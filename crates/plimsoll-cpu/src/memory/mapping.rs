//! One anonymous mapping, aligned to 2 MiB, zero until touched and unmapped when dropped. The parent module handles the type
//! of its contents and checks that there is enough memory.

use std::io;
use std::ptr::NonNull;

use super::Pages;

/// The alignment of every mapping, and the size of a huge page on x86-64 and on AArch64 with 4 KiB pages.
pub(super) const ALIGNMENT: usize = 2 << 20;

/// Readable and writable bytes at a 2 MiB boundary, with an inaccessible page or more on both sides: an overrun faults,
/// and the kernel can't merge two mappings into one entry of `smaps`.
#[derive(Debug)]
pub(super) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
    #[cfg(all(unix, not(miri)))]
    whole: (NonNull<u8>, usize),
    /// Whether the kernel accepted the advice on page size.
    pub(super) advised: bool,
}

// SAFETY: the mapping owns its bytes, which belong to no thread; all access goes through the parent module's types, which
// hand out shared and exclusive references by the usual rules.
unsafe impl Send for Mapping {}
// SAFETY: as above: `&Mapping` gives no access to the bytes except a raw pointer.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// The first byte.
    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// How many bytes may be used.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(all(unix, not(miri)))]
impl Mapping {
    /// Maps `bytes`, a positive multiple of the page size.
    pub(super) fn new(bytes: usize, pages: Pages) -> io::Result<Self> {
        use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect};
        let page = rustix::param::page_size();
        let whole = bytes.checked_add(ALIGNMENT + page).ok_or(io::ErrorKind::OutOfMemory)?;
        // SAFETY: with a null hint the kernel chooses an unused range.
        let base = unsafe { mmap_anonymous(std::ptr::null_mut(), whole, ProtFlags::empty(), MapFlags::PRIVATE)? };
        let Some(base) = NonNull::new(base.cast::<u8>()) else {
            return Err(io::ErrorKind::OutOfMemory.into());
        };
        // Inaccessible pages before the boundary and after the end cost address space only.
        let skip = base.as_ptr().align_offset(ALIGNMENT);
        // SAFETY: skip < ALIGNMENT, so the result and `bytes` after it lie inside the mapping of ALIGNMENT + bytes + page.
        let start = unsafe { base.add(skip) };
        let mut mapping = Self { start, bytes, whole: (base, whole), advised: false };
        // SAFETY: the range lies inside our own fresh mapping, to which there are no references yet. On failure, dropping
        // `mapping` unmaps all of it.
        unsafe { mprotect(start.as_ptr().cast(), bytes, MprotectFlags::READ | MprotectFlags::WRITE)? };
        mapping.advised = mapping.advise(pages);
        Ok(mapping)
    }

    #[cfg(target_os = "linux")]
    fn advise(&self, pages: Pages) -> bool {
        use rustix::mm::{Advice, madvise};
        let advice = match pages {
            Pages::Huge => Advice::LinuxHugepage,
            Pages::Small => Advice::LinuxNoHugepage,
        };
        // SAFETY: the range is our own mapping, and neither kind of advice changes its contents.
        unsafe { madvise(self.start.as_ptr().cast(), self.bytes, advice) }.is_ok()
    }

    #[cfg(not(target_os = "linux"))]
    fn advise(&self, _pages: Pages) -> bool {
        false
    }
}

#[cfg(all(unix, not(miri)))]
impl Drop for Mapping {
    fn drop(&mut self) {
        let (base, whole) = self.whole;
        // SAFETY: exactly the range that `new` mapped, unmapped once; no references to it are left.
        let unmapped = unsafe { rustix::mm::munmap(base.as_ptr().cast(), whole) };
        debug_assert!(unmapped.is_ok());
    }
}

// Miri has no mprotect, and checks the allocator's memory as well as the kernel's.
#[cfg(any(not(unix), miri))]
impl Mapping {
    /// Allocates `bytes`, a positive number, zeroed.
    pub(super) fn new(bytes: usize, _pages: Pages) -> io::Result<Self> {
        let layout = std::alloc::Layout::from_size_align(bytes, ALIGNMENT).map_err(|_| io::ErrorKind::OutOfMemory)?;
        // SAFETY: the layout has a positive size.
        let start = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) }).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, bytes, advised: false })
    }
}

#[cfg(any(not(unix), miri))]
impl Drop for Mapping {
    fn drop(&mut self) {
        if let Ok(layout) = std::alloc::Layout::from_size_align(self.bytes, ALIGNMENT) {
            // SAFETY: allocated by `new` with the same layout, freed once.
            unsafe { std::alloc::dealloc(self.start.as_ptr(), layout) };
        }
    }
}
