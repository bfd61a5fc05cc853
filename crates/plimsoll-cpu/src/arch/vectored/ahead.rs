//! Fetching ahead: processors overlap memory with at most some hundred instructions of arithmetic. A function such as `exp` takes more for
//! the elements of a cache line, so memory would idle while it is computed. Meanwhile, its loop fetches the inputs of the next tile into L2. Without
//! such functions, they are fetched while results are copied to outputs past the caches. A single short operation needs neither: it stores its
//! results past the caches in small blocks, so that its loads and stores overlap.

use std::cell::Cell;
use std::ops::Range;

use plimsoll_expr::graph::MAX_INPUTS;

use super::code::Code;
use super::machine::Start;
use super::tiling::{Tile, Tiling};

/// Bytes of a cache line.
const LINE: usize = 64;

/// An input of the next tile, without gaps.
#[derive(Clone, Copy, Debug)]
pub(super) struct NextInput {
    first: *const u8,
    /// Bytes of an element.
    width: usize,
}

impl NextInput {
    /// Nothing.
    const NONE: Self = Self { first: std::ptr::null(), width: 0 };

    /// Fetches these elements. If the first of all isn't at the start of a cache line, the end of the last one is left out.
    #[inline(always)]
    pub(super) fn fetch(&self, first: usize, count: usize) {
        for line in lines(self.width, first, count) {
            prefetch(self.first.wrapping_add(line * LINE));
        }
    }
}

/// The cache lines that begin in these elements of so many bytes.
#[inline(always)]
fn lines(width: usize, first: usize, count: usize) -> Range<usize> {
    (first * width).div_ceil(LINE)..((first + count) * width).div_ceil(LINE)
}

/// The inputs of the next tile, divided among the steps of this one that fetch them.
pub(super) struct Ahead {
    inputs: [NextInput; MAX_INPUTS],
    count: usize,
    /// How many such steps the code has, and how many of them began for this tile.
    steps: usize,
    begun: Cell<usize>,
}

impl Ahead {
    /// Nothing yet, for code with so many steps that fetch.
    pub(super) fn new(steps: usize) -> Self {
        Self { inputs: [NextInput::NONE; MAX_INPUTS], count: 0, steps, begun: Cell::new(0) }
    }

    /// Begins a tile; `next` is the one after it.
    pub(super) fn begin(&mut self, code: &Code, tiling: &Tiling, starts: &[Start], next: Option<&Tile>) {
        (self.count, self.begun) = (0, Cell::new(0));
        let Some(tile) = next else { return };
        for (stream, start) in (0..code.inputs).zip(starts).filter(|(stream, _)| tiling.is_dense(*stream)) {
            let layout = &tiling.streams[stream];
            let first = start.0.wrapping_offset(layout.start(tile)).cast_const();
            self.inputs[self.count] = NextInput { first, width: layout.width };
            self.count += 1;
        }
    }

    /// What the next step that fetches should fetch. Called once for each of them.
    pub(super) fn share(&self) -> &[NextInput] {
        if self.count == 0 {
            return &[];
        }
        let begun = self.begun.replace(self.begun.get() + 1);
        &self.inputs[share(begun, self.steps, self.count)]
    }
}

/// The part of `count` inputs that the slow step `number` of `steps` fetches.
fn share(number: usize, steps: usize, count: usize) -> Range<usize> {
    number * count / steps..(number + 1) * count / steps
}

/// Asks for a cache line. Any address will do: the processor ignores those that aren't in memory.
#[inline(always)]
fn prefetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every processor of the architecture has SSE, and a prefetch accesses no memory as far as the program can tell.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T1 }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_fetch_each_line_once() {
        for width in [1, 2, 4, 8] {
            for (n, block) in [(4096, 64), (4096, 16), (1000, 64), (17, 16), (1, 64)] {
                let fetched: Vec<usize> =
                    (0..n).step_by(block).flat_map(|first| lines(width, first, block.min(n - first))).collect();
                assert_eq!(fetched, (0..(n * width).div_ceil(LINE)).collect::<Vec<_>>(), "{width} {n} {block}");
            }
        }
    }

    #[test]
    fn slow_steps_fetch_each_input_once() {
        for steps in 1..6 {
            for count in 1..6 {
                let fetched: Vec<usize> = (0..steps).flat_map(|number| share(number, steps, count)).collect();
                assert_eq!(fetched, (0..count).collect::<Vec<_>>(), "{steps} {count}");
            }
        }
    }
}
