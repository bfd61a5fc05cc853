//! Reference counts for CUPTI's profiler: CUPTI has one switch for the whole process, so it stays on while any session exists. In
//! each context only one session counts at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use super::types::Initialize;
use super::{Cupti, WHAT};
use crate::driver::Context;
use plimsoll_gpu::Unavailable;

/// Users of each library, by [`Table::identity`](super::table::Table::identity): the same library may have been opened twice.
static USERS: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());

/// One user of the profiler; dropping the last user switches it off.
pub(super) struct Profiling {
    cupti: Arc<Cupti>,
    context: Arc<Context>,
}

impl Profiling {
    /// Switches the profiler on: from now on CUPTI has hooks in the driver.
    ///
    /// # Errors
    /// CUPTI refuses.
    pub(super) fn new(cupti: &Arc<Cupti>, context: &Arc<Context>) -> Result<Self, Unavailable> {
        let mut all = USERS.lock().unwrap_or_else(PoisonError::into_inner);
        let users = all.entry(cupti.table.identity()).or_default();
        if *users == 0 {
            // SAFETY: the call has no arguments besides its own size.
            unsafe { cupti.table.initialize(&mut Initialize::new()) }?;
        }
        *users += 1;
        Ok(Self { cupti: Arc::clone(cupti), context: Arc::clone(context) })
    }
}

impl Drop for Profiling {
    fn drop(&mut self) {
        // A hanging launch still uses the profiler, so it stays on for the rest of the process.
        if self.context.is_given_up() {
            return;
        }
        let mut all = USERS.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(users) = all.get_mut(&self.cupti.table.identity()) else { return };
        *users = users.saturating_sub(1);
        if *users == 0 {
            // SAFETY: the call has no arguments besides its own size. A failure can't be handled here.
            let _ = unsafe { self.cupti.table.deinitialize(&mut Initialize::new()) };
        }
    }
}

/// Contexts in which counting is under way, by the library's identity and the context's address.
static CLAIMED: Mutex<BTreeSet<(usize, usize)>> = Mutex::new(BTreeSet::new());

/// The right to count in a context, until it is dropped.
pub(super) struct Claim(Option<(usize, usize)>);

impl Claim {
    /// Claims the context: until it is dropped, no other claim on this context succeeds.
    ///
    /// # Errors
    /// Counting is already under way there: on another thread, or in an outer `count` around this launch.
    pub(super) fn new(cupti: &Cupti, context: &Context) -> Result<Self, Unavailable> {
        let key = (cupti.table.identity(), context.handle().0.addr());
        if CLAIMED.lock().unwrap_or_else(PoisonError::into_inner).insert(key) {
            return Ok(Self(Some(key)));
        }
        let why = "the device's counters are being read in this process already";
        Err(Unavailable::new(WHAT, why, "Read them one after another; if the error persists, restart the program"))
    }

    /// Never releases the claim, so that nothing counts in the context any more.
    pub(super) fn keep_forever(&mut self) {
        self.0 = None;
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some(key) = self.0 {
            CLAIMED.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
        }
    }
}
