//! What the committed modules for Vulkan must not do to a device with hundreds of thousands of threads.

/// SPIR-V 1.6, section 3.
const CONTROL_BARRIER: u32 = 224;
const ATOMIC_COMPARE_EXCHANGE: u32 = 230;
const HEADER: usize = 5;

/// The instructions of a module, by their codes.
fn codes(words: &[u8]) -> Vec<u32> {
    let words: Vec<u32> = words.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
    let mut codes = Vec::new();
    let mut place = HEADER;
    while let Some(first) = words.get(place) {
        codes.push(first & 0xffff);
        place += (first >> 16).max(1) as usize;
    }
    codes
}

/// Threads that try an atomic again until nobody else was faster take n² tries for n threads: 270,336 threads of an H200 held it until its
/// driver took the device away. So a block joins its threads' values first, and one of them tries.
#[test]
fn a_block_joins_its_values_before_an_atomic_is_tried_again_and_again() {
    let mut trying = 0;
    for build in plimsoll_probes::sources().iter().flat_map(|source| source.builds()) {
        let codes = codes(build.words);
        let Some(tried) = codes.iter().position(|code| *code == ATOMIC_COMPARE_EXCHANGE) else { continue };
        trying += 1;
        assert!(codes[..tried].contains(&CONTROL_BARRIER), "{}: every thread tries", build.file);
    }
    assert_eq!(trying, 2, "the sums of single and of double precision");
}
