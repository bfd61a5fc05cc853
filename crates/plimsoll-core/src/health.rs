//! What the system reports about a device's health: facts that explain a slow figure, or that make a device broken whatever its
//! figures are. A virtual machine or a missing right may hide any of them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The health of a device when a run began. What isn't known is `None`, with the reason in `hidden` where one is known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Health {
    /// The link to the host as it runs now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<Link>,
    /// The best link that both the device and the slot can run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link_most: Option<Link>,
    /// The power limit in force, watts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_limit: Option<f64>,
    /// The power limit that the device has by default, watts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_limit_default: Option<f64>,
    /// The highest core clock of the device, hertz.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_most: Option<f64>,
    /// Temperature of the chip, degrees Celsius.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Memory errors that could not be corrected, since the driver was loaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uncorrected_errors: Option<u64>,
    /// Memory errors that were corrected, since the driver was loaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub corrected_errors: Option<u64>,
    /// Rows of memory that were replaced by spare ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remapped_rows: Option<RemappedRows>,
    /// Other processes that had the device open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other_processes: Option<u32>,
    /// Whether the machine runs on its battery.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_battery: Option<bool>,
    /// Whether the system runs in a virtual machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub virtual_machine: Option<bool>,
    /// Facts that can't be seen here, by name, with the reason.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub hidden: BTreeMap<String, String>,
}

impl Health {
    /// Whether nothing at all is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A PCI Express link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Link {
    /// The generation, which determines the signalling rate of a lane.
    pub generation: u32,
    /// The number of lanes.
    pub lanes: u32,
}

impl Link {
    /// Bytes per second, one way, after the encoding of lanes (PCI Express base specification: 2.5 and 5 GT/s with 8b/10b; 8, 16
    /// and 32 GT/s with 128b/130b; 64 GT/s with 236 of 256 bytes in a flit). Packets have a further overhead. `None` for an
    /// unknown generation.
    #[must_use]
    pub fn bytes_per_second(self) -> Option<f64> {
        let per_lane = match self.generation {
            1 => 2.5e9 * 0.8,
            2 => 5e9 * 0.8,
            3 => 8e9 * 128.0 / 130.0,
            4 => 16e9 * 128.0 / 130.0,
            5 => 32e9 * 128.0 / 130.0,
            6 => 64e9 * 236.0 / 256.0,
            _ => return None,
        };
        Some(per_lane / 8.0 * f64::from(self.lanes))
    }
}

/// `PCIe 5.0 x16`.
impl std::fmt::Display for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PCIe {}.0 x{}", self.generation, self.lanes)
    }
}

/// Rows of memory that were replaced by spare ones, and what is still to come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RemappedRows {
    /// Replaced because of errors that were corrected.
    pub corrected: u32,
    /// Replaced because of errors that were not.
    pub uncorrected: u32,
    /// More will be replaced at the next reset.
    pub pending: bool,
    /// A replacement failed: no spare row is left.
    pub failed: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_of_a_link_is_that_of_its_specification() {
        let rate = |generation, lanes| Link { generation, lanes }.bytes_per_second().unwrap() / 1e9;
        for (generation, lanes, expected) in
            [(1, 16, 4.0), (2, 16, 8.0), (3, 16, 15.754), (4, 16, 31.508), (5, 8, 31.508), (5, 16, 63.015)]
        {
            assert!((rate(generation, lanes) - expected).abs() < 1e-3, "{generation} {lanes}");
        }
        assert_eq!(Link { generation: 9, lanes: 16 }.bytes_per_second(), None);
        assert_eq!(Link { generation: 5, lanes: 16 }.to_string(), "PCIe 5.0 x16");
    }
}
