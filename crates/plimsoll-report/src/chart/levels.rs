//! Horizontal yardsticks of a picture: the theoretical peak of its metric, and the bandwidth that stream reached from memory on
//! the same device, in this run or another one of the report.

use plimsoll_core::device::DeviceInfo;
use plimsoll_core::record::Finding;
use plimsoll_core::series::Metric;

use super::Level;
use crate::Report;
use crate::content::{Case, Entry, Section};
use crate::text::clean;

/// The probe whose findings are the memory ceilings.
pub(super) const CEILING_PROBE: &str = "stream";

/// The levels of a picture. There are none where it shows several devices, because each has its own. A peak may be named after
/// the metric or after a line's label, such as the type of an arithmetic rate.
pub(super) fn build_levels(
    report: &Report<'_>,
    section: &Section<'_>,
    group: &[&Case<'_>],
    metric: &Metric,
    labels: &[&str],
) -> Vec<Level> {
    let Some(device) = only_device(group) else { return Vec::new() };
    let mut levels: Vec<Level> = Vec::new();
    for name in std::iter::once(metric.name.as_str()).chain(labels.iter().copied()) {
        let peak = device.peak(name).filter(|peak| peak.unit == metric.unit && peak.value.is_finite());
        let Some(peak) = peak else { continue };
        let name = if name == metric.name { String::new() } else { format!("{} ", clean(name)) };
        match levels.iter_mut().find(|level| level.value == peak.value) {
            Some(level) if name.is_empty() || level.label.contains(name.as_str()) => {}
            Some(level) => level.label = level.label.replacen(PEAK, &format!("{PEAK}{}, ", name.trim_end()), 1),
            None => levels.push(Level {
                value: peak.value,
                label: format!("{PEAK}{name}{}", clean(&peak.unit.format(peak.value))),
                source: clean(&peak.source),
            }),
        }
    }
    levels.extend(ceiling(report, section, device, metric));
    levels
}

/// The start of a theoretical peak's label.
pub(super) const PEAK: &str = "theoretical peak ";

/// The device of all series of a picture; `None` where there are several.
pub(super) fn only_device<'r>(group: &[&Case<'r>]) -> Option<&'r DeviceInfo> {
    let device = group[0].sources[0].device;
    let mut devices = group.iter().flat_map(|case| &case.sources).map(|source| source.device);
    devices.all(|other| is_same_device(other, device)).then_some(device)
}

/// stream's best figure for the kernel that the probe is named after (`copy`): another mix of reads and writes has another
/// ceiling.
fn ceiling(report: &Report<'_>, section: &Section<'_>, device: &DeviceInfo, metric: &Metric) -> Option<Level> {
    let of_device = |entry: &Entry<'_>, finding: &Finding| {
        let owner = entry.run.header.devices.get(finding.device as usize);
        owner.is_some_and(|owner| is_same_device(owner, device))
    };
    let named = |finding: &&Finding| {
        finding.probe == CEILING_PROBE
            && finding.name == section.probe
            && finding.metric == metric.name
            && finding.unit == metric.unit
            && !finding.flags.is_unverified()
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

pub(super) fn is_same_device(one: &DeviceInfo, other: &DeviceInfo) -> bool {
    one.id == other.id && one.name == other.name
}
