//! A missing capability, as a typed reason. The caller decides whether that is a fault.

use plimsoll_core::Fault;
use plimsoll_core::device::Capability;

/// What is missing, why, and how to get it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {why}. {hint}")]
pub struct Unavailable {
    /// The capability, as a noun.
    pub what: &'static str,
    /// The reason found on this machine.
    pub why: String,
    /// What the user can do about it, as a sentence without its full stop.
    pub hint: String,
}

impl Unavailable {
    /// A reason from its three parts.
    pub fn new(what: &'static str, why: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { what, why: why.into(), hint: hint.into() }
    }
}

impl From<Unavailable> for Fault {
    fn from(reason: Unavailable) -> Self {
        Self::Unavailable { what: reason.what, why: reason.why, hint: reason.hint }
    }
}

/// A row in the list of a device's capabilities: present, or missing with the reason.
#[must_use]
pub fn capability<T>(name: &str, found: &Result<T, Unavailable>) -> Capability {
    match found {
        Ok(_) => Capability::available(name),
        Err(reason) => Capability::missing(name, reason.why.as_str(), reason.hint.as_str()),
    }
}
