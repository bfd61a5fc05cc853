//! What can go wrong while measuring, as types that say what was asked, why it failed and the way out.

/// Why a probe, a point or a run ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// A capability that this machine does not give: what is missing, why, and what would bring it.
    #[error("{what}: {why}. {mend}")]
    Unavailable {
        /// The capability, as a noun.
        what: &'static str,
        /// The reason found on this machine.
        why: String,
        /// What the user can do about it, as a sentence without its full stop.
        mend: String,
    },
    /// An allocation that the device refused.
    #[error("out of memory: asked for {asked} bytes where {free} are free")]
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
    /// A probe panicked; its message.
    #[error("internal error: {0}")]
    Panicked(String),
    /// The record could not be written.
    #[error("can't write the record: {0}")]
    Sink(#[from] std::io::Error),
}

impl Fault {
    /// The word that records use for this kind of fault.
    #[must_use]
    pub fn class(&self) -> &'static str {
        match self {
            Self::Unavailable { .. } => "unavailable",
            Self::OutOfMemory { .. } => "out_of_memory",
            Self::DeviceLost { .. } => "device_lost",
            Self::Hung { .. } => "hung",
            Self::Stopped => "stopped",
            Self::Invalid(_) => "invalid",
            Self::Panicked(_) => "panicked",
            Self::Sink(_) => "sink",
        }
    }

    /// True where nothing more can be measured on this device.
    #[must_use]
    pub fn ends_the_device(&self) -> bool {
        matches!(self, Self::DeviceLost { .. } | Self::Hung { .. })
    }
}
