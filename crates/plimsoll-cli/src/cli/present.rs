//! Runs in each format, and writing files so that a reader never sees half of one.

use std::fs;
use std::io::{self, Write};
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

/// Writes beside a regular file and renames, so that an older one stays whole until the new one is. A link stays one, and
/// what is no regular file (a pipe, a device) is written to and never replaced.
///
/// # Errors
/// 2 where the file can't be written.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), Failure> {
    // The system's words alone: the temporary file's name would say nothing to anyone.
    let system = |error: io::Error| error.raw_os_error().map_or(error, io::Error::from_raw_os_error);
    written(path, text).map_err(|error| Failure::file("write", path, system(error)))
}

fn written(path: &Path, text: &str) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(there) if !there.is_file() => fs::OpenOptions::new().write(true).open(path)?.write_all(text.as_bytes()),
        Ok(_) => replace(&path.canonicalize()?, text),
        // A link to what isn't there yet is followed by the system alone.
        Err(_) if path.symlink_metadata().is_ok() => fs::write(path, text),
        Err(_) => replace(path, text),
    }
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mut file = temporary(folder)?;
    file.write_all(text.as_bytes())?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// A file that others may read as far as the user's mask allows; temporary files are private by default.
fn temporary(folder: &Path) -> io::Result<tempfile::NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".plimsoll-");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.tempfile_in(folder)
}
