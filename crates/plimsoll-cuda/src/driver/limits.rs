//! Limits of a context that change how the L2 works from then on: how much of it is set aside for persisting lines, and how many
//! bytes may be fetched at once. A guard restores the original value.

use std::sync::Arc;

use plimsoll_core::Fault;

use super::{Context, DriverError};

/// A limit by its number in cuda.h, `CUlimit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Limit {
    /// `CU_LIMIT_MAX_L2_FETCH_GRANULARITY`, bytes: a hint.
    FetchGranularity = 5,
    /// `CU_LIMIT_PERSISTING_L2_CACHE_SIZE`, bytes set aside (compute capability 8.0).
    PersistingL2 = 6,
}

impl Limit {
    /// Every limit that plimsoll changes.
    pub const ALL: [Self; 2] = [Self::FetchGranularity, Self::PersistingL2];

    /// Its name in messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::FetchGranularity => "maximum L2 fetch granularity",
            Self::PersistingL2 => "L2 set aside for persisting lines",
        }
    }
}

impl Context {
    /// The current value of a limit, bytes.
    ///
    /// # Errors
    /// `CUDA_ERROR_UNSUPPORTED_LIMIT` if the device has no such limit.
    pub fn limit(&self, limit: Limit) -> Result<u64, DriverError> {
        self.bind()?;
        let mut value = 0_usize;
        // SAFETY: the value is written to a live integer; the context is current.
        self.watch(unsafe { self.call().limit_get(&raw mut value, limit as u32) })?;
        Ok(value as u64)
    }

    fn set_limit(&self, limit: Limit, bytes: u64) -> Result<(), DriverError> {
        self.bind()?;
        let value = usize::try_from(bytes).unwrap_or(usize::MAX);
        // SAFETY: the call takes only numbers; the context is current.
        self.watch(unsafe { self.call().limit_set(limit as u32, value) })
    }

    /// Makes all persisting lines of the L2 ordinary ones.
    pub fn reset_persisting(&self) -> Result<(), DriverError> {
        self.bind()?;
        // SAFETY: the call has no arguments; the context is current.
        self.watch(unsafe { self.call().persisting_reset() })
    }
}

/// Changes a limit and restores its original value on drop; for [`Limit::PersistingL2`] it also resets persisting lines.
#[derive(Debug)]
pub struct LimitGuard {
    context: Arc<Context>,
    limit: Limit,
    original: u64,
}

impl LimitGuard {
    /// Reads the original value.
    ///
    /// # Errors
    /// Those of [`Context::limit`].
    pub fn new(context: &Arc<Context>, limit: Limit) -> Result<Self, DriverError> {
        let original = context.limit(limit)?;
        Ok(Self { context: Arc::clone(context), limit, original })
    }

    /// The original value, bytes.
    #[must_use]
    pub fn original(&self) -> u64 {
        self.original
    }

    /// Requests a value and returns the resulting one: the driver may round.
    pub fn set(&self, bytes: u64) -> Result<u64, DriverError> {
        self.context.set_limit(self.limit, bytes)?;
        self.context.limit(self.limit)
    }
}

impl Drop for LimitGuard {
    fn drop(&mut self) {
        // The limits of a context that was given up don't matter any more.
        if self.context.is_given_up() {
            return;
        }
        if self.limit == Limit::PersistingL2 {
            let _ = self.context.reset_persisting();
        }
        let _ = self.context.set_limit(self.limit, self.original);
    }
}

/// The values of all limits when a device was opened. They must be the same after every probe.
#[derive(Clone, Debug, Default)]
pub struct SavedLimits(Vec<(Limit, u64)>);

impl SavedLimits {
    /// Reads the limits that the device has.
    ///
    /// # Errors
    /// The device is lost.
    pub fn new(context: &Context) -> Result<Self, DriverError> {
        let mut saved = Vec::new();
        for limit in Limit::ALL {
            match context.limit(limit) {
                Ok(value) => saved.push((limit, value)),
                Err(error) if error.is_device_lost() => return Err(error),
                // An older device or driver lacks the limit.
                Err(_) => {}
            }
        }
        Ok(Self(saved))
    }

    /// Restores limits that have changed.
    ///
    /// # Errors
    /// [`Fault::Panicked`] naming each limit that had changed.
    pub fn restore(&self, context: &Context) -> Result<(), Fault> {
        let mut changed = Vec::new();
        for (limit, saved) in &self.0 {
            let now = context.limit(*limit)?;
            if now != *saved {
                changed.push(format!("{} was left at {now} B instead of {saved} B", limit.name()));
                context.set_limit(*limit, *saved)?;
            }
        }
        if changed.is_empty() { Ok(()) } else { Err(Fault::Panicked(changed.join("; "))) }
    }
}
