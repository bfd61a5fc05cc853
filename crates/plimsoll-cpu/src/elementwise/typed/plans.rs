//! The plans of an expression, prepared for the layouts of its calls.
//!
//! A plan has scratch memory, so only one call at a time uses it. There are several sets of plans. A thread prefers the same one
//! in every call, and takes another one if that is in use. If all are in use, the call prepares a plan of its own. So no call
//! waits for another one, nor, in a forked process, for a thread that doesn't exist there.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use plimsoll_expr::Layout;

use super::super::error::Error;
use super::super::prepared::Prepared;
use super::MOST_PLANS;
use crate::memory::{Source, Target};

/// How many calls of an expression can use prepared plans at once.
const SETS: usize = 8;

thread_local! {
    /// The set that this thread prefers.
    static PREFERRED: usize = {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        NEXT.fetch_add(1, Ordering::Relaxed) % SETS
    };
}

/// All plans of an expression.
#[derive(Default)]
pub(super) struct Plans([Separate; SETS]);

/// A set of plans on separate cache lines.
#[derive(Default)]
#[repr(align(128))]
struct Separate(Mutex<PlanSet>);

/// Plans that one call at a time uses.
#[derive(Debug, Default)]
pub(super) struct PlanSet {
    ready: Vec<Plan>,
    /// The index of the last call's plan.
    last: usize,
    /// Number of calls so far.
    calls: u64,
}

/// An expression prepared for these layouts.
#[derive(Debug)]
pub(super) struct Plan {
    /// The layouts of a call's tensors.
    pub(super) layouts: Vec<Layout>,
    pub(super) prepared: Prepared,
    /// Whether it runs only on the caller's thread.
    pub(super) alone: bool,
    /// The memory that each tensor reaches.
    pub(super) extents: Vec<Extent>,
    /// Room for the first address of each tensor of a call, and for its memory.
    pub(super) starts: Vec<usize>,
    pub(super) inputs: Vec<Source<'static>>,
    pub(super) outputs: Vec<Target<'static>>,
    /// The number of the last call that used it.
    used: u64,
}

/// The memory that a tensor reaches.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    /// Bytes before the element whose coordinates are all 0.
    pub(super) below: u64,
    /// Bytes from the first element to the end of the last.
    pub(super) bytes: usize,
}

impl Plans {
    /// Runs `body` with a set of plans that no other call uses meanwhile.
    pub(super) fn enter<R>(&self, body: impl FnOnce(&mut PlanSet) -> R) -> R {
        let preferred = PREFERRED.with(|preferred| *preferred);
        match (0..SETS).find_map(|next| self.try_lock((preferred + next) % SETS)) {
            Some(mut set) => body(&mut set),
            None => body(&mut PlanSet::default()),
        }
    }

    fn try_lock(&self, set: usize) -> Option<MutexGuard<'_, PlanSet>> {
        match self.0[set].0.try_lock() {
            Ok(set) => Some(set),
            // The plans stay usable after a panic.
            Err(TryLockError::Poisoned(poisoned)) => Some(PoisonError::into_inner(poisoned)),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

impl fmt::Debug for Plans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plans").finish_non_exhaustive()
    }
}

impl Plan {
    /// A plan for the layouts of a call's tensors, whose elements have `widths` bytes.
    pub(super) fn new(
        layouts: Vec<Layout>,
        widths: impl Iterator<Item = u64>,
        prepared: Prepared,
        alone: bool,
    ) -> Self {
        // The preparation checked that the layouts fit into memory.
        let extent = |(layout, width): (&Layout, u64)| Extent {
            below: layout.offset().saturating_mul(width),
            bytes: layout.memory(width).ok().and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(usize::MAX),
        };
        let extents = layouts.iter().zip(widths).map(extent).collect();
        let (starts, inputs, outputs) = (Vec::new(), Vec::new(), Vec::new());
        Self { layouts, prepared, alone, extents, starts, inputs, outputs, used: 0 }
    }
}

impl PlanSet {
    /// The plan whose layouts are a call's, or a new one, which replaces the least recently used one if there are too many.
    pub(super) fn find_or_insert(
        &mut self,
        is_it: impl Fn(&[Layout]) -> bool,
        prepare: impl FnOnce() -> Result<Plan, Error>,
    ) -> Result<&mut Plan, Error> {
        let matches = |place: &usize| self.ready.get(*place).is_some_and(|plan| is_it(&plan.layouts));
        let known = Some(self.last).filter(matches).or_else(|| (0..self.ready.len()).find(matches));
        self.last = match known {
            Some(place) => place,
            None => self.insert(prepare()?),
        };
        self.calls += 1;
        let plan = &mut self.ready[self.last];
        plan.used = self.calls;
        Ok(plan)
    }

    fn insert(&mut self, plan: Plan) -> usize {
        if self.ready.len() < MOST_PLANS {
            self.ready.push(plan);
            return self.ready.len() - 1;
        }
        let oldest = self.ready.iter().enumerate().min_by_key(|(_, plan)| plan.used).map_or(0, |(place, _)| place);
        self.ready[oldest] = plan;
        oldest
    }

    /// All plans.
    #[cfg(test)]
    pub(super) fn plans(&self) -> &[Plan] {
        &self.ready
    }
}
