use super::*;
use proptest::prelude::*;

#[test]
fn a_fresh_buffer_is_zero_aligned_and_keeps_what_is_written() {
    for pages in [Pages::Huge, Pages::Small] {
        let mut buffer = Buffer::<f64>::new(100_000, pages).unwrap();
        assert_eq!(buffer.len(), 100_000);
        assert_eq!(buffer.as_ptr().addr() % ALIGNMENT, 0);
        assert!(buffer.iter().all(|&x| x == 0.0));
        for (i, x) in buffer.iter_mut().enumerate() {
            *x = i as f64;
        }
        assert_eq!(buffer.iter().sum::<f64>(), 99_999.0 * 50_000.0);
    }
    assert!(Buffer::<u8>::new(0, Pages::Small).unwrap().is_empty());
}

#[test]
fn sizes_that_overflow_or_exceed_memory_are_refused() {
    assert!(matches!(Buffer::<u64>::new(usize::MAX, Pages::Huge), Err(Fault::Invalid(_))));
    assert!(matches!(Buffer::<u8>::new(usize::MAX, Pages::Huge), Err(Fault::Invalid(_))));
    let huge = 1_usize << 46;
    match Buffer::<u8>::new(huge, Pages::Small) {
        Err(Fault::OutOfMemory { asked, .. }) => assert_eq!(asked, huge as u64),
        other => panic!("64 TiB were granted, or refused with another error: {other:?}"),
    }
}

#[test]
fn untouched_buffers_count_against_the_next_one() {
    // Other tests map memory at the same time, so the buffer is large and the margin too.
    let Some(free) = free_bytes() else {
        eprintln!("skipped: this system doesn't report free memory");
        return;
    };
    let Ok(half) = Buffer::<u8>::new((free / 2) as usize, Pages::Small) else {
        eprintln!("skipped: the kernel doesn't grant more memory than it has (strict overcommit)");
        return;
    };
    let left = free_bytes().unwrap();
    assert!(left < free - free / 4, "{left} of {free} left after mapping {}", half.len());
    drop(half);
    assert!(free_bytes().unwrap() > left);
}

#[test]
fn the_reserve_is_a_tenth_and_at_most_half_a_gibibyte() {
    assert_eq!(beyond_reserve(0), 0);
    assert_eq!(beyond_reserve(1000), 900);
    assert_eq!(beyond_reserve(100 << 30), (100 << 30) - (512 << 20));
}

#[test]
fn the_page_report_distinguishes_small_from_huge_pages_and_gives_a_reason() {
    let touched = |pages| {
        let mut buffer = Buffer::<u8>::new(4 << 20, pages).unwrap();
        buffer.fill(1);
        buffer.page_report()
    };
    let small = touched(Pages::Small);
    if small.small == Some(SmallPages::Unknown) {
        eprintln!("skipped: no smaps here");
        return;
    }
    assert_eq!((small.resident, small.huge, small.small), (4 << 20, 0, Some(SmallPages::Requested)));
    let huge = touched(Pages::Huge);
    assert_eq!(huge.resident, 4 << 20);
    assert_eq!(huge.small.is_none(), huge.huge == huge.resident, "{huge:?}");
}

#[test]
fn parts_of_a_split_are_disjoint_and_join_to_the_buffer_that_was_split() {
    let mut buffer = Buffer::<u32>::new(10_001, Pages::Small).unwrap();
    buffer[10_000] = 7;
    let split = buffer.split(3, 64);
    std::thread::scope(|scope| {
        for index in 0..3 {
            let split = &split;
            scope.spawn(move || split.part(index).iter_mut().for_each(|x| *x += index as u32 + 1));
        }
    });
    let ends: Vec<_> = (0..3).map(|i| split.part(i).range().end).collect();
    let joined = split.join();
    assert_eq!(joined.len(), 10_001);
    for (i, &x) in joined.iter().enumerate() {
        let part = ends.iter().position(|&end| i < end).unwrap() as u32;
        assert_eq!(x, part + 1 + if i == 10_000 { 7 } else { 0 });
    }
}

#[test]
#[should_panic(expected = "already in use")]
fn a_locked_part_can_not_be_locked_again() {
    let split = Buffer::<u8>::new(10, Pages::Small).unwrap().split(2, 1);
    let _held = split.part(0);
    let _second = split.part(0);
}

proptest! {
    #[test]
    fn a_partition_covers_all_elements_once_in_nearly_equal_aligned_parts(
        len in 0_usize..100_000,
        parts in 1_usize..70,
        grain in 0_usize..600,
    ) {
        let ranges = partition(len, parts, grain);
        prop_assert_eq!(ranges.len(), parts);
        let mut end = 0;
        for range in &ranges {
            prop_assert_eq!(range.start, end);
            prop_assert_eq!(range.start % grain.max(1), 0);
            end = range.end;
        }
        prop_assert_eq!(end, len);
        let most = ranges.iter().map(ExactSizeIterator::len).max().unwrap();
        let least = ranges.iter().map(ExactSizeIterator::len).min().unwrap();
        prop_assert!(most - least < 2 * grain.max(1));
    }
}
