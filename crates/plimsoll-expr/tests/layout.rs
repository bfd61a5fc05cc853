//! Layouts, and the properties that collapsing preserves.

use plimsoll_expr::layout::{IndexWidth, LayoutError, Pattern, broadcast};
use plimsoll_expr::strategy::{layouts, shapes};
use plimsoll_expr::{Layout, Space};
use proptest::prelude::*;

fn contiguous(shape: &[u64]) -> Layout {
    Layout::contiguous(shape).unwrap()
}

#[test]
fn contiguous_shapes_collapse_to_one_dimension() {
    let space = Space::new(&[contiguous(&[1, 8, 3, 1025, 128]), contiguous(&[8, 3, 1025, 128])]).unwrap();
    let collapsed = space.collapsed();
    assert_eq!(collapsed.extents(), [3_148_800]);
    assert_eq!(collapsed.pattern(1), Pattern::Unit);
    assert_eq!(space.elements(), collapsed.elements());
}

#[test]
fn broadcasts_collapse_to_two_dimensions() {
    let rows = Space::new(&[contiguous(&[4, 5, 6]), contiguous(&[6])]).unwrap().collapsed();
    assert_eq!((rows.extents(), &rows.accesses()[1].strides[..]), (&[20, 6][..], &[0, 1][..]));
    let columns = Space::new(&[contiguous(&[4, 5, 6]), contiguous(&[4, 1, 1])]).unwrap().collapsed();
    assert_eq!((columns.extents(), columns.pattern(1)), (&[4, 30][..], Pattern::Splat));
    let scalar = Space::new(&[contiguous(&[4, 5, 6]), contiguous(&[1])]).unwrap().collapsed();
    assert_eq!((scalar.extents(), scalar.pattern(1)), (&[120][..], Pattern::Uniform));
}

#[test]
fn one_transposed_input_stays_two_dimensional_but_all_transposed_inputs_collapse() {
    let (straight, transposed) = (contiguous(&[64, 32]), contiguous(&[32, 64]).transposed());
    let mixed = Space::new(&[straight, transposed.clone()]).unwrap().collapsed();
    assert_eq!((mixed.extents(), mixed.pattern(1)), (&[64, 32][..], Pattern::Strided));
    let both = Space::new(&[transposed.clone(), transposed]).unwrap();
    assert_eq!(both.collapsed().extents(), [64, 32]);
    assert_eq!(both.ordered_by(0).collapsed().extents(), [2048]);
}

#[test]
fn vectors_need_alignment_of_base_offset_and_rows() {
    let flat = |n: u64, offset: u64| Space::new(&[contiguous(&[n]).offset_by(offset).unwrap()]).unwrap();
    assert_eq!(flat(1000, 0).vector(0, 4, 256, 16), 4);
    assert_eq!(flat(1000, 0).vector(0, 2, 256, 32), 16);
    assert_eq!(flat(997, 0).vector(0, 4, 256, 16), 4, "the remainder at the end doesn't limit the vector");
    assert_eq!(flat(1000, 2).vector(0, 4, 256, 16), 2);
    assert_eq!(flat(1000, 1).vector(0, 4, 256, 16), 1);
    assert_eq!(flat(1000, 0).vector(0, 4, 4, 16), 1);
    let padded = Space::new(&[Layout::strided(&[10, 12], &[14, 1], 0).unwrap()]).unwrap();
    assert_eq!(padded.vector(0, 4, 256, 16), 2);
    assert_eq!(Space::new(&[contiguous(&[4, 4]).transposed()]).unwrap().vector(0, 4, 256, 16), 1);
}

#[test]
fn index_width_follows_the_largest_offset() {
    let width = |layout: Layout| Space::new(&[layout]).unwrap().index_width();
    let most = i32::MAX as u64;
    assert_eq!(width(contiguous(&[most])), IndexWidth::Bits32);
    assert_eq!(width(contiguous(&[most + 1])), IndexWidth::Bits64);
    assert_eq!(width(Layout::strided(&[3], &[1 << 30], 0).unwrap()), IndexWidth::Bits64);
    assert_eq!(width(Layout::strided(&[3], &[-(1 << 30)], 1 << 31).unwrap()), IndexWidth::Bits64);
    assert_eq!(width(contiguous(&[4]).offset_by(1 << 40).unwrap()), IndexWidth::Bits32, "the base is 64 bits anyway");
}

#[test]
fn invalid_layouts_are_errors() {
    assert!(matches!(Layout::contiguous(&[2; 9]), Err(LayoutError::Rank(9))));
    assert!(matches!(Layout::contiguous(&[u64::MAX, 2]), Err(LayoutError::TooLarge(_))));
    assert!(matches!(Layout::contiguous(&[1 << 63]), Err(LayoutError::TooLarge(_))));
    assert!(matches!(Layout::strided(&[3], &[-1], 1), Err(LayoutError::Negative(_))));
    assert!(matches!(Layout::strided(&[3], &[i64::MAX], 0), Err(LayoutError::TooLarge(_))));
    assert!(matches!(Layout::strided(&[3], &[], 0), Err(LayoutError::Strides { extents: 1, strides: 0 })));
    assert!(matches!(Layout::strided(&[3], &[1], u64::MAX), Err(LayoutError::TooLarge(_))));
    assert!(matches!(contiguous(&[3]).offset_by(u64::MAX), Err(LayoutError::TooLarge(_))));
    assert!(matches!(contiguous(&[2, 3]).permuted(&[0, 0]), Err(LayoutError::Permutation(_, 2))));
    assert!(matches!(contiguous(&[3]).broadcast_to(&[4]), Err(LayoutError::Broadcast(..))));
    assert!(matches!(contiguous(&[2, 3]).broadcast_to(&[3]), Err(LayoutError::Broadcast(..))));
    assert!(matches!(broadcast(&[&[2, 3], &[2]]), Err(LayoutError::Broadcast(..))));
    assert!(matches!(broadcast(&[&[1 << 32, 1], &[1 << 32]]), Err(LayoutError::TooLarge(_))));
    let empty = contiguous(&[u64::MAX, 0, u64::MAX]);
    assert_eq!((empty.elements(), empty.span(), empty.distinct()), (0, None, 0));
    assert_eq!(Space::new(&[empty]).unwrap().index_width(), IndexWidth::Bits32);
}

#[test]
fn layouts_that_may_overlap_themselves_are_detected() {
    assert!(!contiguous(&[3, 4]).may_overlap_itself());
    assert!(!contiguous(&[3, 4]).transposed().may_overlap_itself());
    assert!(!Layout::strided(&[3, 4], &[-8, 2], 16).unwrap().may_overlap_itself());
    assert!(Layout::strided(&[3, 4], &[0, 1], 0).unwrap().may_overlap_itself());
    assert!(Layout::strided(&[3, 4], &[3, 1], 0).unwrap().may_overlap_itself());
}

fn several_layouts() -> impl Strategy<Value = (Vec<u64>, Vec<Layout>)> {
    shapes().prop_flat_map(|shape| {
        let layouts = prop::collection::vec(layouts(&shape), 1..=3);
        (Just(shape), layouts)
    })
}

proptest! {
    #[test]
    fn collapsing_keeps_every_offset_in_order((shape, layouts) in several_layouts()) {
        let space = Space::with_shape(&shape, &layouts).unwrap();
        let collapsed = space.collapsed();
        prop_assert_eq!(space.elements(), collapsed.elements());
        prop_assert!(collapsed.extents().len() <= space.extents().len().max(1));
        for which in 0..layouts.len() {
            prop_assert_eq!(space.offsets(which), collapsed.offsets(which));
        }
        prop_assert_eq!(collapsed.collapsed(), collapsed.clone());
        prop_assert_eq!(space.index_width(), collapsed.index_width());
    }

    #[test]
    fn reordering_keeps_which_elements_are_combined((shape, layouts) in several_layouts()) {
        let space = Space::with_shape(&shape, &layouts).unwrap();
        let combinations = |space: &Space| {
            let offsets: Vec<Vec<u64>> = (0..layouts.len()).map(|which| space.offsets(which)).collect();
            let count = offsets[0].len();
            let mut combined: Vec<Vec<u64>> = (0..count).map(|i| offsets.iter().map(|o| o[i]).collect()).collect();
            combined.sort();
            combined
        };
        prop_assert_eq!(combinations(&space), combinations(&space.ordered_by(0).collapsed()));
    }

    #[test]
    fn layout_properties_agree_with_the_enumerated_offsets((shape, layouts) in several_layouts()) {
        for layout in &layouts {
            let own = Space::new(std::slice::from_ref(layout)).unwrap();
            let mut offsets = own.offsets(0);
            prop_assert_eq!(offsets.len() as u64, layout.elements());
            prop_assert_eq!(layout.span(), offsets.iter().min().copied().zip(offsets.iter().max().copied()));
            let follows = offsets.windows(2).all(|pair| pair[1] == pair[0] + 1);
            prop_assert_eq!(layout.is_contiguous(), follows);
            let visited = offsets.len();
            offsets.sort_unstable();
            offsets.dedup();
            prop_assert!(layout.may_overlap_itself() || offsets.len() == visited);
            prop_assert_eq!(layout.distinct(), offsets.len() as u64);
        }
        prop_assert!(Space::with_shape(&shape, &layouts).is_ok());
    }

    #[test]
    fn vectors_are_aligned_and_contiguous((shape, layouts) in several_layouts(), bytes in prop::sample::select(vec![1_u64, 2, 4, 8])) {
        let space = Space::with_shape(&shape, &layouts).unwrap().collapsed();
        for which in 0..layouts.len() {
            let width = space.vector(which, bytes, 64, 16);
            prop_assert!(width * bytes <= 16);
            let rows = space.extents().last().copied().unwrap_or(1).max(1) as usize;
            for row in space.offsets(which).chunks(rows) {
                for vector in row.chunks_exact(width as usize) {
                    prop_assert_eq!(vector[0] % width, 0);
                    prop_assert!(vector.windows(2).all(|pair| pair[1] == pair[0] + 1));
                }
            }
        }
    }

    #[test]
    fn no_shape_or_stride_causes_a_panic(
        shape in prop::collection::vec(prop_oneof![any::<u64>(), 0..4_u64, Just(1 << 31)], 0..9), strides in prop::collection::vec(any::<i64>(), 0..9), offset: u64,
    ) {
        let _ = broadcast(&[&shape, &[2, 1]]);
        if let Ok(layout) = Layout::strided(&shape, &strides, offset).or_else(|_| Layout::contiguous(&shape)) {
            let _ = (layout.is_contiguous(), layout.may_overlap_itself(), layout.distinct(), layout.span());
            let space = Space::new(&[layout]).unwrap();
            let _ = (space.collapsed(), space.ordered_by(0), space.index_width(), space.vector(0, 4, 256, 16));
        }
    }
}
