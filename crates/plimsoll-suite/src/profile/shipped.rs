//! Profiles of machines that aren't here, from records of this repository and, for what they lack, from figures that others
//! published. The measured figures are in `profiles/*.json`, which `cargo xtask profiles` makes from `records/`; the published
//! ones come directly from the references.

use plimsoll_core::Flags;
use plimsoll_core::record::Finding;
use plimsoll_core::stats::Interval;

use super::{Profile, SCHEMA, StoredFinding};
use crate::machines::{self, LookupError};
use crate::references::{self, Reference};

/// Machines that plimsoll has measured: the catalogue's name and the profile.
const MEASURED: &[(&str, &str)] = &[("H200", include_str!("../../profiles/h200.json"))];

/// Half-width of the interval of a published figure whose source gives no range, as a share of the figure. Sources print two or
/// three digits and seldom name board, clock and version: the published copy bandwidths of the H200 differ by 4 %.
pub const PUBLISHED_SPREAD: f64 = 0.05;

/// Cases with more points than this are curves: a report draws them, and no single figure represents them.
const MOST_POINTS: usize = 4;

/// The probe of the references that is about machine code, not a measurement.
const NO_MEASUREMENT: &str = "sass";

/// The profile of a machine of the catalogue, or of one that only the references name (`V100`): measured figures, and published
/// ones for what was not measured. `None` where only the data sheet is known.
///
/// # Errors
/// [`LookupError`] for a name that matches no machine, or several.
pub fn of_machine(name: &str) -> Result<Option<Profile>, LookupError> {
    let unlisted = references::UNLISTED.iter().find(|known| known.eq_ignore_ascii_case(name.trim()));
    let canonical = match unlisted {
        Some(known) => known,
        None => machines::machine(name)?.name,
    };
    let mut profile = measured_profile(canonical).unwrap_or_else(|| empty_profile(canonical));
    published_findings(canonical).for_each(|figure| {
        if profile.finding(&figure.finding.probe, &figure.finding.name).is_none() {
            profile.insert(figure);
        }
    });
    profile.sort();
    Ok((!profile.findings.is_empty()).then_some(profile))
}

/// The identity of a machine model, which differs from that of any device.
#[must_use]
pub fn model_id(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    format!("model-{}", name.chars().map(plain).collect::<String>())
}

fn empty_profile(name: &str) -> Profile {
    Profile { schema: SCHEMA, ..Profile::new(&model_id(name), name, "", "") }
}

fn measured_profile(name: &str) -> Option<Profile> {
    let (_, text) = MEASURED.iter().find(|(known, _)| *known == name)?;
    // A test checks that every shipped profile can be read; a build with a bad one would show only published figures.
    serde_json::from_str(text).ok()
}

fn published_findings(name: &str) -> impl Iterator<Item = StoredFinding> {
    let figures: Vec<&Reference> = references::shipped().iter().filter(|figure| figure.machine == name).collect();
    let count_points = |figure: &Reference| {
        let same = |other: &&&Reference| (&other.probe, &other.case) == (&figure.probe, &figure.case);
        figures.iter().filter(same).count()
    };
    let is_usable = |figure: &&&Reference| {
        // Data sheets are in the catalogue.
        !figure.is_theoretical()
            && figure.probe != NO_MEASUREMENT
            && (figure.x.is_none() || count_points(figure) <= MOST_POINTS)
    };
    figures.iter().filter(is_usable).map(|figure| to_finding(figure)).collect::<Vec<_>>().into_iter()
}

fn to_finding(figure: &Reference) -> StoredFinding {
    let Reference { probe, case, metric, value, unit, .. } = figure;
    // Probes name bandwidths after their kernel; other findings begin with the metric (`latency L2`).
    let mut name = if metric == "bandwidth" { case.clone() } else { format!("{metric} {case}") };
    if let (Some(x), Some(x_unit)) = (figure.x, &figure.x_unit) {
        name.push_str(&format!(" at {}", x_unit.format(x)));
    }
    let [lo, hi] = figure.interval.unwrap_or([value * (1.0 - PUBLISHED_SPREAD), value * (1.0 + PUBLISHED_SPREAD)]);
    let finding = Finding {
        device: 0,
        probe: probe.clone(),
        name,
        value: *value,
        interval: Interval { lo, hi },
        unit: unit.clone(),
        flags: Flags::NONE,
        metric: metric.clone(),
        says: String::new(),
        published: None,
    };
    let source = figure.source.clone();
    StoredFinding { finding, run: String::new(), when: String::new(), tool: String::new(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_profile_can_be_read_and_belongs_to_a_machine_of_the_catalogue() {
        for (name, text) in MEASURED {
            let profile: Profile = serde_json::from_str(text).unwrap();
            assert_eq!(machines::machine(name).unwrap().name, *name);
            assert_eq!((profile.device_id, profile.device_name), (model_id(name), (*name).to_owned()));
            assert!(profile.findings.iter().all(|stored| !stored.run.is_empty() && !stored.is_published()));
        }
    }

    #[test]
    fn machines_of_the_references_have_profiles_without_duplicates() {
        for name in ["A100 80GB", "A100 40GB", "H100 PCIe", "H100 SXM", "L4", "A10", "V100", "v100 pcie", "NVIDIA H200"]
        {
            let profile = of_machine(name).unwrap().unwrap_or_else(|| panic!("nothing of {name}"));
            let mut seen = std::collections::BTreeSet::new();
            for stored in &profile.findings {
                let finding = &stored.finding;
                assert!(seen.insert((&finding.probe, &finding.name)), "{name}: {finding:?}");
                assert!(finding.interval.lo <= finding.value && finding.value <= finding.interval.hi, "{finding:?}");
            }
        }
    }

    #[test]
    fn published_figures_are_marked_have_wide_intervals_and_yield_to_measured_ones() {
        let a100 = of_machine("A100 80GB").unwrap().unwrap();
        let triad = a100.finding("stream", "triad").unwrap();
        assert!(triad.is_published() && triad.when.is_empty());
        let width = (triad.finding.interval.hi - triad.finding.interval.lo) / triad.finding.value;
        assert!((width - 2.0 * PUBLISHED_SPREAD).abs() < 1e-12, "{width}");
        assert!(a100.finding("latency", "latency L2").is_some());
        let h200 = of_machine("H200").unwrap().unwrap();
        assert!(!h200.finding("stream", "triad").unwrap().is_published());
        assert!(h200.finding("stream", "dot (BabelStream)").unwrap().is_published());
    }

    #[test]
    fn unknown_and_ambiguous_names_are_errors_and_a_data_sheet_alone_is_no_profile() {
        assert!(matches!(of_machine("no such card"), Err(LookupError::Unknown { .. })));
        assert!(matches!(of_machine("H100"), Err(LookupError::Ambiguous { .. })));
        let known = machines::MACHINES.iter().filter(|machine| of_machine(machine.name).unwrap().is_some()).count();
        assert!(known > 5 && known < machines::MACHINES.len());
    }
}
