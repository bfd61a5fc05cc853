//! Runs in each format.

use plimsoll::core::record::Run;
use plimsoll_report::terminal::{self, Style};
use plimsoll_report::{Report, csv, html, json, markdown};

use super::args::ReportFormat;

/// Runs as one text. SVG is many files: see `report`.
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
