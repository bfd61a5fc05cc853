//! Calls on tensors and streams of other libraries, which nothing here holds or waits for.

mod batch;

use std::sync::Arc;

use plimsoll_expr::{Foreign, Graph, Value};
use plimsoll_gen::elementwise::Choose;

use super::backend::Elementwise;
use super::checks::{check_count, tensor_name};
use super::error::Error;
use super::expression::{Expression, Ready};
use super::key::hash;
use super::operand::{TensorRef, with_list};

/// All inputs, then all outputs, from the tensors of a call: inputs in order, then the outputs that aren't in place.
fn place_outputs<'t, T>(graph: &'t Graph, tensors: &'t [T]) -> impl Iterator<Item = &'t T> {
    let (inputs, results) = tensors.split_at(graph.inputs().len().min(tensors.len()));
    let mut results = results.iter();
    let output = move |in_place: Option<u32>| match in_place {
        Some(slot) => inputs.get(slot as usize),
        None => results.next(),
    };
    inputs.iter().chain(graph.outputs().iter().map(|output| output.in_place).filter_map(output))
}

/// Checks the number of a call's tensors.
fn check_tensors(graph: &Graph, given: usize) -> Result<(), Error> {
    let results = graph.outputs().iter().filter(|output| output.in_place.is_none()).count();
    check_count("tensors (inputs, then outputs that aren't in place)", graph.inputs().len() + results, given)
}

impl<G: Elementwise> Expression<G> {
    /// Launches the expression on tensors of other libraries, asynchronously in the order of a stream of another library. `tensors` are
    /// the inputs in order, then the outputs that aren't written in place; `stream` is the driver's handle (a `CUstream`; 0 is CUDA's
    /// legacy default stream, 1 and 2 are the driver's names of the default streams).
    ///
    /// A call with the layouts, and the alignment within 32 bytes, of an earlier one allocates nothing, and makes no call of the
    /// driver but the launch and, in CUDA, a look at the current context. Other calls plan and compile first. What is current on this
    /// thread afterwards is what was before. If the library is recording the stream, the launch becomes part of its recording; so does
    /// a first one, since compiling and loading break no recording. Two inputs may share memory; an output may be exactly an input of
    /// the same type, shape and strides.
    ///
    /// The kernel may become resident while the preceding one in the stream is ending, but accesses no memory before that one has
    /// ended and its stores are visible, whichever library launched it.
    ///
    /// # Safety
    /// - The engine's device can access each tensor's elements. No other work writes what this one reads, or accesses what this one
    ///   writes, unless the stream orders the two.
    /// - Nothing is held: the memory and the stream live until the work submitted now has ended, and the memory as long as any
    ///   recording that the launch became part of.
    /// - `stream` is a stream of the device's primary context. The kernel's code stays loaded until the process ends.
    /// - With [`Dependent::Start`](plimsoll_gen::elementwise::Dependent::Start) among the choices, a following kernel that may overlap
    ///   accesses nothing before its own wait.
    ///
    /// # Errors
    /// A wrong number, type, shape or address of a tensor, or an overlap, each with the tensor's name; those of the compiler and of
    /// the device.
    pub unsafe fn run_foreign(
        &self,
        tensors: &[Foreign<'_>],
        scalars: &[Value],
        choose: &Choose,
        stream: u64,
    ) -> Result<(), Error> {
        self.with_foreign(tensors, |tensors| {
            self.with_bits(scalars, |bits| {
                let ready = self.find_or_visit(tensors, bits, choose)?;
                if ready.work.is_none() {
                    return ready.fit.check_addresses(self.graph(), tensors, self.engine().compiler());
                }
                // SAFETY: the caller promises it.
                let mut entered = unsafe { G::enter_foreign(self.engine().compiler(), stream) }?;
                // SAFETY: the caller promises that the memory lives as long as the work and recordings of it.
                unsafe { self.launch_ready(&mut entered, &ready, tensors, bits) }
            })
        })
    }

    /// Plans, compiles and loads what [`Expression::run_foreign`] needs for such tensors, without accessing them. Plans depend
    /// only on layouts, types and the addresses' alignment.
    ///
    /// # Errors
    /// Those of [`Expression::run_foreign`], except of the launch.
    pub fn prepare_foreign(&self, tensors: &[Foreign<'_>], choose: &Choose) -> Result<(), Error> {
        let bits = vec![0; self.graph().scalars().len()];
        self.with_foreign(tensors, |tensors| self.find_or_visit(tensors, &bits, choose).map(drop))
    }

    /// Finds the plan, or makes it without other libraries noticing.
    fn find_or_visit(
        &self,
        tensors: &[TensorRef<'_, G>],
        bits: &[u64],
        choose: &Choose,
    ) -> Result<Arc<Ready<G>>, Error> {
        let hash = hash(tensors, choose);
        if let Some(ready) = self.find(hash, tensors, choose) {
            return Ok(ready);
        }
        G::visit(self.engine().compiler(), || self.prepare_and_keep(hash, tensors, bits, choose))?
    }

    /// Calls `task` with a call's tensors: inputs, then all outputs.
    fn with_foreign<R>(
        &self,
        tensors: &[Foreign<'_>],
        task: impl FnOnce(&[TensorRef<'_, G>]) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let graph = self.graph();
        check_tensors(graph, tensors.len())?;
        let named = |place| move |error| Error::Shape { name: tensor_name(graph, place), error };
        let all = place_outputs(graph, tensors).enumerate();
        let all = all.map(|(place, tensor)| TensorRef::from_foreign(tensor).map_err(named(place)));
        with_list(graph.inputs().len() + graph.outputs().len(), all, task)
    }
}
