//! An expression to be timed: a problem's data in memory that the threads touched first, hot or in rotation, and a check of
//! what came out of it.

use std::cell::RefCell;
use std::rc::Rc;

use plimsoll_core::Fault;
use plimsoll_core::sample::{Batch, Check, Work, Workload};
use plimsoll_expr::{DType, Layout, Problem, Value};

use super::error::Error;
use super::plan::How;
use super::prepared::{Prepared, Program, Set};
use crate::memory::{Buffer, Pages};
use crate::threads::Team;

/// Elements of random data that are repeated over a tensor.
const BLOCK: u64 = 1 << 16;
/// Where parts of a tensor that different threads touch first may begin: at huge pages.
const GRAIN: usize = 2 << 20;
/// Elements that are held to the oracle after the last sample.
const CHECKED: u64 = 61;

/// The tensors of one run: those of [`Set`], in its order.
#[derive(Debug)]
pub struct Memories {
    inputs: Vec<Buffer<u8>>,
    outputs: Vec<Buffer<u8>>,
}

/// A [`Workload`] whose launch is one run of an expression on all members of a team.
#[derive(Debug)]
pub struct Load {
    team: Rc<RefCell<Team>>,
    prepared: Prepared,
    problem: Problem,
    sets: Vec<Memories>,
    /// Which input is the memory of an output.
    in_place: Vec<Option<usize>>,
    seed: u64,
}

impl Load {
    /// Prepares `problem` for `team` and fills its tensors. There are as many sets of them as it takes to touch `window` bytes
    /// before one is used again: 0 for one set, which is hot where it fits a cache.
    ///
    /// # Errors
    /// Those of [`Program::prepare`]; too little memory.
    pub fn new(team: Rc<RefCell<Team>>, problem: &Problem, how: &How, window: u64, seed: u64) -> Result<Self, Error> {
        let graph = problem.graph();
        let outputs: Vec<Layout> =
            (0..graph.outputs().len()).map(|place| problem.output(place)).collect::<Result<_, _>>()?;
        let inputs = in_place_as_written(problem, &outputs);
        let prepared = Program::new(graph).prepare(&inputs, &outputs, how)?;
        let in_place = graph.outputs().iter().map(|output| output.in_place.map(|slot| slot as usize)).collect();
        let mut load = Self { team, prepared, problem: problem.clone(), sets: Vec::new(), in_place, seed };
        let bytes = load.bytes().max(1);
        for _ in 0..window.div_ceil(bytes).max(1) {
            let memories = load.allocate()?;
            load.sets.push(memories);
        }
        for set in 0..load.sets.len() {
            load.fill(set);
        }
        Ok(load)
    }

    /// What runs.
    #[must_use]
    pub fn prepared(&self) -> &Prepared {
        &self.prepared
    }

    fn own_inputs(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.problem.inputs().len()).filter(|input| !self.in_place.contains(&Some(*input)))
    }

    /// Bytes of one set.
    fn bytes(&self) -> u64 {
        let inputs: u64 = self.own_inputs().map(|input| self.problem.input_bytes(input)).sum();
        inputs + (0..self.in_place.len()).map(|output| self.problem.output_bytes(output)).sum::<u64>()
    }

    fn allocate(&self) -> Result<Memories, Error> {
        let buffer = |bytes: u64| -> Result<Buffer<u8>, Error> {
            let bytes = usize::try_from(bytes).map_err(|_| Fault::Invalid(format!("{bytes} bytes are no memory")))?;
            let split = Buffer::<u8>::new(bytes, Pages::Huge)?.split(self.team.borrow().size(), GRAIN);
            self.team.borrow_mut().lend(1, &|rank| split.part(rank.index).fill(0))?;
            Ok(split.join())
        };
        let inputs =
            self.own_inputs().map(|input| buffer(self.problem.input_bytes(input))).collect::<Result<_, _>>()?;
        let outputs = (0..self.in_place.len()).map(|output| buffer(self.problem.output_bytes(output)));
        Ok(Memories { inputs, outputs: outputs.collect::<Result<_, _>>()? })
    }

    /// Writes a set's inputs.
    fn fill(&mut self, set: usize) {
        let graph = self.problem.graph().clone();
        let own: Vec<usize> = self.own_inputs().collect();
        let overwritten = self.in_place.iter().enumerate().filter_map(|(output, input)| Some((output, (*input)?)));
        let overwritten: Vec<(usize, usize)> = overwritten.collect();
        let memories = &mut self.sets[set];
        for (buffer, input) in memories.inputs.iter_mut().zip(&own) {
            fill(&self.problem, graph.inputs()[*input].dtype, self.seed + *input as u64, buffer);
        }
        for (output, input) in overwritten {
            let buffer = &mut memories.outputs[output];
            fill(&self.problem, graph.inputs()[input].dtype, self.seed + input as u64, buffer);
        }
    }

    fn timed(&mut self, k: u32, sets: usize) -> Result<u64, Error> {
        let mut team = self.team.borrow_mut();
        let mut parts: Vec<(Vec<&[u8]>, Vec<_>)> = self.sets[..sets]
            .iter_mut()
            .map(|set| {
                let Memories { inputs, outputs } = set;
                (inputs.iter().map(|b| &**b).collect(), outputs.iter_mut().map(|b| &mut **b).collect())
            })
            .collect();
        let mut sets: Vec<Set<'_, '_>> = parts
            .iter_mut()
            .map(|(inputs, outputs)| Set { inputs: inputs.as_slice(), outputs: outputs.as_mut_slice() })
            .collect();
        self.prepared.timed(&mut team, u64::from(k), &mut sets, self.problem.scalars())
    }

    /// Some elements' inputs, as the first set has them now.
    fn inputs_at(&self, place: u64) -> Option<Vec<Value>> {
        let offsets = self.problem.offsets(place)?;
        let own: Vec<usize> = self.own_inputs().collect();
        let read = |(input, offset): (usize, &u64)| {
            let output = self.in_place.iter().position(|of| *of == Some(input));
            let buffer = match output {
                Some(output) => &self.sets[0].outputs[output],
                None => &self.sets[0].inputs[own.iter().position(|other| *other == input)?],
            };
            self.problem.graph().inputs()[input].dtype.read(buffer, *offset)
        };
        offsets.iter().enumerate().map(read).collect()
    }

    fn outputs_at(&self, place: u64) -> Option<Vec<Value>> {
        let coordinates = self.problem.coordinates(place)?;
        let read = |output: usize| {
            let offset = self.problem.output(output).ok()?.offset_of(&coordinates)?;
            self.problem.graph().outputs()[output].dtype.read(&self.sets[0].outputs[output], offset)
        };
        (0..self.in_place.len()).map(read).collect()
    }
}

/// The inputs' layouts, those that are written in place as their outputs have them.
fn in_place_as_written(problem: &Problem, outputs: &[Layout]) -> Vec<Layout> {
    let mut inputs = problem.inputs().to_vec();
    for (output, layout) in problem.graph().outputs().iter().zip(outputs) {
        if let Some(input) = output.in_place.and_then(|slot| inputs.get_mut(slot as usize)) {
            *input = layout.clone();
        }
    }
    inputs
}

/// Random elements on which the problem is finite, a block of them over and over.
fn fill(problem: &Problem, dtype: DType, seed: u64, memory: &mut [u8]) {
    let block = memory.len().min((BLOCK * dtype.bytes()) as usize);
    problem.fill(dtype, seed, &mut memory[..block]);
    let mut filled = block;
    while filled < memory.len() {
        let next = filled.min(memory.len() - filled);
        memory.copy_within(..next, filled);
        filled += next;
    }
}

impl Workload for Load {
    fn work(&self) -> Work {
        let traffic = self.problem.traffic();
        let write_allocate = if self.prepared.is_nontemporal() { 0 } else { traffic.written };
        let window = if self.sets.len() > 1 { self.sets.len() as u64 * self.bytes() } else { 0 };
        Work { traffic, write_allocate, window, ..Work::default() }
    }

    fn batch(&self) -> Batch {
        Batch { cycle: self.sets.len() as u32, ..Batch::default() }
    }

    fn sample(&mut self, k: u32, out: &mut [u64]) -> Result<(), Fault> {
        for sample in out {
            *sample = self.timed(k, self.sets.len())?;
        }
        Ok(())
    }

    fn check(&mut self) -> Result<Check, Fault> {
        // Data that runs have not yet overwritten.
        self.fill(0);
        let elements = self.problem.elements();
        let places: Vec<u64> = (0..CHECKED)
            .map(|i| (u128::from(elements.saturating_sub(1)) * u128::from(i) / u128::from(CHECKED - 1)) as u64)
            .collect();
        let before: Vec<Option<Vec<Value>>> = places.iter().map(|&place| self.inputs_at(place)).collect();
        self.timed(1, 1)?;
        for (&place, inputs) in places.iter().zip(before).take_while(|(place, _)| **place < elements) {
            let (Some(inputs), Some(outputs)) = (inputs, self.outputs_at(place)) else {
                return Ok(Check::Failed(format!("element {place} is outside of its memory")));
            };
            if let Some(wrong) = self.problem.wrong(place, &inputs, &outputs) {
                return Ok(Check::Failed(wrong));
            }
        }
        Ok(Check::Passed)
    }
}
