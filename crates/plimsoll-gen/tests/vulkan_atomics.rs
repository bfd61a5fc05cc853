//! Checks that the committed Vulkan modules don't retry atomics from every thread, which hangs large devices.

/// SPIR-V 1.6, section 3.
const CONTROL_BARRIER: u32 = 224;
const ATOMIC_COMPARE_EXCHANGE: u32 = 230;
const HEADER: usize = 5;

/// The opcodes of a module's instructions.
fn opcodes(words: &[u8]) -> Vec<u32> {
    let words: Vec<u32> = words.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
    let mut codes = Vec::new();
    let mut place = HEADER;
    while let Some(first) = words.get(place) {
        codes.push(first & 0xffff);
        place += (first >> 16).max(1) as usize;
    }
    codes
}

/// If n threads each retry a compare-exchange until they succeed, they take n² attempts: with 270,336 threads, an H200 hung until
/// the driver reset it. So each block must first combine its threads' values, and one thread retries.
#[test]
fn blocks_combine_their_values_before_retrying_an_atomic() {
    let mut retrying = 0;
    for build in plimsoll_probes::sources().iter().flat_map(|source| source.builds()) {
        let opcodes = opcodes(build.words);
        let Some(exchange) = opcodes.iter().position(|code| *code == ATOMIC_COMPARE_EXCHANGE) else { continue };
        retrying += 1;
        assert!(opcodes[..exchange].contains(&CONTROL_BARRIER), "{}: every thread retries", build.file);
    }
    assert_eq!(retrying, 2, "the sums in single and in double precision");
}
