//! How many blocks a launch has: the seed's policies, and the number of elements at which they part.

use plimsoll_core::Fault;

use super::{Index, KernelDesc};

/// What a grid depends on of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// Most resident threads of one.
    pub threads_per_multiprocessor: u32,
}

/// A grid policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Grid {
    /// As many blocks as cover the elements once: the seed's `grid_dim1`.
    Cover,
    /// As many blocks as the device holds threads for, times `waves`, whatever the elements: the seed's `grid_dim2`.
    Waves {
        /// How often the device is filled.
        waves: u32,
    },
    /// The smaller of the two: what the seed's elementwise code launches.
    Least {
        /// How often the device is filled at most.
        waves: u32,
    },
    /// So many blocks on each multiprocessor: persistent kernels and sweeps of occupancy.
    Resident {
        /// Blocks per multiprocessor.
        blocks: u32,
    },
    /// This many blocks: 1 is one multiprocessor alone.
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
    /// Warps of 32 threads in the whole grid: the length of what a fold leaves behind.
    #[must_use]
    pub fn warps(self) -> u64 {
        u64::from(self.blocks) * u64::from(self.threads) / 32
    }
}

/// CUDA's limit on the x dimension of a grid.
const MOST_BLOCKS: u64 = (1 << 31) - 1;

impl KernelDesc {
    /// Blocks that cover n elements once.
    fn covering(&self, n: u64) -> u64 {
        if self.tail_by_first_threads {
            (n / u64::from(self.lanes())).div_ceil(u64::from(self.threads) * u64::from(self.unroll))
        } else {
            n.div_ceil(self.elements_per_block())
        }
    }

    /// Blocks that fill the device `waves` times.
    fn filling(&self, waves: u32, machine: Machine) -> u64 {
        let per_multiprocessor = machine.threads_per_multiprocessor / self.threads.max(1);
        u64::from(machine.multiprocessors) * u64::from(per_multiprocessor) * u64::from(waves)
    }

    /// The grid for n elements. Allocates nothing.
    ///
    /// # Errors
    /// [`Fault::Invalid`] where n needs more blocks than a grid may have or would wrap the kernel's indices, and where the
    /// policy covers too little for a kernel without a loop.
    pub fn geometry(&self, n: u64, machine: Machine) -> Result<Geometry, Fault> {
        let blocks = match self.grid {
            Grid::Cover => self.covering(n),
            Grid::Waves { waves } => self.filling(waves, machine),
            Grid::Least { waves } => self.covering(n).min(self.filling(waves, machine)),
            Grid::Resident { blocks } => u64::from(machine.multiprocessors) * u64::from(blocks),
            Grid::Blocks(blocks) => blocks.into(),
        };
        // A grid of no blocks is an error to the driver; one block finds that there is nothing to do.
        let blocks = blocks.max(1);
        let invalid = |why: &str| Err(Fault::Invalid(format!("{} on {n} elements: {why}", self.name)));
        if blocks > MOST_BLOCKS {
            return invalid("a grid has at most 2³¹ − 1 blocks; use larger blocks, wider vectors or a looping form");
        }
        if !self.looping && blocks < self.covering(n) {
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

    /// Most elements that so many blocks of so many threads do right: all where threads loop, and no more than the indices count.
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

    /// Fewest elements at which covering them takes as many blocks as filling the device: from here on [`Grid::Least`] no
    /// longer grows. `None` for other policies. The seed: width · (threads · grid_dim2 − (threads − 1)).
    #[must_use]
    pub fn break_point(&self, machine: Machine) -> Option<u64> {
        let Grid::Least { waves } = self.grid else { return None };
        let vectors_before = (u64::from(self.threads) * u64::from(self.unroll))
            .saturating_mul(self.filling(waves, machine).checked_sub(1)?);
        let lanes = u64::from(self.lanes());
        let first = if self.tail_by_first_threads { lanes } else { 1 };
        vectors_before.checked_mul(lanes)?.checked_add(first)
    }
}
