//! What is known of machines that aren't here: profiles made from the records of this repository, and below them the
//! figures that others published. Measured ones are files (`profiles/*.json`), which `cargo xtask profiles` makes from
//! `records/`; published ones are made from the references, where they are the only copy.

use plimsoll_core::Flags;
use plimsoll_core::record::Finding;
use plimsoll_core::stats::Interval;

use super::{Profile, SCHEMA, StoredFinding};
use crate::machines::{self, LookupError};
use crate::references::{self, Reference};

/// Machines that this tool has measured, by the catalogue's name, with the profile.
const MEASURED: &[(&str, &str)] = &[("H200", include_str!("../../profiles/h200.json"))];

/// Half of the interval given to a published figure whose source tells no range, as a share of it. Sources print two or
/// three digits, of a board, clock and version that they seldom tell: the published copies of one H200 differ by 4 %.
pub const PUBLISHED_SPREAD: f64 = 0.05;

/// Cases with more places than this are curves: a report draws them, and no single figure stands for them.
const MOST_PLACES: usize = 4;

/// Of the references' probes, the one that is machine code and no figure of a machine.
const NO_MEASUREMENT: &str = "sass";

/// What is known of a machine of the catalogue, or of one that the references name otherwise (`V100`): measured figures,
/// and published ones of what was not measured. `None` where nothing is known but the data sheet.
///
/// # Errors
/// [`LookupError`] for a name that means no machine, or several.
pub fn of_machine(name: &str) -> Result<Option<Profile>, LookupError> {
    let unlisted = references::UNLISTED.iter().find(|known| known.eq_ignore_ascii_case(name.trim()));
    let canonical = match unlisted {
        Some(known) => known,
        None => machines::machine(name)?.name,
    };
    let mut profile = measured(canonical).unwrap_or_else(|| empty(canonical));
    published(canonical).for_each(|figure| {
        if profile.finding(&figure.finding.probe, &figure.finding.name).is_none() {
            profile.put(figure);
        }
    });
    profile.sort();
    Ok((!profile.findings.is_empty()).then_some(profile))
}

/// The identity of a model: no device has it.
#[must_use]
pub fn model_id(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    format!("model-{}", name.chars().map(plain).collect::<String>())
}

fn empty(name: &str) -> Profile {
    Profile { schema: SCHEMA, ..Profile::new(&model_id(name), name, "", "") }
}

fn measured(name: &str) -> Option<Profile> {
    let (_, text) = MEASURED.iter().find(|(known, _)| *known == name)?;
    // A test holds that every shipped profile is read; a build that had a bad one would show published figures alone.
    serde_json::from_str(text).ok()
}

fn published(name: &str) -> impl Iterator<Item = StoredFinding> {
    let figures: Vec<&Reference> = references::all().iter().filter(|figure| figure.machine == name).collect();
    let places = |figure: &Reference| {
        let same = |other: &&&Reference| (&other.probe, &other.case) == (&figure.probe, &figure.case);
        figures.iter().filter(same).count()
    };
    let fit = |figure: &&&Reference| {
        // Data sheets are the catalogue's.
        !figure.is_theoretical()
            && figure.probe != NO_MEASUREMENT
            && (figure.x.is_none() || places(figure) <= MOST_PLACES)
    };
    figures.iter().filter(fit).map(|figure| stored(figure)).collect::<Vec<_>>().into_iter()
}

fn stored(figure: &Reference) -> StoredFinding {
    let Reference { probe, case, metric, value, unit, .. } = figure;
    // Probes name bandwidths by their kernel, and put the metric before everything else (`latency L2`).
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
    fn every_shipped_profile_is_read_and_belongs_to_a_machine_of_the_catalogue() {
        for (name, text) in MEASURED {
            let profile: Profile = serde_json::from_str(text).unwrap();
            assert_eq!(machines::machine(name).unwrap().name, *name);
            assert_eq!((profile.device_id, profile.device_name), (model_id(name), (*name).to_owned()));
            assert!(profile.findings.iter().all(|stored| !stored.run.is_empty() && !stored.is_published()));
        }
    }

    #[test]
    fn machines_of_the_references_have_a_profile_and_no_figure_twice() {
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
    fn published_figures_say_so_have_wide_intervals_and_give_way_to_measured_ones() {
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
    fn a_name_that_means_nothing_or_several_is_told_and_a_data_sheet_alone_is_no_profile() {
        assert!(matches!(of_machine("no such card"), Err(LookupError::Unknown { .. })));
        assert!(matches!(of_machine("H100"), Err(LookupError::Ambiguous { .. })));
        let known = machines::MACHINES.iter().filter(|machine| of_machine(machine.name).unwrap().is_some()).count();
        assert!(known > 5 && known < machines::MACHINES.len());
    }
}
