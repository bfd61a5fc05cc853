//! Where a member of a fleet stands: written by the process that measured one of many devices, read by `collect`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One device's place in its fleet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Member {
    /// The host's name, sanitised; hosts may have equal names.
    pub host: String,
    /// The process that measured it, where a launcher started several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<Rank>,
    /// The launcher's job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// The rack or the switch of the host, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rack: Option<String>,
    /// The round of measurement: 1, or more where a device is measured again.
    pub round: u32,
}

/// A process's number among those that a launcher started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Rank {
    /// The number, from 0.
    pub number: u32,
    /// The number of processes, where the launcher says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub world: Option<u32>,
    /// The option or the environment variable that gave the number.
    pub source: String,
}
