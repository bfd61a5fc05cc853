//! An expression on the CPU without types, and the plans prepared for the layouts of its calls.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use plimsoll_expr::cost::{Class, Cost};
use plimsoll_expr::graph::{MAX_INPUTS, MAX_OUTPUTS};
use plimsoll_expr::{DType, Graph, Layout, Value};

use super::super::error::Error;
use super::super::prepared::{Prepared, Program};
use super::operand::{Operand, Operands};
use super::{MOST_PLANS, SMALL, Shared};
use crate::threads::SharedTeam;
use crate::timer::Timer;

/// Bytes that move within a core's caches in the time of a function of f32: tanh took a nanosecond, in which 23 bytes moved (same
/// machine as for `SMALL`).
const FUNCTION: u64 = 24;
/// As [`FUNCTION`], for functions of f64, which take 2 to 12 ns.
const DOUBLE_FUNCTION: u64 = 5 * FUNCTION;

/// An expression on a [`super::Cpu`], of any number of tensors, whose types are checked in each call. Clones have separate plans.
pub struct Expression {
    program: Arc<Program>,
    shared: Arc<Shared>,
    /// The cost of an element in bytes.
    weight: u64,
    pub(super) plans: Mutex<Plans>,
}

/// The prepared plans, and a team of one for small calls.
#[derive(Debug, Default)]
pub(super) struct Plans {
    pub(super) ready: Vec<PreparedPlan>,
    /// The index of the last call's plan.
    last: usize,
    /// Number of calls so far.
    calls: u64,
    alone: Option<SharedTeam>,
}

/// An expression prepared for these layouts.
#[derive(Debug)]
pub(super) struct PreparedPlan {
    pub(super) layouts: Vec<Layout>,
    prepared: Prepared,
    /// Whether it runs only on the caller's thread.
    pub(super) alone: bool,
    /// The number of the last call that used it.
    used: u64,
}

impl Plans {
    /// The index of the plan for a call's layouts.
    fn find(&self, operands: &Operands<'_, '_>) -> Option<usize> {
        let is_it = |place: &usize| self.ready.get(*place).is_some_and(|ready| operands.has_layouts(&ready.layouts));
        Some(self.last).filter(is_it).or_else(|| (0..self.ready.len()).find(is_it))
    }

    /// Adds a plan, replacing the least recently used one if there are too many. Returns its index.
    fn insert(&mut self, ready: PreparedPlan) -> usize {
        if self.ready.len() < MOST_PLANS {
            self.ready.push(ready);
            return self.ready.len() - 1;
        }
        let oldest = self.ready.iter().enumerate().min_by_key(|(_, ready)| ready.used).map_or(0, |(place, _)| place);
        self.ready[oldest] = ready;
        oldest
    }
}

impl Clone for Expression {
    fn clone(&self) -> Self {
        let (program, shared) = (Arc::clone(&self.program), Arc::clone(&self.shared));
        Self { program, shared, weight: self.weight, plans: Mutex::default() }
    }
}

impl fmt::Debug for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Expression").field("graph", self.graph()).finish_non_exhaustive()
    }
}

impl Expression {
    pub(super) fn new(graph: &Graph, shared: &Arc<Shared>) -> Self {
        let (program, weight) = (Arc::new(Program::new(graph)), weight(graph));
        Self { program, shared: Arc::clone(shared), weight, plans: Mutex::default() }
    }

    /// The expression itself.
    #[must_use]
    pub fn graph(&self) -> &Graph {
        self.program.graph()
    }

    /// Runs it and returns when all outputs are written. `operands` are the inputs in their order, then the outputs that aren't
    /// written in place; an input that is written in place must be writable. Allocates nothing if the layouts are those of an
    /// earlier call.
    ///
    /// # Errors
    /// If the number, types, shapes or sizes of the tensors are wrong (then nothing was written), or there is too little memory
    /// for the scratch memory of new layouts.
    pub fn run<'s>(&self, operands: impl IntoIterator<Item = Operand<'s>>, scalars: &[Value]) -> Result<(), Error> {
        let mut tensors = [const { None }; MAX_INPUTS + MAX_OUTPUTS];
        let mut count = 0;
        for operand in operands {
            if let Some(slot) = tensors.get_mut(count) {
                *slot = Some(operand);
            }
            count += 1;
        }
        let graph = self.graph();
        let inputs = graph.inputs().len();
        if count > tensors.len() {
            let results = graph.outputs().iter().filter(|output| output.in_place.is_none()).count();
            return Err(Error::Count { what: "inputs and outputs", expected: inputs + results, given: count });
        }
        self.launch(Operands { tensors: &mut tensors[..count], inputs: inputs.min(count) }, scalars)
    }

    /// Runs it on a call's tensors and scalars.
    pub(super) fn launch(&self, operands: Operands<'_, '_>, scalars: &[Value]) -> Result<(), Error> {
        let graph = self.program.graph();
        operands.check(graph, scalars.len())?;
        // The plans stay usable after a panic.
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        plans.calls += 1;
        let now = plans.calls;
        let place = match plans.find(&operands) {
            Some(place) => place,
            None => {
                let ready = self.prepare(&operands, now)?;
                plans.insert(ready)
            }
        };
        plans.last = place;
        let Plans { ready, alone, .. } = &mut *plans;
        let ready = &mut ready[place];
        ready.used = now;
        let mut memories = operands.memories(graph)?;
        let (inputs, outputs) = memories.parts();
        let team = match (ready.alone, alone) {
            (false, _) => &self.shared.team,
            (true, Some(alone)) => alone,
            (true, alone) => alone.insert(SharedTeam::new(&[self.shared.cpu], Timer::Os)?),
        };
        team.enter(|team| ready.prepared.run_typed(team, inputs, outputs, scalars))
    }

    /// Prepares it for a call's layouts.
    fn prepare(&self, operands: &Operands<'_, '_>, used: u64) -> Result<PreparedPlan, Error> {
        let graph = self.program.graph();
        let layouts = operands.layouts()?;
        let (inputs, results) = layouts.split_at(graph.inputs().len());
        let mut results = results.iter();
        let output = |in_place: Option<u32>| match in_place {
            Some(input) => inputs.get(input as usize),
            None => results.next(),
        };
        let places = graph.outputs().iter().map(|output| output.in_place);
        let outputs: Vec<Layout> = places.filter_map(output).cloned().collect();
        let elements = outputs.first().map_or(0, Layout::elements);
        let threads = self.shared.team.size();
        let alone = threads == 1 || elements.saturating_mul(self.weight) <= SMALL;
        let how = self.shared.how(if alone { 1 } else { threads });
        let prepared = self.program.prepare(inputs, &outputs, &how)?;
        Ok(PreparedPlan { layouts, prepared, alone, used })
    }
}

/// The cost of an element in bytes: its traffic, plus the time of functions converted to bytes.
fn weight(graph: &Graph) -> u64 {
    let cost = Cost::from_graph(graph);
    let time = |((class, dtype), count): (&(Class, DType), &u64)| match class {
        Class::Function(_) if *dtype == DType::F32 => count * FUNCTION,
        Class::Function(_) => count * DOUBLE_FUNCTION,
        _ => 0,
    };
    cost.traffic.read + cost.traffic.written + cost.operations.iter().map(time).sum::<u64>()
}
