//! The pointer chase: a hop is a single dependent load.
//!
//! The first word of each line of a buffer holds the byte offset of the next line. The code that fills the buffer decides the
//! order of the lines, and so what the chase measures. One check of the whole buffer replaces a check per hop, so a hop is
//! one `mov rax, [base + rax]`.

use std::fmt;
use std::sync::Arc;

use crate::memory::Buffer;

/// Bytes of a word.
const WORD: usize = size_of::<u64>();
/// Hops per iteration of the loop, so that the loads' latency hides its counter.
const UNROLL: u64 = 16;

/// A buffer in which every line leads to another line of it, so that a chase can't leave it.
#[derive(Debug, Clone, Copy)]
pub struct ChaseBuffer<'a> {
    words: &'a [u64],
    line_bytes: usize,
}

/// A buffer that can't be chased, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BrokenChain {
    /// The line size must be a power of two of at least 8 bytes, and the buffer one or more whole lines.
    Shape {
        /// Bytes of the buffer.
        bytes: usize,
        /// Requested bytes of a line.
        line_bytes: usize,
    },
    /// A line leads to an offset at which no line begins.
    Link {
        /// Byte offset of the line.
        at: usize,
        /// Byte offset that it holds.
        next: u64,
    },
}

impl fmt::Display for BrokenChain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            BrokenChain::Shape { bytes, line_bytes } => write!(
                f,
                "a buffer of {bytes} bytes can't be chased in lines of {line_bytes}: \
                 use a power of two of at least {WORD} bytes that divides the buffer"
            ),
            BrokenChain::Link { at, next } => write!(
                f,
                "the line at byte {at} leads to byte {next}, where no line begins: \
                 store the byte offset of a line in the first word of every line"
            ),
        }
    }
}

impl std::error::Error for BrokenChain {}

impl<'a> ChaseBuffer<'a> {
    /// Checks every line once, in order, which costs as much as reading the buffer.
    ///
    /// # Errors
    /// [`BrokenChain`] if the lines don't fit the buffer, or one leads to an offset at which no line begins.
    pub fn new(words: &'a [u64], line_bytes: usize) -> Result<Self, BrokenChain> {
        let bytes = size_of_val(words);
        if words.is_empty() || line_bytes < WORD || !line_bytes.is_power_of_two() || !bytes.is_multiple_of(line_bytes) {
            return Err(BrokenChain::Shape { bytes, line_bytes });
        }
        for (line, &next) in words.iter().step_by(line_bytes / WORD).enumerate() {
            if next >= bytes as u64 || !next.is_multiple_of(line_bytes as u64) {
                return Err(BrokenChain::Link { at: line * line_bytes, next });
            }
        }
        Ok(Self { words, line_bytes })
    }

    /// Goes `hops` hops from the line at byte `start`, and returns the byte offset of the line that it ends on.
    ///
    /// # Panics
    /// If no line begins at `start`.
    #[inline(never)]
    pub fn chase(&self, start: usize, hops: u64) -> usize {
        let bytes = size_of_val(self.words);
        assert!(
            start < bytes && start.is_multiple_of(self.line_bytes),
            "no line of this buffer begins at byte {start}"
        );
        let mut at = start;
        for _ in 0..hops / UNROLL {
            for _ in 0..UNROLL {
                // SAFETY: a line begins at `at`: the assertion checked `start`, and `new` checked what every line holds.
                at = unsafe { self.next(at) };
            }
        }
        for _ in 0..hops % UNROLL {
            // SAFETY: as above.
            at = unsafe { self.next(at) };
        }
        at
    }

    /// The line that the line at byte `at` leads to.
    ///
    /// # Safety
    /// A line of the buffer begins at byte `at`.
    #[inline(always)]
    unsafe fn next(&self, at: usize) -> usize {
        // SAFETY: lines are whole words and the buffer is whole lines, so there is a word at `at` if a line begins there.
        // The shared borrow keeps the checked contents unchanged. An offset below the buffer's size fits usize.
        unsafe { self.words.as_ptr().byte_add(at).read() as usize }
    }
}

/// The first words of a shared buffer as a chain that a task can own: checked once, chased any number of times.
#[derive(Debug, Clone)]
pub struct SharedChase {
    buffer: Arc<Buffer<u64>>,
    words: usize,
    line_bytes: usize,
}

impl SharedChase {
    /// Checks the first `words` words of `buffer`, as [`ChaseBuffer::new`] does.
    ///
    /// # Errors
    /// As [`ChaseBuffer::new`], and [`BrokenChain::Shape`] if the buffer is shorter.
    pub fn new(buffer: Arc<Buffer<u64>>, words: usize, line_bytes: usize) -> Result<Self, BrokenChain> {
        let chain = buffer.get(..words).ok_or(BrokenChain::Shape { bytes: size_of_val(&buffer[..]), line_bytes })?;
        ChaseBuffer::new(chain, line_bytes)?;
        Ok(Self { buffer, words, line_bytes })
    }

    /// Bytes that the chase can visit.
    pub fn bytes(&self) -> usize {
        self.words * WORD
    }

    /// As [`ChaseBuffer::chase`].
    ///
    /// # Panics
    /// As [`ChaseBuffer::chase`].
    pub fn chase(&self, start: usize, hops: u64) -> usize {
        // The check by `new` still holds: the shared buffer can't be written.
        ChaseBuffer { words: &self.buffer[..self.words], line_bytes: self.line_bytes }.chase(start, hops)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Pages;
    use proptest::prelude::*;

    /// A buffer of lines of `line_words`, whose chain visits the lines of `order` in one cycle.
    fn cycle(order: &[usize], line_words: usize) -> Vec<u64> {
        let mut words = vec![u64::MAX; order.len() * line_words]; // not a valid link
        for (i, &line) in order.iter().enumerate() {
            words[line * line_words] = (order[(i + 1) % order.len()] * line_words * WORD) as u64;
        }
        words
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_chase_visits_the_lines_in_their_order(
            order in (1..60usize).prop_flat_map(|lines| Just((0..lines).collect::<Vec<_>>()).prop_shuffle()),
            start in 0..60usize,
            hops in 0..200u64,
            line_words in prop::sample::select(vec![1usize, 2, 8, 16]),
        ) {
            let words = cycle(&order, line_words);
            let line_bytes = line_words * WORD;
            let start = start % order.len();
            let buffer = ChaseBuffer::new(&words, line_bytes).expect("a cycle is a chain");
            let end = order[(start + hops as usize) % order.len()] * line_bytes;
            prop_assert_eq!(buffer.chase(order[start] * line_bytes, hops), end);
        }
    }

    #[test]
    fn a_link_that_leaves_the_buffer_or_misses_a_line_is_refused() {
        for (next, line) in [(128, 1), (8, 0), (u64::MAX, 1), (65, 1)] {
            let mut words = cycle(&[0, 1], 8);
            words[line * 8] = next;
            assert_eq!(ChaseBuffer::new(&words, 64).unwrap_err(), BrokenChain::Link { at: line * 64, next });
        }
    }

    #[test]
    fn a_shared_chase_stays_in_the_checked_part_of_its_buffer() {
        let mut buffer = Buffer::new(32, Pages::Small).expect("a small buffer");
        buffer[..24].copy_from_slice(&cycle(&[0, 2, 1], 8));
        buffer[24] = 1;
        let buffer = Arc::new(buffer);
        let chain = SharedChase::new(Arc::clone(&buffer), 24, 64).expect("a cycle is a chain");
        assert_eq!([0, 1, 2, 3].map(|hops| chain.chase(0, hops)), [0, 128, 64, 0]);
        assert!(SharedChase::new(Arc::clone(&buffer), 32, 64).is_err());
        assert!(SharedChase::new(buffer, 40, 64).is_err());
    }

    #[test]
    fn lines_that_do_not_divide_the_buffer_are_refused() {
        let words = cycle(&[0, 1, 2], 8);
        for line_bytes in [0, 4, 24, 128] {
            assert_eq!(
                ChaseBuffer::new(&words, line_bytes).unwrap_err(),
                BrokenChain::Shape { bytes: 192, line_bytes }
            );
        }
        assert!(ChaseBuffer::new(&[], 64).is_err());
    }

    #[test]
    #[should_panic(expected = "no line of this buffer begins at byte 8")]
    fn a_start_between_lines_is_refused() {
        let words = cycle(&[0, 1], 8);
        let _ = ChaseBuffer::new(&words, 64).expect("a cycle is a chain").chase(8, 1);
    }
}
