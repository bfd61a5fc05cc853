//! Two runs compared, as one self-contained page: the differences, the table of the headlines, and the curves of both runs. The template
//! escapes everything except the pictures, which escape their own texts.

use minijinja::value::{Serde, Value};
use minijinja::{Environment, context};
use plimsoll_core::headline::Role;
use plimsoll_core::record::Run;
use plimsoll_suite::gate::{Gate, Row};
use serde::Serialize;

use crate::Report;
use crate::chart::charts;
use crate::svg::{PALETTE, STYLE, render_differences_inline, render_inline};
use crate::text::clean;

const TEMPLATE: &str = include_str!("page.html");
const PAGE: &str = include_str!("page.css");

#[derive(Serialize)]
struct RunView {
    role: &'static str,
    devices: String,
    started: String,
    effort: String,
    tool: String,
}

#[derive(Serialize)]
struct RowView {
    name: &'static str,
    device: String,
    base: String,
    new: String,
    ratio: String,
    interval: String,
    verdict: &'static str,
    counts: bool,
    why: String,
}

/// The whole page. `runs` are the base and the new run that `gate` compares.
///
/// # Panics
/// Never, whatever the records hold: the template is compiled in, and data can't make any of its operations fail.
#[must_use]
pub fn render(gate: &Gate, runs: &[Run; 2]) -> String {
    let mut environment = Environment::new();
    // The extension .html turns escaping on.
    environment.add_template("page.html", TEMPLATE).expect("the template is compiled in");
    let template = environment.get_template("page.html").expect("added a line above");
    let views: Vec<RunView> =
        ["base", "new"].into_iter().zip(runs).map(|(role, run)| RunView::new(role, run)).collect();
    let several = gate.rows.iter().any(|row| row.device != gate.rows[0].device);
    let rows: Vec<RowView> = gate.rows.iter().map(|row| RowView::new(row, several)).collect();
    let incomparable = gate.incomparable.iter().map(|row| format!("incomparable: {}: {}", row.what, row.why));
    let notes: Vec<String> = gate.notes.iter().cloned().chain(incomparable).map(|note| clean(&note)).collect();
    let page = context! {
        style => Value::from_safe_string(format!("{PALETTE}{STYLE}{PAGE}")),
        sentence => clean(&gate.sentence()),
        bars => Value::from_safe_string(render_differences_inline(gate)),
        sections => draw_sections(gate, runs),
        runs => Value::from(Serde(&views)),
        rows => Value::from(Serde(&rows)),
        notes,
    };
    template.render(page).expect("plain data")
}

/// The pictures of the probes whose headlines were compared, with the curves of both runs.
fn draw_sections(gate: &Gate, runs: &[Run; 2]) -> Vec<Value> {
    let report = Report::new(runs);
    let is_compared = |probe: &str| gate.rows.iter().any(|row| row.probe == probe);
    let sections = report.sections.iter().filter(|section| is_compared(&section.probe));
    let view = |section| {
        let charts = charts(&report, section);
        let pictures: Vec<Value> = charts.iter().map(|chart| Value::from_safe_string(render_inline(chart))).collect();
        (section, pictures)
    };
    let drawn = sections.map(view).filter(|(_, pictures)| !pictures.is_empty());
    drawn
        .map(|(section, pictures)| context! { probe => clean(&section.probe), sentence => section.sentence, pictures })
        .collect()
}

impl RunView {
    fn new(role: &'static str, run: &Run) -> Self {
        let header = &run.header;
        let devices: Vec<String> = header.devices.iter().map(|device| clean(&device.name)).collect();
        Self {
            role,
            devices: devices.join(", "),
            started: clean(&header.started),
            effort: header.effort.name().to_owned(),
            tool: clean(&header.tool),
        }
    }
}

impl RowView {
    fn new(row: &Row, several: bool) -> Self {
        Self {
            name: row.headline.name,
            device: if several { clean(&row.device) } else { String::new() },
            base: clean(&row.unit.format(row.base.value)),
            new: clean(&row.unit.format(row.new.value)),
            ratio: format!("{:.3}", row.ratio),
            interval: format!("{:.3} … {:.3}", row.interval.lo, row.interval.hi),
            verdict: row.verdict.name(),
            counts: row.headline.role == Role::Gate,
            why: clean(&row.why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic;
    use plimsoll_suite::gate::{Options, gate};

    fn page(name: &str) -> String {
        let runs = [1.0, 1.1].map(|slower| synthetic::run(name, "2026-01-02T03:04:05Z", slower));
        let found = gate(&runs[0], &runs[1], plimsoll_probes::ALL, &Options::default());
        render(&found, &runs)
    }

    #[test]
    fn the_page_has_bars_table_and_the_curves_of_both_runs() {
        let page = page("Box");
        assert!(page.contains("<table>") && page.contains("Change of each figure"), "{page}");
        assert!(page.matches("<svg").count() >= 2, "the differences and a probe's picture");
        assert!(page.contains("run 1") && page.contains("run 2"), "{page}");
    }

    #[test]
    fn the_page_needs_no_network_and_escapes_hostile_names() {
        let page = page(synthetic::HOSTILE);
        assert!(!page.contains("<script") && !page.contains("http://") && !page.contains("https://"));
        assert!(!page.contains('\u{202e}') && !page.contains('\x1b'));
    }
}
