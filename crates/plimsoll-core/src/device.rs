//! The description of a device, kept in the header of every run.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::health::Health;
use crate::unit::Unit;

/// One device as records describe it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceInfo {
    /// Its name on the command line: `cpu`, `cuda:0`, `sim`.
    pub selector: String,
    /// Stable identity (a GPU's UUID): the profile stores findings under it.
    pub id: String,
    /// The vendor's product name.
    pub name: String,
    /// The backend that drives it: `cpu`, `cuda`, `sim`.
    pub backend: String,
    /// Microarchitecture or compute capability, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    /// Driver or kernel version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Cores or SMs that take part in a measurement.
    #[serde(default)]
    pub multiprocessors: u32,
    /// Size of the device's memory, bytes.
    #[serde(default)]
    pub memory_total: u64,
    /// Memory that was free when the run began, bytes.
    #[serde(default)]
    pub memory_free: u64,
    /// Caches, smallest level first.
    #[serde(default)]
    pub caches: Vec<CacheInfo>,
    /// Theoretical peaks with their source.
    #[serde(default)]
    pub peaks: Vec<Peak>,
    /// What the device and this process can do, each with 'yes' or the reason why not.
    #[serde(default)]
    pub capabilities: Vec<Capability>,
    /// Figures of the timer and an empty launch, measured before the run.
    #[serde(default)]
    pub calibration: Calibration,
    /// What the system reports about its health.
    #[serde(default, skip_serializing_if = "Health::is_empty")]
    pub health: Health,
    /// Anything else worth keeping (power limit, ECC mode, governor), by name.
    #[serde(default)]
    pub notes: BTreeMap<String, String>,
}

impl DeviceInfo {
    /// The largest data cache, bytes; 0 where none is known.
    #[must_use]
    pub fn last_level_cache(&self) -> u64 {
        self.caches.iter().map(|cache| cache.bytes).max().unwrap_or(0)
    }

    /// Bytes per operand that a rotation must touch to count as cold: max(512 MiB, 5 × last-level cache).
    #[must_use]
    pub fn cold_window(&self) -> u64 {
        self.last_level_cache().saturating_mul(5).max(512 << 20)
    }

    /// The theoretical peak named `metric`, in that metric's base unit.
    #[must_use]
    pub fn peak(&self, metric: &str) -> Option<&Peak> {
        self.peaks.iter().find(|peak| peak.metric == metric)
    }
}

/// A data cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CacheInfo {
    /// `L1`, `L2`, `L3`.
    pub level: String,
    /// Capacity in bytes of one instance, as the first core sees it. For a CPU's last level, where several processors share
    /// an instance: the sum over all instances that the measuring cores use.
    pub bytes: u64,
    /// Cache line length, bytes.
    pub line: u32,
    /// Logical processors or SMs that share one instance.
    pub shared_by: u32,
}

/// A theoretical peak.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Peak {
    /// The metric it limits: `bandwidth`, `f32`, `f64`.
    pub metric: String,
    /// In `unit`.
    pub value: f64,
    /// A base unit.
    pub unit: Unit,
    /// Its source: a formula or a document.
    pub source: String,
}

/// A capability that a device may or may not offer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Capability {
    /// Its name, as a noun.
    pub name: String,
    /// Why it is unavailable; empty where it is available.
    #[serde(default)]
    pub why_not: String,
    /// How to make it available; empty where it is.
    #[serde(default, alias = "mend")]
    pub hint: String,
}

impl Capability {
    /// A capability that the device has.
    #[must_use]
    pub fn available(name: impl Into<String>) -> Self {
        Self { name: name.into(), why_not: String::new(), hint: String::new() }
    }

    /// A capability that the device lacks, why, and how to get it.
    #[must_use]
    pub fn missing(name: impl Into<String>, why_not: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { name: name.into(), why_not: why_not.into(), hint: hint.into() }
    }

    /// Whether the device has it.
    #[must_use]
    pub fn is_available(&self) -> bool {
        self.why_not.is_empty()
    }
}

/// 'yes', or 'no' and the reason.
impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_available() { f.write_str("yes") } else { write!(f, "no: {}", self.why_not) }
    }
}

/// Figures of the timer and the clock, measured before anything else.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Calibration {
    /// Seconds per tick of the raw samples.
    pub tick: f64,
    /// Smallest non-zero difference that the timer shows, seconds.
    pub resolution: f64,
    /// Two reads of the timer with nothing between, seconds.
    pub overhead: f64,
    /// An empty launch, seconds.
    pub empty_launch: f64,
    /// Core clock without other load, hertz; `None` where it can't be measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_hz: Option<f64>,
}
