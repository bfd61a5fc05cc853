//! Strided reads and writes of 4-, 8- and 16-byte elements, to measure how many accesses an L1 cache serves per cycle at a
//! stride. The probe chooses buffers that fit L1.
//!
//! Each access is one instruction: on x86-64 in assembly, elsewhere volatile, so that the compiler can't merge, drop or
//! vectorise accesses. The last pass of a read combines its elements by exclusive or, to prove that they were read; the
//! passes before it only load, as an operation on each load lowers the rate (Golden Cove starts 2.9 plain loads per cycle,
//! 2.5 with an exclusive or each).

#[cfg(not(target_arch = "x86_64"))]
mod generic;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(not(target_arch = "x86_64"))]
use generic as native;
#[cfg(target_arch = "x86_64")]
use x86_64 as native;

/// Accesses per iteration of the loop.
const UNROLL: usize = 8;
/// Alignment of the first access, which the 16-byte accesses of x86-64 need.
const ALIGNMENT: usize = 16;

/// Bytes of one element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ElementBytes {
    /// 4 bytes.
    Four,
    /// 8 bytes.
    Eight,
    /// 16 bytes.
    Sixteen,
}

impl ElementBytes {
    /// Every size that kernels exist for.
    pub const ALL: [ElementBytes; 3] = [ElementBytes::Four, ElementBytes::Eight, ElementBytes::Sixteen];

    /// The size as a number.
    pub const fn bytes(self) -> usize {
        match self {
            ElementBytes::Four => 4,
            ElementBytes::Eight => 8,
            ElementBytes::Sixteen => 16,
        }
    }
}

/// The accesses of one pass: `iterations` × [`UNROLL`] of them, each `stride_bytes` after the last.
#[derive(Clone, Copy)]
struct AccessPattern {
    base: *mut u8,
    stride_bytes: usize,
    iterations: usize,
    passes: u64,
}

/// One of the loops, over a pattern, with a start value. Unsafe, as the pattern must stay inside valid memory.
type Loop = unsafe fn(AccessPattern, u64) -> u64;

/// Reads or writes elements of one size at one stride.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StrideKernel {
    element: ElementBytes,
    stride: usize,
}

impl StrideKernel {
    /// Accesses every `stride`th element; `None` if `stride` is 0.
    pub fn new(element: ElementBytes, stride: usize) -> Option<Self> {
        (stride > 0).then_some(Self { element, stride })
    }

    /// Bytes of an element.
    pub fn element(&self) -> ElementBytes {
        self.element
    }

    /// The distance between accesses, in elements.
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// Accesses of one pass over `buffer`: as many as fit after its first 16-byte boundary, in whole iterations of eight. If
    /// fewer than eight fit, it is 0 and no memory is accessed.
    pub fn accesses(&self, buffer: &[u64]) -> usize {
        let window = size_of_val(buffer).saturating_sub(Self::skipped(buffer));
        (self.stride.checked_mul(self.element.bytes()).map_or(0, |apart| window / apart)) / UNROLL * UNROLL
    }

    /// Reads `buffer` in `passes` passes, and returns the exclusive or of the elements of the last pass, folded to 64 bits
    /// (4-byte elements only fill the low half).
    pub fn read(&self, buffer: &[u64], passes: u64) -> u64 {
        let start = buffer.as_ptr().cast_mut();
        let (load, read): (Loop, Loop) = match self.element {
            ElementBytes::Four => (native::load4, native::read4),
            ElementBytes::Eight => (native::load8, native::read8),
            ElementBytes::Sixteen => (native::load16, native::read16),
        };
        if let Some(before) = self.pattern(buffer, start, passes.saturating_sub(1)) {
            // SAFETY: the pattern stays inside `buffer`, which is borrowed for reading; the loop only reads.
            unsafe { load(before, 0) };
        }
        // SAFETY: as above.
        self.pattern(buffer, start, passes.min(1)).map_or(0, |last| unsafe { read(last, 0) })
    }

    /// Writes `value` to the elements of `buffer` in `passes` passes: its low half to 4-byte elements, and two copies of it
    /// to 16-byte elements.
    pub fn write(&self, buffer: &mut [u64], value: u64, passes: u64) {
        let start = buffer.as_mut_ptr();
        let write: Loop = match self.element {
            ElementBytes::Four => native::write4,
            ElementBytes::Eight => native::write8,
            ElementBytes::Sixteen => native::write16,
        };
        if let Some(pattern) = self.pattern(buffer, start, passes) {
            // SAFETY: the pattern stays inside `buffer`, which is borrowed mutably; any bits are a valid u64.
            unsafe { write(pattern, value) };
        }
    }

    /// Bytes of `buffer` before its first 16-byte boundary.
    fn skipped(buffer: &[u64]) -> usize {
        buffer.as_ptr().cast::<u8>().align_offset(ALIGNMENT)
    }

    /// The accesses to `buffer`, which begins at `start`; `None` if there are none.
    fn pattern(&self, buffer: &[u64], start: *mut u64, passes: u64) -> Option<AccessPattern> {
        let iterations = self.accesses(buffer) / UNROLL;
        // The last access begins at (accesses − 1) · stride and ends inside its stride, so inside the buffer.
        (iterations > 0 && passes > 0).then(|| AccessPattern {
            base: start.cast::<u8>().wrapping_add(Self::skipped(buffer)),
            stride_bytes: self.stride * self.element.bytes(),
            iterations,
            passes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn kernels() -> impl Iterator<Item = StrideKernel> {
        ElementBytes::ALL
            .into_iter()
            .flat_map(|element| [1, 2, 3, 5, 8, 17, 64].map(|stride| StrideKernel { element, stride }))
    }

    /// Byte ranges of the elements that a pass accesses.
    fn elements(kernel: StrideKernel, buffer: &[u64]) -> impl Iterator<Item = std::ops::Range<usize>> {
        let (bytes, skipped) = (kernel.element.bytes(), StrideKernel::skipped(buffer));
        (0..kernel.accesses(buffer)).map(move |i| {
            let at = skipped + i * kernel.stride * bytes;
            at..at + bytes
        })
    }

    fn bytes(buffer: &[u64]) -> Vec<u8> {
        buffer.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_read_combines_exactly_the_elements_of_the_stride(
            words in prop::collection::vec(any::<u64>(), 1..300),
            from in 0..2usize,
            passes in 0..4u64,
        ) {
            let buffer = &words[from.min(words.len())..];
            let bytes = bytes(buffer);
            for kernel in kernels() {
                let one = elements(kernel, buffer).fold(0u64, |sum, range| {
                    bytes[range].chunks(8).fold(sum, |sum, word| {
                        let mut wide = [0; 8];
                        wide[..word.len()].copy_from_slice(word);
                        sum ^ u64::from_le_bytes(wide)
                    })
                });
                let expected = if passes > 0 { one } else { 0 };
                prop_assert_eq!(kernel.read(buffer, passes), expected, "{:?}", kernel);
            }
        }

        #[test]
        fn a_write_changes_exactly_the_elements_of_the_stride(
            words in prop::collection::vec(any::<u64>(), 1..300),
            from in 0..2usize,
            value in any::<u64>(),
        ) {
            for kernel in kernels() {
                let mut memory = words.clone();
                let from = from.min(memory.len());
                let buffer = &mut memory[from..];
                let mut expected = bytes(buffer);
                for range in elements(kernel, buffer) {
                    for (byte, new) in expected[range].iter_mut().zip(value.to_le_bytes().into_iter().cycle()) {
                        *byte = new;
                    }
                }
                kernel.write(buffer, value, 2);
                prop_assert_eq!(bytes(buffer), expected, "{:?}", kernel);
            }
        }
    }

    #[test]
    fn a_buffer_too_small_for_eight_accesses_is_not_accessed() {
        for element in ElementBytes::ALL {
            let kernel = StrideKernel::new(element, 1 << 40).expect("a stride");
            let mut buffer = [7; 64];
            assert_eq!(kernel.accesses(&buffer), 0);
            assert_eq!(kernel.read(&buffer, 1), 0);
            kernel.write(&mut buffer, 1, 1);
            assert_eq!(buffer, [7; 64]);
            let endless = StrideKernel::new(element, usize::MAX).expect("a stride");
            assert_eq!(endless.accesses(&buffer), 0);
        }
    }

    #[test]
    fn a_stride_of_zero_has_no_kernel() {
        assert_eq!(StrideKernel::new(ElementBytes::Four, 0), None);
    }
}
