//! The pointer chains of `chain.h`, computed on the host by the same algorithm: an oracle for where pointer chases end.

/// Bytes of a cache line: each element of a chain is in a different line.
pub const LINE: u64 = 128;
/// Bytes of a page of device memory, which one TLB entry covers.
pub const PAGE: u64 = 2 << 20;
/// The number of hops of a chase is a multiple of this.
pub const HOPS: u64 = 32;

/// A chain over `pages` pages of `pitch` lines in random order, `visits` lines of each before the next page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    /// Pages visited.
    pub pages: u32,
    /// Lines visited in each: all of a page's, or one.
    pub visits: u32,
    /// Lines from the start of one page to the start of the next.
    pub pitch: u32,
    /// Seed of the random order.
    pub seed: u32,
}

impl Chain {
    /// All `lines` lines in one random order.
    #[must_use]
    pub fn lines(lines: u32, seed: u32) -> Self {
        Self { pages: 1, visits: lines, pitch: lines, seed }
    }

    /// All lines of a page in random order before the next page, and the pages in random order.
    #[must_use]
    pub fn local(pages: u32, seed: u32) -> Self {
        let lines = (PAGE / LINE) as u32;
        Self { pages, visits: lines, pitch: lines, seed }
    }

    /// One line somewhere in each page, the pages in random order.
    #[must_use]
    pub fn sparse(pages: u32, seed: u32) -> Self {
        Self { pages, visits: 1, pitch: (PAGE / LINE) as u32, seed }
    }

    /// Number of elements.
    #[must_use]
    pub fn elements(&self) -> u64 {
        u64::from(self.pages) * u64::from(self.visits)
    }

    /// Bytes from the first page's beginning to the last one's end.
    #[must_use]
    pub fn span(&self) -> u64 {
        u64::from(self.pages) * u64::from(self.pitch) * LINE
    }

    /// Byte offset of element i from the base; i wraps around.
    #[must_use]
    pub fn offset(&self, i: u64) -> u64 {
        let wrapped = i % self.elements().max(1);
        let visits = u64::from(self.visits.max(1));
        let page = permuted((wrapped / visits) as u32, self.pages, self.seed);
        let key = scattered(page.wrapping_add(self.seed).wrapping_add(1));
        let line = if self.visits == 1 && self.pitch > 1 {
            key % self.pitch
        } else {
            permuted((wrapped % visits) as u32, self.visits, key)
        };
        (u64::from(page) * u64::from(self.pitch) + u64::from(line)) * LINE
    }
}

/// lowbias32 (C. Wellons, Prospecting for Hash Functions, 2018).
fn scattered(mut x: u32) -> u32 {
    x ^= x >> 16;
    x = x.wrapping_mul(0x7feb_352d);
    x ^= x >> 15;
    x = x.wrapping_mul(0x846c_a68b);
    x ^ (x >> 16)
}

/// The image of i < n under a random permutation of 0…n − 1: a Feistel network of four rounds, repeated until the result
/// is below n (Black and Rogaway, Ciphers with Arbitrary Finite Domains, 2002).
fn permuted(i: u32, n: u32, seed: u32) -> u32 {
    let half = (1..16).find(|half| 1_u64 << (2 * half) >= u64::from(n)).unwrap_or(16);
    let mask = ((1_u64 << half) - 1) as u32;
    let mut i = i;
    loop {
        let (mut left, mut right) = (i >> half, i & mask);
        for round in 0..4_u32 {
            let bits = scattered(right.wrapping_add(seed).wrapping_add(round.wrapping_mul(0x9e37_79b9)));
            (left, right) = (right, left ^ (bits & mask));
        }
        i = left << half | right;
        if i < n {
            return i;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_chain_visits_every_line_of_its_pages_once_and_closes(lines in 1_u32..5000, seed in any::<u32>()) {
            let chain = Chain::lines(lines, seed);
            let seen: BTreeSet<u64> = (0..chain.elements()).map(|i| chain.offset(i)).collect();
            prop_assert_eq!(seen.len() as u64, chain.elements());
            prop_assert!(seen.iter().all(|offset| offset % LINE == 0 && *offset < chain.span()));
            prop_assert_eq!(chain.offset(chain.elements()), chain.offset(0));
        }

        #[test]
        fn a_sparse_chain_visits_every_page_once(pages in 1_u32..5000, seed in any::<u32>()) {
            let chain = Chain::sparse(pages, seed);
            let seen: BTreeSet<u64> = (0..chain.elements()).map(|i| chain.offset(i) / PAGE).collect();
            prop_assert_eq!(seen, (0..u64::from(pages)).collect::<BTreeSet<u64>>());
        }
    }

    #[test]
    fn a_local_chain_leaves_a_page_only_after_visiting_all_its_lines() {
        let chain = Chain::local(5, 7);
        let pages: Vec<u64> = (0..chain.elements()).map(|i| chain.offset(i) / PAGE).collect();
        let changes = pages.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert_eq!(changes, 4);
        let seen: BTreeSet<u64> = (0..chain.elements()).map(|i| chain.offset(i)).collect();
        assert_eq!(seen.len() as u64, chain.elements());
    }

    #[test]
    fn successive_elements_of_a_chain_are_rarely_close_in_memory() {
        let chain = Chain::lines(100_000, 1);
        let near = (0..chain.elements()).filter(|&i| chain.offset(i).abs_diff(chain.offset(i + 1)) <= 4 * LINE).count();
        assert!(near < 40, "{near}");
    }
}
