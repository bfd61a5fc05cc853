//! Runs in each format, and writing files so that a reader never sees half of one.

use std::io::Write;
use std::path::Path;

use plimsoll::core::record::Run;
use plimsoll_report::terminal::{self, Style};
use plimsoll_report::{Report, csv, html, json, markdown};

use super::args::ReportFormat;
use super::exit::Failure;

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

/// Writes beside the file and renames, so that an older file stays whole until the new one is.
///
/// # Errors
/// 2 where the file can't be written.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let written = temporary(folder).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.persist(path).map_err(|error| error.error)
    });
    written.map(|_| ()).map_err(|error| Failure::file("write", path, error))
}

/// A file that others may read as far as the user's mask allows; temporary files are private by default.
fn temporary(folder: &Path) -> std::io::Result<tempfile::NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".plimsoll-");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.tempfile_in(folder)
}
