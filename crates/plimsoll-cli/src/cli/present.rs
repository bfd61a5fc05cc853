//! Renders runs in each format.

use plimsoll::core::record::Run;
use plimsoll_report::terminal::{self, Style};
use plimsoll_report::{Report, csv, html, json, markdown};

use super::args::ReportFormat;

/// Findings of one run up to which the whole summary is printed without being asked for.
const FEW: usize = 40;

/// How much of a run a table shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Detail {
    /// Everything, however long.
    pub all: bool,
    /// Plots too, where everything is shown.
    pub plots: bool,
    /// At most this many headlines of each device.
    pub top: Option<usize>,
}

/// Renders runs as one text. SVG, which is many files, is left to `report` and renders as a table here.
pub(crate) fn text(runs: &[Run], format: ReportFormat, detail: Detail, style: &Style) -> String {
    let report = Report::new(runs);
    match format {
        ReportFormat::Html => html::render(&report),
        ReportFormat::Csv => csv::render(&report),
        ReportFormat::Markdown => markdown::render(&report),
        ReportFormat::Json => json::render(&report),
        ReportFormat::Table | ReportFormat::Svg => table(&report, detail, style),
    }
}

/// The verdict and the headlines of a run with many findings; else everything.
fn table(report: &Report<'_>, detail: Detail, style: &Style) -> String {
    if is_brief(report, detail)
        && let Some(text) = terminal::brief(report, detail.top, style)
    {
        return text;
    }
    if detail.plots { terminal::render(report, style) } else { without_plots(report, style) }
}

/// Whether the table leaves findings out.
pub(crate) fn is_brief(report: &Report<'_>, detail: Detail) -> bool {
    let findings: usize = report.entries.iter().map(|entry| entry.standings.len()).sum();
    !detail.all && (findings > FEW || detail.top.is_some()) && terminal::brief(report, None, &Style::PLAIN).is_some()
}

/// The table for a terminal without its plots. An experiment's advice stays.
fn without_plots(report: &Report<'_>, style: &Style) -> String {
    let parts = [terminal::summary(report, style), terminal::advice(report, style), terminal::notes(report, style)];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
}
