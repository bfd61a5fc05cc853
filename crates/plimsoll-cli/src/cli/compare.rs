//! `plimsoll compare`: judges a run by its headline figures against a base run, with an exit code for scripts.

use std::path::{Path, PathBuf};

use plimsoll::core::record::Run;
use plimsoll::probes;
use plimsoll::suite::gate::{Gate, Options, gate};
use plimsoll::suite::verdict::{Across, Comparison, compare};
use plimsoll_report::{compared as page, svg, terminal};

use super::args::{AcrossWhat, CompareArgs, Format};
use super::compared;
use super::exit::{Exit, Failure, say};
use super::outputs::{Existing, Outputs};
use super::{baselines, narrow, output, runs};

pub(crate) fn run(args: &CompareArgs) -> Result<Exit, Failure> {
    let picture = args.output.as_deref().map(Picture::from_path).transpose()?;
    let paths = choose_runs(args)?;
    let records = runs::records(&paths);
    let outputs = Outputs::new(records.iter().map(PathBuf::as_path), Existing::ReplacedIfForced(args.force));
    args.output.as_deref().map_or(Ok(()), |path| outputs.check(path))?;
    let mut pair = [runs::load(&paths[0])?, runs::load(&paths[1])?];
    let other_probes = narrow::keep_probes(&mut pair, &args.probe)?;
    let (found, points) = compare_runs(&pair, args);
    let text = match (args.format, args.all) {
        (Format::Table, false) => terminal::gate(&found, &points, args.top, &output::style()),
        (Format::Table, true) => with_all_points(&found, &points),
        (Format::Json, all) => compared::as_json(&found, &points, all, args.top),
        (format, false) => compared::headline_sheet(&found, args.top).render(format),
        (format, true) => compared::point_sheet(&points).render(format),
    };
    output::print(&text)?;
    let of_rows = narrow::describe_rows(found.rows.len(), args.top).filter(|_| args.format != Format::Table);
    for line in narrow::describe_probes(&other_probes).into_iter().chain(of_rows) {
        say("note", &line);
    }
    if let (Some(path), Some(picture)) = (&args.output, picture) {
        let text = match picture {
            Picture::Svg => svg::render_differences(&found),
            Picture::Html => page::render(&found, &pair),
        };
        outputs.write(path, text.as_bytes())?;
        say("picture", &path.display().to_string());
    }
    Ok(match found.exit_code() {
        0 => Exit::Success,
        1 => Exit::Failed,
        _ => Exit::Inconclusive,
    })
}

fn compare_runs([base, new]: &[Run; 2], args: &CompareArgs) -> (Gate, Comparison) {
    let across = Across {
        driver: args.across.contains(&AcrossWhat::Driver),
        version: args.across.contains(&AcrossWhat::Version),
    };
    let options = Options { least: args.threshold, probes: args.probe.clone(), across };
    (gate(base, new, probes::ALL, &options), compare(base, new, across))
}

/// The table of every point, then that of the headlines, so that the verdict comes last.
fn with_all_points(found: &Gate, points: &Comparison) -> String {
    let style = output::style();
    let all = terminal::comparison(points, true, &style);
    format!("{all}\n{}", terminal::gate(found, &Comparison { rows: vec![], ..points.clone() }, None, &style))
}

/// The base run and the run to judge.
fn choose_runs(args: &CompareArgs) -> Result<[PathBuf; 2], Failure> {
    let resolve = |path: &Path| runs::resolve(path, &args.place.dir);
    match (&args.baseline, args.runs.as_slice()) {
        (Some(name), []) => Ok([baselines::find(name)?, resolve(Path::new("last"))?]),
        (Some(name), [new]) => Ok([baselines::find(name)?, resolve(new)?]),
        (Some(_), _) => Err(Failure::usage("the base run is the baseline: name only the run to judge")),
        (None, [base, new]) => Ok([resolve(base)?, resolve(new)?]),
        (None, _) => Err(Failure::usage("name two runs: the base run and the run to judge")
            .hint("`plimsoll compare last~1 last` compares the two newest; --baseline NAME takes a stored one")),
    }
}

/// The kinds of pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Picture {
    Svg,
    Html,
}

impl Picture {
    fn from_path(path: &Path) -> Result<Self, Failure> {
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default().to_ascii_lowercase();
        match ending.as_str() {
            "svg" => Ok(Self::Svg),
            "html" | "htm" => Ok(Self::Html),
            _ => Err(Failure::usage(format!("{}: no picture has this ending", path.display()))
                .hint("endings: .html, .svg; tables go to stdout, see --format")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ending_decides_the_kind_of_picture() {
        assert_eq!(Picture::from_path(Path::new("a.SVG")).unwrap(), Picture::Svg);
        assert_eq!(Picture::from_path(Path::new("a.html")).unwrap(), Picture::Html);
        assert_eq!(Picture::from_path(Path::new("a.csv")).unwrap_err().exit, Exit::Usage);
    }
}
