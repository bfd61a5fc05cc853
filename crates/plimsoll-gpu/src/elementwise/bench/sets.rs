//! What the launches of a point compute: a problem, or a batch of sets that are parts of its tensors.

use std::sync::Arc;
use std::time::Instant;

use plimsoll_core::Fault;
use plimsoll_expr::{Layout, LayoutError};
use plimsoll_gen::elementwise::Choose;

use super::spread_indices;
use crate::elementwise::rotation::{Set, Subject, operands};
use crate::elementwise::{BatchOptions, BatchSet, BoundExpression, Elementwise, Error, Expression, Operand};

/// What the launches of a point compute.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Covers {
    /// The problem, rotating through at least two windows if data are cold.
    #[default]
    Rotating,
    /// The problem, in one window if that is larger than the caches: for tensors that fill the memory.
    Once,
    /// A batch of sets with these numbers of elements, in one window as above. The sets begin at multiples of 512 elements of the
    /// problem, which has [`span_of_sets`] elements; inputs of one element are the same for all sets.
    Sets(Arc<[u64]>),
}

/// Launches whose host time is measured together, and how often: as many as a stream takes without blocking the host.
const HOST_LAUNCHES: u32 = 20;
const HOST_SAMPLES: usize = 5;
/// Sets of a batch begin at multiples of this many elements, as allocators align tensors.
const SET_GRAIN: u64 = 512;

/// The place of each set among the elements of a problem.
fn set_starts(lengths: &[u64]) -> impl Iterator<Item = u64> {
    lengths.iter().scan(0_u64, |next, length| {
        let start = *next;
        *next = start.saturating_add(length.checked_next_multiple_of(SET_GRAIN).unwrap_or(u64::MAX));
        Some(start)
    })
}

/// The number of elements of a problem that has room for these sets.
#[must_use]
pub fn span_of_sets(lengths: &[u64]) -> u64 {
    set_starts(lengths).last().map_or(0, |start| start.saturating_add(*lengths.last().unwrap_or(&0)))
}

/// Binds the expression to the sets of a batch.
pub(super) fn bind_sets<G: Elementwise>(
    expression: &Expression<G>,
    (subject, choose): (&Subject, &Choose),
    set: &Set,
    (lengths, stream): (&[u64], &Arc<G::Stream>),
) -> Result<BoundExpression<G>, Error> {
    let (inputs, outputs) = operands(subject, set)?;
    let part = |operand: &Operand<G>, (start, length): (u64, u64)| {
        if operand.layout().elements() == 1 {
            return Ok::<_, LayoutError>(operand.clone());
        }
        Ok(operand.with_layout(Layout::contiguous(&[length])?.offset_by(start)?))
    };
    let parts = |operands: &[Operand<G>], place| {
        operands.iter().map(|operand| part(operand, place)).collect::<Result<Vec<_>, LayoutError>>()
    };
    let set = |place| Ok(BatchSet::new(parts(&inputs, place)?, parts(&outputs, place)?));
    let sets = set_starts(lengths).zip(lengths.iter().copied()).map(set).collect::<Result<Vec<_>, LayoutError>>()?;
    let scalars = [subject.problem.scalars().to_vec()];
    let options = BatchOptions { scalars: &scalars, choose: *choose, ..BatchOptions::default() };
    Ok(expression.batch(&sets, &options, stream)?.into_bound())
}

/// The start of a set and a place in it, for at most `most` elements, including the first and the last.
pub(super) fn places_in_sets(lengths: &[u64], most: u64) -> Vec<(u64, u64)> {
    let total = lengths.iter().fold(0, |sum: u64, length| sum.saturating_add(*length));
    let mut sets = set_starts(lengths).zip(lengths).filter(|(_, length)| **length > 0);
    let (mut current, mut before) = (sets.next(), 0);
    let place = |place: u64| loop {
        let (start, length) = current?;
        if place < before + length {
            return Some((start, place - before));
        }
        before += length;
        current = sets.next();
    };
    spread_indices(total, most).into_iter().filter_map(place).collect()
}

/// The host's time for a launch in an empty stream, seconds: the median of some.
pub(super) fn host_time<G: Elementwise>(bound: &BoundExpression<G>, stream: &Arc<G::Stream>) -> Result<f64, Fault> {
    let mut times = Vec::new();
    for _ in 0..HOST_SAMPLES {
        G::wait(stream)?;
        let begin = Instant::now();
        for _ in 0..HOST_LAUNCHES {
            bound.enqueue(stream)?;
        }
        times.push(begin.elapsed().as_secs_f64() / f64::from(HOST_LAUNCHES));
    }
    G::wait(stream)?;
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_begin_at_aligned_places_and_have_the_first_and_the_last_sample() {
        let lengths = [3, 0, 600, 1];
        assert_eq!(set_starts(&lengths).collect::<Vec<_>>(), [0, 512, 512, 1536]);
        assert_eq!((span_of_sets(&lengths), span_of_sets(&[])), (1537, 0));
        let places = places_in_sets(&lengths, 604);
        assert_eq!(places.len(), 604);
        assert_eq!((places[0], places[2], places[3], places[603]), ((0, 0), (0, 2), (512, 0), (1536, 0)));
        assert_eq!(places_in_sets(&[7], 2), [(0, 0), (0, 6)]);
    }
}
