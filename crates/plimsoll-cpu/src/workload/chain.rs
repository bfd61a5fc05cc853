//! Chains for a pointer chase, in buffers that grow: the links from line to line. [`crate::arch::chase`] chases them; the
//! probes choose the sizes.
//!
//! A sweep over footprints needs a random cycle at every size. Rebuilding it each time would take longer than the
//! measurement, so each new line (or page) is inserted into the existing cycle, after a random member. Every cycle remains
//! equally likely at every size: this is the inside-out form of Sattolo's algorithm (1986).

use plimsoll_core::stats::Rng;

/// The order in which a chain visits lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// All lines in one random cycle: nearly every hop goes to another page.
    PageRandom,
    /// All lines of a page in random order before the next page, and the pages in a random cycle.
    PageLocal,
}

/// Bytes of a page in the page-local order: the small page size of most systems.
pub const PAGE_BYTES: usize = 4096;
/// Bytes of a word.
const WORD: usize = size_of::<u64>();

/// The state of a cycle over the first part of a buffer, from which it can grow.
#[derive(Debug)]
pub struct Chain {
    order: Order,
    line_words: usize,
    seed: u64,
    rng: Rng,
    /// Bytes in the cycle.
    bytes: usize,
    /// The last line visited in each page, counted from the page's first (page-local only).
    exits: Vec<u8>,
}

impl Chain {
    /// An empty chain. `line_bytes` is a power of two from 16 to a page.
    #[must_use]
    pub fn new(order: Order, line_bytes: usize, seed: u64) -> Self {
        Self { order, line_words: line_bytes / WORD, seed, rng: Rng::new(seed), bytes: 0, exits: Vec::new() }
    }

    /// The granularity of footprints in bytes: a line or a page.
    #[must_use]
    pub fn grain(&self) -> usize {
        match self.order {
            Order::PageRandom => self.line_words * WORD,
            Order::PageLocal => PAGE_BYTES,
        }
    }

    /// Makes the first `bytes` (whole grains, at least one) of `words` one cycle. Extends the cycle of the last call, or starts
    /// again if that was larger. `words` must be at least that long, and nothing else may have written to it meanwhile. Returns
    /// the bytes of the cycle.
    pub fn grow(&mut self, words: &mut [u64], bytes: usize) -> usize {
        let grain = self.grain();
        let bytes = (bytes / grain).max(1) * grain;
        if bytes < self.bytes {
            self.clear();
        }
        for place in self.bytes / grain..bytes / grain {
            match self.order {
                Order::PageRandom => self.insert_line(words, place),
                Order::PageLocal => self.insert_page(words, place),
            }
        }
        self.bytes = bytes;
        bytes
    }

    /// Restarts the chain, for a buffer that something else has written to.
    pub fn clear(&mut self) {
        (self.bytes, self.rng) = (0, Rng::new(self.seed));
        self.exits.clear();
    }

    fn insert_line(&mut self, words: &mut [u64], line: usize) {
        let at = line * self.line_words;
        // The first line links to itself.
        let before = self.rng.below(line.max(1) as u64) as usize * self.line_words;
        words[at] = if line == 0 { 0 } else { words[before] };
        words[before] = (at * WORD) as u64;
    }

    fn insert_page(&mut self, words: &mut [u64], page: usize) {
        let lines = PAGE_BYTES / WORD / self.line_words;
        let mut order = [0_u8; PAGE_BYTES / 16];
        let order = &mut order[..lines];
        order.iter_mut().enumerate().for_each(|(i, line)| *line = i as u8);
        self.rng.shuffle(order);
        let word = |page: usize, line: u8| (page * lines + usize::from(line)) * self.line_words;
        for pair in order.windows(2) {
            words[word(page, pair[0])] = (word(page, pair[1]) * WORD) as u64;
        }
        let entry = (word(page, order[0]) * WORD) as u64;
        let exit = order[lines - 1];
        let after = match page {
            0 => entry,
            _ => {
                let before = self.rng.below(page as u64) as usize;
                let leaving = &mut words[word(before, self.exits[before])];
                std::mem::replace(leaving, entry)
            }
        };
        words[word(page, exit)] = after;
        self.exits.push(exit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LINE: usize = 64;

    /// The lines of the cycle in the order visited, from the first.
    fn visited(words: &[u64]) -> Vec<usize> {
        let mut lines = Vec::new();
        let mut at = 0;
        loop {
            lines.push(at / LINE);
            at = words[at / WORD] as usize;
            if at == 0 || lines.len() > words.len() {
                return lines;
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn every_size_is_one_cycle_over_all_lines_after_growing_or_restarting(
            sizes in proptest::collection::vec(1..20_usize, 1..6),
            seed in any::<u64>(),
            local in any::<bool>(),
        ) {
            let order = if local { Order::PageLocal } else { Order::PageRandom };
            let mut chain = Chain::new(order, LINE, seed);
            let mut words = vec![u64::MAX; 20 * PAGE_BYTES / WORD];
            for size in sizes {
                let bytes = chain.grow(&mut words, size * chain.grain());
                prop_assert_eq!(bytes, size * chain.grain());
                let mut lines = visited(&words);
                if local {
                    let page = |i: usize| lines[i % lines.len()] * LINE / PAGE_BYTES;
                    let changes = (0..lines.len()).filter(|&i| page(i) != page(i + 1)).count();
                    prop_assert_eq!(changes, if size == 1 { 0 } else { size });
                }
                lines.sort_unstable();
                prop_assert_eq!(lines, (0..bytes / LINE).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn every_cycle_of_four_lines_is_equally_likely() {
        let mut seen = std::collections::BTreeMap::new();
        for seed in 0..6000 {
            let mut words = [0; 4 * LINE / WORD];
            Chain::new(Order::PageRandom, LINE, seed).grow(&mut words, 4 * LINE);
            *seen.entry(visited(&words)).or_insert(0_u32) += 1;
        }
        assert_eq!(seen.len(), 6);
        assert!(seen.values().all(|&times| times.abs_diff(1000) < 150), "{seen:?}");
    }

    #[test]
    fn the_same_seed_gives_the_same_chain() {
        let build = || {
            let mut words = vec![0; 8192];
            Chain::new(Order::PageLocal, LINE, 7).grow(&mut words, 65_536);
            words
        };
        assert_eq!(build(), build());
    }
}
