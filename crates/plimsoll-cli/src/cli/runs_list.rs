//! `plimsoll runs`: what was measured here, newest first; and storing a run as a baseline.

use std::path::Path;

use plimsoll::core::record::{Run, read_file};
use plimsoll::probes;
use plimsoll::suite::check::check;

use super::args::{Format, RunsArgs};
use super::exit::{Exit, Failure, say};
use super::runs::{self, Listed};
use super::sheet::{ALWAYS, Sheet};
use super::{baselines, output};

/// Runs that are listed without --all.
const NEWEST: usize = 20;

pub(crate) fn run(args: &RunsArgs) -> Result<Exit, Failure> {
    if let [name, run] = args.baseline.as_slice() {
        baselines::store(name, &runs::resolve(Path::new(run), &args.dir)?, args.force)?;
        return Ok(Exit::Success);
    }
    let found = runs::list(&args.dir)?;
    if found.is_empty() {
        return Err(Failure::usage(format!("{} holds no run", args.dir.display()))
            .hint("`plimsoll measure` puts runs into plimsoll-runs; name another folder with `plimsoll runs DIR`"));
    }
    let shown = if args.all { found.len() } else { NEWEST.min(found.len()) };
    let mut sheet = Sheet::new([
        ("when", ALWAYS),
        ("device", ALWAYS),
        ("effort", 2),
        ("probes", 1),
        ("verdict", ALWAYS),
        ("path", ALWAYS),
    ])
    .with_numbers(&["probes"]);
    for listed in &found[..shown] {
        match read_file(&listed.record) {
            Ok(run) => sheet.row(describe(listed, &run, args.format)),
            Err(error) => say("note", &format!("{} is left out: {error}", listed.record.display())),
        }
    }
    output::print(&sheet.render(args.format))?;
    if shown < found.len() {
        say("note", &format!("{} older runs are not listed: --all lists them", found.len() - shown));
    }
    Ok(Exit::Success)
}

fn describe(listed: &Listed, run: &Run, format: Format) -> [String; 6] {
    let header = &run.header;
    let mut devices: Vec<&str> = header.devices.iter().map(|device| device.name.as_str()).collect();
    devices.dedup();
    let mut measured: Vec<&str> = run.series.iter().map(|series| series.spec.probe.as_str()).collect();
    measured.sort_unstable();
    measured.dedup();
    let checks = (0..header.devices.len() as u32).filter_map(|device| check(run, device, probes::ALL));
    let worst = checks.map(|check| check.verdict).max_by_key(|verdict| verdict.severity());
    [
        if format == Format::Table { to_minutes(&header.started) } else { header.started.clone() },
        devices.join(", "),
        header.effort.name().to_owned(),
        measured.len().to_string(),
        worst.map_or_else(String::new, |verdict| verdict.name().to_owned()),
        listed.folder.display().to_string(),
    ]
}

/// `2026-01-02T03:04:05Z` → `2026-01-02 03:04`.
fn to_minutes(started: &str) -> String {
    started.get(..16).map_or_else(|| started.to_owned(), |minutes| minutes.replace('T', " "))
}
