//! One expression over many sets of tensors of other libraries, such as an optimizer's step over all parameters.

use std::fmt;

#[cfg(feature = "cuda")]
use plimsoll_cuda::elementwise::{Batch, BatchOptions};
use plimsoll_expr::{ForeignSet, Value};

use super::super::error::Error;
use super::super::expression::{Expression, Form};
use super::Queue;

/// Computes an expression for many sets of tensors of other libraries. On a GPU one launch computes all of them; what it needs is made by
/// the first run and kept as long as the tensors stay the same.
pub struct Many {
    expression: Expression,
    #[cfg(feature = "cuda")]
    prepared: Option<Prepared>,
}

/// A batch with its number of groups.
#[cfg(feature = "cuda")]
struct Prepared {
    batch: Batch,
    groups: usize,
}

impl fmt::Debug for Many {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Many({:?})", self.expression)
    }
}

impl Expression {
    /// The expression over many sets of tensors of other libraries.
    #[must_use]
    pub fn many(&self) -> Many {
        Many {
            expression: self.clone(),
            #[cfg(feature = "cuda")]
            prepared: None,
        }
    }
}

impl Many {
    /// Runs it on these sets, with the scalars of each group: on the CPU one after another, on a GPU all in one launch, in no order. There
    /// each tensor is contiguous and has the shape of its set's outputs (an input may have one element instead, then in every set), and
    /// no output shares memory with another set. A run with the tensors of the last one copies nothing to the GPU, whatever the scalars;
    /// for other tensors of more sets than fit into a launch's parameters it copies a table, and sometimes waits for the device. Such a run
    /// shouldn't be part of another library's recording.
    ///
    /// # Safety
    /// That of [`Expression::run_foreign`], for the tensors of all sets.
    ///
    /// # Errors
    /// Those of [`Expression::run_foreign`], with the number of the set on a GPU; a set of a group without scalars.
    pub unsafe fn run(&mut self, sets: &[ForeignSet<'_>], scalars: &[Vec<Value>], queue: Queue) -> Result<(), Error> {
        match &self.expression.form {
            #[cfg(feature = "cpu")]
            Form::Cpu(expression) => {
                super::check_cpu(queue)?;
                for set in sets {
                    // SAFETY: the caller promises it.
                    unsafe { expression.run_foreign(set.tensors, find_group(scalars, set.group)?) }?;
                }
                Ok(())
            }
            #[cfg(feature = "cuda")]
            Form::Gpu(expression) => {
                let device = &self.expression.device;
                let Some(stream) = device.as_gpu().map(|gpu| gpu.stream()) else { return Ok(()) };
                let raw = device.cuda_stream(queue);
                match self.prepared.as_mut().filter(|prepared| prepared.groups == scalars.len()) {
                    Some(prepared) => {
                        // SAFETY: the caller promises it.
                        unsafe { prepared.batch.update_foreign(sets, stream) }?;
                        for (group, values) in scalars.iter().enumerate() {
                            prepared.batch.set_scalars(group, values)?;
                        }
                    }
                    None => {
                        let options = BatchOptions { scalars, ..BatchOptions::default() };
                        // SAFETY: the caller promises it.
                        let batch = unsafe { expression.batch_foreign(sets, &options, stream) }?;
                        self.prepared = Some(Prepared { batch, groups: scalars.len() });
                    }
                }
                let Some(prepared) = &self.prepared else { return Ok(()) };
                // SAFETY: the caller promises it; the device's stream lives as long as the device.
                Ok(unsafe { prepared.batch.enqueue_foreign(raw) }?)
            }
        }
    }
}

/// The scalars of a group; an expression without scalars needs none.
#[cfg(feature = "cpu")]
fn find_group(scalars: &[Vec<Value>], group: usize) -> Result<&[Value], Error> {
    match scalars.get(group) {
        Some(values) => Ok(values),
        None if scalars.is_empty() => Ok(&[]),
        None => {
            let (expected, given) = (scalars.len() as u64, group as u64 + 1);
            Err(Error::Length { what: "groups of scalars", expected, given })
        }
    }
}
