//! Runs on disk: the folder of a new run, and reading the runs named on the command line.

use std::fs;
use std::io::{BufReader, ErrorKind};
use std::path::{Path, PathBuf};

pub(crate) use plimsoll::core::record::FILE as RECORD;
use plimsoll::core::record::{Limits, ReadError, Run, Writer, path_in, read, read_file};
use plimsoll::prelude::Instrument;

use super::exit::{Failure, say};
use super::measuring::Place;

/// The report's file in a run's folder.
pub(crate) const REPORT: &str = "report.html";
/// The parent folder of runs started without --out.
pub(crate) const RUNS: &str = "plimsoll-runs";
/// Maximum runs of one device that may begin within one second.
const MAX_PER_SECOND: u32 = 1000;

/// Creates a new run's folder and its empty record, before anything is measured, so that an unwritable place is found at
/// once. Nothing is overwritten. Fails with exit code 2 if the folder or the record can't be created.
pub(crate) fn create(out: Option<&Path>, device: &str) -> Result<Place, Failure> {
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
        Ok(writer) => Ok(Place { folder, writer, member: None }),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(already_used(&folder, RECORD)),
        Err(error) => Err(unwritable("write", &path, &error)),
    }
}

/// The device's part of a folder name: `cpu`, `cuda0`, `sim` or `all`; only letters and digits of a selector are used.
pub(crate) fn device_part(instruments: &[Box<dyn Instrument>]) -> String {
    match instruments {
        [one] => one.info().selector.chars().filter(char::is_ascii_alphanumeric).take(20).collect(),
        _ => "all".to_owned(),
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

/// A run's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    /// Its path.
    pub folder: PathBuf,
    /// Its record.
    pub record: PathBuf,
    /// When the run began, UTC.
    pub started: String,
}

/// Most folders that are looked at for runs.
const MOST_FOLDERS: usize = 1000;

/// The runs in the folders of `parent`, newest first. Links are not followed. Folders without a record are skipped, unreadable records
/// with a note. Of more than 1,000 folders those with the last names are taken, because names begin with the date.
pub(crate) fn list(parent: &Path) -> Result<Vec<Listed>, Failure> {
    let entries = fs::read_dir(parent).map_err(|error| Failure::file("list", parent, error))?;
    let is_folder = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    let mut folders: Vec<PathBuf> = entries.flatten().filter(is_folder).map(|entry| entry.path()).collect();
    folders.sort();
    folders.reverse();
    if folders.len() > MOST_FOLDERS {
        say("note", &format!("{}: only {MOST_FOLDERS} of {} folders are looked at", parent.display(), folders.len()));
        folders.truncate(MOST_FOLDERS);
    }
    let mut found: Vec<Listed> = folders.into_iter().filter_map(read_header).collect();
    found.sort_by(|a, b| b.started.cmp(&a.started).then_with(|| b.folder.cmp(&a.folder)));
    Ok(found)
}

/// Reads only the first line of the record in a folder.
fn read_header(folder: PathBuf) -> Option<Listed> {
    let record = path_in(&folder);
    record.symlink_metadata().ok().filter(fs::Metadata::is_file)?;
    let limits = Limits { lines: 1, ..Limits::default() };
    let read = fs::File::open(&record).map_err(ReadError::from).and_then(|file| read(BufReader::new(file), limits));
    match read {
        Ok(run) => Some(Listed { folder, record, started: run.header.started }),
        Err(error) => {
            say("note", &format!("{} is left out: {error}", record.display()));
            None
        }
    }
}

/// The run that a word on the command line means: `last` is the newest run in `parent`, `last~1` the one before. Anything else, and
/// an existing file or folder of this name, is a path.
pub(crate) fn resolve(path: &Path, parent: &Path) -> Result<PathBuf, Failure> {
    let Some(back) = path.to_str().and_then(parse_last).filter(|_| !path.exists()) else { return Ok(path.to_owned()) };
    let mut found = list(parent)?;
    if back < found.len() {
        return Ok(found.swap_remove(back).folder);
    }
    let (word, count, parent) = (path.display(), found.len(), parent.display());
    Err(Failure::usage(format!("there is no run '{word}': {parent} holds {count}")).hint("--dir names another folder"))
}

/// How many runs before the newest: 0 for `last`, 2 for `last~2`.
fn parse_last(text: &str) -> Option<usize> {
    let rest = text.strip_prefix("last")?;
    if rest.is_empty() { Some(0) } else { rest.strip_prefix('~')?.parse().ok() }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_counts_back_from_the_newest_run() {
        assert_eq!(
            ["last", "last~2", "last~", "latest", "last~-1"].map(parse_last),
            [Some(0), Some(2), None, None, None]
        );
    }
}
