//! A buffer divided among the members of a team. How large the parts should be beyond 'equal' is left to the caller.

use std::ops::{Deref, DerefMut, Range};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

use super::{Buffer, Counted, Pages, Part, Plain};

/// Divides `len` elements into `parts` (at least 1) adjoining ranges that begin at multiples of `grain` elements (at
/// least 1) and differ by at most one grain; the last takes the odd rest. Parts are empty where there are fewer grains
/// than parts.
#[must_use]
pub fn partition(len: usize, parts: usize, grain: usize) -> Vec<Range<usize>> {
    let (parts, grain) = (parts.max(1), grain.max(1));
    let (each, extra) = ((len / grain) / parts, (len / grain) % parts);
    let begin = |part: usize| (part * each + part.min(extra)) * grain;
    (0..parts).map(|part| begin(part)..if part + 1 == parts { len } else { begin(part + 1) }).collect()
}

/// A buffer in disjoint parts, one for each member of a team. A member holds its part for a launch; since nobody else
/// asks for it, that costs some ten nanoseconds and never waits.
#[derive(Debug)]
pub struct Split<T: Plain> {
    parts: Vec<Mutex<Part<T>>>,
    counted: Arc<Counted>,
    len: usize,
    pages: Pages,
}

impl<T: Plain> Split<T> {
    /// Splits what `whole` owns. It is the mapping's only owner, so that these parts are all there are.
    pub(super) fn new(whole: Part<T>, pages: Pages, parts: usize, align: usize) -> Self {
        let Part { counted, range, .. } = whole;
        let len = range.len();
        let owned = |range| Mutex::new(Part::of(Arc::clone(&counted), range));
        let parts = partition(len, parts, align / size_of::<T>()).into_iter().map(owned).collect();
        Self { parts, counted, len, pages }
    }

    /// How many parts there are, at least 1.
    #[must_use]
    pub fn parts(&self) -> usize {
        self.parts.len()
    }

    /// Part `index`, for reading and writing, as long as the guard lives. Elements stay valid whatever panicked while
    /// they were held.
    ///
    /// # Panics
    /// If there is no such part, or if it is held already (two members were given the same part: a mistake in the task,
    /// which a team reports as a panic; waiting instead would spoil the measurement in silence).
    pub fn part(&self, index: usize) -> Held<'_, T> {
        match self.parts[index].try_lock() {
            Ok(part) => Held(part),
            Err(TryLockError::Poisoned(poisoned)) => Held(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => panic!("part {index} of a split buffer is already in use"),
        }
    }

    /// The whole buffer again.
    #[must_use]
    pub fn join(self) -> Buffer<T> {
        // The parts end here, so the new one may own the whole range.
        drop(self.parts);
        Buffer { part: Part::of(self.counted, 0..self.len), pages: self.pages }
    }
}

/// A part of a split buffer while one thread holds it. Dereferences to its elements.
///
/// It gives no access to the part itself: exchanged with another buffer's, that would outlive the joining of its own.
#[derive(Debug)]
pub struct Held<'a, T: Plain>(MutexGuard<'a, Part<T>>);

impl<T: Plain> Held<'_, T> {
    /// Which elements of the buffer these are.
    #[must_use]
    pub fn range(&self) -> Range<usize> {
        self.0.range.clone()
    }
}

impl<T: Plain> Deref for Held<'_, T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T: Plain> DerefMut for Held<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}
