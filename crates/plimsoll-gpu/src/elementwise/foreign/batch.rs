//! Batches of tensors of other libraries.

use std::sync::Arc;

use plimsoll_expr::{ForeignSet, Graph};

use super::super::backend::Elementwise;
use super::super::batch::{Batch, BatchOptions, BatchSet};
use super::super::checks::tensor_name;
use super::super::error::Error;
use super::super::expression::Expression;
use super::super::operand::Operand;
use super::{check_tensors, place_outputs};

/// Whether a batch's set already consists of these tensors.
fn is_same<G: Elementwise>(graph: &Graph, set: &BatchSet<G>, given: &ForeignSet<'_>) -> bool {
    set.group == given.group
        && check_tensors(graph, given.tensors.len()).is_ok()
        && set.operands().zip(place_outputs(graph, given.tensors)).all(|(known, tensor)| known.is_same_foreign(tensor))
}

/// # Safety
/// That of [`Operand::from_foreign`], for each of the tensors.
unsafe fn make_sets<G: Elementwise>(graph: &Graph, sets: &[ForeignSet<'_>]) -> Result<Vec<BatchSet<G>>, Error> {
    let make = |set: &ForeignSet<'_>| {
        check_tensors(graph, set.tensors.len())?;
        let operand = |(place, tensor)| {
            // SAFETY: the caller promises it.
            let operand = unsafe { Operand::from_foreign(tensor) };
            operand.map_err(|error| Error::Shape { name: tensor_name(graph, place), error })
        };
        let all = place_outputs(graph, set.tensors).enumerate().map(operand);
        let mut inputs = all.collect::<Result<Vec<_>, Error>>()?;
        let outputs = inputs.split_off(graph.inputs().len());
        Ok(BatchSet::new(inputs, outputs).in_group(set.group))
    };
    sets.iter().map(make).collect()
}

impl<G: Elementwise> Expression<G> {
    /// As [`Expression::batch`], for tensors of other libraries. `stream` is one of ours: a table of many sets is copied in it, and
    /// waited for. Other libraries notice nothing, as with [`Expression::run_foreign`].
    ///
    /// # Safety
    /// That of [`Expression::run_foreign`] for each launch of the batch: nothing is held, so the memory of the tensors given last lives
    /// until the launches' work has ended, and as long as recordings of them.
    ///
    /// # Errors
    /// Those of [`Expression::batch`] and [`Expression::run_foreign`].
    pub unsafe fn batch_foreign(
        &self,
        sets: &[ForeignSet<'_>],
        options: &BatchOptions<'_, G>,
        stream: &Arc<G::Stream>,
    ) -> Result<Batch<G>, Error> {
        // SAFETY: the caller promises it.
        let sets = unsafe { make_sets(self.graph(), sets) }?;
        G::visit(self.engine().compiler(), || self.batch(&sets, options, stream))?
    }
}

impl<G: Elementwise> Batch<G> {
    /// Replaces the tensors, as [`Batch::update`] does, and returns whether they differ from those before. If not, nothing is allocated
    /// or copied: it only compares. Old tables of many sets are freed every few updates, which waits for the device. Update before a
    /// recording, not in it.
    ///
    /// # Safety
    /// That of [`Expression::batch_foreign`].
    ///
    /// # Errors
    /// Those of [`Expression::batch_foreign`].
    pub unsafe fn update_foreign(&mut self, sets: &[ForeignSet<'_>], stream: &Arc<G::Stream>) -> Result<bool, Error> {
        let known = self.sets();
        if known.len() == sets.len() && known.iter().zip(sets).all(|(set, given)| is_same(self.graph(), set, given)) {
            return Ok(false);
        }
        // SAFETY: the caller promises it.
        let sets = unsafe { make_sets(self.graph(), sets) }?;
        let engine = self.engine().clone();
        G::visit(engine.compiler(), || self.replace(&sets, stream))??;
        Ok(true)
    }

    /// Launches it asynchronously in the order of a stream of another library, by the driver's handle, as
    /// [`Expression::run_foreign`] does. Allocates nothing. A recording by the other library may contain it; then a table of many sets
    /// stays allocated until the process ends.
    ///
    /// # Safety
    /// That of [`Expression::run_foreign`], also for memory of this crate among the batch's tensors.
    ///
    /// # Errors
    /// Those of the backend.
    pub unsafe fn enqueue_foreign(&self, stream: u64) -> Result<(), Error> {
        // SAFETY: the caller promises it. The batch holds its table, whose free waits for the device.
        unsafe { self.bound().enqueue_foreign(self.engine().compiler(), stream) }
    }
}
