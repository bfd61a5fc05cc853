//! Grids of the probes' kernels.

use plimsoll_gen::kernel::{Geometry, Grid, Index, KernelDesc, Machine, Op};
use plimsoll_probes::copy::kernels as copy;
use plimsoll_probes::stream::kernels::Parameters;
use proptest::prelude::*;

const A100: Machine = Machine { multiprocessors: 108, threads_per_multiprocessor: 2048 };
const A10: Machine = Machine { multiprocessors: 80, threads_per_multiprocessor: 1536 };
const L4: Machine = Machine { multiprocessors: 56, threads_per_multiprocessor: 1536 };

fn seeds() -> KernelDesc {
    copy::vector(4, Index::U64).with_grid(Grid::Least { waves: 32 })
}

#[test]
fn break_points_match_the_seed() {
    let points = [A100, A10, L4].map(|machine| seeds().break_point(machine));
    assert_eq!(points, [Some(28_310_532), Some(15_727_620), Some(11_009_028)]);
}

#[test]
fn grids_match_the_seed() {
    let filled = seeds().with_grid(Grid::Waves { waves: 32 });
    let blocks = [A100, A10, L4].map(|machine| filled.geometry(1 << 20, machine).unwrap().blocks);
    assert_eq!(blocks, [27_648, 15_360, 10_752]);
    let covering = seeds().with_grid(Grid::Cover);
    let blocks = [3_145_728, 3_148_800].map(|n| covering.geometry(n, A10).unwrap().blocks);
    assert_eq!(blocks, [3072, 3075]);
}

#[test]
fn grid_stops_growing_at_the_break_point() {
    let kernel = seeds();
    let point = kernel.break_point(L4).unwrap();
    let blocks = |n| kernel.geometry(n, L4).unwrap().blocks;
    assert_eq!(blocks(point), 10_752);
    assert_eq!(blocks(point - 1), 10_751);
    assert_eq!(blocks(point * 4), 10_752);
}

#[test]
fn zero_elements_still_have_a_grid() {
    assert_eq!(seeds().geometry(0, A100).unwrap(), Geometry { blocks: 1, threads: 256 });
}

#[test]
fn wrapping_indices_are_refused_with_a_hint() {
    let narrow = copy::vector(1, Index::U32).with_grid(Grid::Waves { waves: 32 });
    assert!(narrow.geometry(1 << 31, A100).is_ok());
    let error = narrow.geometry(u64::from(u32::MAX) - 1000, A100).unwrap_err();
    assert!(error.to_string().contains("64-bit"), "{error}");
    assert!(seeds().geometry(1 << 33, A100).is_ok());
}

#[test]
fn kernel_without_a_loop_refuses_a_grid_that_is_too_small() {
    let naive = copy::naive(Index::U64).with_grid(Grid::Blocks(1));
    assert!(naive.geometry(256, A100).is_ok());
    assert!(naive.geometry(257, A100).is_err());
}

proptest! {
    #[test]
    fn grids_cover_their_elements_without_spare_blocks(n in 0u64..1 << 40, unroll in 0u32..4, form in 0usize..6) {
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
    fn covering_grids_have_exactly_enough_blocks(n in 1u64..1 << 40, unroll in 0u32..4, width in 2u32..5) {
        let kernel = Parameters { vector_bytes: 1 << width, unroll: 1 << unroll, ..Parameters::new(Op::Copy) }.kernel();
        let Ok(geometry) = kernel.geometry(n, A100) else { return Ok(()) };
        let covered = u64::from(geometry.blocks) * kernel.elements_per_block();
        prop_assert!(covered >= n && covered - n < kernel.elements_per_block());
    }
}
