//! One section per probe: its picture, its headline figures, all findings, and every point in folded tables.

use std::collections::BTreeMap;

use minijinja::Value;
use serde::Serialize;

use plimsoll_suite::check::{Row, State};
use plimsoll_suite::findings::advice::NAME as ADVICE;
use plimsoll_suite::standing::{Standing, YardstickResult};

use super::compare::short_name;
use super::machine::{Machine, state_class, view_row};
use super::pieces::{anchor, format_range};
use super::table::{Budget, Table, build_table};
use super::view::LARGEST_PICTURE;
use crate::Report;
use crate::chart::{Chart, Plot, charts};
use crate::content::Section;
use crate::svg;
use crate::terminal::format_yardstick;
use crate::text::clean;

/// Most headline figures next to a section's picture.
const MOST_FIGURES: usize = 7;
/// Most findings of a section.
const MOST_FINDINGS: usize = 400;
/// A picture that is taller than this, in pixels, is not the first one if there is another.
const TALL: f64 = 560.0;

#[derive(Serialize)]
pub(super) struct ProbeView {
    id: String,
    probe: String,
    sentence: &'static str,
    /// How its figures are, for the mark in the contents.
    class: &'static str,
    picture: Option<Value>,
    more_pictures: Vec<Value>,
    /// Pictures that are too large for a page.
    left_out: usize,
    figures: Vec<FigureView>,
    advice: Vec<(String, String)>,
    findings: Findings,
    tables: Vec<Table>,
    points: usize,
}

/// A headline figure, or an ordinary finding of a probe without any.
#[derive(Serialize)]
struct FigureView {
    name: String,
    value: String,
    detail: String,
    class: &'static str,
    word: &'static str,
}

#[derive(Serialize)]
struct Findings {
    /// Short names of the machines, where there are several.
    machines: Vec<String>,
    rows: Vec<FindingRow>,
    left_out: usize,
}

#[derive(Serialize)]
struct FindingRow {
    name: String,
    /// The figure on each machine.
    cells: Vec<(String, bool)>,
    /// Of a single machine: `77 % of peak`, and all yardsticks.
    share: String,
    yardsticks: String,
    says: String,
    flags: String,
}

pub(super) fn build_probe(
    report: &Report<'_>,
    machines: &[Machine<'_>],
    place: usize,
    section: &Section<'_>,
    budget: &mut Budget,
) -> ProbeView {
    let own = |machine: &Machine<'_>| {
        let rows = machine.check.rows.iter().filter(|row| row.probe == section.probe);
        rows.map(|row| row.state).collect::<Vec<State>>()
    };
    let worst = machines.iter().flat_map(own).max_by_key(|state| super::compare::severity(*state));
    let (picture, more_pictures, left_out) = draw_pictures(report, section, budget);
    let findings = build_findings(report, machines, section);
    let figures = list_figures(report, machines, section, &findings);
    let tables: Vec<Table> = section.cases.iter().map(|case| build_table(case, budget)).collect();
    ProbeView {
        id: anchor(place),
        probe: clean(&section.probe),
        sentence: section.sentence,
        class: worst.map_or("none", state_class),
        picture,
        more_pictures,
        left_out,
        figures,
        advice: section.advice().take(MOST_FIGURES).collect(),
        findings,
        points: tables.iter().map(|table| table.points).sum(),
        tables,
    }
}

/// The first picture, the others, and the number of those that are too large.
fn draw_pictures(
    report: &Report<'_>,
    section: &Section<'_>,
    budget: &mut Budget,
) -> (Option<Value>, Vec<Value>, usize) {
    let mut left_out = 0;
    let mut pictures: Vec<(bool, String)> = Vec::new();
    for chart in charts(report, section) {
        let picture = svg::render_inline(&chart);
        if picture.len() > LARGEST_PICTURE || !budget.take_picture(picture.len()) {
            left_out += 1;
            continue;
        }
        pictures.push((matches!(chart.plot, Plot::Lines { .. }) || is_low(&chart, &picture), picture));
    }
    let first = pictures.iter().position(|(fits, _)| *fits).unwrap_or(0);
    let first = (!pictures.is_empty()).then(|| Value::from_safe_string(pictures.remove(first).1));
    (first, pictures.into_iter().map(|(_, picture)| Value::from_safe_string(picture)).collect(), left_out)
}

/// True for bars and maps that are not taller than a screen.
fn is_low(chart: &Chart, picture: &str) -> bool {
    let height = picture.split_once("viewBox=\"0 0 ").and_then(|(_, rest)| rest.split(['"', ' ']).nth(1));
    !matches!(chart.plot, Plot::Lines { .. })
        && height.and_then(|height| height.parse().ok()).is_some_and(|height: f64| height <= TALL)
}

/// Headlines of each machine; where the probe has none, its first findings.
fn list_figures(
    report: &Report<'_>,
    machines: &[Machine<'_>],
    section: &Section<'_>,
    findings: &Findings,
) -> Vec<FigureView> {
    let mut groups: Vec<Vec<&Row>> = Vec::new();
    for row in machines.iter().flat_map(|machine| &machine.check.rows).filter(|row| row.probe == section.probe) {
        match groups.iter_mut().find(|group| group[0].headline.id == row.headline.id) {
            Some(group) => group.push(row),
            None => groups.push(vec![row]),
        }
    }
    let mut figures: Vec<FigureView> = groups.iter().map(|group| view_figures(report, group)).collect();
    if figures.is_empty() {
        figures.extend(findings.rows.iter().filter(|_| machines.len() == 1).map(view_finding));
    }
    figures.truncate(MOST_FIGURES);
    figures
}

/// A headline of one machine, or its range over several with the worst state.
fn view_figures(report: &Report<'_>, rows: &[&Row]) -> FigureView {
    let worst = rows.iter().max_by_key(|row| super::compare::severity(row.state)).unwrap_or(&rows[0]);
    let gate = view_row(report, worst);
    let (value, detail) = gate.value_and_detail();
    let values = || rows.iter().map(|row| row.measured.value);
    let ends = [values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max)];
    let (value, detail) = match rows.len() {
        1 => (value, detail),
        n => (format_range(&worst.unit, ends), format!("on {n} machines")),
    };
    FigureView { name: gate.name().to_owned(), value, detail, class: gate.class, word: gate.state }
}

fn view_finding(row: &FindingRow) -> FigureView {
    let value = row.cells.first().map_or_else(String::new, |(value, _)| value.clone());
    let detail = row.share.clone();
    FigureView { name: row.name.clone(), value, detail, class: "none", word: "–" }
}

/// All findings but advice: a row for each name, a cell for each machine.
fn build_findings(report: &Report<'_>, machines: &[Machine<'_>], section: &Section<'_>) -> Findings {
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    let mut findings = Findings { machines: Vec::new(), rows: Vec::new(), left_out: 0 };
    if machines.len() > 1 {
        findings.machines = (0..machines.len()).map(short_name).collect();
    }
    for (column, machine) in machines.iter().enumerate() {
        let own = report.entries[machine.run].standings.iter();
        let own = own.filter(|known| known.device == machine.device && known.probe == section.probe);
        for standing in own.filter(|known| known.name != ADVICE || known.says.is_empty()) {
            let name = clean(&standing.name);
            let row = *places.entry(name.clone()).or_insert(findings.rows.len());
            if row >= MOST_FINDINGS {
                findings.left_out += 1;
                places.remove(&name);
                continue;
            }
            if row == findings.rows.len() {
                findings.rows.push(build_row(name, standing, machines.len()));
            }
            let achieved =
                standing.unit.format_with_interval(standing.achieved.value, standing.achieved.interval.into());
            findings.rows[row].cells[column] = (clean(&achieved), !standing.flags.doubtful().is_empty());
        }
    }
    findings
}

fn build_row(name: String, standing: &Standing, machines: usize) -> FindingRow {
    let single = machines == 1;
    let percent = standing.percent().filter(|_| single);
    let all = [("ceiling", &standing.ceiling), ("peak", &standing.peak), ("reference", &standing.reference)];
    let describe = |(name, yardstick): (&str, &YardstickResult)| {
        yardstick.as_ref().ok().map(|_| format!("{name} {}", clean(&format_yardstick(standing, yardstick))))
    };
    FindingRow {
        name,
        cells: vec![("–".to_owned(), false); machines],
        share: percent.map_or_else(String::new, |(percent, kind)| format!("{percent:.1} % of {}", kind.name())),
        yardsticks: if single {
            all.into_iter().filter_map(describe).collect::<Vec<_>>().join(", ")
        } else {
            String::new()
        },
        says: clean(&standing.says),
        flags: if single { standing.flags.to_string() } else { String::new() },
    }
}
