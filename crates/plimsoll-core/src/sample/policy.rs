//! The choices that are named on every record: which figure, which cache policy, how much effort.

use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which of the two kinds of figure a series holds. The two are never mixed under one name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// k launches back to back in one sample; time per launch = sample / k.
    #[default]
    Throughput,
    /// One launch, from call to completion.
    Latency,
    /// Of a later version.
    #[serde(other)]
    Unknown,
}

/// Where the data are when a launch begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CachePolicy {
    /// The same buffers each time: where they fit, they are in a cache.
    #[default]
    Hot,
    /// Buffers rotate through at least max(512 MiB, 5 × last-level cache) per operand.
    ColdRotate,
    /// Caches are overwritten before each timed launch, outside the timed window.
    ColdFlush,
    /// Arrays of 2 GiB and more, no flush.
    Stream,
    /// Of a later version.
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

    /// True where the data are meant to come from memory.
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
    /// Figures to quote and to compare: 0.25 %, three rounds.
    Standard,
    /// Figures to publish: 0.25 %, five rounds, larger budgets.
    Thorough,
    /// Of a later version; never asked for, and as good as quick where it is.
    #[serde(other)]
    Unknown,
}

impl Effort {
    /// All that can be asked for, least first.
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

    /// The numbers behind the word.
    #[must_use]
    pub const fn policy(self) -> Policy {
        let (half_width, rounds, sample_seconds) = match self {
            Self::Quick | Self::Unknown => (0.02, 1, 1e-3),
            Self::Standard => (0.0025, 3, 2e-3),
            Self::Thorough => (0.0025, 5, 2e-3),
        };
        Policy { min_samples: 30, half_width, rounds, sample_seconds, trace: false }
    }
}

impl FromStr for Effort {
    type Err = String;
    fn from_str(name: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|effort| effort.name() == name);
        known.ok_or_else(|| format!("unknown effort '{name}': use quick, standard or thorough"))
    }
}

/// When the engine stops and how it batches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Policy {
    /// Fewest samples of a point.
    pub min_samples: usize,
    /// Relative half-width that the 95 % interval of the median must reach.
    pub half_width: f64,
    /// Times that every point of a sweep is visited, interleaved.
    pub rounds: u32,
    /// Least length of a throughput sample, seconds.
    pub sample_seconds: f64,
    /// Record from call 0: no warm-up, one launch per sample, no early stop.
    pub trace: bool,
}
