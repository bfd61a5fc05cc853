//! Expected results of kernels that read in patterns: each block or thread leaves the XOR of all words it read, and the host
//! recomputes it naively. The traversal order is written here a second time, independently of `walk.h`.

use plimsoll_gen::kernel::Machine;

use crate::prelude::gpu::*;

/// Threads of a warp.
const WARP: u64 = 32;
/// Step between checked threads: a prime, so that all lanes and warps come up.
pub(crate) const SOME: usize = 4999;
/// The same step for `verify`.
pub(crate) const MANY: usize = 61;

/// The order in which a kernel's blocks traverse the pieces of an array, one block per SM.
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

/// Such kernels and their arrays.
pub(crate) struct Bench<G: Gpu> {
    /// The kernels.
    pub(crate) kit: Kit<G>,
    /// The input's seed.
    pub(crate) seed: u64,
    /// Random words.
    pub(crate) input: G::Buffer,
    /// As large as the input.
    pub(crate) out: G::Buffer,
    /// One word of each thread.
    pub(crate) left: Rc<G::Buffer>,
}

impl<G: Gpu> Bench<G> {
    /// Arrays of so many bytes for so many threads.
    pub(crate) fn new(kit: Kit<G>, bytes: u64, threads: u64, seed: u64) -> Result<Self, Fault> {
        let (input, out, left) = (kit.array(bytes)?, kit.array(bytes)?, kit.array(4 * threads)?);
        kit.checker.fill(Data::Bits, Element::Word, input.whole(), seed)?;
        Ok(Self { kit, seed, input, out, left: Rc::new(left) })
    }
}

/// Bytes that a warp reads in one iteration.
pub(crate) fn chunk(kernel: &KernelDesc) -> u64 {
    WARP * u64::from(kernel.vector_bytes) * u64::from(kernel.unroll)
}

impl Walk {
    /// Pieces of about `slice` bytes, at least one chunk. After a pass a block moves on by `shift` pieces.
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

    /// Iterations after which every chunk of a piece was visited.
    pub(crate) fn pass(&self) -> u64 {
        self.slice.div_ceil(self.iteration())
    }

    /// Appends the arguments that `walk.h` expects: `slice` and `step`, and for shifting traversals `hop` and `shift`.
    pub(crate) fn arguments(&self, list: Arguments, shifts: bool) -> Arguments {
        let list = list.u32(self.slice as u32).u32((self.iteration() % self.slice) as u32);
        if !shifts {
            return list;
        }
        list.u32((self.iteration() / self.slice * self.shift % self.pieces) as u32).u32(self.shift as u32)
    }

    /// The byte offsets of a warp's chunks in the array.
    fn places(&self, block: u64, warp: u64, iterations: u64) -> impl Iterator<Item = u64> {
        let walk = *self;
        (0..iterations).map(move |iteration| {
            let distance = (iteration * walk.warps + warp) * walk.chunk();
            let piece = (block + distance / walk.slice * walk.shift) % walk.pieces;
            piece * walk.slice + distance % walk.slice
        })
    }

    /// The XOR of all words that a thread reads in phases of so many iterations. Each phase starts at the traversal's beginning.
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
        let unshifted = Self { shift: 0, ..*self };
        for iterations in phases {
            for place in (0..self.warps).flat_map(|warp| unshifted.places(0, warp, *iterations)) {
                visits[(place / self.chunk()) as usize] += 1;
            }
        }
        visits
    }
}

/// What kernels that read in patterns share, one block per SM: data of a seed, and a word per thread for what it read.
pub(crate) struct Readers<G: Gpu> {
    pub(crate) kit: Kit<G>,
    seed: u64,
    pub(crate) input: Rc<G::Buffer>,
    pub(crate) left: Rc<G::Buffer>,
}

impl<G: Gpu> Readers<G> {
    /// Allocates `bytes` bytes of input for blocks of `threads` threads.
    pub(crate) fn new(kit: Kit<G>, bytes: u64, threads: u32, seed: u64) -> Result<Self, Fault> {
        let threads = u64::from(kit.unit.machine().multiprocessors) * u64::from(threads);
        let (input, left) = (kit.array(bytes)?, kit.array(4 * threads)?);
        kit.checker.fill(Data::Bits, Element::Word, input.whole(), seed)?;
        Ok(Self { kit, seed, input: Rc::new(input), left: Rc::new(left) })
    }

    /// In-kernel samples. `launch(span)` makes a launch whose blocks store their cycles in the span; `oracle(seed, thread)` is the
    /// word that a thread must leave, compared for every `every`th.
    pub(crate) fn load(
        &self,
        work: Work,
        every: usize,
        launch: impl Fn(Span) -> Result<G::Launch, Fault>,
        oracle: impl Fn(u64, usize) -> u32 + 'static,
    ) -> Result<InKernel<G>, Fault> {
        self.kit.checker.poison(self.left.whole())?;
        let blocks = (self.kit.unit.machine().multiprocessors, LaunchCycles::Median);
        let load = InKernel::new_cycles_only(&self.kit, blocks, work, launch)?;
        let (left, input, seed) = (Rc::clone(&self.left), Rc::clone(&self.input), self.seed);
        Ok(load.with_check(move |last| {
            // Keeps the array allocated while launches read it.
            let _ = &input;
            let found = words::<G>(last.stream, left.whole())?;
            Ok(check(&found, every, |thread| oracle(seed, thread)))
        }))
    }
}

/// Downloads the words of a span.
pub(crate) fn words<G: Gpu>(stream: &Arc<G::Stream>, from: Span) -> Result<Vec<u32>, Fault> {
    let mut bytes = vec![0; usize::try_from(from.bytes()).unwrap_or(usize::MAX)];
    G::download(stream, from, &mut bytes)?;
    Ok(bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect())
}

/// Compares every `every`th word that threads left, and the last one, with the oracle.
pub(crate) fn check(found: &[u32], every: usize, oracle: impl Fn(usize) -> u32) -> Check {
    let mut checked = (0..found.len()).step_by(every).chain(found.len().checked_sub(1));
    let wrong = checked.find_map(|thread| {
        let expected = oracle(thread);
        (found[thread] != expected).then_some((thread, expected))
    });
    wrong.map_or(Check::Passed, |(thread, expected)| {
        Check::Failed(format!(
            "thread {thread}: the XOR of all it read is {:#010x}, not {expected:#010x}",
            found[thread]
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::l1::kernels as l1;
    use crate::l2::kernels as l2;

    const MACHINE: Machine = Machine { multiprocessors: 7, threads_per_multiprocessor: 2048 };

    #[test]
    fn one_pass_of_whole_iterations_visits_every_chunk_of_a_piece_once() {
        let kernel = l1::load(16);
        let walk = Walk::new(&kernel, 3 * 32 * chunk(&kernel), 0, MACHINE);
        assert_eq!((walk.pass(), walk.visits(&[walk.pass()])), (3, vec![1; 96]));
        assert_eq!(walk.visits(&[1, 3]).iter().sum::<u32>(), 4 * 32);
    }

    #[test]
    fn a_piece_smaller_than_an_iteration_is_visited_evenly() {
        let kernel = l1::load(4);
        let walk = Walk::new(&kernel, 5 * chunk(&kernel), 0, MACHINE);
        let visits = walk.visits(&[10]);
        assert!(visits.iter().all(|count| *count == 64), "{visits:?}");
    }

    #[test]
    fn shifted_walks_visit_every_piece_and_match_the_kernel_arguments() {
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
