//! Runs on disk: the folder of a new run, and reading the runs named on the command line.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

pub(crate) use plimsoll::core::record::FILE as RECORD;
use plimsoll::core::record::{ReadError, Run, Writer, path_in, read_file};

use super::exit::{Failure, say};

/// The report's file in a run's folder.
pub(crate) const REPORT: &str = "report.html";
/// The parent folder of runs started without --out.
pub(crate) const RUNS: &str = "plimsoll-runs";
/// Maximum runs of one device that may begin within one second.
const MAX_PER_SECOND: u32 = 1000;

/// Creates a new run's folder and its empty record, before anything is measured, so that an unwritable place is found at
/// once. Nothing is overwritten. Fails with exit code 2 if the folder or the record can't be created.
pub(crate) fn create(out: Option<&Path>, device: &str) -> Result<(PathBuf, Writer), Failure> {
    let folder = match out {
        Some(folder) => {
            fs::create_dir_all(folder).map_err(|error| unwritable("create the folder", folder, &error))?;
            folder.to_owned()
        }
        None => create_default_folder(device)?,
    };
    let path = folder.join(RECORD);
    // A compressed record also counts as a run.
    let record = path_in(&folder);
    if record != path {
        return Err(already_used(&folder, &name(&record)));
    }
    // A dangling link counts, because writing would create its target.
    if folder.join(REPORT).symlink_metadata().is_ok() {
        return Err(already_used(&folder, REPORT));
    }
    match Writer::create(&path) {
        Ok(writer) => Ok((folder, writer)),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(already_used(&folder, RECORD)),
        Err(error) => Err(unwritable("write", &path, &error)),
    }
}

/// The last part of a run's folder; the rest is left out because it may name the user.
pub(crate) fn name(folder: &Path) -> String {
    let whole = folder.canonicalize();
    let last = whole.as_deref().unwrap_or(folder).file_name();
    last.unwrap_or_default().to_string_lossy().into_owned()
}

fn already_used(folder: &Path, file: &str) -> Failure {
    Failure::usage(format!("{} already holds a run: {file} exists", folder.display()))
        .hint("nothing is overwritten: name another folder with --out")
}

fn unwritable(what: &str, path: &Path, error: &std::io::Error) -> Failure {
    Failure::file(what, path, error).hint("name a writable folder with --out")
}

/// Creates `plimsoll-runs/20260102T030405Z-cpu`, with -2, -3 … if another run began within the same second.
fn create_default_folder(device: &str) -> Result<PathBuf, Failure> {
    let parent = Path::new(RUNS);
    fs::create_dir_all(parent).map_err(|error| unwritable("create the folder", parent, &error))?;
    let name = format!("{}-{device}", jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ"));
    for n in 1..=MAX_PER_SECOND {
        let folder = parent.join(if n == 1 { name.clone() } else { format!("{name}-{n}") });
        // `create_dir` fails if the folder exists, so only one of two runs gets it.
        match fs::create_dir(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(unwritable("create the folder", &folder, &error)),
        }
    }
    Err(Failure::usage(format!("{MAX_PER_SECOND} runs began within this second")).hint("name a folder with --out"))
}

/// The record that `path` means: `path` itself, or the record in this folder.
fn record_path(path: &Path) -> PathBuf {
    if path.is_dir() { path_in(path) } else { path.to_owned() }
}

/// The files that a verb reading these runs must not overwrite: each record, and for a folder also `run.jsonl`, which would be
/// read before a compressed record.
pub(crate) fn records(paths: &[PathBuf]) -> Vec<PathBuf> {
    let plain = paths.iter().filter(|path| path.is_dir()).map(|folder| folder.join(RECORD));
    paths.iter().map(|path| record_path(path)).chain(plain).collect()
}

/// Reads a run from its folder or its record, and warns of damage. Fails with exit code 2 if it is not a record.
pub(crate) fn load(path: &Path) -> Result<Run, Failure> {
    let file = record_path(path);
    let run = read_file(&file).map_err(|error| match error {
        ReadError::Io(error) if path.is_dir() => {
            Failure::file("read", &file, error).hint("a run's folder holds a run.jsonl or run.jsonl.gz")
        }
        ReadError::Io(error) => Failure::file("read", &file, error),
        ReadError::TooLarge(_) => Failure::record(&file, &error),
        _ => Failure::record(&file, &error).hint("a record is the run.jsonl that `plimsoll measure` writes"),
    })?;
    warn_of_damage(&file, &run);
    Ok(run)
}

fn warn_of_damage(file: &Path, run: &Run) {
    for damage in &run.damage {
        say("warning", &format!("{}:{}: {}", file.display(), damage.line, damage.what));
    }
    let more = run.damaged_lines - run.damage.len();
    if more > 0 {
        say("warning", &format!("{}: {more} more lines could not be used", file.display()));
    }
    if run.end.is_none() {
        say("warning", &format!("{}: the run was cut off; what it had measured is shown", file.display()));
    }
}
