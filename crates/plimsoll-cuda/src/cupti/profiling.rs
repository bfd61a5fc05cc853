//! The profiler's switch: CUPTI has one for the whole process, so it is on while anybody counts, whoever else begins or ends.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::Cupti;
use super::types::Initialize;
use crate::driver::Context;
use crate::unavailable::Unavailable;

/// Users of each library, by [`Table::identity`](super::table::Table::identity): the same library may have been opened twice.
static USERS: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());

/// One user of the profiler; the last one that goes switches it off.
pub(super) struct Profiling {
    cupti: Arc<Cupti>,
    context: Arc<Context>,
}

impl Profiling {
    /// Begins: from now on CUPTI has hooks in the driver.
    ///
    /// # Errors
    /// What CUPTI refuses.
    pub(super) fn new(cupti: &Arc<Cupti>, context: &Arc<Context>) -> Result<Self, Unavailable> {
        let mut all = USERS.lock().unwrap_or_else(PoisonError::into_inner);
        let users = all.entry(cupti.table.identity()).or_default();
        if *users == 0 {
            // SAFETY: the call takes nothing.
            unsafe { cupti.table.initialize(&mut Initialize::new()) }?;
        }
        *users += 1;
        Ok(Self { cupti: Arc::clone(cupti), context: Arc::clone(context) })
    }
}

impl Drop for Profiling {
    fn drop(&mut self) {
        // What hangs still uses the profiler: it stays on for good.
        if self.context.is_given_up() {
            return;
        }
        let mut all = USERS.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(users) = all.get_mut(&self.cupti.table.identity()) else { return };
        *users = users.saturating_sub(1);
        if *users == 0 {
            // SAFETY: the call takes nothing. A refusal leaves nothing to do.
            let _ = unsafe { self.cupti.table.deinitialize(&mut Initialize::new()) };
        }
    }
}
