//! `plimsoll report`: turns recorded runs into another format, chosen by `--format` or by the ending of the output file.

use std::fs;
use std::path::{Path, PathBuf};

use plimsoll::core::record::Run;
use plimsoll_report::terminal::{self, Style};
use plimsoll_report::{Report, svg};

use super::args::{ReportArgs, ReportFormat};
use super::exit::{Exit, Failure, say};
use super::outputs::{Existing, Outputs};
use super::present::Detail;
use super::{narrow, output, present, runs};

/// Most runs that are shown side by side.
const MOST_SIDE_BY_SIDE: usize = 16;

pub(crate) fn run(args: &ReportArgs) -> Result<Exit, Failure> {
    let format = choose_format(args)?;
    if args.top.is_some() && (format != ReportFormat::Table || args.runs.len() > 1) {
        return Err(Failure::usage("--top chooses rows in the table of one run")
            .hint("`plimsoll compare BASE NEW --top N` does so in every format"));
    }
    let paths = args.runs.iter().map(|path| runs::resolve(path, &args.place.dir));
    let paths = paths.collect::<Result<Vec<PathBuf>, Failure>>()?;
    let records = runs::records(&paths);
    let outputs = Outputs::new(records.iter().map(PathBuf::as_path), Existing::ReplacedIfForced(args.force));
    if let (Some(path), true) = (&args.output, format != ReportFormat::Svg) {
        outputs.check(path)?;
    }
    let mut runs = paths.iter().map(|path| runs::load(path)).collect::<Result<Vec<Run>, Failure>>()?;
    let other_probes = narrow::keep_probes(&mut runs, &args.probe)?;
    // Of several runs a table shows the headlines side by side.
    let text = |style: &Style| match format {
        ReportFormat::Table if !args.all && (2..=MOST_SIDE_BY_SIDE).contains(&runs.len()) => {
            terminal::side_by_side(&Report::new(&runs), style)
        }
        _ => present::text(&runs, format, Detail { all: args.all, plots: true, top: args.top }, style),
    };
    match (&args.output, format) {
        (Some(folder), ReportFormat::Svg) => write_pictures(folder, &runs, &outputs)?,
        (Some(path), _) => {
            outputs.write(path, text(&Style::PLAIN).as_bytes())?;
            say("report", &path.display().to_string());
        }
        (None, _) => output::print(&text(&output::style()))?,
    }
    if let Some(line) = narrow::describe_probes(&other_probes) {
        say("note", &line);
    }
    Ok(Exit::Success)
}

fn choose_format(args: &ReportArgs) -> Result<ReportFormat, Failure> {
    let guessed = args.output.as_deref().map(format_from_path);
    match (args.format, guessed, &args.output) {
        (Some(ReportFormat::Svg), _, None) => {
            Err(Failure::usage("SVG is one file per picture").hint("name a folder with -o"))
        }
        (Some(format), ..) => Ok(format),
        (None, None, _) => Ok(ReportFormat::Table),
        (None, Some(Some(format)), _) => Ok(format),
        (None, Some(None), path) => {
            let path = path.as_deref().unwrap_or(Path::new("")).display();
            Err(Failure::usage(format!("{path}: no format has this ending"))
                .hint("endings: .html, .csv, .md, .json, .txt, .svg or a folder for pictures; or use --format"))
        }
    }
}

/// The format that a path's ending stands for. A folder, existing or with a slash at its end, means pictures.
fn format_from_path(path: &Path) -> Option<ReportFormat> {
    if path.is_dir() || path.as_os_str().as_encoded_bytes().ends_with(b"/") {
        return Some(ReportFormat::Svg);
    }
    match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
        "html" | "htm" => Some(ReportFormat::Html),
        "svg" => Some(ReportFormat::Svg),
        "csv" => Some(ReportFormat::Csv),
        "md" | "markdown" => Some(ReportFormat::Markdown),
        "json" => Some(ReportFormat::Json),
        "txt" => Some(ReportFormat::Table),
        _ => None,
    }
}

/// Writes one file per picture into a folder; writes none if one of them may not be written. A name that ends in `.svg` becomes
/// the stem of several: `x.svg` → `x-stream-….svg`.
fn write_pictures(target: &Path, runs: &[Run], outputs: &Outputs<'_>) -> Result<(), Failure> {
    let is_file = target.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("svg")) && !target.is_dir();
    let (folder, stem) = match (is_file, target.parent(), target.file_stem()) {
        (true, Some(parent), Some(stem)) => (parent, format!("{}-", stem.to_string_lossy())),
        _ => (target, String::new()),
    };
    let pictures = svg::render(&Report::new(runs));
    if pictures.is_empty() {
        return Err(Failure::usage("no series of these runs can be drawn"));
    }
    if !folder.as_os_str().is_empty() {
        fs::create_dir_all(folder).map_err(|error| Failure::file("create the folder", folder, error))?;
    }
    let paths: Vec<PathBuf> = pictures.iter().map(|picture| folder.join(format!("{stem}{}", picture.file))).collect();
    paths.iter().try_for_each(|path| outputs.check(path))?;
    for (picture, path) in pictures.iter().zip(&paths) {
        outputs.write(path, picture.svg.as_bytes())?;
        say("picture", &path.display().to_string());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ending_of_a_path_decides_the_format() {
        assert_eq!(format_from_path(Path::new("a.HTML")), Some(ReportFormat::Html));
        assert_eq!(format_from_path(Path::new("a/b.md")), Some(ReportFormat::Markdown));
        assert_eq!(format_from_path(Path::new("pictures/")), Some(ReportFormat::Svg));
        assert_eq!(format_from_path(Path::new("pictures")), None);
        assert_eq!(format_from_path(Path::new("a.xls")), None);
    }
}
