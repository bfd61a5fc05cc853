//! The choices named in every record: figure, cache policy, effort.

use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The kind of figure that a series holds. The two kinds are never mixed under one name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// k launches back to back in one sample; time per launch = sample / k.
    #[default]
    Throughput,
    /// One launch, from call to completion.
    Latency,
    /// From a later version.
    #[serde(other)]
    Unknown,
}

/// Where the data are when a launch begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CachePolicy {
    /// Every launch uses the same buffers: they are in a cache if they fit.
    #[default]
    Hot,
    /// Buffers rotate through at least max(512 MiB, 5 × last-level cache) per operand.
    ColdRotate,
    /// Caches are overwritten before each timed launch, outside the timed window.
    ColdFlush,
    /// Arrays of 2 GiB and more, without a flush.
    Stream,
    /// From a later version.
    #[serde(other)]
    Unknown,
}

impl CachePolicy {
    /// The name used in records.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hot => "hot",
            Self::ColdRotate => "cold-rotate",
            Self::ColdFlush => "cold-flush",
            Self::Stream => "stream",
            Self::Unknown => "unknown",
        }
    }

    /// True where the data is meant to come from memory.
    #[must_use]
    pub const fn is_cold(self) -> bool {
        matches!(self, Self::ColdRotate | Self::ColdFlush | Self::Stream)
    }
}

/// How much time a run may take, and how narrow its intervals must be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Effort {
    /// A first look: the knees and plateaus, within 2 %.
    #[default]
    Quick,
    /// Figures to quote and compare: 0.25 %, three rounds.
    Standard,
    /// Figures to publish: 0.25 %, five rounds, larger budgets.
    Thorough,
    /// From a later version. Can't be requested; treated like quick.
    #[serde(other)]
    Unknown,
}

impl Effort {
    /// All that can be requested, least first.
    pub const ALL: [Effort; 3] = [Effort::Quick, Effort::Standard, Effort::Thorough];

    /// The name on the command line and in records.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Standard => "standard",
            Self::Thorough => "thorough",
            Self::Unknown => "unknown",
        }
    }

    /// The policy of this effort.
    #[must_use]
    pub const fn policy(self) -> Policy {
        // Every point has at least 30 samples over all rounds.
        let (half_width, rounds, sample_seconds, min_samples) = match self {
            Self::Quick | Self::Unknown => (0.02, 1, 1e-3, 30),
            Self::Standard => (0.0025, 3, 2e-3, 20),
            Self::Thorough => (0.0025, 5, 2e-3, 30),
        };
        Policy { min_samples, half_width, rounds, sample_seconds, trace: false }
    }
}

impl FromStr for Effort {
    type Err = String;
    fn from_str(name: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|effort| effort.name() == name);
        known.ok_or_else(|| format!("unknown effort '{name}': use quick, standard or thorough"))
    }
}

/// How the engine batches and when it stops.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Policy {
    /// Fewest samples of a point in a round.
    pub min_samples: usize,
    /// Relative half-width that the 95 % interval of the median must reach.
    pub half_width: f64,
    /// Number of interleaved rounds over the points of a sweep.
    pub rounds: u32,
    /// Least length of a throughput sample, seconds.
    pub sample_seconds: f64,
    /// Record from the first call on: no warm-up, one launch per sample, no early stop.
    pub trace: bool,
}
