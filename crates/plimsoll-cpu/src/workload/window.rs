//! Windows: arrays much larger than any cache, which every member of a team visits chunk by chunk, so that no launch finds its
//! data in the caches. The probe decides what to do with a chunk.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use plimsoll_core::Fault;

use crate::memory::{Buffer, Pages, PartGuard, Plain, Split, free_bytes};
use crate::threads::{Task, Team};

/// Bytes of a chunk per operand. A triad over it moves 24 MiB, which takes one core milliseconds: long enough to hide the
/// start of a launch, short enough for a slice of samples.
const CHUNK: u64 = 8 << 20;
/// Fewest chunks of a part, so that three operands never share one.
const FEWEST: u64 = 3;
/// Chunks are whole pages; parts have one more page for a stencil's halo.
const PAGE: u64 = 4096;
/// Share of the free memory that a probe uses by default.
const SHARE: f64 = 0.4;

/// The size of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Bytes per array.
    pub bytes: u64,
    /// True if that is less than requested.
    pub shrunk: bool,
}

/// The size of `arrays` arrays: the user's size if given, else `wanted` bytes each, limited to 95 % or 40 % of the free memory.
///
/// # Errors
/// [`Fault::Invalid`] if the sizes overflow.
pub fn size(asked: Option<u64>, wanted: u64, arrays: u64) -> Result<Size, Fault> {
    size_within(asked, wanted, arrays, free_bytes())
}

fn size_within(asked: Option<u64>, wanted: u64, arrays: u64, free: Option<u64>) -> Result<Size, Fault> {
    let bytes = asked.unwrap_or(wanted);
    if bytes.checked_mul(arrays).is_none_or(|all| i64::try_from(all).is_err()) {
        return Err(Fault::Invalid(format!(
            "{arrays} arrays of {bytes} bytes overflow an address: request fewer bytes"
        )));
    }
    let free = free.unwrap_or(u64::MAX) as f64;
    let most = (if asked.is_some() { 0.95 * free } else { SHARE * free } / arrays as f64) as u64;
    Ok(Size { bytes: bytes.min(most), shrunk: bytes > most })
}

/// A member's position in the sequence of its chunks, on separate cache lines.
#[repr(align(128))]
#[derive(Debug, Default)]
pub struct Place(AtomicUsize);

impl Place {
    /// Returns the number of steps so far, and counts one more.
    pub fn next(&self) -> usize {
        let steps = self.0.load(Ordering::Relaxed);
        self.0.store(steps + 1, Ordering::Relaxed);
        steps
    }

    /// The number of steps so far.
    pub fn steps(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Restarts at the beginning.
    pub fn rewind(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// Arrays of equal size with one part for each member of a team, first touched by that member.
#[derive(Debug)]
pub struct Window<T: Plain> {
    arrays: Vec<Split<T>>,
    parts: usize,
    chunk: usize,
    chunks: usize,
    places: Box<[Place]>,
}

/// One chunk of every array of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Its part.
    pub part: usize,
    /// Its number within the part.
    pub number: usize,
}

impl<T: Plain> Window<T> {
    /// `arrays` arrays of at least `bytes` bytes in parts for the members of `team`. Each member fills its part by applying
    /// `value` to random bits. Checks `stopped` before each array.
    ///
    /// # Errors
    /// [`Fault::OutOfMemory`], [`Fault::Stopped`], and those of [`Team::run`].
    pub fn new(
        team: &Rc<RefCell<Team>>,
        arrays: usize,
        bytes: u64,
        (seed, value): (u64, fn(u64) -> T),
        stopped: &dyn Fn() -> bool,
    ) -> Result<Arc<Self>, Fault> {
        let parts = team.borrow().size();
        let element = size_of::<T>() as u64;
        let part_bytes = bytes.div_ceil(parts as u64).max(1);
        let chunks = part_bytes.div_ceil(CHUNK).max(FEWEST);
        let chunk_bytes = part_bytes.div_ceil(chunks).next_multiple_of(PAGE);
        let len = parts as u64 * (chunks * chunk_bytes + PAGE) / element;
        let to_usize =
            |n: u64| usize::try_from(n).map_err(|_| Fault::Invalid(format!("{n} bytes overflow an address")));
        let mut splits = Vec::with_capacity(arrays);
        for _ in 0..arrays {
            splits.push(Buffer::<T>::new(to_usize(len)?, Pages::Huge)?.split(parts, PAGE as usize));
        }
        let places = (0..parts).map(|_| Place::default()).collect();
        let (chunk, chunks) = (to_usize(chunk_bytes / element)?, to_usize(chunks)?);
        let window = Arc::new(Self { arrays: splits, parts, chunk, chunks, places });
        for array in 0..arrays {
            if stopped() {
                return Err(Fault::Stopped);
            }
            let window = Arc::clone(&window);
            team.borrow_mut().run(&Task::new(move |rank| {
                let mut part = window.arrays[array].part(rank.index);
                let mut bits = seed ^ ((array as u64) << 56) ^ ((rank.index as u64) << 40);
                for element in part.iter_mut() {
                    bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
                    *element = value(mixed(bits));
                }
            }))?;
        }
        Ok(window)
    }

    /// Elements of a chunk.
    #[must_use]
    pub fn chunk(&self) -> usize {
        self.chunk
    }

    /// Bytes per array in all chunks.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        (self.parts * self.chunks * self.chunk * size_of::<T>()) as u64
    }

    /// How many chunks there are in all parts.
    #[must_use]
    pub fn total_chunks(&self) -> usize {
        self.parts * self.chunks
    }

    /// The index of a chunk among all chunks.
    #[must_use]
    pub fn index(&self, chunk: Chunk) -> usize {
        chunk.part * self.chunks + chunk.number
    }

    /// Locks a part of one array.
    #[must_use]
    pub fn part(&self, array: usize, part: usize) -> PartGuard<'_, T> {
        self.arrays[array].part(part)
    }

    /// The range of a chunk's elements within its part.
    #[must_use]
    pub fn range(&self, chunk: Chunk) -> Range<usize> {
        chunk.number * self.chunk..(chunk.number + 1) * self.chunk
    }

    /// The chunk `thirds` thirds of its part after `chunk`, modulo the part: the chunk of another operand that shares the array.
    /// Between two visits to the same data, a third of the array is touched, times the number of arrays of the kernel.
    #[must_use]
    pub fn ahead(&self, chunk: Chunk, thirds: usize) -> Chunk {
        Chunk { number: (chunk.number + thirds * self.chunks / 3) % self.chunks, ..chunk }
    }

    /// The next chunk of member `rank` of `active`. If fewer members are active than there are parts, each visits its own part
    /// and every `active`-th after it, so that the whole window is touched.
    pub fn step(&self, rank: usize, active: usize) -> Chunk {
        self.chunk_at(rank, active, self.places[rank].next() % self.cycle_length(rank, active))
    }

    /// The chunks that member `rank` has visited since the last [`Window::rewind`], each once.
    pub fn visited(&self, rank: usize, active: usize) -> impl Iterator<Item = Chunk> + '_ {
        let steps = self.places[rank].steps().min(self.cycle_length(rank, active));
        (0..steps).map(move |n| self.chunk_at(rank, active, n))
    }

    /// Restarts every member at its first chunk.
    pub fn rewind(&self) {
        self.places.iter().for_each(Place::rewind);
    }

    /// How many chunks member `rank` of `active` visits before it starts again.
    fn cycle_length(&self, rank: usize, active: usize) -> usize {
        (self.parts - rank).div_ceil(active) * self.chunks
    }

    fn chunk_at(&self, rank: usize, active: usize, n: usize) -> Chunk {
        Chunk { part: rank + n / self.chunks * active, number: n % self.chunks }
    }
}

/// Random bits from a counter (the finaliser of SplitMix64: Steele, Lea and Flood, 2014).
pub fn mixed(counter: u64) -> u64 {
    let mut z = counter;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timer::Timer;
    use crate::workload::kernels::finite;

    fn window(parts: usize, bytes: u64) -> Arc<Window<f64>> {
        let team = Rc::new(RefCell::new(Team::new(&vec![0; parts], Timer::Os).unwrap()));
        Window::new(&team, 2, bytes, (7, finite), &|| false).unwrap()
    }

    #[test]
    fn any_number_of_members_visits_every_chunk_once_per_cycle() {
        let window = window(3, 50 << 20);
        assert!(window.bytes() >= 50 << 20 && window.total_chunks() == 9);
        let three: Vec<usize> = (0..3).map(|third| window.ahead(Chunk { part: 0, number: 1 }, third).number).collect();
        assert_eq!(three, [1, 2, 0]);
        for active in 1..=3 {
            window.rewind();
            let mut seen = vec![0; window.total_chunks()];
            for rank in 0..active {
                let length = window.cycle_length(rank, active);
                for _ in 0..length {
                    seen[window.index(window.step(rank, active))] += 1;
                }
                assert_eq!(window.visited(rank, active).count(), length);
                assert_eq!(window.step(rank, active), window.chunk_at(rank, active, 0), "the cycle begins again");
                assert_eq!(window.visited(rank, active).count(), length, "no chunk is listed twice");
            }
            assert_eq!(seen, vec![1; 9], "{active} active");
        }
    }

    #[test]
    fn data_are_random_finite_and_determined_by_the_seed() {
        let (one, two) = (window(2, 1 << 16), window(2, 1 << 16));
        let part = one.part(0, 1);
        assert!(part.iter().all(|x| (1.0..2.0).contains(x)));
        assert_eq!(part[..], two.part(0, 1)[..]);
        assert_ne!(part[..], two.part(1, 1)[..]);
        assert_ne!(part[..], two.part(0, 0)[..]);
    }

    #[test]
    fn a_part_has_room_for_a_halo_after_its_last_chunk() {
        let window = window(2, 1);
        let last = window.range(Chunk { part: 1, number: window.total_chunks() / 2 - 1 });
        assert!(window.part(0, 0).len() >= last.end + 4 && window.part(0, 1).len() >= last.end + 4);
    }

    #[test]
    fn a_window_shrinks_to_its_share_of_memory_and_never_overflows() {
        let free = Some(1_000_000);
        assert_eq!(size_within(None, 50_000, 4, free).unwrap(), Size { bytes: 50_000, shrunk: false });
        assert_eq!(size_within(None, 500_000, 4, free).unwrap(), Size { bytes: 100_000, shrunk: true });
        assert_eq!(size_within(Some(200_000), 1, 4, free).unwrap(), Size { bytes: 200_000, shrunk: false });
        assert!(size_within(Some(250_000), 1, 4, free).unwrap().shrunk);
        assert!(matches!(size_within(Some(u64::MAX / 2), 1, 4, free), Err(Fault::Invalid(_))));
    }

    #[test]
    fn filling_a_window_stops_on_request() {
        let team = Rc::new(RefCell::new(Team::new(&[0], Timer::Os).unwrap()));
        assert!(matches!(Window::new(&team, 1, 1 << 20, (1, finite), &|| true), Err(Fault::Stopped)));
    }
}
