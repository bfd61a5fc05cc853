//! The data that the template shows: plain texts that are safe to show but not yet escaped.

use serde::Serialize;

use super::compare::{Comparison, compare_machines};
use super::machine::{MachineView, list_machines, view_machine};
use super::overview::{Overview, Tile, build_tiles, choose_picture};
use super::probe::{ProbeView, build_probe};
use super::table::Budget;
use crate::content::{Report, glossary};

/// Most sections of a page; a record may name any number of probes.
pub(super) const MOST_SECTIONS: usize = 200;
/// Largest picture of a page, bytes.
pub(super) const LARGEST_PICTURE: usize = 1 << 20;
/// Most problems that are listed.
const MOST_PROBLEMS: usize = 200;

#[derive(Serialize)]
pub(super) struct Page {
    title: String,
    simulated: bool,
    doubtful: usize,
    points: usize,
    machines: Vec<MachineView>,
    machines_left_out: usize,
    comparison: Option<Comparison>,
    tiles: Vec<Tile>,
    overview: Option<Overview>,
    sections: Vec<ProbeView>,
    sections_left_out: usize,
    problems: Vec<String>,
    problems_left_out: usize,
    flags: Vec<(&'static str, &'static str)>,
}

pub(super) fn build_page(report: &Report<'_>) -> Page {
    let (doubtful, points) = report.count_doubtful();
    let machines = list_machines(report);
    let devices: usize = report.entries.iter().map(|entry| entry.labels.len()).sum();
    let mut budget = Budget::new();
    let sections = report.sections.iter().take(MOST_SECTIONS).enumerate();
    let mut problems = report.list_problems();
    let problems_left_out = problems.len().saturating_sub(MOST_PROBLEMS);
    problems.truncate(MOST_PROBLEMS);
    Page {
        title: title(report),
        simulated: report.is_simulated(),
        doubtful,
        points,
        machines_left_out: devices - machines.len(),
        comparison: compare_machines(report, &machines),
        tiles: build_tiles(report, &machines),
        overview: choose_picture(report),
        sections: sections
            .map(|(place, section)| build_probe(report, &machines, place, section, &mut budget))
            .collect(),
        machines: machines.iter().map(|machine| view_machine(report, machine)).collect(),
        sections_left_out: report.sections.len().saturating_sub(MOST_SECTIONS),
        problems,
        problems_left_out,
        flags: glossary(report.flags()).collect(),
    }
}

/// The machines' names; of many, their number.
fn title(report: &Report<'_>) -> String {
    let labels: Vec<&str> = report.entries.iter().flat_map(|entry| &entry.labels).map(String::as_str).collect();
    match labels.len() {
        0 => "plimsoll: no runs".into(),
        1..=3 => labels.join(" · "),
        n => {
            let first = &report.entries[0].run.header.devices;
            let name = first.first().map(|device| device.name.as_str()).unwrap_or_default();
            let all = || report.entries.iter().flat_map(|entry| &entry.run.header.devices);
            let same = all().all(|device| device.name == name);
            crate::text::clean(&if same { format!("{n} × {name}") } else { format!("{n} machines") })
        }
    }
}
