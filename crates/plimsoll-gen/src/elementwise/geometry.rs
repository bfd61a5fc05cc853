//! The number and size of a launch's blocks, and the elements before and after the whole tiles.

use super::plan::{Device, PlanError};
use super::spec::{GridPolicy, KernelSpec};

/// Blocks, threads and shared memory of one launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Blocks of the one-dimensional grid, at least one.
    pub blocks: u32,
    /// Threads per block.
    pub threads: u32,
    /// Dynamic shared memory per block, bytes.
    pub shared: u32,
}

/// CUDA's limit on the x dimension of a grid.
const MOST_BLOCKS: u64 = (1 << 31) - 1;

/// A contiguous range of elements cut into whole tiles, with a remainder before and after them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tiles {
    /// Number of elements.
    pub elements: u64,
    /// Elements before the first tile.
    pub head: u64,
    /// Whole tiles.
    pub whole: u64,
    /// Blocks: one per tile, and enough for one thread per remaining element.
    pub blocks: u64,
}

impl Tiles {
    /// Cuts `elements` into tiles of `threads` × `per_thread` elements. The first `head` and at least the last `kept` elements
    /// belong to no tile.
    pub fn new(elements: u64, head: u64, kept: u64, threads: u32, per_thread: u32) -> Self {
        let tile = u64::from(threads) * u64::from(per_thread);
        let head = head.min(elements);
        let whole = (elements - head).saturating_sub(kept) / tile.max(1);
        let rest = elements - whole * tile;
        Self { elements, head, whole, blocks: (whole + rest.div_ceil(u64::from(threads.max(1)))).max(1) }
    }
}

/// The launch of `blocks` blocks, or fewer if the grid policy limits them.
pub(super) fn geometry(spec: &KernelSpec, blocks: u64, device: &Device) -> Result<Geometry, PlanError> {
    let blocks = match spec.grid {
        GridPolicy::Cover => blocks,
        GridPolicy::Stride { waves } => blocks.min(device.wave(spec.threads) * u64::from(waves.max(1))),
    };
    if blocks > MOST_BLOCKS {
        return Err(PlanError::Blocks { blocks });
    }
    Ok(Geometry { blocks: blocks as u32, threads: spec.threads, shared: 0 })
}

#[cfg(test)]
mod tests {
    use super::Tiles;

    #[test]
    fn every_remaining_element_has_a_thread() {
        // 789,504 elements in tiles of 4,096: 192 whole tiles, and 3,072 elements for 24 blocks.
        let tiles = Tiles::new(789_504, 0, 0, 128, 32);
        assert_eq!((tiles.whole, tiles.blocks), (192, 192 + 24));
        // Three elements before the tiles, and at least one after them.
        let tiles = Tiles::new(3 + 2 * 512, 3, 1, 128, 4);
        assert_eq!((tiles.whole, tiles.blocks), (1, 1 + 5));
        assert_eq!(Tiles::new(1024, 0, 0, 128, 8).blocks, 1);
        assert_eq!(Tiles::new(1, 5, 0, 128, 8), Tiles { elements: 1, head: 1, whole: 0, blocks: 1 });
    }
}
