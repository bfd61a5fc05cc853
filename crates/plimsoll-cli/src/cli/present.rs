//! Renders runs in each format.

use plimsoll::core::record::Run;
use plimsoll_report::terminal::{self, Style};
use plimsoll_report::{Report, csv, html, json, markdown};

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
