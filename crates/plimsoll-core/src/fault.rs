//! What can go wrong while measuring, as types that say what was asked, why it failed and the way out.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::unit::ByteSize;

/// Why a probe, a point or a run ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// A capability that this machine does not give: what is missing, why, and what would bring it.
    #[error("{what}: {why}. {hint}")]
    Unavailable {
        /// The capability, as a noun.
        what: &'static str,
        /// The reason found on this machine.
        why: String,
        /// What the user can do about it, as a sentence without its full stop.
        hint: String,
    },
    /// An allocation that the device refused.
    #[error("out of memory: asked for {} where {} are free", ByteSize(*asked), ByteSize(*free))]
    OutOfMemory {
        /// Bytes asked for.
        asked: u64,
        /// Bytes that were free at the time.
        free: u64,
    },
    /// The device stopped answering for good; nothing more can be measured on it.
    #[error("device lost in {call}: {why}")]
    DeviceLost {
        /// The call that reported it.
        call: &'static str,
        /// The device's own words or code.
        why: String,
    },
    /// A wait passed its deadline.
    #[error("no answer from {call} within {seconds} s")]
    Hung {
        /// What was waited for.
        call: &'static str,
        /// How long, in seconds.
        seconds: f64,
    },
    /// The user asked to stop.
    #[error("stopped by the user")]
    Stopped,
    /// A request that can't be measured as stated (a size that overflows, zero bytes).
    #[error("{0}")]
    Invalid(String),
    /// A probe panicked, or left the device changed; what is wrong.
    #[error("internal error: {0}")]
    Panicked(String),
    /// The record could not be written: this ends the whole run. Made by sinks alone, so no other error of input and
    /// output becomes one by itself.
    #[error("can't write the record: {0}")]
    Sink(#[source] std::io::Error),
}

impl Fault {
    /// What kind of fault it is, as records say it.
    #[must_use]
    pub fn class(&self) -> FaultClass {
        match self {
            Self::Unavailable { .. } => FaultClass::Unavailable,
            Self::OutOfMemory { .. } => FaultClass::OutOfMemory,
            Self::DeviceLost { .. } => FaultClass::DeviceLost,
            Self::Hung { .. } => FaultClass::Hung,
            Self::Stopped => FaultClass::Stopped,
            Self::Invalid(_) => FaultClass::Invalid,
            Self::Panicked(_) => FaultClass::Panicked,
            Self::Sink(_) => FaultClass::Sink,
        }
    }

    /// True where nothing more can be measured on this device.
    #[must_use]
    pub fn ends_the_device(&self) -> bool {
        matches!(self, Self::DeviceLost { .. } | Self::Hung { .. })
    }
}

/// The kinds of fault that a record can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FaultClass {
    /// [`Fault::Unavailable`].
    Unavailable,
    /// [`Fault::OutOfMemory`].
    OutOfMemory,
    /// [`Fault::DeviceLost`].
    DeviceLost,
    /// [`Fault::Hung`].
    Hung,
    /// [`Fault::Stopped`].
    Stopped,
    /// [`Fault::Invalid`].
    Invalid,
    /// [`Fault::Panicked`].
    Panicked,
    /// [`Fault::Sink`].
    Sink,
    /// A kernel's result was wrong; its point is kept with `VERIFY_FAIL`.
    Verify,
    /// Of a later version.
    #[serde(other)]
    Unknown,
}

impl FaultClass {
    /// The word used in records.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unavailable => "unavailable",
            Self::OutOfMemory => "out_of_memory",
            Self::DeviceLost => "device_lost",
            Self::Hung => "hung",
            Self::Stopped => "stopped",
            Self::Invalid => "invalid",
            Self::Panicked => "panicked",
            Self::Sink => "sink",
            Self::Verify => "verify",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for FaultClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
