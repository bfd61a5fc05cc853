//! A kernel's only parameter: a block of 64-bit words.

use super::plan::{Plan, PlanError};

/// Most words of the parameter block: 4 KiB, which every driver accepts.
pub const MOST_WORDS: usize = 512;

impl Plan {
    /// Replaces the content of `words` by the launch's parameter. `starts` are the addresses of the elements of index 0 (memory
    /// plus offset) of all inputs, then of all outputs; `scalars` are the bits of the scalars in their declared types.
    /// Allocates nothing if `words` has enough capacity.
    ///
    /// # Errors
    /// If the numbers of tensors or scalars don't match the expression, or an address isn't aligned as planned.
    pub fn words(&self, starts: &[u64], scalars: &[u64], words: &mut Vec<u64>) -> Result<(), PlanError> {
        if starts.len() != self.phases.len() || scalars.len() != self.scalars {
            return Err(PlanError::Count {
                tensors: self.phases.len(),
                scalars: self.scalars,
                given: (starts.len(), scalars.len()),
            });
        }
        for (tensor, (start, phase)) in starts.iter().zip(&self.phases).enumerate() {
            // The alignment is a power of two; a division would be noticeable in the cost of a launch.
            if start & u64::from(self.alignment - 1) != u64::from(*phase) {
                return Err(PlanError::Phase { tensor, start: *start, phase: *phase, alignment: self.alignment });
            }
        }
        words.clear();
        words.extend_from_slice(starts);
        words.extend_from_slice(scalars);
        words.extend_from_slice(&self.form_words);
        Ok(())
    }
}
