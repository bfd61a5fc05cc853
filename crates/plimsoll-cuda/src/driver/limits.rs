//! Limits of a context that change how the second-level cache works for all that follows: how much of it is set aside for
//! lines that persist, and how much memory may be fetched at once. A guard puts back what it found.

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
    /// Every one that plimsoll ever changes.
    pub const ALL: [Self; 2] = [Self::FetchGranularity, Self::PersistingL2];

    /// What a person calls it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::FetchGranularity => "most bytes that the L2 fetches at once",
            Self::PersistingL2 => "L2 set aside for persisting lines",
        }
    }
}

impl Context {
    /// A limit in force, bytes.
    ///
    /// # Errors
    /// The driver's: `CUDA_ERROR_UNSUPPORTED_LIMIT` where the device has none such.
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
        // SAFETY: a limit takes numbers alone; the context is current.
        self.watch(unsafe { self.call().limit_set(limit as u32, value) })
    }

    /// Makes every line of the second-level cache that persists an ordinary one.
    ///
    /// # Errors
    /// The driver's.
    pub fn reset_persisting(&self) -> Result<(), DriverError> {
        self.bind()?;
        // SAFETY: it takes nothing; the context is current.
        self.watch(unsafe { self.call().persisting_reset() })
    }
}

/// Holds a limit: until it is dropped, whatever ends its scope, the limit may be changed through it; then the limit is what
/// it was before, and no line of the second-level cache persists on its account.
#[derive(Debug)]
pub struct Held {
    context: Arc<Context>,
    limit: Limit,
    found: u64,
}

impl Held {
    /// Notes what the limit is.
    ///
    /// # Errors
    /// Those of [`Context::limit`].
    pub fn new(context: &Arc<Context>, limit: Limit) -> Result<Self, DriverError> {
        let found = context.limit(limit)?;
        Ok(Self { context: Arc::clone(context), limit, found })
    }

    /// What the limit was, bytes.
    #[must_use]
    pub fn found(&self) -> u64 {
        self.found
    }

    /// Asks for another value and returns the one that is in force then: the driver rounds as it likes.
    ///
    /// # Errors
    /// The driver's.
    pub fn set(&self, bytes: u64) -> Result<u64, DriverError> {
        self.context.set_limit(self.limit, bytes)?;
        self.context.limit(self.limit)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // A context that was given up takes its limits with it.
        if self.context.is_given_up() {
            return;
        }
        if self.limit == Limit::PersistingL2 {
            let _ = self.context.reset_persisting();
        }
        let _ = self.context.set_limit(self.limit, self.found);
    }
}

/// The limits as a device was found: what they must be again whenever a probe has ended.
#[derive(Clone, Debug, Default)]
pub struct Found(Vec<(Limit, u64)>);

impl Found {
    /// Reads those that the device has.
    ///
    /// # Errors
    /// The loss of the device.
    pub fn new(context: &Context) -> Result<Self, DriverError> {
        let mut found = Vec::new();
        for limit in Limit::ALL {
            match context.limit(limit) {
                Ok(value) => found.push((limit, value)),
                Err(error) if error.loses_the_device() => return Err(error),
                // An older device or driver: there is nothing to change.
                Err(_) => {}
            }
        }
        Ok(Self(found))
    }

    /// Whether all are what they were; those that aren't are put back.
    ///
    /// # Errors
    /// [`Fault::Panicked`] with each that was left changed; the driver's.
    pub fn holds(&self, context: &Context) -> Result<(), Fault> {
        let mut changed = Vec::new();
        for (limit, found) in &self.0 {
            let now = context.limit(*limit)?;
            if now != *found {
                changed.push(format!("{} was left at {now} B instead of {found} B", limit.name()));
                context.set_limit(*limit, *found)?;
            }
        }
        if changed.is_empty() { Ok(()) } else { Err(Fault::Panicked(changed.join("; "))) }
    }
}
