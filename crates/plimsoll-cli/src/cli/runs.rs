//! Runs on disk: the folder of a new one, and reading those that are named on the command line.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

pub(crate) use plimsoll::core::record::FILE as RECORD;
use plimsoll::core::record::{ReadError, Run, Writer, path_in, read_file};

use super::exit::{Failure, say};

/// The report within a run's folder.
pub(crate) const REPORT: &str = "report.html";
/// Where runs go that name no folder.
const RUNS: &str = "plimsoll-runs";
/// Runs of one device that may begin within one second.
const SAME_SECOND: u32 = 1000;

/// A new run's folder with its empty record. Made before anything is measured, so that what can't be written is found
/// at once; nothing that exists is overwritten.
///
/// # Errors
/// 2 where the folder or the record can't be made.
pub(crate) fn create(out: Option<&Path>, device: &str) -> Result<(PathBuf, Writer), Failure> {
    let folder = match out {
        Some(folder) => {
            fs::create_dir_all(folder).map_err(|error| unwritable("make the folder", folder, &error))?;
            folder.to_owned()
        }
        None => fresh(device)?,
    };
    let path = folder.join(RECORD);
    // A compressed record is a run's too.
    let record = path_in(&folder);
    if record != path {
        return Err(taken(&folder, &name(&record)));
    }
    // A dangling link counts: what it names would be written.
    if folder.join(REPORT).symlink_metadata().is_ok() {
        return Err(taken(&folder, REPORT));
    }
    match Writer::create(&path) {
        Ok(writer) => Ok((folder, writer)),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(taken(&folder, RECORD)),
        Err(error) => Err(unwritable("write", &path, &error)),
    }
}

/// What a run's folder is called, wherever it lies: folders name the user.
pub(crate) fn name(folder: &Path) -> String {
    let whole = folder.canonicalize();
    let last = whole.as_deref().unwrap_or(folder).file_name();
    last.unwrap_or_default().to_string_lossy().into_owned()
}

fn taken(folder: &Path, file: &str) -> Failure {
    Failure::usage(format!("{} already holds a run: its {file} is there", folder.display()))
        .hint("nothing is overwritten: name another folder with --out")
}

fn unwritable(what: &str, path: &Path, error: &std::io::Error) -> Failure {
    Failure::file(what, path, error).hint("name a folder that can be written with --out")
}

/// `plimsoll-runs/20260102T030405Z-cpu`, with -2, -3 … where another run began within the same second.
fn fresh(device: &str) -> Result<PathBuf, Failure> {
    let parent = Path::new(RUNS);
    fs::create_dir_all(parent).map_err(|error| unwritable("make the folder", parent, &error))?;
    let name = format!("{}-{device}", jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ"));
    for n in 1..=SAME_SECOND {
        let folder = parent.join(if n == 1 { name.clone() } else { format!("{name}-{n}") });
        // `create_dir` fails where it exists, so of two runs only one can have it.
        match fs::create_dir(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(unwritable("make the folder", &folder, &error)),
        }
    }
    Err(Failure::usage(format!("{} runs began within this second", SAME_SECOND)).hint("name a folder with --out"))
}

/// The record that a run's name means: itself, or the one in its folder.
fn record(path: &Path) -> PathBuf {
    if path.is_dir() { path_in(path) } else { path.to_owned() }
}

/// The files that no output of a run's reader may take: the record, and where that is compressed also the name that would be read
/// before it.
pub(crate) fn records(paths: &[PathBuf]) -> Vec<PathBuf> {
    let plain = paths.iter().filter(|path| path.is_dir()).map(|folder| folder.join(RECORD));
    paths.iter().map(|path| record(path)).chain(plain).collect()
}

/// Reads a run from its folder or its record, and says on stderr what of it is damaged.
///
/// # Errors
/// 2 where it is no record.
pub(crate) fn load(path: &Path) -> Result<Run, Failure> {
    let file = record(path);
    let run = read_file(&file).map_err(|error| match error {
        ReadError::Io(error) if path.is_dir() => {
            Failure::file("read", &file, error).hint("a run's folder holds a run.jsonl or run.jsonl.gz")
        }
        ReadError::Io(error) => Failure::file("read", &file, error),
        ReadError::TooLarge(_) => Failure::record(&file, &error),
        _ => Failure::record(&file, &error).hint("a record is the run.jsonl that `plimsoll measure` writes"),
    })?;
    tell_damage(&file, &run);
    Ok(run)
}

fn tell_damage(file: &Path, run: &Run) {
    for damage in &run.damage {
        say("warning", &format!("{}:{}: {}", file.display(), damage.line, damage.what));
    }
    let untold = run.damaged_lines - run.damage.len();
    if untold > 0 {
        say("warning", &format!("{}: {untold} more lines could not be used", file.display()));
    }
    if run.end.is_none() {
        say("warning", &format!("{}: the run was cut off; what it measured before is shown", file.display()));
    }
}
