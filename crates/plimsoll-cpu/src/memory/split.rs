//! A buffer divided among the members of a team. How large the parts should be beyond 'equal' is left to the caller.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use super::{Buffer, Pages, Part, Plain};

/// Divides `len` elements into `parts` adjoining ranges that begin at multiples of `grain` elements (at least 1) and
/// differ by at most one grain; the last takes the odd rest. Parts are empty where there are fewer grains than parts.
#[must_use]
pub fn partition(len: usize, parts: usize, grain: usize) -> Vec<Range<usize>> {
    let grain = grain.max(1);
    let (each, extra) = match parts {
        0 => return Vec::new(),
        _ => ((len / grain) / parts, (len / grain) % parts),
    };
    let begin = |part: usize| (part * each + part.min(extra)) * grain;
    (0..parts).map(|part| begin(part)..if part + 1 == parts { len } else { begin(part + 1) }).collect()
}

/// A buffer in disjoint parts, one for each member of a team. A member locks its part for a launch; since nobody else
/// asks for it, that costs some ten nanoseconds and never waits.
#[derive(Debug)]
pub struct Split<T: Plain> {
    parts: Vec<Mutex<Part<T>>>,
    pages: Pages,
}

impl<T: Plain> Split<T> {
    pub(super) fn new(parts: Vec<Part<T>>, pages: Pages) -> Self {
        Self { parts: parts.into_iter().map(Mutex::new).collect(), pages }
    }

    /// How many parts there are.
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
    pub fn part(&self, index: usize) -> MutexGuard<'_, Part<T>> {
        match self.parts[index].try_lock() {
            Ok(part) => part,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => panic!("part {index} of a split buffer is already in use"),
        }
    }

    /// The whole buffer again.
    ///
    /// # Errors
    /// Never where there is at least one part; a buffer split into no parts comes back empty.
    #[must_use]
    pub fn join(self) -> Option<Buffer<T>> {
        let mut parts = self.parts.into_iter().map(|part| part.into_inner().unwrap_or_else(PoisonError::into_inner));
        let first = parts.next()?;
        let last = parts.fold(first.range.end, |_, part| part.range.end);
        // Every other part has been consumed above, so this one may own the whole range.
        Some(Buffer { part: Part::of(Arc::clone(&first.counted), 0..last), pages: self.pages })
    }
}
