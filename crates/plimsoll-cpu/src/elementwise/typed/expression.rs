//! An expression on the CPU without types, and the plans prepared for the layouts of its calls.

use std::fmt;
use std::sync::Arc;

use plimsoll_expr::cost::{Class, Cost};
use plimsoll_expr::graph::{MAX_INPUTS, MAX_OUTPUTS};
use plimsoll_expr::{DType, Graph, Layout, Value};

use super::super::error::Error;
use super::super::prepared::Program;
use super::operand::{Operand, Operands};
use super::plans::{Plan, Plans};
use super::{SMALL, Shared};
use crate::memory::{Source, Target};

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
    pub(super) plans: Plans,
}

impl Clone for Expression {
    fn clone(&self) -> Self {
        let (program, shared) = (Arc::clone(&self.program), Arc::clone(&self.shared));
        Self { program, shared, weight: self.weight, plans: Plans::default() }
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
        Self { program, shared: Arc::clone(shared), weight, plans: Plans::default() }
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
        self.plans.enter(|set| {
            let find = |layouts: &[Layout]| operands.has_layouts(layouts);
            let plan = set.find_or_insert(find, || self.prepare(operands.layouts()?))?;
            let mut memories = operands.memories(graph)?;
            let (inputs, outputs) = memories.parts();
            self.run_plan(plan, inputs, outputs, scalars)
        })
    }

    /// Runs a plan in the memory of the inputs that aren't written, and of the outputs, in the order of the graph.
    pub(super) fn run_plan(
        &self,
        plan: &mut Plan,
        inputs: &[Source<'_>],
        outputs: &mut [Target<'_>],
        scalars: &[Value],
    ) -> Result<(), Error> {
        let pool = (!plan.alone).then_some(&self.shared.pool);
        plan.prepared.run_call(pool, inputs, outputs, scalars)
    }

    /// Prepares it for a call's layouts.
    pub(super) fn prepare(&self, layouts: Vec<Layout>) -> Result<Plan, Error> {
        let graph = self.program.graph();
        let (inputs, results) = layouts.split_at(graph.inputs().len());
        let mut results = results.iter();
        let output = |in_place: Option<u32>| match in_place {
            Some(input) => inputs.get(input as usize),
            None => results.next(),
        };
        let places = graph.outputs().iter().map(|output| output.in_place);
        let outputs: Vec<Layout> = places.filter_map(output).cloned().collect();
        let elements = outputs.first().map_or(0, Layout::elements);
        let threads = self.shared.pool.size();
        let alone = threads == 1 || elements.saturating_mul(self.weight) <= SMALL;
        let how = self.shared.how(if alone { 1 } else { threads });
        let prepared = self.program.prepare(inputs, &outputs, &how)?;
        let results = graph.outputs().iter().filter(|output| output.in_place.is_none()).map(|output| output.dtype);
        let types = graph.inputs().iter().map(|input| input.dtype).chain(results);
        Ok(Plan::new(layouts, types.map(DType::bytes), prepared, alone))
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
