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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::kernel::copy;
    use crate::kernel::stream::{Op, Parameters};

    const A100: Machine = Machine { multiprocessors: 108, threads_per_multiprocessor: 2048 };
    const A10: Machine = Machine { multiprocessors: 80, threads_per_multiprocessor: 1536 };
    const L4: Machine = Machine { multiprocessors: 56, threads_per_multiprocessor: 1536 };

    fn seeds() -> KernelDesc {
        copy::vector(4, Index::U64).with_grid(Grid::Least { waves: 32 })
    }

    #[test]
    fn the_seeds_break_points_are_found() {
        let points = [A100, A10, L4].map(|machine| seeds().break_point(machine));
        assert_eq!(points, [Some(28_310_532), Some(15_727_620), Some(11_009_028)]);
    }

    #[test]
    fn the_seeds_grids_are_found() {
        let filled = seeds().with_grid(Grid::Waves { waves: 32 });
        let blocks = [A100, A10, L4].map(|machine| filled.geometry(1 << 20, machine).unwrap().blocks);
        assert_eq!(blocks, [27_648, 15_360, 10_752]);
        let covering = seeds().with_grid(Grid::Cover);
        let blocks = [3_145_728, 3_148_800].map(|n| covering.geometry(n, A10).unwrap().blocks);
        assert_eq!(blocks, [3072, 3075]);
    }

    #[test]
    fn the_break_point_is_where_the_grid_stops_growing() {
        let kernel = seeds();
        let point = kernel.break_point(L4).unwrap();
        let blocks = |n| kernel.geometry(n, L4).unwrap().blocks;
        assert_eq!(blocks(point), 10_752);
        assert_eq!(blocks(point - 1), 10_751);
        assert_eq!(blocks(point * 4), 10_752);
    }

    #[test]
    fn no_elements_still_make_a_grid() {
        assert_eq!(seeds().geometry(0, A100).unwrap(), Geometry { blocks: 1, threads: 256 });
    }

    #[test]
    fn indices_that_would_wrap_are_refused_with_the_way_out() {
        let narrow = copy::vector(1, Index::U32).with_grid(Grid::Waves { waves: 32 });
        assert!(narrow.geometry(1 << 31, A100).is_ok());
        let error = narrow.geometry(u64::from(u32::MAX) - 1000, A100).unwrap_err();
        assert!(error.to_string().contains("64-bit"), "{error}");
        assert!(seeds().geometry(1 << 33, A100).is_ok());
    }

    #[test]
    fn a_form_without_a_loop_refuses_a_grid_that_leaves_elements_out() {
        let naive = copy::naive(Index::U64).with_grid(Grid::Blocks(1));
        assert!(naive.geometry(256, A100).is_ok());
        assert!(naive.geometry(257, A100).is_err());
    }

    proptest! {
        #[test]
        fn what_a_grid_is_made_for_is_what_it_does_right(n in 0u64..1 << 40, unroll in 0u32..4, form in 0usize..6) {
            let stream = |looping| Parameters { looping, unroll: 1 << unroll, ..Parameters::new(Op::Copy) }.kernel();
            let (narrow, wide) = (copy::vector(2, Index::U32), copy::vector(8, Index::U64));
            let kernel = match form {
                0 | 1 => stream(form == 1),
                2 | 3 => copy::naive([Index::U32, Index::U64][form - 2]),
                4 => narrow.with_grid(Grid::Least { waves: 32 }),
                _ => wide.with_grid(Grid::Waves { waves: 32 }),
            };
            let most = |geometry: Geometry| kernel.most_elements(geometry.blocks.into(), geometry.threads.into());
            if let Ok(geometry) = kernel.geometry(n, A100) {
                prop_assert!(n <= most(geometry), "{geometry:?}");
                if !kernel.looping && geometry.blocks > 1 {
                    let fewer = most(Geometry { blocks: geometry.blocks - 1, ..geometry });
                    prop_assert!(n > fewer);
                }
            }
        }

        #[test]
        fn covering_grids_have_no_block_too_few_and_none_too_many(n in 1u64..1 << 40, unroll in 0u32..4, width in 2u32..5) {
            let kernel = Parameters { vector_bytes: 1 << width, unroll: 1 << unroll, ..Parameters::new(Op::Copy) }.kernel();
            let Ok(geometry) = kernel.geometry(n, A100) else { return Ok(()) };
            let covered = u64::from(geometry.blocks) * kernel.elements_per_block();
            prop_assert!(covered >= n && covered - n < kernel.elements_per_block());
        }
    }
}
