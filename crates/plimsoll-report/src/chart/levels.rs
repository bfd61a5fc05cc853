//! Yardsticks across a picture: the theoretical peak of its metric, and what stream reached from memory on the same device,
//! in this run or in another one of the report.

use plimsoll_core::Flag;
use plimsoll_core::device::DeviceInfo;
use plimsoll_core::record::Finding;
use plimsoll_core::series::Metric;

use super::Level;
use crate::Report;
use crate::content::{Case, Entry, Section};
use crate::text::clean;

/// The probe whose findings are the ceilings of memory.
const CEILING_PROBE: &str = "stream";

/// None where the picture shows different devices, each with its own.
pub(super) fn levels(report: &Report<'_>, section: &Section<'_>, group: &[&Case<'_>], metric: &Metric) -> Vec<Level> {
    let device = group[0].sources[0].device;
    let mut devices = group.iter().flat_map(|case| &case.sources).map(|source| source.device);
    if !devices.all(|other| same(other, device)) {
        return Vec::new();
    }
    let peak = device.peak(&metric.name).filter(|peak| peak.unit == metric.unit && peak.value.is_finite());
    let peak = peak.map(|peak| Level {
        value: peak.value,
        label: format!("theoretical peak {}", clean(&peak.unit.format(peak.value))),
        source: clean(&peak.source),
    });
    peak.into_iter().chain(ceiling(report, section, device, metric)).collect()
}

/// Only of the very kernel that the probe is about (`copy`): another mix of reads and writes has another ceiling.
fn ceiling(report: &Report<'_>, section: &Section<'_>, device: &DeviceInfo, metric: &Metric) -> Option<Level> {
    let of_device = |entry: &Entry<'_>, finding: &Finding| {
        let of = entry.run.header.devices.get(finding.device as usize);
        of.is_some_and(|of| same(of, device))
    };
    let named = |finding: &&Finding| {
        finding.probe == CEILING_PROBE
            && finding.name == section.probe
            && finding.metric == metric.name
            && finding.unit == metric.unit
            && !finding.flags.contains(Flag::VerifyFail)
    };
    let findings = report.entries.iter().flat_map(|entry| {
        let named = entry.run.findings.iter().filter(named);
        named.filter(|finding| of_device(entry, finding))
    });
    let best = findings.max_by(|a, b| a.value.total_cmp(&b.value))?;
    Some(Level {
        value: best.value,
        label: format!("stream {} {}", clean(&best.name), clean(&best.unit.format(best.value))),
        source: format!("{CEILING_PROBE} on this device, from memory"),
    })
}

fn same(one: &DeviceInfo, other: &DeviceInfo) -> bool {
    one.id == other.id && one.name == other.name
}
