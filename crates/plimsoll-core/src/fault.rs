//! Errors of a measurement, as types that say what was requested, why it failed and what to do about it.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::unit::ByteSize;

/// Why a probe, a point or a run ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// A capability that this machine lacks.
    #[error("{what}: {why}. {hint}")]
    Unavailable {
        /// The capability, as a noun.
        what: &'static str,
        /// Why this machine lacks it.
        why: String,
        /// What the user can do about it, as a sentence without the full stop.
        hint: String,
    },
    /// An allocation that the device refused.
    #[error("out of memory{}", describe_sizes(*asked, *free))]
    OutOfMemory {
        /// Bytes requested; 0 if unknown.
        asked: u64,
        /// Bytes free at the time, if known.
        free: Option<u64>,
    },
    /// The device stopped working for good; nothing more can be measured on it.
    #[error("device lost in {call}: {why}")]
    DeviceLost {
        /// The call that reported it.
        call: &'static str,
        /// The device's error message or code.
        why: String,
    },
    /// A wait passed its deadline.
    #[error("no answer from {call} within {seconds} s")]
    Hung {
        /// The call that did not return in time.
        call: &'static str,
        /// How long it was waited for, seconds.
        seconds: f64,
    },
    /// The user asked to stop.
    #[error("stopped by the user")]
    Stopped,
    /// A request that can't be measured (a size that overflows, zero bytes).
    #[error("{0}")]
    Invalid(String),
    /// A probe panicked or left the device changed; the message.
    #[error("internal error: {0}")]
    Panicked(String),
    /// The record could not be written: this ends the whole run. Only sinks construct it; there is no `From<io::Error>`, so
    /// other I/O errors don't turn into it by accident.
    #[error("can't write the record: {0}")]
    Sink(#[source] std::io::Error),
}

/// `: 8 GiB requested, 1 GiB free`, as far as known.
fn describe_sizes(asked: u64, free: Option<u64>) -> String {
    let asked = (asked > 0).then(|| format!("{} requested", ByteSize(asked)));
    let free = free.map(|free| format!("{} free", ByteSize(free)));
    let known: Vec<String> = asked.into_iter().chain(free).collect();
    if known.is_empty() { String::new() } else { format!(": {}", known.join(", ")) }
}

impl Fault {
    /// The kind of fault, as records name it.
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
    /// A kernel's result was wrong; its point is kept with the flag `VERIFY_FAIL`.
    Verify,
    /// From a later version.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn out_of_memory_states_only_known_sizes() {
        let message = |asked, free| Fault::OutOfMemory { asked, free }.to_string();
        assert_eq!(message(8 << 20, Some(0)), "out of memory: 8 MiB requested, 0 B free");
        assert_eq!(message(8 << 20, None), "out of memory: 8 MiB requested");
        assert_eq!(
            (message(0, Some(1 << 20)), message(0, None)),
            ("out of memory: 1 MiB free".into(), "out of memory".into())
        );
    }
}
