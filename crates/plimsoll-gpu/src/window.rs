//! How large a probe's arrays are, and how launches rotate through them so that none finds its data in a cache.

use std::time::Instant;

use plimsoll_core::Fault;
use plimsoll_core::flag::{Flag, Flags};

use crate::checker::Checker;
use crate::load::Action;
use crate::{Gpu, Memory, Span};

/// Arrays begin at multiples of this, and windows are multiples of it: a huge page.
const ALIGNMENT: u64 = 2 << 20;
/// Most launches in a graph.
const MOST_SLICES: u64 = 8192;
/// Share of the free memory that a probe takes at most.
const SHARE: f64 = 0.9;

/// Chooses the size of each of `arrays` arrays: `wanted` bytes or, with a flag, as much as fits the free memory and one allocation.
///
/// # Errors
/// [`Fault::OutOfMemory`] if not even 2 MiB per array fit.
pub fn fit_arrays<G: Gpu>(device: &G::Device, arrays: u64, wanted: u64) -> Result<(u64, Flags), Fault> {
    let free = G::free_memory(device)?;
    fit(free, G::capabilities(device).limits.allocation, arrays, wanted)
}

fn fit(free: u64, allocation: u64, arrays: u64, wanted: u64) -> Result<(u64, Flags), Fault> {
    let most = ((free as f64 * SHARE) as u64 / arrays.max(1)).min(allocation) / ALIGNMENT * ALIGNMENT;
    let wanted = wanted.max(1).div_ceil(ALIGNMENT).saturating_mul(ALIGNMENT);
    if most == 0 {
        return Err(Fault::OutOfMemory { asked: ALIGNMENT * arrays, free: Some(free) });
    }
    let flags = (wanted > most).then_some(Flag::Shrunk).into_iter().collect();
    Ok((wanted.min(most), flags))
}

/// Bytes of the copy that measures the speed of a software device.
const TRIAL_BYTES: u64 = 8 << 20;
/// Fewest rotations of a point: to find how many launches make a sample, to warm up, and the fewest samples of two rounds.
const ROTATIONS_PER_POINT: f64 = 12.0;
/// How many times slower kernels of a software device are than its copies, which the CPU does itself.
const SLOWER: f64 = 3.0;

/// Most bytes of each of `arrays` arrays for which `points` points can be measured in `seconds`. There is no limit on hardware,
/// whose memory is a hundred times as fast as a software device's. If the limited arrays fit a cache, the points are flagged.
///
/// # Errors
/// [`Fault::OutOfMemory`].
pub fn affordable_bytes<G: Gpu>(device: &G::Device, arrays: u64, points: usize, seconds: f64) -> Result<u64, Fault> {
    if !G::capabilities(device).software {
        return Ok(u64::MAX);
    }
    let stream = G::stream(device);
    let (to, from) = (G::allocate(stream, TRIAL_BYTES)?, G::allocate(stream, TRIAL_BYTES)?);
    let copy = || {
        let start = Instant::now();
        G::copy(stream, to.whole(), from.whole())?;
        G::wait(stream).map(|()| start.elapsed().as_secs_f64())
    };
    // The first copy faults the memory in.
    copy()?;
    Ok(bytes_in_time(2.0 * TRIAL_BYTES as f64 / copy()?.max(1e-9) / SLOWER, arrays, points, seconds))
}

/// Bytes per array at `pace` bytes per second: a multiple of the alignment, and not 0.
fn bytes_in_time(pace: f64, arrays: u64, points: usize, seconds: f64) -> u64 {
    let rotation = pace * seconds / (ROTATIONS_PER_POINT * points.max(1) as f64);
    ((rotation / arrays.max(1) as f64) as u64 / ALIGNMENT).max(1) * ALIGNMENT
}

/// A rotation: each launch works on the next of `slices` slices, with `slice` bytes per operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// Bytes per operand of one launch.
    pub slice: u64,
    /// Launches of one rotation.
    pub slices: u64,
}

impl Rotation {
    /// As many slices as cover `window` bytes, at least one and at most as many as a graph has launches. With tiny slices the
    /// rotation isn't cold, and its points are flagged.
    pub fn cold(slice: u64, window: u64) -> Self {
        Self { slice, slices: window.div_ceil(slice.max(1)).clamp(1, MOST_SLICES) }
    }

    /// Limits the slices to those that fit into arrays of `bytes` bytes, at least one.
    pub fn within(self, bytes: u64) -> Self {
        Self { slices: self.slices.min(bytes / self.slice.max(1)).max(1), ..self }
    }

    /// A rotation that uses the same slice each time.
    pub fn hot(slice: u64) -> Self {
        Self { slice, slices: 1 }
    }

    /// Bytes per operand that a whole rotation touches.
    pub fn bytes(self) -> u64 {
        self.slice * self.slices
    }

    /// The slices of an array.
    ///
    /// # Errors
    /// [`Fault::Invalid`] where it is shorter than [`Rotation::bytes`].
    pub fn spans(self, array: Span) -> Result<Vec<Span>, Fault> {
        (0..self.slices).map(|slice| array.part(slice * self.slice, self.slice)).collect()
    }
}

/// Evicts the measured data from the L2: writes twice the size of the cache, then reads clean data of its size, so that no line
/// has to be written back in the timed window.
#[derive(Debug)]
pub struct Flush<G: Gpu> {
    scratch: G::Buffer,
    cache: u64,
}

impl<G: Gpu> Flush<G> {
    /// Allocates memory to flush a last-level cache of `last_level_cache` bytes.
    ///
    /// # Errors
    /// [`Fault::OutOfMemory`].
    pub fn new(device: &G::Device, last_level_cache: u64) -> Result<Self, Fault> {
        let cache = last_level_cache.max(ALIGNMENT);
        Ok(Self { scratch: G::allocate(G::stream(device), 3 * cache)?, cache })
    }

    /// The actions to enqueue before a launch.
    ///
    /// # Errors
    /// Those of [`Checker::prepare_read`].
    pub fn actions(&self, checker: &Checker<G>) -> Result<Vec<Action<G>>, Fault> {
        let (dirty, clean) = (self.scratch.part(0, 2 * self.cache)?, self.scratch.part(2 * self.cache, self.cache)?);
        Ok(vec![Action::Fill(dirty, 0x5a), Action::Launch(checker.prepare_read(clean)?)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rotation_covers_the_window_in_whole_slices() {
        assert_eq!(Rotation::cold(8 << 20, 512 << 20).slices, 64);
        assert_eq!(Rotation::cold(48 << 20, 512 << 20), Rotation { slice: 48 << 20, slices: 11 });
        assert_eq!(Rotation::cold(2 << 30, 512 << 20).slices, 1);
        assert_eq!(Rotation::cold(300, 512).within(500).slices, 1);
        assert_eq!(Rotation::hot(16 << 20).bytes(), 16 << 20);
    }

    #[test]
    fn limited_arrays_fit_all_points_into_the_budget() {
        for (pace, arrays, points, seconds) in [(3e9, 4, 60, 8.0), (1e9, 2, 30, 60.0), (20e9, 4, 70, 180.0)] {
            let bytes = bytes_in_time(pace, arrays, points, seconds);
            let takes = ROTATIONS_PER_POINT * points as f64 * (arrays * bytes) as f64 / pace;
            assert!(takes <= seconds && takes > 0.5 * seconds && bytes.is_multiple_of(ALIGNMENT), "{bytes}: {takes} s");
        }
        assert_eq!((bytes_in_time(1.0, 4, 60, 8.0), bytes_in_time(f64::NAN, 0, 0, 1.0)), (ALIGNMENT, ALIGNMENT));
    }

    #[test]
    fn arrays_shrink_to_the_free_memory_and_are_flagged() {
        assert_eq!(fit(100 << 30, 100 << 30, 4, 1 << 30).unwrap(), (1 << 30, Flags::NONE));
        assert_eq!(fit(100 << 30, 1 << 29, 4, 1 << 30).unwrap().0, 1 << 29);
        let (bytes, flags) = fit(2 << 30, 2 << 30, 4, 1 << 30).unwrap();
        assert!(bytes < 512 << 20 && bytes % ALIGNMENT == 0 && flags.contains(Flag::Shrunk));
        assert!(matches!(fit(1 << 20, 1 << 20, 4, 1 << 30), Err(Fault::OutOfMemory { .. })));
    }
}
