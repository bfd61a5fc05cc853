//! Renders runs in each format.

use plimsoll::core::record::Run;
use plimsoll_report::terminal::{self, Style};
use plimsoll_report::{Report, csv, html, json, markdown, text as words};

use super::args::ReportFormat;

/// Renders runs as one text. SVG, which is many files, is left to `report` and renders as a table here.
pub(crate) fn text(runs: &[Run], format: ReportFormat, style: &Style) -> String {
    let report = Report::new(runs);
    match format {
        ReportFormat::Html => html::render(&report),
        ReportFormat::Csv => csv::render(&report),
        ReportFormat::Markdown => markdown::render(&report),
        ReportFormat::Json => json::render(&report),
        ReportFormat::Table | ReportFormat::Svg => terminal::render(&report, style),
    }
}

/// The table for a terminal without its plots. An experiment's advice stays.
pub(crate) fn without_plots(runs: &[Run], style: &Style) -> String {
    let report = Report::new(runs);
    let advice = report.sections.iter().flat_map(|section| {
        let line = |(label, says): (String, String)| {
            let label = if label.is_empty() { label } else { format!(" ({label})") };
            words::clean(&format!("Advice of {}{label}: {says}", section.probe)) + "\n"
        };
        section.advice().map(line)
    });
    let parts = [terminal::summary(&report, style), advice.collect(), terminal::notes(&report, style)];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
}
