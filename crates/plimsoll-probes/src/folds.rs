//! What kernels leave that read in patterns: one exclusive or per thread of all that it read, held against a naive walk on
//! the host. Where the walks go is said here a second time, apart from `walk.h`.

use std::sync::Arc;

use plimsoll_core::Fault;
use plimsoll_core::sample::Check;
use plimsoll_gen::kernel::{KernelDesc, Machine};
use plimsoll_gen::pattern;
use plimsoll_gpu::{Arguments, Gpu, Span};

/// Threads of a warp.
const WARP: u64 = 32;
/// Every so many threads are held against the walk: a prime, so that all lanes and warps come up.
pub(crate) const SOME: usize = 4999;
/// The same where a kernel is verified.
pub(crate) const MANY: usize = 61;

/// The walk of a kernel's blocks over pieces of an array, one block per multiprocessor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Walk {
    /// Bytes of a piece: a multiple of [`Walk::chunk`].
    pub(crate) slice: u64,
    shift: u64,
    pieces: u64,
    warps: u64,
    vector: u64,
    unroll: u64,
}

/// Bytes that a warp reads in one iteration.
pub(crate) fn chunk(kernel: &KernelDesc) -> u64 {
    WARP * u64::from(kernel.vector_bytes) * u64::from(kernel.unroll)
}

impl Walk {
    /// Of pieces of about `slice` bytes, at least a chunk; after a pass a block goes on `shift` pieces further on.
    pub(crate) fn new(kernel: &KernelDesc, slice: u64, shift: u64, machine: Machine) -> Self {
        let chunk = chunk(kernel);
        Self {
            slice: (slice / chunk).max(1) * chunk,
            shift,
            pieces: u64::from(machine.multiprocessors),
            warps: u64::from(kernel.threads) / WARP,
            vector: u64::from(kernel.vector_bytes),
            unroll: u64::from(kernel.unroll),
        }
    }

    fn chunk(&self) -> u64 {
        WARP * self.vector * self.unroll
    }

    /// Bytes of all pieces.
    pub(crate) fn bytes(&self) -> u64 {
        self.slice * self.pieces
    }

    /// Bytes that one block moves in one iteration.
    pub(crate) fn iteration(&self) -> u64 {
        self.warps * self.chunk()
    }

    /// Turns after which every chunk of a piece was visited.
    pub(crate) fn pass(&self) -> u64 {
        self.slice.div_ceil(self.iteration())
    }

    /// `slice` and `step`, and for walks that shift `hop` and `shift`, as `walk.h` wants them.
    pub(crate) fn arguments(&self, list: Arguments, shifts: bool) -> Arguments {
        let list = list.u32(self.slice as u32).u32((self.iteration() % self.slice) as u32);
        if !shifts {
            return list;
        }
        list.u32((self.iteration() / self.slice * self.shift % self.pieces) as u32).u32(self.shift as u32)
    }

    /// Where a warp's chunks begin, bytes from the array's beginning.
    fn places(&self, block: u64, warp: u64, iterations: u64) -> impl Iterator<Item = u64> {
        let walk = *self;
        (0..iterations).map(move |iteration| {
            let far = (iteration * walk.warps + warp) * walk.chunk();
            let piece = (block + far / walk.slice * walk.shift) % walk.pieces;
            piece * walk.slice + far % walk.slice
        })
    }

    /// The exclusive or of all that a thread reads in phases of so many iterations, each from the walk's beginning.
    pub(crate) fn fold(&self, seed: u64, thread: usize, phases: &[u64]) -> u32 {
        let (thread, threads) = (thread as u64, self.warps * WARP);
        let (block, warp, lane) = (thread / threads, thread % threads / WARP, thread % WARP);
        let read = |place: u64| {
            let vectors = (0..self.unroll).map(move |u| (place + u * WARP * self.vector + lane * self.vector) / 4);
            vectors.flat_map(|word| word..word + self.vector / 4).fold(0, |bits, word| bits ^ pattern::bits(seed, word))
        };
        phases
            .iter()
            .flat_map(|iterations| self.places(block, warp, *iterations))
            .fold(0, |bits, place| bits ^ read(place))
    }

    /// How often each chunk of a block's own piece is visited in phases of so many iterations.
    pub(crate) fn visits(&self, phases: &[u64]) -> Vec<u32> {
        let mut visits = vec![0; (self.slice / self.chunk()) as usize];
        let alone = Self { shift: 0, ..*self };
        for iterations in phases {
            for place in (0..self.warps).flat_map(|warp| alone.places(0, warp, *iterations)) {
                visits[(place / self.chunk()) as usize] += 1;
            }
        }
        visits
    }
}

/// The words of a span.
///
/// # Errors
/// Those of the download.
pub(crate) fn words<G: Gpu>(stream: &Arc<G::Stream>, from: Span) -> Result<Vec<u32>, Fault> {
    let mut bytes = vec![0; usize::try_from(from.bytes()).unwrap_or(usize::MAX)];
    G::download(stream, from, &mut bytes)?;
    Ok(bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect())
}

/// Every so many of the words that threads left, against what the oracle says of a thread.
pub(crate) fn check(found: &[u32], every: usize, oracle: impl Fn(usize) -> u32) -> Check {
    let mut some = (0..found.len()).step_by(every).chain(found.len().checked_sub(1));
    let wrong = some.find_map(|thread| {
        let expected = oracle(thread);
        (found[thread] != expected).then_some((thread, expected))
    });
    wrong.map_or(Check::Passed, |(thread, expected)| {
        Check::Failed(format!("thread {thread} read {:#010x} in all, not {expected:#010x}", found[thread]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::l1::kernels as l1;
    use crate::l2::kernels as l2;

    const MACHINE: Machine = Machine { multiprocessors: 7, threads_per_multiprocessor: 2048 };

    #[test]
    fn one_pass_visits_every_word_of_a_piece_once_where_it_is_whole_turns() {
        let kernel = l1::load(16);
        let walk = Walk::new(&kernel, 3 * 32 * chunk(&kernel), 0, MACHINE);
        assert_eq!((walk.pass(), walk.visits(&[walk.pass()])), (3, vec![1; 96]));
        assert_eq!(walk.visits(&[1, 3]).iter().sum::<u32>(), 4 * 32);
    }

    #[test]
    fn a_piece_smaller_than_a_turn_is_visited_evenly() {
        let kernel = l1::load(4);
        let walk = Walk::new(&kernel, 5 * chunk(&kernel), 0, MACHINE);
        let visits = walk.visits(&[10]);
        assert!(visits.iter().all(|count| *count == 64), "{visits:?}");
    }

    #[test]
    fn shifted_walks_come_to_every_piece_and_the_arguments_step_alike() {
        let kernel = l2::read();
        for slice in [1, 3, 32, 33, 100].map(|chunks| chunks * chunk(&kernel)) {
            let walk = Walk::new(&kernel, slice, 1, MACHINE);
            let (step, hop) = (walk.iteration() % walk.slice, walk.iteration() / walk.slice % walk.pieces);
            for (block, warp) in [(0, 0), (6, 31), (3, 17)] {
                let begin = warp * walk.chunk();
                let (mut offset, mut piece) = (begin % walk.slice, (block + begin / walk.slice) % walk.pieces);
                let mut pieces = std::collections::BTreeSet::new();
                for place in walk.places(block, warp, 60) {
                    assert_eq!(place, piece * walk.slice + offset, "{slice} {block} {warp}");
                    pieces.insert(piece);
                    offset += step;
                    piece += hop;
                    if offset >= walk.slice {
                        offset -= walk.slice;
                        piece += 1;
                    }
                    piece %= walk.pieces;
                }
                assert!(pieces.len() == 7 || hop == 0 || slice > 32 * chunk(&kernel), "{slice}: {pieces:?}");
            }
        }
    }
}
