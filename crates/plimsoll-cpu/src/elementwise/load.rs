//! An expression as a workload: a problem's data in memory that the threads touched first, hot or in rotation, and a check of
//! the results.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::AtomicBool;

use plimsoll_core::Fault;
use plimsoll_core::sample::{Batch, Check, Work, Workload};
use plimsoll_expr::oracle::Bound;
use plimsoll_expr::{Judgement, Layout, Problem, Value};

use super::error::Error;
use super::plan::How;
use super::prepared::{Prepared, Program, Set};
use super::rotation::{Memories, Pieces, Rotation, own_inputs};
use super::verify::bounds;
use crate::threads::Team;

/// Elements of the block of random data that is repeated over a tensor.
const BLOCK: u64 = 1 << 16;
/// Elements that are checked against the oracle after the last sample.
const CHECKED: u64 = 61;

/// A [`Workload`] whose launch is one run of an expression on all members of a team.
#[derive(Debug)]
pub struct Load {
    team: Rc<RefCell<Team>>,
    prepared: Prepared,
    problem: Problem,
    /// The error bound of each node.
    bounds: Vec<Bound>,
    /// How many elements the last check couldn't judge, and how many it examined.
    unjudged: [u64; 2],
    rotation: Rotation,
    memories: Memories,
    /// For each output, the input that it overwrites.
    in_place: Vec<Option<usize>>,
    /// Random elements of each input.
    blocks: Vec<Vec<u8>>,
}

impl Load {
    /// Prepares `problem` for `team` and fills its tensors. Allocates enough sets of tensors to touch `window` bytes before one
    /// is used again, or fewer if they are tiny ([`Work::window`] gives the bytes touched). A window of 0 means one set, which is
    /// hot if it fits a cache. Stops if `stop` is raised.
    ///
    /// # Errors
    /// Those of [`Program::prepare`]; [`Fault::OutOfMemory`]; [`Fault::Stopped`].
    pub fn new(
        team: Rc<RefCell<Team>>,
        problem: &Problem,
        how: &How,
        (window, seed): (u64, u64),
        stop: &AtomicBool,
    ) -> Result<Self, Error> {
        let graph = problem.graph();
        let outputs: Vec<Layout> =
            (0..graph.outputs().len()).map(|place| problem.output(place)).collect::<Result<_, _>>()?;
        let inputs = use_output_layouts(problem, &outputs);
        let prepared = Program::new(graph).prepare(&inputs, &outputs, how)?;
        let in_place = graph.outputs().iter().map(|output| output.in_place.map(|slot| slot as usize)).collect();
        let rotation = Rotation::new(problem, window);
        let memories = rotation.allocate(&team, stop)?;
        let blocks = (0..graph.inputs().len()).map(|input| block(problem, input, seed)).collect();
        let sets = rotation.sets as usize;
        let (problem, bounds, unjudged) = (problem.clone(), bounds(graph), [0, 0]);
        let mut load = Self { team, prepared, problem, bounds, unjudged, rotation, memories, in_place, blocks };
        load.fill(sets, stop)?;
        Ok(load)
    }

    /// The prepared program.
    #[must_use]
    pub fn prepared(&self) -> &Prepared {
        &self.prepared
    }

    /// Writes the inputs of the first sets.
    fn fill(&mut self, sets: usize, stop: &AtomicBool) -> Result<(), Fault> {
        for (pieces, input) in self.memories.inputs.iter_mut().zip(own_inputs(&self.problem)) {
            pieces.fill(&self.blocks[input], sets, stop)?;
        }
        for (pieces, input) in self.memories.outputs.iter_mut().zip(&self.in_place) {
            if let Some(input) = *input {
                pieces.fill(&self.blocks[input], sets, stop)?;
            }
        }
        Ok(())
    }

    fn run_timed(&mut self, k: u32, sets: usize) -> Result<u64, Error> {
        let mut team = self.team.borrow_mut();
        let Memories { inputs, outputs } = &mut self.memories;
        // Flat lists, as there may be many sets: the inputs and the outputs of each set in order.
        let sources = interleave(inputs.iter().map(Pieces::iter).collect(), sets);
        let each = sources.len() / sets.max(1);
        let operands = outputs.len();
        let mut targets = interleave(outputs.iter_mut().map(Pieces::iter_mut).collect(), sets);
        let mut sets: Vec<Set<'_, '_>> = targets
            .chunks_exact_mut(operands)
            .enumerate()
            .map(|(set, outputs)| Set { inputs: &sources[set * each..][..each], outputs })
            .collect();
        self.prepared.run_timed(&mut team, u64::from(k), &mut sets, self.problem.scalars())
    }

    /// The current inputs of one element in the first set.
    fn inputs_at(&self, place: u64) -> Option<Vec<Value>> {
        let offsets = self.problem.offsets(place)?;
        let read = |(input, offset): (usize, &u64)| {
            let output = self.in_place.iter().position(|slot| *slot == Some(input));
            let pieces = match output {
                Some(output) => &self.memories.outputs[output],
                None => &self.memories.inputs[own_inputs(&self.problem).position(|other| other == input)?],
            };
            self.problem.graph().inputs()[input].dtype.read(pieces.first(), *offset)
        };
        offsets.iter().enumerate().map(read).collect()
    }

    fn outputs_at(&self, place: u64) -> Option<Vec<Value>> {
        let coordinates = self.problem.coordinates(place)?;
        let read = |output: usize| {
            let offset = self.problem.output(output).ok()?.offset_of(&coordinates)?;
            self.problem.graph().outputs()[output].dtype.read(self.memories.outputs[output].first(), offset)
        };
        (0..self.in_place.len()).map(read).collect()
    }
}

/// The next item of every iterator, repeated `times` times.
fn interleave<I: Iterator>(mut iterators: Vec<I>, times: usize) -> Vec<I::Item> {
    let mut items = Vec::with_capacity(iterators.len() * times);
    for _ in 0..times {
        items.extend(iterators.iter_mut().filter_map(Iterator::next));
    }
    items
}

/// The inputs' layouts; inputs that are written in place get their outputs' layouts.
fn use_output_layouts(problem: &Problem, outputs: &[Layout]) -> Vec<Layout> {
    let mut inputs = problem.inputs().to_vec();
    for (output, layout) in problem.graph().outputs().iter().zip(outputs) {
        if let Some(input) = output.in_place.and_then(|slot| inputs.get_mut(slot as usize)) {
            *input = layout.clone();
        }
    }
    inputs
}

/// Random elements of an input for which the results are finite, at most [`BLOCK`].
fn block(problem: &Problem, input: usize, seed: u64) -> Vec<u8> {
    let dtype = problem.graph().inputs()[input].dtype;
    let bytes = problem.input_bytes(input).min(BLOCK * dtype.bytes()) as usize;
    let mut block = vec![0; bytes];
    problem.fill(dtype, seed.wrapping_add(input as u64), &mut block);
    block
}

impl Workload for Load {
    fn work(&self) -> Work {
        let traffic = self.problem.traffic();
        let write_allocate = if self.prepared.is_nontemporal() { 0 } else { traffic.written };
        let Rotation { sets, touched, .. } = self.rotation;
        let window = if sets > 1 { sets.saturating_mul(touched) } else { 0 };
        Work { traffic, write_allocate, window, ..Work::default() }
    }

    fn batch(&self) -> Batch {
        Batch { cycle: self.rotation.sets as u32, ..Batch::default() }
    }

    fn sample(&mut self, k: u32, out: &mut [u64]) -> Result<(), Fault> {
        for sample in out {
            *sample = self.run_timed(k, self.rotation.sets as usize)?;
        }
        Ok(())
    }

    fn unjudged(&self) -> [u64; 2] {
        self.unjudged
    }

    fn check(&mut self) -> Result<Check, Fault> {
        // Restore inputs that runs have overwritten.
        self.fill(1, &AtomicBool::new(false))?;
        let elements = self.problem.elements();
        let places: Vec<u64> = (0..CHECKED)
            .map(|i| (u128::from(elements.saturating_sub(1)) * u128::from(i) / u128::from(CHECKED - 1)) as u64)
            .collect();
        let before: Vec<Option<Vec<Value>>> = places.iter().map(|&place| self.inputs_at(place)).collect();
        self.run_timed(1, 1)?;
        let (mut unjudged, mut judged) = (0, 0);
        for (&place, inputs) in places.iter().zip(before).take_while(|(place, _)| **place < elements) {
            let (Some(inputs), Some(outputs)) = (inputs, self.outputs_at(place)) else {
                return Ok(Check::Failed(format!("element {place} is outside of its memory")));
            };
            match self.problem.judge(place, &inputs, &outputs, &self.bounds) {
                Judgement::Right => judged += 1,
                Judgement::Wrong(wrong) => return Ok(Check::Failed(wrong)),
                Judgement::Unjudged => unjudged += 1,
            }
        }
        self.unjudged = [unjudged, judged + unjudged];
        Ok(Check::Passed)
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_expr::{Names, parse};

    use super::*;
    use crate::threads::affinity::allowed_cpus;
    use crate::timer::Timer;

    fn load(text: &str, layout: &Layout, window: u64, stop: bool) -> Result<Load, Error> {
        let cpu = allowed_cpus()[0];
        let team = Rc::new(RefCell::new(Team::new(&[cpu, cpu], Timer::best()).unwrap()));
        let graph = parse(text, &Names::default()).unwrap();
        let inputs = vec![layout.clone(); graph.inputs().len()];
        let problem = Problem::new(graph, inputs, vec![]).unwrap();
        Load::new(team, &problem, &How::for_threads(2), (window, 1), &AtomicBool::new(stop))
    }

    fn flat(elements: u64) -> Layout {
        Layout::contiguous(&[elements]).unwrap()
    }

    #[test]
    fn a_load_runs_in_rotation_and_passes_its_check() {
        let mut load = load("in x: bf16, y: f32; y = exp(x)*y", &flat(100_003), 2_000_000, false).unwrap();
        let mut ticks = [0; 3];
        load.sample(5, &mut ticks).unwrap();
        assert_eq!(load.check().unwrap(), Check::Passed);
        assert_eq!((load.work().traffic.read, load.work().window), (600_018, 4 * 600_018));
        assert_eq!(load.batch().cycle, 4);
    }

    #[test]
    fn tensors_of_any_size_run_pass_the_check_and_report_their_window() {
        for (elements, window) in [(0, 1000), (1, 50_000), (4, 50_000), (1000, 1 << 20), (600_000, 4 << 20)] {
            for text in
                ["in x: f32; y = x + 1", "in x: f32, z: f64; z = x*z", "in x: bool, z: i16; y = select(x, z, 3)"]
            {
                let mut load = load(text, &flat(elements), window, false).unwrap();
                let mut ticks = [0; 2];
                load.sample(load.batch().cycle, &mut ticks).unwrap();
                assert_eq!(load.check().unwrap(), Check::Passed, "{text} {elements}");
                assert!(load.work().window <= u64::from(load.batch().cycle) * load.work().traffic.total());
            }
        }
    }

    #[test]
    fn a_stop_signal_ends_the_preparation() {
        let stopped = load("in x: f32; y = x + 1", &flat(1 << 20), 1 << 24, true);
        assert!(matches!(stopped, Err(Error::Fault(Fault::Stopped))));
    }
}
