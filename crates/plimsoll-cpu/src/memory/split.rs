//! A buffer divided into equal parts among the members of a team.

use std::ops::{Deref, DerefMut, Range};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

use super::{Buffer, Counted, Pages, Part, Plain};

/// Divides `len` elements into `parts` (at least 1) adjoining ranges that begin at multiples of `grain` elements (at
/// least 1) and differ by at most one grain; the last takes the remainder. Some parts are empty if there are fewer grains
/// than parts.
#[must_use]
pub fn partition(len: usize, parts: usize, grain: usize) -> Vec<Range<usize>> {
    let (parts, grain) = (parts.max(1), grain.max(1));
    let (each, extra) = ((len / grain) / parts, (len / grain) % parts);
    let begin = |part: usize| (part * each + part.min(extra)) * grain;
    (0..parts).map(|part| begin(part)..if part + 1 == parts { len } else { begin(part + 1) }).collect()
}

/// A buffer in disjoint parts, one for each member of a team. A member locks its part for a launch; since no other thread
/// locks it, that costs about ten nanoseconds and never waits.
#[derive(Debug)]
pub struct Split<T: Plain> {
    parts: Vec<Mutex<Part<T>>>,
    counted: Arc<Counted>,
    len: usize,
    pages: Pages,
}

impl<T: Plain> Split<T> {
    /// Splits what `whole` owns. `whole` is the mapping's only owner, so that no other parts exist.
    pub(super) fn new(whole: Part<T>, pages: Pages, parts: usize, align: usize) -> Self {
        let Part { counted, range, .. } = whole;
        let len = range.len();
        let owned = |range| Mutex::new(Part::new(Arc::clone(&counted), range));
        let parts = partition(len, parts, align / size_of::<T>()).into_iter().map(owned).collect();
        Self { parts, counted, len, pages }
    }

    /// How many parts there are, at least 1.
    #[must_use]
    pub fn parts(&self) -> usize {
        self.parts.len()
    }

    /// Part `index`, for reading and writing, while the guard lives. Elements stay valid if a thread panics while it holds
    /// the guard.
    ///
    /// # Panics
    /// If there is no such part, or if it is already locked (a mistake in the task: two members took the same part). A team
    /// reports the panic; waiting instead would silently spoil the measurement.
    pub fn part(&self, index: usize) -> PartGuard<'_, T> {
        match self.parts[index].try_lock() {
            Ok(part) => PartGuard(part),
            Err(TryLockError::Poisoned(poisoned)) => PartGuard(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => panic!("part {index} of a split buffer is already in use"),
        }
    }

    /// Joins the parts into the whole buffer.
    #[must_use]
    pub fn join(self) -> Buffer<T> {
        // The parts are dropped here, so the new one may own the whole range.
        drop(self.parts);
        Buffer { part: Part::new(self.counted, 0..self.len), pages: self.pages }
    }
}

/// A locked part of a split buffer. Dereferences to its elements.
///
/// It gives no access to the part itself: a caller could swap that with a part of another buffer, and it would outlive
/// [`Split::join`].
#[derive(Debug)]
pub struct PartGuard<'a, T: Plain>(MutexGuard<'a, Part<T>>);

impl<T: Plain> PartGuard<'_, T> {
    /// The part's elements as a range of the buffer's.
    #[must_use]
    pub fn range(&self) -> Range<usize> {
        self.0.range.clone()
    }
}

impl<T: Plain> Deref for PartGuard<'_, T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T: Plain> DerefMut for PartGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}
