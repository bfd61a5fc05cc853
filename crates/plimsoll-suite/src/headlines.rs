//! The headlines of a run: the declared findings of each probe that was measured.

use plimsoll_core::device::DeviceInfo;
use plimsoll_core::headline::Headline;
use plimsoll_core::probe::ProbeSpec;
use plimsoll_core::record::{Finding, Run};
use plimsoll_core::series::Series;

use crate::operations;
use plimsoll_core::unit::Unit;

/// A headline with its figure.
#[derive(Clone, Copy, Debug)]
pub struct Figure<'r> {
    /// Index into the run's devices.
    pub device: u32,
    /// The device.
    pub info: &'r DeviceInfo,
    /// The probe that declares it.
    pub probe: &'static ProbeSpec,
    /// The declaration.
    pub headline: &'static Headline,
    /// The finding that it stands for.
    pub finding: &'r Finding,
}

impl Figure<'_> {
    /// The unit for display.
    #[must_use]
    pub fn unit(&self) -> Unit {
        operations::unit_of_finding(self.finding)
    }

    /// The theoretical peak that limits it, in its unit.
    #[must_use]
    pub fn peak(&self) -> Option<f64> {
        let metric = self.finding.metric.as_str();
        let peak = self.info.peak(metric).filter(|_| !metric.is_empty());
        let link = || self.info.health.link_most?.bytes_per_second().filter(|_| is_transfer(self.headline));
        peak.filter(|peak| peak.unit == self.finding.unit).map(|peak| peak.value).or_else(link)
    }
}

/// Whether a headline is limited by the link to the host, one way.
pub(crate) fn is_transfer(headline: &Headline) -> bool {
    matches!(headline.id, "host-to-device" | "device-to-host")
}

/// The findings that these probes derive from a run's series today. A record's own findings may be from an older version, which
/// derived them differently; a record without series keeps its own.
#[must_use]
pub fn derive_findings(run: &Run, probes: &[&'static ProbeSpec]) -> Vec<Finding> {
    if run.series.is_empty() {
        return run.findings.clone();
    }
    let mut found = Vec::new();
    for (device, info) in (0..).zip(&run.header.devices) {
        for spec in probes {
            let own = |series: &&Series| series.spec.device == device && series.spec.probe == spec.name;
            let series: Vec<Series> = run.series.iter().filter(own).cloned().collect();
            if series.is_empty() {
                continue;
            }
            let findings = (spec.findings)(info, &series).into_iter();
            found.extend(findings.map(|finding| Finding { device, probe: spec.name.to_owned(), ..finding }));
        }
    }
    found
}

/// The headlines that a run has of one of its devices, in the order of `probes`. Findings that aren't finite are left out.
pub fn figures<'r>(run: &'r Run, device: u32, probes: &[&'static ProbeSpec]) -> Vec<Figure<'r>> {
    let Some(info) = run.header.devices.get(device as usize) else { return Vec::new() };
    let of_device = |finding: &&Finding| finding.device == device && finding.value.is_finite();
    let mut figures = Vec::new();
    for probe in probes.iter().copied() {
        let own = run.findings.iter().filter(of_device).filter(|finding| finding.probe == probe.name);
        let find = |headline: &'static Headline| Some((headline, headline.find(own.clone())?));
        let found = probe.headlines.iter().filter_map(find);
        figures.extend(found.map(|(headline, finding)| Figure { device, info, probe, headline, finding }));
    }
    figures
}
