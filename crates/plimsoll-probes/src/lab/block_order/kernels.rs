//! Blocks that read panels of two matrices, in a selectable order.

use crate::prelude::kernels::*;

/// The source of these kernels.
pub static SOURCE: Source =
    Source::new("block-order", include_str!("kernel.cu"), |_| kernels()).with_access_rule(AccessRule::Stated);

/// Threads per block; a launch keeps other blocks off the SM.
pub const THREADS: u32 = 1024;
/// Vectors of each panel that a thread loads at once.
pub const UNROLL: u32 = 2;
/// Bytes that the warps of a block write.
const WARP_WORDS: u64 = 4 * (THREADS / 32) as u64;
/// Rows needed for every block to have a tile.
const ROWS: Amount = {
    use Amount::{Blocks, Is, Less, Of, Over, Sum};
    Over(&Less(&Sum(&[Blocks, Of("columns")]), &Is(1)), &Of("columns"))
};
/// Bytes that a block reads of a panel per iteration; panels are multiples of it.
pub const ITERATION: u32 = 16 * THREADS * UNROLL;

/// The kernel with this many blocks.
#[must_use]
pub fn product(blocks: u32) -> KernelDesc {
    KernelDesc {
        entry: format!("BLOCK_ORDER(block_order_product, {UNROLL}, {THREADS})"),
        parameters: takes!(
            out: [fill 4; Times(WARP_WORDS, &["rows", "columns"])], a: [read 16; Times(16, &["rows", "vectors"])],
            b: [read 16; Times(16, &["columns", "vectors"])],
            // Exactly one tile per block.
            rows: U32 [Least(Is(1)), Least(ROWS), Most(Over(&Blocks, &Of("columns")))], columns: U32 [Least(Is(1))],
            group: U32 [Most(Over(&Is(u32::MAX as u64), &Of("columns")))], vectors: U32 [Multiple(Product(&[Unroll, Threads]))],
        ),
        inputs: 2,
        vector_bytes: 16,
        unroll: UNROLL,
        hints: Hints { load_no_allocate: true, store_streaming: false },
        grid: Grid::Blocks(blocks),
        looping: true,
        ..KernelDesc::new(&SOURCE, "block_order_product", THREADS)
    }
}

/// Row and column of the tile of block `n`, as in `kernel.cu`: `group` rows of tiles at a time, column after column; 0 goes along
/// the diagonals.
#[must_use]
pub fn tile(n: u32, rows: u32, columns: u32, group: u32) -> (u32, u32) {
    if group == 0 {
        return (n % rows, (n % rows + n / rows) % columns);
    }
    let (inside, first) = (n % (group * columns), n / (group * columns) * group);
    let height = (rows - first).min(group);
    (first + inside % height, inside / height)
}

/// All kernels.
#[must_use]
pub fn kernels() -> Vec<KernelDesc> {
    vec![product(1)]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_order_visits_each_tile_once(rows in 1_u32..40, columns in 1_u32..40, group in 0_u32..45) {
            let tiles: BTreeSet<(u32, u32)> = (0..rows * columns).map(|n| tile(n, rows, columns, group)).collect();
            prop_assert_eq!(tiles.len() as u32, rows * columns);
            prop_assert!(tiles.iter().all(|(row, column)| *row < rows && *column < columns));
        }
    }

    #[test]
    fn group_of_one_is_rows_and_group_of_all_is_columns() {
        let order = |group| (0..6).map(|n| tile(n, 2, 3, group)).collect::<Vec<_>>();
        assert_eq!(order(1), [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]);
        assert_eq!(order(2), [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2)]);
        assert_eq!(order(0), [(0, 0), (1, 1), (0, 1), (1, 2), (0, 2), (1, 0)]);
    }
}
