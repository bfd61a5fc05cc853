//! What a device says of itself: the part of a run's header that makes its figures trustworthy later.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::unit::Unit;

/// One device, as every record describes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceInfo {
    /// How the command line names it: `cpu`, `cuda:0`, `sim`.
    pub selector: String,
    /// Stable identity (a GPU's UUID): findings are kept under it.
    pub id: String,
    /// The maker's name for it.
    pub name: String,
    /// The backend that drives it: `cpu`, `cuda`, `sim`.
    pub backend: String,
    /// Microarchitecture or compute capability, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    /// Driver or kernel version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Cores or multiprocessors that take part in a measurement.
    #[serde(default)]
    pub multiprocessors: u32,
    /// Memory of the device, bytes.
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
    /// What the device and this process may do, each 'yes' or the reason why not.
    #[serde(default)]
    pub capabilities: Vec<Capability>,
    /// Figures of the timer and of an empty launch, measured before the run.
    #[serde(default)]
    pub calibration: Calibration,
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

    /// Bytes per operand that a rotation must touch before it may be called cold: max(512 MiB, 5 × last-level cache).
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
    /// Capacity, bytes: of one instance as the first core sees it. Of a CPU's last level, where several processors share
    /// an instance, that of all instances that the measuring cores use together.
    pub bytes: u64,
    /// Line length, bytes.
    pub line: u32,
    /// Logical processors or multiprocessors that share one instance.
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
    /// Where it comes from: a formula or a document.
    pub source: String,
}

/// One thing that a device may or may not offer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Capability {
    /// The capability, as a noun.
    pub name: String,
    /// Empty where it is there; else the reason why not.
    #[serde(default)]
    pub why_not: String,
    /// What would bring it; empty where it is there.
    #[serde(default, rename = "mend")]
    pub hint: String,
}

impl Capability {
    /// One that is there.
    #[must_use]
    pub fn there(name: impl Into<String>) -> Self {
        Self { name: name.into(), why_not: String::new(), hint: String::new() }
    }

    /// One that is not there, why not, and what would bring it.
    #[must_use]
    pub fn missing(name: impl Into<String>, why_not: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { name: name.into(), why_not: why_not.into(), hint: hint.into() }
    }

    /// Whether it is there.
    #[must_use]
    pub fn is_there(&self) -> bool {
        self.why_not.is_empty()
    }
}

/// 'yes', or 'no' and the reason.
impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_there() { f.write_str("yes") } else { write!(f, "no: {}", self.why_not) }
    }
}

/// What was measured of the clock before anything else.
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
    /// Core clock at rest from other load, hertz; `None` where it can't be measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_hz: Option<f64>,
}
