//! Grid policies: how many blocks a launch has.
//!
//! Some policies come from the code that this project started from ("the original code"): its `grid_dim1`, `grid_dim2` and
//! elementwise launches, and the number of elements from which they differ.

use plimsoll_core::Fault;

use super::{Index, KernelDesc};

/// The properties of a device that a grid depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Most resident threads per SM.
    pub threads_per_multiprocessor: u32,
}

/// A grid policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Grid {
    /// As many blocks as cover the elements once: the original code's `grid_dim1`.
    Cover,
    /// As many blocks as fill the device with threads, times `waves`, independent of the number of elements: the original
    /// code's `grid_dim2`.
    Waves {
        /// How many times the device is filled.
        waves: u32,
    },
    /// The smaller of the two, as in the original code's elementwise launches.
    Least {
        /// How many times the device is filled at most.
        waves: u32,
    },
    /// This many blocks on each SM: persistent kernels and occupancy sweeps.
    Resident {
        /// Blocks per SM.
        blocks: u32,
    },
    /// This many blocks; 1 uses a single SM.
    Blocks(u32),
}

/// Blocks and threads of one launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Blocks in the grid, at least one.
    pub blocks: u32,
    /// Threads in a block.
    pub threads: u32,
}

impl Geometry {
    /// Warps of 32 threads in the whole grid: the number of results of a fold.
    #[must_use]
    pub fn warps(self) -> u64 {
        u64::from(self.blocks) * u64::from(self.threads) / 32
    }
}

/// CUDA's limit on the x dimension of a grid.
const MOST_BLOCKS: u64 = (1 << 31) - 1;

impl KernelDesc {
    /// Blocks that cover n elements once.
    fn covering_blocks(&self, n: u64) -> u64 {
        if self.tail_by_first_threads {
            (n / u64::from(self.lanes())).div_ceil(u64::from(self.threads) * u64::from(self.unroll))
        } else {
            n.div_ceil(self.elements_per_block())
        }
    }

    /// Blocks that fill the device `waves` times.
    fn filling_blocks(&self, waves: u32, machine: Machine) -> u64 {
        let per_multiprocessor = machine.threads_per_multiprocessor / self.threads.max(1);
        u64::from(machine.multiprocessors) * u64::from(per_multiprocessor) * u64::from(waves)
    }

    /// The grid for n elements. Allocates nothing.
    ///
    /// # Errors
    /// [`Fault::Invalid`] if n needs more blocks than a grid may have, would wrap the kernel's indices, or exceeds what the
    /// policy's grid covers in a kernel without a loop.
    pub fn geometry(&self, n: u64, machine: Machine) -> Result<Geometry, Fault> {
        let blocks = match self.grid {
            Grid::Cover => self.covering_blocks(n),
            Grid::Waves { waves } => self.filling_blocks(waves, machine),
            Grid::Least { waves } => self.covering_blocks(n).min(self.filling_blocks(waves, machine)),
            Grid::Resident { blocks } => u64::from(machine.multiprocessors) * u64::from(blocks),
            Grid::Blocks(blocks) => blocks.into(),
        };
        // The driver rejects a grid without blocks; a single block finds nothing to do and exits.
        let blocks = blocks.max(1);
        let invalid = |why: &str| Err(Fault::Invalid(format!("{} on {n} elements: {why}", self.name)));
        if blocks > MOST_BLOCKS {
            return invalid("a grid has at most 2³¹ − 1 blocks; use larger blocks, wider vectors or a looping form");
        }
        if !self.looping && blocks < self.covering_blocks(n) {
            return invalid("this form has no loop, so its grid must cover the elements");
        }
        let threads = blocks * u64::from(self.threads);
        let last = match self.index {
            Index::U32 => n.saturating_add(threads),
            Index::U64 if self.tail_by_first_threads && self.looping => threads,
            Index::U64 => 0,
        };
        if last > u64::from(u32::MAX) {
            return invalid("32-bit indices would wrap; use the 64-bit form or a smaller grid");
        }
        Ok(Geometry { blocks: blocks as u32, threads: self.threads })
    }

    /// Most elements that this grid processes correctly: limited by the width of the indices and, without a loop, by the
    /// number of threads.
    #[must_use]
    pub fn most_elements(&self, blocks: u64, threads: u64) -> u64 {
        let (in_grid, most) = (blocks.saturating_mul(threads), u64::from(u32::MAX));
        let counted = match self.index {
            Index::U32 => most.saturating_sub(in_grid),
            Index::U64 if self.tail_by_first_threads && self.looping && in_grid > most => 0,
            Index::U64 => u64::MAX,
        };
        let each = u64::from(self.unroll) * u64::from(self.lanes());
        if self.looping { counted } else { counted.min(in_grid.saturating_mul(each)) }
    }

    /// Fewest elements for which covering them takes as many blocks as filling the device: from here on [`Grid::Least`] no
    /// longer grows. `None` for other policies. The original code: width · (threads · grid_dim2 − (threads − 1)).
    #[must_use]
    pub fn break_point(&self, machine: Machine) -> Option<u64> {
        let Grid::Least { waves } = self.grid else { return None };
        let vectors_before = (u64::from(self.threads) * u64::from(self.unroll))
            .saturating_mul(self.filling_blocks(waves, machine).checked_sub(1)?);
        let lanes = u64::from(self.lanes());
        let first = if self.tail_by_first_threads { lanes } else { 1 };
        vectors_before.checked_mul(lanes)?.checked_add(first)
    }
}
