//! A capability that this machine does not give, as a typed reason. What wanted it decides whether that is a fault.

use plimsoll_core::Fault;
use plimsoll_core::device::Capability;

/// What is missing, why, and what would bring it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {why}. {mend}")]
pub struct Unavailable {
    /// The capability, as a noun.
    pub what: &'static str,
    /// The reason found on this machine.
    pub why: String,
    /// What the user can do about it, as a sentence without its full stop.
    pub mend: String,
}

impl Unavailable {
    /// A reason from its three parts.
    pub fn new(what: &'static str, why: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { what, why: why.into(), mend: mend.into() }
    }
}

impl From<Unavailable> for Fault {
    fn from(reason: Unavailable) -> Self {
        Self::Unavailable { what: reason.what, why: reason.why, mend: reason.mend }
    }
}

/// A row of a device's capabilities: 'yes', or the reason why not.
#[must_use]
pub fn capability<T>(name: &str, found: &Result<T, Unavailable>) -> Capability {
    match found {
        Ok(_) => Capability::there(name),
        Err(reason) => Capability::missing(name, reason.why.as_str(), reason.mend.as_str()),
    }
}
