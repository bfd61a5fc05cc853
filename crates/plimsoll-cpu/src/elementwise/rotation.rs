//! The memory of a load: the sets of tensors of a rotation. Each operand has one buffer for all sets, first touched by the
//! threads that use it. The number of sets and the memory are bounded for tensors of any size.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use plimsoll_core::Fault;
use plimsoll_expr::Problem;

use crate::memory::{Buffer, Pages, free_bytes, partition};
use crate::threads::Team;

/// Most sets: with 16 bytes each, they fill the caches of a core, and a launch of all of them takes a fraction of a second.
const MOST_SETS: u64 = 1 << 16;
/// Alignment of an operand's sets: cache lines, or pages or huge pages for operands at least as large as one.
const GRAINS: [u64; 3] = [64, 4096, 2 << 20];
/// Bytes that are written between two checks of the stop signal: some milliseconds.
const STEP: usize = 16 << 20;

/// The inputs with separate memory. The others are written in place and share their output's memory.
pub(super) fn own_inputs(problem: &Problem) -> impl Iterator<Item = usize> + '_ {
    let in_place = |input: usize| problem.graph().outputs().iter().any(|o| o.in_place == Some(input as u32));
    (0..problem.inputs().len()).filter(move |input| !in_place(*input))
}

/// The number of sets of a problem's operands, and their sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rotation {
    pub sets: u64,
    /// Bytes that one run touches: without gaps, and broadcast elements only once.
    pub touched: u64,
    /// Each operand's memory: inputs with separate memory, then outputs.
    operands: Vec<Reach>,
    inputs: usize,
}

/// The size of an operand's memory, and the first byte of it that the operand reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reach {
    from: u64,
    bytes: u64,
}

impl Reach {
    fn of_input(problem: &Problem, input: usize) -> Self {
        let first = problem.inputs()[input].span().map_or(0, |(first, _)| first);
        let width = problem.graph().inputs()[input].dtype.bytes();
        Self { from: first.saturating_mul(width), bytes: problem.input_bytes(input) }
    }

    fn of_output(problem: &Problem, place: usize) -> Self {
        match problem.graph().outputs()[place].in_place {
            Some(input) => Self::of_input(problem, input as usize),
            None => Self { from: 0, bytes: problem.output_bytes(place) },
        }
    }
}

impl Rotation {
    /// Enough sets to touch `window` bytes before one is used again, limited by [`MOST_SETS`] and by twice that memory, but at
    /// least two; one set if `window` is 0.
    pub fn new(problem: &Problem, window: u64) -> Self {
        let graph = problem.graph();
        let inputs: Vec<usize> = own_inputs(problem).collect();
        let mut operands: Vec<Reach> = inputs.iter().map(|&input| Reach::of_input(problem, input)).collect();
        operands.extend((0..graph.outputs().len()).map(|place| Reach::of_output(problem, place)));
        let reads = graph.reads();
        let used = inputs.iter().copied().filter(|&input| reads[input]);
        let read =
            used.map(|input| problem.inputs()[input].distinct().saturating_mul(graph.inputs()[input].dtype.bytes()));
        let touched = read.fold(problem.traffic().written, u64::saturating_add);
        let mut rotation = Self { sets: 1, touched, operands, inputs: inputs.len() };
        if window > 0 {
            let affordable = window.saturating_mul(2) / rotation.bytes().unwrap_or(u64::MAX);
            rotation.sets = window.div_ceil(touched.max(1)).min(MOST_SETS).min(affordable).max(2);
        }
        rotation
    }

    /// Bytes of all sets of all operands; `None` beyond 2⁶⁴.
    pub fn bytes(&self) -> Option<u64> {
        let all_sets = |operand: &Reach| pitch(operand.bytes)?.checked_mul(self.sets);
        self.operands.iter().try_fold(0_u64, |sum, operand| sum.checked_add(all_sets(operand)?))
    }

    /// Allocates the memory, all of it zero. Stops if `stop` is raised.
    ///
    /// # Errors
    /// [`Fault::OutOfMemory`] before anything is allocated, if there isn't enough for all sets; [`Fault::Stopped`].
    pub fn allocate(&self, team: &RefCell<Team>, stop: &AtomicBool) -> Result<Memories, Fault> {
        let Some(asked) = self.bytes() else {
            let sets = if self.sets > 1 { "two sets of these tensors" } else { "these tensors" };
            return Err(Fault::Invalid(format!("{sets} need more than 2^64 bytes: use fewer elements")));
        };
        match free_bytes() {
            Some(free) if asked > free => return Err(Fault::OutOfMemory { asked, free: Some(free) }),
            _ => {}
        }
        let operand = |&reach: &Reach| Pieces::new(reach, self.sets, team, stop);
        let (inputs, outputs) = self.operands.split_at(self.inputs);
        Ok(Memories {
            inputs: inputs.iter().map(operand).collect::<Result<_, _>>()?,
            outputs: outputs.iter().map(operand).collect::<Result<_, _>>()?,
        })
    }
}

/// Bytes from one set of an operand to the next.
fn pitch(bytes: u64) -> Option<u64> {
    let grain = GRAINS.into_iter().rev().find(|&grain| bytes >= grain).unwrap_or(GRAINS[0]);
    bytes.max(1).checked_next_multiple_of(grain)
}

/// The tensors of all sets.
#[derive(Debug)]
pub(super) struct Memories {
    /// Inputs with separate memory.
    pub inputs: Vec<Pieces>,
    pub outputs: Vec<Pieces>,
}

/// The memory of one operand in all sets. Bytes before the first that it reaches are never touched.
#[derive(Debug)]
pub(super) struct Pieces {
    buffer: Buffer<u8>,
    pitch: usize,
    bytes: usize,
    /// The first byte that it reaches in each set.
    from: usize,
}

impl Pieces {
    fn new(reach: Reach, sets: u64, team: &RefCell<Team>, stop: &AtomicBool) -> Result<Self, Fault> {
        let Reach { from, bytes } = reach;
        let too_large = || Fault::Invalid(format!("{sets} times {bytes} bytes exceed the address space"));
        let size = |bytes: u64| usize::try_from(bytes).map_err(|_| too_large());
        let step = pitch(bytes).ok_or_else(too_large)?;
        let buffer = Buffer::<u8>::new(size(step.checked_mul(sets).ok_or_else(too_large)?)?, Pages::Huge)?;
        let mut pieces = Self { buffer, pitch: size(step)?, bytes: size(bytes)?, from: size(from)? };
        pieces.touch(&mut team.borrow_mut(), stop)?;
        Ok(pieces)
    }

    /// Writes zeros: every member of the team writes its own part of each set.
    fn touch(&mut self, team: &mut Team, stop: &AtomicBool) -> Result<(), Fault> {
        let size = team.size();
        let (from, ranges) = (self.from, partition(self.bytes - self.from, size, GRAINS[2] as usize));
        let mut parts: Vec<Vec<&mut [u8]>> = (0..size).map(|_| Vec::new()).collect();
        for piece in self.iter_mut() {
            let mut piece = &mut piece[from..];
            for (range, part) in ranges.iter().zip(&mut parts) {
                let (own, rest) = piece.split_at_mut(range.len());
                part.extend(own.chunks_mut(STEP));
                piece = rest;
            }
        }
        let parts: Vec<Mutex<Vec<&mut [u8]>>> = parts.into_iter().map(Mutex::new).collect();
        team.run_borrowed(1, &|rank| {
            let mut own = parts[rank.index].lock().unwrap_or_else(PoisonError::into_inner);
            own.iter_mut().take_while(|_| !stop.load(Ordering::Relaxed)).for_each(|chunk| chunk.fill(0));
        })?;
        check_stopped(stop)
    }

    /// The memory of each set in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.buffer.chunks_exact(self.pitch).map(|piece| &piece[..self.bytes])
    }

    /// The writable memory of each set in order.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut [u8]> {
        let bytes = self.bytes;
        self.buffer.chunks_exact_mut(self.pitch).map(move |piece| &mut piece[..bytes])
    }

    /// The memory of the first set.
    pub fn first(&self) -> &[u8] {
        &self.buffer[..self.bytes]
    }

    /// Fills the reached part of the first `sets` sets with copies of a block.
    ///
    /// # Errors
    /// [`Fault::Stopped`] if `stop` is raised.
    pub fn fill(&mut self, block: &[u8], sets: usize, stop: &AtomicBool) -> Result<(), Fault> {
        let from = self.from;
        for piece in self.iter_mut().take(sets) {
            check_stopped(stop)?;
            for chunk in piece[from..].chunks_mut(block.len().max(1)) {
                check_stopped(stop)?;
                chunk.copy_from_slice(&block[..chunk.len()]);
            }
        }
        Ok(())
    }
}

fn check_stopped(stop: &AtomicBool) -> Result<(), Fault> {
    if stop.load(Ordering::Relaxed) { Err(Fault::Stopped) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use plimsoll_expr::{DType, Layout, Names, parse};
    use proptest::prelude::*;

    use super::*;
    use crate::threads::affinity::allowed_cpus;
    use crate::timer::Timer;

    const WINDOW: u64 = 512 << 20;

    fn flat(elements: u64) -> Problem {
        Problem::flat(&parse("x + 1", &Names::with_default(DType::F32)).unwrap(), elements, &[]).unwrap()
    }

    fn with_layout(layout: Layout) -> Problem {
        Problem::new(parse("x + 1", &Names::with_default(DType::F32)).unwrap(), vec![layout], vec![]).unwrap()
    }

    #[test]
    fn tiny_tensors_take_cache_lines_and_at_most_the_allowed_sets() {
        for (elements, touched) in [(0, 0), (1, 8), (4, 32), (16, 128)] {
            let rotation = Rotation::new(&flat(elements), WINDOW);
            assert_eq!((rotation.sets, rotation.touched), (MOST_SETS, touched), "{elements}");
            assert_eq!(rotation.bytes(), Some(MOST_SETS * 2 * 64), "{elements}");
        }
    }

    #[test]
    fn unreached_bytes_do_not_count_and_memory_stays_bounded() {
        let far = Rotation::new(&with_layout(Layout::contiguous(&[4]).unwrap().offset_by(1 << 30).unwrap()), WINDOW);
        assert_eq!((far.sets, far.touched), (2, 32));
        let same = Rotation::new(&with_layout(Layout::strided(&[1 << 20], &[0], 0).unwrap()), WINDOW);
        assert_eq!((same.sets, same.touched), (128, (4 << 20) + 4));
        assert_eq!(Rotation::new(&flat(1 << 28), WINDOW).sets, 2);
        assert_eq!(Rotation::new(&flat(1 << 28), 0).sets, 1);
    }

    #[test]
    fn sets_that_overflow_or_exceed_memory_are_refused() {
        let team = RefCell::new(Team::new(&allowed_cpus()[..1], Timer::Os).unwrap());
        for (elements, window) in [(1 << 60, WINDOW), ((1 << 61) - 1, WINDOW), (1 << 60, 0)] {
            let refused = Rotation::new(&flat(elements), window).allocate(&team, &AtomicBool::new(false)).unwrap_err();
            assert!(matches!(refused, Fault::Invalid(_) | Fault::OutOfMemory { .. }), "{elements}: {refused}");
        }
    }

    #[test]
    fn every_set_has_separate_memory_that_is_filled_to_its_end() {
        let cpu = allowed_cpus()[0];
        let team = RefCell::new(Team::new(&[cpu, cpu], Timer::Os).unwrap());
        let go = AtomicBool::new(false);
        for (elements, window) in [(3, 1000), (17, 10_000), (1500, 100_000), (700_000, 12_000_000)] {
            let rotation = Rotation::new(&flat(elements), window);
            let mut memories = rotation.allocate(&team, &go).unwrap();
            let pieces = &mut memories.inputs[0];
            assert_eq!(pieces.iter().count() as u64, rotation.sets);
            for (set, piece) in pieces.iter_mut().enumerate() {
                assert!(piece.len() as u64 == 4 * elements && piece.iter().all(|&byte| byte == 0));
                piece.fill(set as u8 + 1);
            }
            assert!(pieces.iter().enumerate().all(|(set, piece)| piece.iter().all(|&byte| byte == set as u8 + 1)));
            pieces.fill(&[7, 8, 9, 10], 2, &go).unwrap();
            let filled: Vec<bool> =
                pieces.iter().map(|piece| piece.chunks(4).all(|four| four == [7, 8, 9, 10])).collect();
            assert_eq!(filled.iter().filter(|filled| **filled).count(), 2);
        }
    }

    #[test]
    fn a_stop_signal_ends_the_preparation() {
        let team = RefCell::new(Team::new(&allowed_cpus()[..1], Timer::Os).unwrap());
        let stop = AtomicBool::new(true);
        let rotation = Rotation::new(&flat(1 << 22), WINDOW);
        assert!(matches!(rotation.allocate(&team, &stop), Err(Fault::Stopped)));
        let mut memories = rotation.allocate(&team, &AtomicBool::new(false)).unwrap();
        assert!(matches!(memories.inputs[0].fill(&[1; 64], 2, &stop), Err(Fault::Stopped)));
    }

    proptest! {
        #[test]
        fn memory_is_at_most_twice_the_window_or_two_sets(elements in 1_u64..1 << 40, window in 1_u64..1 << 40) {
            for elements in [elements, elements % 5000 + 1] {
                let rotation = Rotation::new(&flat(elements), window);
                let one = Rotation { sets: 1, ..rotation.clone() }.bytes().unwrap();
                prop_assert!(rotation.bytes().unwrap() <= (2 * window).max(2 * one));
                prop_assert!((2..=MOST_SETS).contains(&rotation.sets));
                // Contiguous tensors fill the window, up to the limit on sets.
                prop_assert!(rotation.sets * rotation.touched >= window || rotation.sets == MOST_SETS
                    || one > rotation.touched * 2);
            }
        }
    }
}
