//! The block of 64-bit words that is a kernel's one parameter.

use super::plan::{Plan, PlanError};
use super::spec::Form;

/// Most words of the parameter block: 4 KiB, what every driver takes.
pub const MOST_WORDS: usize = 512;

impl Plan {
    /// Fills `words`, which is emptied before, with the launch's parameter: `starts` are the addresses of the elements of index
    /// 0 (memory plus offset) of all inputs, then of all outputs, and `scalars` the bits of the scalars in their declared types.
    /// Allocates nothing where `words` has been used before.
    ///
    /// # Errors
    /// If their numbers aren't the expression's, or an address isn't aligned as the plan was made for.
    pub fn words(&self, starts: &[u64], scalars: &[u64], words: &mut Vec<u64>) -> Result<(), PlanError> {
        if starts.len() != self.phases.len() || scalars.len() != self.scalars {
            return Err(PlanError::Count {
                tensors: self.phases.len(),
                scalars: self.scalars,
                given: (starts.len(), scalars.len()),
            });
        }
        for (tensor, (start, phase)) in starts.iter().zip(&self.phases).enumerate() {
            // A power of two, and a division is dear for one launch.
            if start & u64::from(self.alignment - 1) != u64::from(*phase) {
                return Err(PlanError::Phase { tensor, start: *start, phase: *phase, alignment: self.alignment });
            }
        }
        words.clear();
        if self.spec.form == Form::Batch {
            // The number of sets is no part of the text, so what comes before the addresses has a fixed length.
            words.extend_from_slice(scalars);
            words.extend_from_slice(&self.form_words);
            words.extend_from_slice(starts);
            words.resize(MOST_WORDS, 0);
        } else {
            words.extend_from_slice(starts);
            words.extend_from_slice(scalars);
            words.extend_from_slice(&self.form_words);
        }
        Ok(())
    }
}
