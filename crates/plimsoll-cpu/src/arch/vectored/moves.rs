//! Copies of elements: between a tile and strided memory, and past the caches.

use super::super::Isa;
use super::super::vector::{Kernel, Simd, Vector, dispatch};
use super::ahead::NextInput;

/// Bytes of a cache line.
const LINE: usize = 64;

/// The elements of a tile in strided memory.
#[derive(Clone, Copy)]
pub(super) struct Strided {
    /// Bytes from one row to the next.
    pub row: isize,
    /// Bytes from one column to the next.
    pub column: isize,
    pub rows: usize,
    pub columns: usize,
}

/// Copies a tile's elements from strided memory into one row.
///
/// # Safety
/// Every element is readable and aligned; `to` is valid for writes of all of them, aligned, and doesn't overlap them.
pub(super) unsafe fn gather<T: Copy>(from: *const u8, shape: Strided, to: *mut u8) {
    let Strided { row, column, rows, columns } = shape;
    let to = to.cast::<T>();
    for r in 0..rows {
        // SAFETY: the caller promises rows × columns elements on both sides; r and c stay below.
        unsafe {
            let line = from.offset(row * r as isize);
            let to = to.add(r * columns);
            if column == size_of::<T>() as isize {
                line.cast::<T>().copy_to_nonoverlapping(to, columns);
            } else if column == 0 {
                let value = line.cast::<T>().read();
                (0..columns).for_each(|c| to.add(c).write(value));
            } else {
                (0..columns).for_each(|c| to.add(c).write(line.offset(column * c as isize).cast::<T>().read()));
            }
        }
    }
}

/// Copies one row of elements to a tile's elements in strided memory.
///
/// # Safety
/// As for [`gather`], with reads and writes exchanged.
pub(super) unsafe fn scatter<T: Copy>(from: *const u8, shape: Strided, to: *mut u8) {
    let Strided { row, column, rows, columns } = shape;
    let from = from.cast::<T>();
    for r in 0..rows {
        // SAFETY: the caller promises rows × columns elements on both sides; r and c stay below.
        unsafe {
            let line = to.offset(row * r as isize);
            let from = from.add(r * columns);
            if column == size_of::<T>() as isize {
                from.copy_to_nonoverlapping(line.cast::<T>(), columns);
            } else {
                (0..columns).for_each(|c| line.offset(column * c as isize).cast::<T>().write(from.add(c).read()));
            }
        }
    }
}

/// What is fetched during a copy: inputs of the next tile from an element on, as many elements as are copied, of so many bytes each.
#[derive(Clone, Copy)]
pub(super) struct Fetch<'a> {
    pub(super) inputs: &'a [NextInput],
    pub(super) first: usize,
    pub(super) width: usize,
}

/// A copy of bytes past the caches.
struct Past<'a> {
    from: *const u8,
    to: *mut u8,
    bytes: usize,
    fetch: Fetch<'a>,
}

impl Kernel for Past<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let Self { from, to, bytes, fetch } = self;
        let per_line = LINE / fetch.width.clamp(1, LINE);
        let head = to.align_offset(LINE).min(bytes);
        let end = head + (bytes - head) / LINE * LINE;
        let lanes = <S::F32 as Vector>::LANES * 4;
        // SAFETY: head ≤ end ≤ bytes, so every access is inside; from `head` on the target is aligned to a cache line, hence to
        // a vector, whose size divides a line's; the caller promises the rest.
        unsafe {
            from.copy_to_nonoverlapping(to, head);
            let mut i = head;
            while i < end {
                for k in 0..LINE / lanes {
                    // A float register doesn't change the bits.
                    let value = S::F32::load(from.add(i + k * lanes).cast());
                    value.store_nontemporal(to.add(i + k * lanes).cast());
                }
                for input in fetch.inputs {
                    input.fetch(fetch.first + (i - head) / LINE * per_line, per_line);
                }
                i += LINE;
            }
            from.add(end).copy_to_nonoverlapping(to.add(end), bytes - end);
        }
    }
}

/// Copies bytes past the caches, and meanwhile fetches inputs of the next tile. [`fence`] makes the copies visible to other threads.
///
/// # Safety
/// `isa` is available; `from` is readable and `to` writable for `bytes` bytes, and they don't overlap.
pub(super) unsafe fn past_caches(isa: Isa, from: *const u8, to: *mut u8, bytes: usize, fetch: Fetch<'_>) {
    // SAFETY: the caller promises the same.
    unsafe { dispatch(isa, Past { from, to, bytes, fetch }) }
}

struct Fence;

impl Kernel for Fence {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        // SAFETY: the caller promises the set.
        unsafe { S::fence() }
    }
}

/// Orders the stores of [`past_caches`] before later stores.
///
/// # Safety
/// `isa` is available.
pub(super) unsafe fn fence(isa: Isa) {
    // SAFETY: the caller promises it.
    unsafe { dispatch(isa, Fence) }
}
