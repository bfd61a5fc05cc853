//! A program, and its prepared form for given layouts, which runs.

use std::sync::Arc;

use plimsoll_expr::graph::Kind;
use plimsoll_expr::oracle::{Precision, apply};
use plimsoll_expr::{DType, Graph, Layout, Value};

use super::compile::{self, Contiguity};
use super::error::Error;
use super::plan::{How, Plan};
use crate::arch::vectored::{Code, Machine, MachineError, Memory, Set as Instructions};
use crate::memory::{Readable, Source, Target, Writable};
use crate::threads::{CallPool, Team};

/// An expression, to be prepared for layouts.
#[derive(Clone, Debug)]
pub struct Program {
    graph: Arc<Graph>,
}

/// The memory of one run: the inputs that aren't written in place, then the outputs, both in the order of the graph. An
/// input that is written in place is read from its output.
#[derive(Debug)]
pub struct Set<'m, 'a> {
    /// The inputs' memory, little-endian.
    pub inputs: &'m [&'a [u8]],
    /// The outputs' memory, little-endian.
    pub outputs: &'m mut [&'a mut [u8]],
}

impl Program {
    /// The program of an expression.
    #[must_use]
    pub fn new(graph: &Graph) -> Self {
        Self { graph: Arc::new(graph.clone()) }
    }

    /// The expression.
    #[must_use]
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Prepares it for layouts: one for every input and every output. All outputs have one shape, to which inputs are
    /// broadcast. Allocates scratch memory for `how.threads` threads; each thread touches its part first.
    ///
    /// # Errors
    /// If layouts don't match each other or the expression, or there is too little memory.
    pub fn prepare(&self, inputs: &[Layout], outputs: &[Layout], how: &How) -> Result<Prepared, Error> {
        let set = Instructions::from_isa(how.isa).ok_or(Error::Isa(how.isa.name()))?;
        let plan = Plan::new(&self.graph, inputs, outputs, how)?;
        let streams = inputs.len() + outputs.len();
        let mut dense: Vec<bool> = (0..streams).map(|stream| plan.is_dense(stream)).collect();
        let dense_outputs = dense.split_off(inputs.len());
        let contiguity = Contiguity { inputs: dense, outputs: dense_outputs, nontemporal: plan.nontemporal };
        let compiled = compile::compile_steps(&self.graph, set, &contiguity);
        let (input_widths, output_widths) = plan.widths();
        let internal = |what: String| Error::Internal(what);
        let truths = self.graph.outputs().iter().map(|output| output.dtype == DType::Bool).collect();
        let code = Code::new(
            compiled.steps,
            compiled.slots,
            compiled.uniforms.len() as u16,
            input_widths,
            output_widths,
            truths,
        )
        .map_err(|error| internal(error.to_string()))?;
        let tiling = plan.build_tiling(code.bytes_per_element())?;
        let mut in_place = vec![None; inputs.len()];
        for (place, output) in self.graph.outputs().iter().enumerate() {
            if let Some(slot) = output.in_place.and_then(|slot| in_place.get_mut(slot as usize)) {
                *slot = Some(place as u16);
            }
        }
        let machine = Machine::new(code, tiling, in_place, (how.isa, plan.nontemporal), how.threads.max(1))
            .map_err(from_machine_error)?;
        Ok(Prepared {
            graph: Arc::clone(&self.graph),
            inputs: inputs.to_vec(),
            outputs: outputs.to_vec(),
            uniform: compile::uniform_nodes(&self.graph),
            values: vec![Value::Int(0); self.graph.nodes().len()],
            uniforms: compiled.uniforms,
            scalars: Vec::with_capacity(self.graph.scalars().len()),
            evaluated: false,
            machine,
            threads: how.threads.max(1),
            nontemporal: plan.nontemporal,
        })
    }

    /// Prepares it for `layouts` and runs it once on all members of `team`.
    ///
    /// # Errors
    /// Those of [`Program::prepare`] and [`Prepared::run`].
    pub fn run(
        &self,
        team: &mut Team,
        layouts: (&[Layout], &[Layout]),
        memory: Set<'_, '_>,
        scalars: &[Value],
    ) -> Result<(), Error> {
        self.prepare(layouts.0, layouts.1, &How::for_threads(team.size()))?.run(team, memory, scalars)
    }
}

/// A program prepared for layouts, with scratch memory. Running it allocates nothing.
#[derive(Debug)]
pub struct Prepared {
    graph: Arc<Graph>,
    inputs: Vec<Layout>,
    outputs: Vec<Layout>,
    /// Whether each node is the same for all elements.
    uniform: Vec<bool>,
    /// The uniform nodes whose values the machine uses.
    uniforms: Vec<usize>,
    /// Room for the values of uniform nodes.
    values: Vec<Value>,
    /// The scalars for which the machine's uniform values were evaluated, if they were.
    scalars: Vec<Value>,
    evaluated: bool,
    machine: Machine,
    threads: usize,
    nontemporal: bool,
}

impl Prepared {
    /// The expression.
    #[must_use]
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Whether its stores bypass the caches.
    #[must_use]
    pub fn is_nontemporal(&self) -> bool {
        self.nontemporal
    }

    /// Runs it once on all members of `team`.
    ///
    /// # Errors
    /// If memory is too short or misaligned, or the number of operands or threads is wrong; then nothing was written. A
    /// thread's panic is a [`plimsoll_core::Fault`].
    pub fn run(&mut self, team: &mut Team, memory: Set<'_, '_>, scalars: &[Value]) -> Result<(), Error> {
        self.run_timed(team, 1, &mut [memory], scalars).map(drop)
    }

    /// Runs it `repeats` times, cycling through the sets of memory, without waiting in between. Returns the ticks of the
    /// team's timer from the common start to the last finish.
    ///
    /// # Errors
    /// As [`Prepared::run`].
    pub fn run_timed(
        &mut self,
        team: &mut Team,
        repeats: u64,
        sets: &mut [Set<'_, '_>],
        scalars: &[Value],
    ) -> Result<u64, Error> {
        if team.size() > self.threads {
            return Err(Error::Threads { prepared: self.threads, given: team.size() });
        }
        for set in sets.iter() {
            self.check_operands(set.inputs, set.outputs)?;
        }
        self.evaluate(scalars)?;
        // `Memory` has the same two slices as `Set`.
        let mut rest = sets.iter_mut().map(|set| Memory { inputs: set.inputs, outputs: &mut *set.outputs });
        let ticks = match (rest.next(), rest.next()) {
            (Some(only), None) => self.machine.run(team, repeats, &mut [only]),
            (Some(first), Some(second)) => {
                let mut all: Vec<Memory<'_, _, _>> = [first, second].into_iter().chain(rest).collect();
                self.machine.run(team, repeats, &mut all)
            }
            _ => Ok(0),
        };
        ticks.map_err(from_machine_error)
    }

    /// Runs it once in a caller's memory: with the helpers of a pool, or only on the calling thread.
    pub(super) fn run_call(
        &mut self,
        pool: Option<&CallPool>,
        inputs: &[Source<'_>],
        outputs: &mut [Target<'_>],
        scalars: &[Value],
    ) -> Result<(), Error> {
        self.evaluate(scalars)?;
        let memory = &mut Memory { inputs, outputs };
        let ran = match pool {
            Some(pool) => self.machine.run_call(pool, memory),
            None => self.machine.run_alone(memory),
        };
        ran.map_err(|error| {
            // The machine checks all memory before it runs; it doesn't know the tensors' names.
            let named = if let MachineError::Fault(_) = error { Ok(()) } else { self.check_operands(inputs, outputs) };
            named.err().unwrap_or_else(|| from_machine_error(error))
        })
    }

    /// Checks a user's memory: the number of operands, their sizes and their alignment.
    fn check_operands<I: Readable, O: Writable>(&self, given: &[I], written: &[O]) -> Result<(), Error> {
        let own = |input: usize| !self.graph.outputs().iter().any(|output| output.in_place == Some(input as u32));
        let inputs = (0..self.inputs.len()).filter(|&input| own(input)).count();
        let counts = [("inputs", inputs, given.len()), ("outputs", self.outputs.len(), written.len())];
        for (what, expected, given) in counts {
            if expected != given {
                return Err(Error::Count { what, expected, given });
            }
        }
        let own_inputs = self.graph.inputs().iter().zip(&self.inputs).enumerate().filter(|(input, _)| own(*input));
        for ((_, (input, layout)), memory) in own_inputs.zip(given) {
            check_memory(&input.name, input.dtype, layout, (memory.start().addr(), memory.len()))?;
        }
        for ((output, layout), memory) in self.graph.outputs().iter().zip(&self.outputs).zip(written) {
            check_memory(&output.name, output.dtype, layout, (memory.address(), memory.len()))?;
        }
        Ok(())
    }

    /// Evaluates the uniform values with the oracle.
    fn evaluate(&mut self, scalars: &[Value]) -> Result<(), Error> {
        let expected = self.graph.scalars().len();
        if scalars.len() != expected {
            return Err(Error::Count { what: "scalars", expected, given: scalars.len() });
        }
        // Most calls have the scalars of the call before.
        if self.evaluated && self.scalars.iter().zip(scalars).all(|(known, given)| known.is_same(*given)) {
            return Ok(());
        }
        self.evaluated = false;
        for (place, node) in self.graph.nodes().iter().enumerate().filter(|(place, _)| self.uniform[*place]) {
            let mut operands = [Value::Int(0); 3];
            let ids = node.kind.operands();
            for (operand, id) in operands.iter_mut().zip(ids.iter()) {
                *operand = self.values[id.index()];
            }
            self.values[place] = match node.kind {
                Kind::Scalar(slot) => node.dtype.cast(scalars[slot as usize]),
                Kind::Constant(bits) => node.dtype.decode(bits),
                kind => {
                    let carried = ids.last().map_or(node.dtype, |id| self.graph.nodes()[id.index()].dtype).carrier();
                    apply(kind, node.dtype, carried, &operands[..ids.len()], Precision::Carried)
                }
            };
        }
        for (cell, &node) in self.machine.uniforms().iter_mut().zip(&self.uniforms) {
            *cell = self.graph.nodes()[node].dtype.carrier().encode(self.values[node]);
        }
        self.scalars.clear();
        self.scalars.extend_from_slice(scalars);
        self.evaluated = true;
        Ok(())
    }
}

/// A machine's error as a user's error.
fn from_machine_error(error: MachineError) -> Error {
    match error {
        MachineError::Fault(fault) => Error::Fault(fault),
        other => Error::Internal(other.to_string()),
    }
}

/// Checks that memory (its address and its bytes) holds all elements of a layout and is aligned to them.
fn check_memory(name: &str, dtype: DType, layout: &Layout, (address, bytes): (usize, usize)) -> Result<(), Error> {
    let Some((_, last)) = layout.span() else { return Ok(()) };
    let needed = last.saturating_add(1).saturating_mul(dtype.bytes());
    let bytes = bytes as u64;
    if bytes < needed {
        return Err(Error::Short { name: name.to_owned(), bytes, needed });
    }
    if !(address as u64).is_multiple_of(dtype.bytes()) {
        return Err(Error::Misaligned { name: name.to_owned(), address, dtype });
    }
    Ok(())
}
